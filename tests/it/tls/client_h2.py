"""A client made of httpx and h2, Python's libraries for HTTP/2: PORT FOLDER CERTIFICATE.

Twenty requests at once, half of them with a body, all on one connection. It writes what they
were."""

import asyncio
import ssl
import sys
import zlib

import httpx

port, folder, certificate = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{folder}/localhost.pem")
context.load_cert_chain(f"{folder}/{certificate}.pem", f"{folder}/{certificate}.key")
url = f"https://localhost:{port}"


async def get(client):
    response = await client.get(f"{url}/server.php")
    told = response.json()
    return (response.http_version, response.status_code, told["SERVER_PROTOCOL"], told["SSL_CLIENT_S_DN"],
            told["REMOTE_PORT"])


async def post(client, number):
    body = bytes([number]) * 200_000
    response = await client.post(f"{url}/input.php", content=body, headers={"Content-Type": "x/y"})
    told = response.json()
    assert told["length"] == len(body), told
    assert told["crc32"] == f"{zlib.crc32(body):08x}", told
    return (response.http_version, response.status_code)


async def main():
    async with httpx.AsyncClient(http2=True, verify=context, timeout=30) as client:
        # The first one opens the connection that the others share.
        first = await get(client)
        answers = await asyncio.gather(*[get(client) for _ in range(10)], *[post(client, n) for n in range(10)])
        assert set(answers[:10]) == {first}, answers
        assert set(answers[10:]) == {first[:2]}, answers
        print(*first[:4])


asyncio.run(main())
