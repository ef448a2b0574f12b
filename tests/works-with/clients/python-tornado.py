# Debian: python3-tornado python3
import asyncio
import os
import sys

from tornado.httpclient import AsyncHTTPClient

use, url, *more = sys.argv[1:]


async def ask(url, **what):
    what["ca_certs"] = os.environ["AUTHORITY"]
    answer = await AsyncHTTPClient().fetch(url, **what)
    sys.stdout.buffer.write(answer.body)
    sys.stdout.flush()


async def main():
    match use:
        case "page" | "compressed":
            await ask(url)
        case "kept":
            await ask(url)
            await ask(more[0])
        case "range":
            part = open(more[0], "rb").read()
            sys.stdout.buffer.write(part)
            await ask(url, headers={"Range": f"bytes={len(part)}-"}, decompress_response=False)
        case "upload":
            await ask(url, method="POST", body=open(more[0], "rb").read(), expect_100_continue=True)
        case _:
            sys.exit(64)


asyncio.run(main())
