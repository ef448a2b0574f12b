# Debian: python3-requests python3
import os
import sys

import requests

use, url, *more = sys.argv[1:]
session = requests.Session()
session.verify = os.environ["AUTHORITY"]


def ask(url, method="GET", **what):
    sys.stdout.buffer.write(session.request(method, url, **what).content)
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
        ask(url, headers={"Range": f"bytes={len(part)}-"})
    case "upload":
        ask(url, "POST", data=open(more[0], "rb"))
