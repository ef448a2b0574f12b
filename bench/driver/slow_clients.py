"""Thousands of slow clients over TLS: are others served all the time, and is memory bounded and
given back? A quarter each stops within its greeting, stops after it, sends a request byte by byte,
and reads nothing of a large response. Who is closed comes again at once. Then clients read a page
of 12 MB slowly, in each mode and over either protocol."""

import argparse
import asyncio
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import options, program, record, slow_readers
from .contest import say
from .process import Server, allow_many_sockets, free_port, private_kib
from .versions import text

FILE_SIZE = 1 << 20
BETWEEN_BYTES = 0.5
OPENED_AT_ONCE = 32
"""More would make the greetings of all of them wait in the kernel's backlog at the start."""
PATIENCE = 20
"""Seconds that the client who is not slow waits for its answer, and that memory has to fall."""
HEAD = b"GET /large HTTP/1.1\r\nHost: localhost\r\n"
FULL, BYTES = "no room", "byte by byte"
KINDS = ("half a greeting", "no answer", BYTES, FULL)
BAR_KIB = 64
"""For each slow connection: a record of TLS, a part of a response and the state of both."""
BAR_KEPT = 0.25
"""Part of that memory which the front may still hold when they have gone: tables have grown."""


@dataclass(frozen=True)
class Moment:
    """How it stands after so many seconds."""

    seconds: int
    open: int
    """Slow connections."""
    opened: int
    """So far: the server closes slow clients, and others come."""
    answers: int
    """Of the client that is not slow, so far."""
    failures: int
    slowest_ms: float
    """Since the last moment."""
    front_kib: int


def context() -> ssl.SSLContext:
    """Of clients that trust anybody."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.set_alpn_protocols(["http/1.1"])
    return made


def greeting() -> bytes:
    """The first bytes of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Crowd:
    """The slow clients, and one that is not."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.greeting = greeting()
        self.open = self.opened = self.answers = self.failures = 0
        self.slowest = 0.0
        self.turn = asyncio.Semaphore(OPENED_AT_ONCE)

    async def connect(self, tls: ssl.SSLContext | None) -> tuple:
        """A connection, small on this side so that a reader that stops is noticed."""
        async with self.turn:
            opened = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, limit=1024)
        self.opened += 1
        return opened

    async def act(self, kind: str, tls: ssl.SSLContext) -> None:
        """What one slow client does until the server closes its connection."""
        is_within = kind in KINDS[:2]
        reader, writer = await self.connect(None if is_within else tls)
        self.open += 1
        try:
            if is_within:
                parts = 1 if kind == KINDS[1] else 2
                writer.write(self.greeting[: len(self.greeting) // parts])
                while await reader.read(1024):
                    pass
            elif kind == BYTES:
                for byte in HEAD + b"X: " + b"x" * 10_000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(BETWEEN_BYTES)
            else:
                writer.write(HEAD + b"\r\n")
                while not reader.at_eof():
                    # The transport stops reading when `limit` is exceeded twice.
                    await asyncio.sleep(1)
        finally:
            self.open -= 1
            writer.transport.abort()

    async def come_again(self, kind: str, tls: ssl.SSLContext) -> None:
        """One slow client after the other."""
        while True:
            try:
                await self.act(kind, tls)
            except OSError:
                pass
            await asyncio.sleep(0.1)

    async def visit(self, tls: ssl.SSLContext) -> None:
        """The client that is not slow: a new connection for each request."""
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(PATIENCE):
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", self.port, ssl=tls
                    )
                    writer.write(b"GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    answer = await reader.read()
                    writer.transport.abort()
                self.failures += not answer.startswith(b"HTTP/1.1 200 ")
            except (OSError, TimeoutError):
                self.failures += 1
            self.answers += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
            await asyncio.sleep(0.02)


async def follow(
    crowd: Crowd, clients: int, seconds: int, between: int, front: int
) -> list[Moment]:
    """Lets all of them in, looks now and then, and once more when the slow ones have gone."""
    tls = context()
    visitor = asyncio.create_task(crowd.visit(tls))
    began, moments = time.monotonic(), []

    async def look(after: float) -> None:
        await asyncio.sleep(after)
        moments.append(
            Moment(
                round(time.monotonic() - began),
                crowd.open,
                crowd.opened,
                crowd.answers,
                crowd.failures,
                round(crowd.slowest * 1000, 1),
                private_kib(front),
            )
        )
        crowd.slowest = 0.0
        say(f"{moments[-1]}")

    await look(2)
    slow = [
        asyncio.create_task(crowd.come_again(KINDS[number % len(KINDS)], tls))
        for number in range(clients)
    ]
    while time.monotonic() - began < seconds:
        await look(between)
    for one in slow:
        one.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    await look(PATIENCE)
    visitor.cancel()
    return moments


def start(directory: Path, binary: Path, clients: int) -> tuple[Server, int]:
    """The server, and its port for TLS."""
    plain, port = free_port(), free_port()
    (directory / "public").mkdir()
    (directory / "public/small").write_text("small")
    (directory / "public/large").write_bytes(b"x" * FILE_SIZE)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost"]
    files = ["-keyout", f"{directory}/key.pem", "-out", f"{directory}/certificate.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", *key, *files], check=True, capture_output=True
    )
    (directory / "tokamak.toml").write_text(
        f'listen = "127.0.0.1:{plain}"\nlisten_tls = ["127.0.0.1:{port}"]\n'
        f'control = "{directory}/control"\nlimits.connections = {2 * clients}\n'
        'timeouts.head = "10s"\ntimeouts.send = "10s"\n'
        f'[tls]\ncertificate = ["{directory}/certificate.pem"]\nkey = ["{directory}/key.pem"]\n'
        f'[[site]]\nroot = "{directory}/public"\n[site.pool]\nworkers = 1\n'
    )
    server = Server()
    command = [f"{binary}", "serve", "--config", f"{directory}/tokamak.toml"]
    server.start(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, directory / "log")
    return server, port


def front_of(server: Server, binary: Path) -> int:
    """The process that serves clients: the only child of the first one that is the same program."""
    (root,) = server.roots
    name = binary.name[:15]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for stat in server.tree():
            if stat.parent == root.pid and stat.name == "tokamak":
                return stat.pid
        time.sleep(0.1)
    raise SystemExit("the server does not start")


def verdict(moments: list[Moment], clients: int) -> tuple[bool, str]:
    """Whether the others were served, and memory is bounded and given back."""
    first, last = moments[0], moments[-1]
    most = max(moment.front_kib for moment in moments)
    each = (most - first.front_kib) / clients
    kept = (last.front_kib - first.front_kib) / max(most - first.front_kib, 1)
    slowest = max(moment.slowest_ms for moment in moments)
    is_good = last.failures == 0 and each <= BAR_KIB and kept <= BAR_KEPT
    line = (
        f"{last.opened} slow connections, {clients} at a time; {last.answers} answers to the client"
        f" that is not slow, {last.failures} failures, the slowest after {slowest:.0f} ms."
        f" The front held {first.front_kib} KiB before, {most} KiB at most ({each:.1f} KiB for each"
        f" slow connection, bar {BAR_KIB}), {last.front_kib} KiB {PATIENCE} seconds after"
        f" ({kept:.0%} of what they needed, bar {BAR_KEPT:.0%})."
    )
    return is_good, line


def rows(moments: list[Moment]) -> Iterator[Moment]:
    """For the record."""
    yield from moments


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    parser = options.measurement("slow-clients", __doc__)
    option = parser.add_argument
    option("--clients", type=options.positive, default=4000, help="slow ones; default: 4000")
    option("--seconds", type=options.positive, default=120, help="default: 120")
    option("--between", type=options.positive, default=10, help="of two looks; default: 10")
    option("--readers", type=options.positive, default=8, help="seconds of each mode; default: 8")
    option("--only-readers", action="store_true", help="leave out those over TLS")
    chosen = parser.parse_args(arguments)
    of_readers = len(slow_readers.MODES) * len(slow_readers.PROTOCOLS) * (chosen.readers + 10)
    program.begin(chosen.out, chosen.seconds + 120 + of_readers)
    pages = [] if chosen.only_readers else [crowd(chosen)]
    with program.workshop("slow-readers") as directory:
        measured = slow_readers.measure(directory, chosen.tokamak, chosen.readers)
        read = record.write(chosen.out / "readers.csv", slow_readers.Reading, measured)
    pages.append(slow_readers.verdict(read))
    parts = "\n".join(part for _, part in pages)
    page = f"# Slow clients\n\n{parts}\n```\n{text(chosen.tokamak)}\n```\n"
    return program.end(chosen.out, page, all(is_good for is_good, _ in pages))


def crowd(chosen: argparse.Namespace) -> tuple[bool, str]:
    """The clients over TLS: whether they did no harm, and the page's part."""
    limit = allow_many_sockets()
    if limit < 2 * chosen.clients:
        sys.exit(f"{chosen.clients} clients need a higher limit of open files than {limit}")
    with program.workshop("slow-clients") as directory:
        server, port = start(directory, chosen.tokamak, chosen.clients)
        try:
            front = front_of(server, chosen.tokamak)
            followed = follow(Crowd(port), chosen.clients, chosen.seconds, chosen.between, front)
            found = record.write(chosen.out / record.RUNS, Moment, rows(asyncio.run(followed)))
        finally:
            server.stop()
    is_good, line = verdict(found, chosen.clients)
    return is_good, f"## Over TLS\n\n{line}\n"
