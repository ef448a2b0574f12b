"""An application that speaks WebSocket on the socket that is its descriptor 0, and says what it is
told."""

import asyncio
import socket

import websockets


async def echo(connection, *_):
    async for message in connection:
        await connection.send(message)


async def main():
    listener = socket.socket(fileno=0)
    async with websockets.unix_serve(echo, sock=listener, max_size=None):
        await asyncio.Future()


asyncio.run(main())
