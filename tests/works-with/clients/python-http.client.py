# Debian: python3
import http.client
import os
import ssl
import sys
from urllib.parse import urlsplit

use, url, *more = sys.argv[1:]
parts = urlsplit(url)
context = ssl.create_default_context(cafile=os.environ["AUTHORITY"])
connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=context)


def ask(url, method="GET", **what):
    parts = urlsplit(url)
    connection.request(method, f"{parts.path}?{parts.query}", **what)
    body = connection.getresponse().read()
    sys.stdout.buffer.write(body)
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
        ask(url, "POST", body=open(more[0], "rb"))
    case "compressed":
        sys.exit(64)
