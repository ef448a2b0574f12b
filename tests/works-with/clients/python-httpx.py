# Debian: python3-httpx python3-h2 python3
import os
import sys

import httpx

use, url, *more = sys.argv[1:]
client = httpx.Client(http2=True, verify=os.environ["AUTHORITY"])


def ask(url, method="GET", **what):
    sys.stdout.buffer.write(client.request(method, url, **what).content)
    sys.stdout.flush()


match use:
    case "page" | "compressed":
        ask(url)
    case "kept" | "later":
        ask(url)
        if use == "later":
            sys.stdin.readline()
        ask(more[0])
    case "range":
        part = open(more[0], "rb").read()
        sys.stdout.buffer.write(part)
        # A coding would be of the range.
        ask(url, headers={"Range": f"bytes={len(part)}-", "Accept-Encoding": "identity"})
    case "upload":
        ask(url, "POST", content=open(more[0], "rb").read())
