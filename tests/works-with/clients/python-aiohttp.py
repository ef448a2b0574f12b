# Debian: python3-aiohttp python3
import asyncio
import os
import ssl
import sys

import aiohttp

use, url, *more = sys.argv[1:]


async def main():
    context = ssl.create_default_context(cafile=os.environ["AUTHORITY"])
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(url, method="GET", **what):
            async with session.request(method, url, **what) as answer:
                sys.stdout.buffer.write(await answer.read())
                sys.stdout.flush()

        match use:
            case "page" | "compressed":
                await ask(url)
            case "kept" | "later":
                await ask(url)
                if use == "later":
                    await asyncio.to_thread(sys.stdin.readline)
                await ask(more[0])
            case "range":
                part = open(more[0], "rb").read()
                sys.stdout.buffer.write(part)
                await ask(url, headers={"Range": f"bytes={len(part)}-"})
            case "upload":
                await ask(url, "POST", data=open(more[0], "rb"), expect100=True)


asyncio.run(main())
