"""Clients that read a page of 12 MB at 200 kB/s, as many as there are workers: are others answered
meanwhile? Over either protocol, in each mode, and with php-fpm behind the server."""

import asyncio
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .contest import say
from .peers import FPM, as_root
from .process import Server, free_port

PAGE = 12_000_000
RATE = 200_000
"""Bytes a second that a slow client takes of each page."""
READERS = 4
"""As many as there are workers."""
STEP = 0.1
"""Seconds between two reads."""
PATIENCE = 20
"""Seconds that the client who is not slow waits for its answer."""
BAR_MS = 1000
"""Far below what a worker is held by a slow reader, which is a minute."""
MODES = ("classic", "worker", "sealed", "async", "fastcgi")
PROTOCOLS = ("HTTP/1.1", "HTTP/2")

PAGES = f"""\
<?php
function page(): void
{{
    if ($_SERVER['REQUEST_URI'] !== '/large') {{
        echo 'small';
        return;
    }}
    for ($left = {PAGE}; $left > 0; $left -= 8000) {{
        echo str_repeat('x', min($left, 8000));
    }}
}}
"""
SCRIPT = "<?php\nrequire __DIR__.'/pages.php';\npage();\n"
WORKER = """\
<?php
require __DIR__.'/public/pages.php';
while (tokamak_handle_request('page')) {
}
"""
PHP_FPM = """\
[global]
error_log = {directory}/fpm.log
daemonize = no
[www]
{user}
listen = {directory}/php.sock
listen.mode = 0666
pm = static
pm.max_children = {workers}
"""


@dataclass(frozen=True)
class Reading:
    """What the client that is not slow got beside the slow ones."""

    mode: str
    protocol: str
    answers: int
    failures: int
    median_ms: float
    slowest_ms: float


def files(directory: Path) -> None:
    """The site."""
    (directory / "public").mkdir()
    (directory / "public/pages.php").write_text(PAGES)
    (directory / "public/index.php").write_text(SCRIPT)
    (directory / "worker.php").write_text(WORKER)


def start(directory: Path, binary: Path, mode: str) -> tuple[Server, int]:
    """The server in this mode, and its port."""
    server, port = Server(), free_port()
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    text = f'listen = "127.0.0.1:{port}"\ncontrol = "{directory}/control"\n'
    if mode == "fastcgi":
        user = as_root("user = www-data\ngroup = www-data")
        config = PHP_FPM.format(directory=directory, user=user, workers=READERS)
        (directory / "fpm.conf").write_text(config)
        server.start([FPM, "--fpm-config", f"{directory}/fpm.conf"], environment, directory / "log")
        text += f'[[upstream]]\nname = "php-fpm"\naddress = "unix:{directory}/php.sock"\n'
    text += f'[[site]]\nroot = "{directory}/public"\n'
    if mode == "fastcgi":
        text += 'upstream = "php-fpm"\n'
    else:
        text += f'mode = "{mode}"\n'
        if mode != "classic":
            text += f'worker = "{directory}/worker.php"\n'
        if mode == "async":
            text += "concurrency = 1\n"
        text += f'[site.pool]\nworkers = {READERS}\nmanager = "static"\n'
    (directory / "tokamak.toml").write_text(text)
    command = [f"{binary}", "serve", "--config", f"{directory}/tokamak.toml"]
    server.start(command, environment, directory / "log")
    return server, port


async def read_slowly(port: int) -> None:
    """One page over HTTP/1.1."""
    ours = socket.socket()
    # Small on this side, so that the page waits at the server.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    ours.setblocking(False)
    await asyncio.get_running_loop().sock_connect(ours, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=ours, limit=32 * 1024)
    writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
    try:
        while await reader.read(int(RATE * STEP)):
            await asyncio.sleep(STEP)
    finally:
        writer.transport.abort()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


async def read_streams_slowly(port: int) -> None:
    """All pages over one connection of HTTP/2, whose windows say how much is taken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    step = int(RATE * STEP)
    streams = [1 + 2 * number for number in range(READERS)]
    # Of GET, http, /large and localhost, as HPACK has them.
    head = b"\x82\x86\x04\x06/large\x01\x09localhost"
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"\0\4\0\0\0\0"))
    writer.write(b"".join(frame(1, 5, stream, head) for stream in streams))
    reading = asyncio.create_task(drop(reader))
    try:
        while not reading.done():
            await asyncio.sleep(STEP)
            more = step.to_bytes(4, "big")
            writer.write(frame(8, 0, 0, (step * READERS).to_bytes(4, "big")))
            writer.write(b"".join(frame(8, 0, stream, more) for stream in streams))
            await writer.drain()
    finally:
        reading.cancel()
        writer.transport.abort()


async def drop(reader: asyncio.StreamReader) -> None:
    """Reads to the end."""
    while await reader.read(1 << 16):
        pass


async def visit(port: int) -> bool:
    """One request on a connection of its own. Returns whether it was answered."""
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.transport.abort()
    except (OSError, TimeoutError):
        return False
    return answer.startswith(b"HTTP/1.1 200 ")


async def beside(port: int, mode: str, protocol: str, seconds: int) -> Reading:
    """Lets the slow clients begin, and asks as another for so long."""
    deadline = time.monotonic() + PATIENCE
    while not await visit(port):
        if time.monotonic() > deadline:
            raise SystemExit(f"{mode}: the server does not answer")
        await asyncio.sleep(0.1)
    if protocol == "HTTP/2":
        slow = [asyncio.create_task(read_streams_slowly(port))]
    else:
        slow = [asyncio.create_task(read_slowly(port)) for _ in range(READERS)]
    await asyncio.sleep(STEP)
    times, failures, until = [], 0, time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        failures += not await visit(port)
        times.append((time.monotonic() - began) * 1000)
        await asyncio.sleep(0.02)
    for one in slow:
        one.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    middle, most = round(median(times), 1), round(max(times), 1)
    reading = Reading(mode, protocol, len(times), failures, middle, most)
    say(f"{reading}")
    return reading


def measure(directory: Path, binary: Path, seconds: int) -> list[Reading]:
    """All modes and protocols, one after the other."""
    readings = []
    for mode in MODES:
        for protocol in PROTOCOLS:
            place = directory / f"{mode}-{PROTOCOLS.index(protocol)}"
            place.mkdir()
            place.chmod(0o755)
            files(place)
            server, port = start(place, binary, mode)
            try:
                readings.append(asyncio.run(beside(port, mode, protocol, seconds)))
            finally:
                server.stop()
    return readings


def verdict(readings: list[Reading]) -> tuple[bool, str]:
    """Whether others were answered at once, and the table."""
    rows = "".join(
        f"| {one.mode} | {one.protocol} | {one.answers} | {one.failures} | {one.median_ms} |"
        f" {one.slowest_ms} |\n"
        for one in readings
    )
    is_good = all(one.failures == 0 and one.slowest_ms <= BAR_MS for one in readings)
    text = (
        f"## A page of {PAGE // 1_000_000} MB\n\n{READERS} clients take a page of {PAGE // 1_000_000} MB at {RATE // 1000} kB/s from"
        f" {READERS} workers. What another client gets meanwhile (bar: no failure, the slowest"
        f" within {BAR_MS} ms):\n\n"
        "| mode | slow clients over | answers | failures | median ms | slowest ms |\n"
        "| --- | --- | --: | --: | --: | --: |\n"
    )
    return is_good, text + rows
