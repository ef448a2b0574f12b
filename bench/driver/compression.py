"""What does it cost to compress a page of 60 kB, beside nginx and Caddy? Bytes, CPU, first byte."""

import html
import os
import socket
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import options, program, record
from .process import Server, free_port
from .sites import REPO
from .versions import processor

LENGTH = 60_000
REQUESTS = 300
"""Of each run: enough for the clock of processes, which advances by ticks."""
ROUNDS = 5
SECONDS = 600
LEVELS = (1, 4, 6)
CADDY = ("zstd", "gzip")
OURS = ("zstd", "br", "gzip")


@dataclass(frozen=True)
class Row:
    """One run of one server with one coding. Times in µs; `coding` is empty for the page as it
    is."""

    round: int
    server: str
    coding: str
    size: int
    cpu: float
    first_byte: float


@dataclass(frozen=True)
class Peer:
    """A server that runs, and the codings that it is asked for."""

    name: str
    port: int
    codings: tuple[str, ...]
    server: Server


def page() -> bytes:
    """A page of prose and markup: the guide's, as it might look as HTML."""
    out, length = ["<!doctype html><title>Guide</title>\n"], 0
    for path in sorted((REPO / "docs").glob("*.md")):
        for line in path.read_text().splitlines():
            out.append(f'<p class="line">{html.escape(line)}</p>\n')
            length += len(out[-1].encode())
        if length > LENGTH:
            break
    return "".join(out).encode()[:LENGTH]


def nginx(directory: Path, level: int) -> list[str]:
    """nginx that compresses with this level, and its port."""
    port, conf = free_port(), directory / f"nginx-{level}.conf"
    conf.write_text(
        f"daemon off; master_process off; pid {directory}/nginx-{level}.pid;\n"
        "error_log stderr; worker_processes 1; events {}\n"
        "http { access_log off; keepalive_requests 100000;\n"
        f"gzip on; gzip_comp_level {level}; gzip_vary on; default_type text/html;\n"
        f"server {{ listen 127.0.0.1:{port}; root {directory}/public; }} }}\n"
    )
    return ["nginx", "-p", f"{directory}", "-c", f"{conf}"], port


def caddy(directory: Path) -> tuple[list[str], int]:
    """Caddy with its defaults, and its port."""
    port, conf = free_port(), directory / "Caddyfile"
    conf.write_text(
        "{\n\tadmin off\n\tauto_https off\n}\n"
        f":{port} {{\n\tbind 127.0.0.1\n\troot * {directory}/public\n"
        "\tencode zstd gzip\n\tfile_server\n}\n"
    )
    return ["caddy", "run", "--adapter", "caddyfile", "--config", f"{conf}"], port


def tokamak(directory: Path, binary: Path) -> tuple[list[str], int]:
    """Tokamak with its defaults, and its port."""
    port, conf = free_port(), directory / "tokamak.toml"
    conf.write_text(
        f'listen = "127.0.0.1:{port}"\ncontrol = "{directory}/control"\nloops = 1\n'
        f'[[site]]\nroot = "{directory}/public"\n[site.pool]\nworkers = 1\n'
    )
    return [f"{binary}", "serve", "--config", f"{conf}"], port


def start(directory: Path, binary: Path) -> Iterator[Peer]:
    """Starts all servers, one after the other."""
    plans = [(f"nginx, level {level}", *nginx(directory, level), ("gzip",)) for level in LEVELS]
    plans.append(("Caddy", *caddy(directory), CADDY))
    plans.append(("Tokamak", *tokamak(directory, binary), OURS))
    env = {**os.environ, "HOME": f"{directory}", "GOMAXPROCS": "1"}
    for name, command, port, codings in plans:
        server = Server()
        server.start(command, env, directory / "log")
        yield Peer(name, port, codings, server)


def connect(port: int) -> socket.socket:
    """A connection, as soon as the server listens."""
    deadline = time.monotonic() + 20
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def exchange(connection: socket.socket, coding: str) -> tuple[int, float]:
    """One request: the length of the body as it came, and the time to its first byte."""
    accepts = f"Accept-Encoding: {coding}\r\n" * bool(coding)
    head = f"GET /page.html HTTP/1.1\r\nHost: localhost\r\n{accepts}\r\n"
    began = time.perf_counter()
    connection.sendall(head.encode())
    answer = connection.recv(262_144)
    first = time.perf_counter() - began
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(262_144)
    head, body = answer.split(b"\r\n\r\n", 1)
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if fields.get(b"content-encoding", b"") != coding.encode():
        raise SystemExit(f"asked for {coding or 'no coding'}, and got {head!r}")
    if length := fields.get(b"content-length"):
        while len(body) < int(length):
            body += connection.recv(262_144)
        return len(body), first
    while not body.endswith(b"0\r\n\r\n"):
        body += connection.recv(262_144)
    size, rest = 0, body
    while True:
        line, rest = rest.split(b"\r\n", 1)
        if not (count := int(line, 16)):
            return size, first
        size, rest = size + count, rest[count + 2 :]


def measure(peers: list[Peer], rounds: int) -> Iterator[Row]:
    """All servers and codings by turns, so that a slow moment of the machine meets all."""
    for number in range(rounds + 1):
        for peer in peers:
            for coding in ("", *peer.codings):
                with connect(peer.port) as connection:
                    exchange(connection, coding)
                    before = peer.server.run_seconds()
                    answers = [exchange(connection, coding) for _ in range(REQUESTS)]
                    cpu = (peer.server.run_seconds() - before) / REQUESTS
                first = statistics.median(first for _, first in answers)
                # The first round warms up.
                if number:
                    size = answers[-1][0]
                    yield Row(number, peer.name, coding, size, cpu * 1e6, first * 1e6)


def table(rows: list[Row]) -> str:
    """One line for each server and coding: medians of the rounds."""
    lines = [
        "| server | coding | bytes | CPU of a request, µs | of it for the coding, µs "
        "| first byte, µs |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]

    def median(server: str, coding: str, column: str) -> float:
        of = [row for row in rows if (row.server, row.coding) == (server, coding)]
        return statistics.median(getattr(row, column) for row in of)

    for server, coding in dict.fromkeys((row.server, row.coding) for row in rows):
        size, cpu, first = (median(server, coding, it) for it in ("size", "cpu", "first_byte"))
        more = cpu - median(server, "", "cpu")
        lines.append(
            f"| {server} | {coding or 'none'} | {size:.0f} | {cpu:.0f} "
            f"| {f'{more:.0f}' if coding else ''} | {first:.0f} |"
        )
    return "\n".join(lines)


def run(arguments: list[str]) -> int:
    """Measures, and writes the directory of results."""
    parser = options.measurement("compression", __doc__)
    default = f"default: {ROUNDS}"
    parser.add_argument("--rounds", type=options.positive, default=ROUNDS, help=default)
    chosen = parser.parse_args(arguments)
    program.begin(chosen.out, SECONDS)
    with program.workshop("compression") as directory:
        (directory / "public").mkdir()
        (directory / "public/page.html").write_bytes(page())
        peers: list[Peer] = []
        try:
            for peer in start(directory, chosen.tokamak):
                peers.append(peer)
            rows = record.write(chosen.out / record.RUNS, Row, measure(peers, chosen.rounds))
        finally:
            for peer in peers:
                peer.server.stop()
    about = (
        f"A file of {LENGTH} bytes, compressed for each request: medians of {chosen.rounds} rounds"
        f" of {REQUESTS} requests, on {processor()}."
    )
    return program.end(chosen.out, f"# Compression\n\n{about}\n\n{table(rows)}\n")
