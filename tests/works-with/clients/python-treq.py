# Debian: python3-treq python3-twisted python3-service-identity python3
import os
import sys

import treq
from twisted.internet import ssl, task, threads
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool

use, url, *more = sys.argv[1:]


async def main(reactor):
    authority = ssl.Certificate.loadPEM(open(os.environ["AUTHORITY"], "rb").read())
    policy = BrowserLikePolicyForHTTPS(trustRoot=ssl.trustRootFromCertificates([authority]))
    pool = HTTPConnectionPool(reactor)
    client = treq.client.HTTPClient(Agent(reactor, policy, pool=pool))

    async def ask(url, method="GET", **what):
        answer = await client.request(method, url, **what)
        sys.stdout.buffer.write(await answer.content())
        sys.stdout.flush()

    match use:
        case "page" | "compressed":
            await ask(url)
        case "kept" | "later":
            await ask(url)
            if use == "later":
                await threads.deferToThread(sys.stdin.readline)
            await ask(more[0])
        case "range":
            part = open(more[0], "rb").read()
            sys.stdout.buffer.write(part)
            headers = {"Range": f"bytes={len(part)}-", "Accept-Encoding": "identity"}
            await ask(url, headers=headers)
        case "upload":
            await ask(url, "POST", data=open(more[0], "rb"))
    await pool.closeCachedConnections()


task.react(main)
