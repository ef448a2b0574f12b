# Debian: python3-urllib3 python3
import os
import sys

import urllib3

use, url, *more = sys.argv[1:]
pool = urllib3.PoolManager(ca_certs=os.environ["AUTHORITY"])


def ask(url, method="GET", **what):
    sys.stdout.buffer.write(pool.request(method, url, **what).data)
    sys.stdout.flush()


match use:
    case "page":
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
        ask(url, "POST", body=open(more[0], "rb").read())
    case "compressed":
        ask(url, headers=urllib3.make_headers(accept_encoding=True))
