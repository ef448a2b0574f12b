"""What do busy clients pay for a crowd of others whose connections are idle?"""

import socket
import statistics
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import options, pace, program, record
from .bars import Verdict
from .contest import say
from .process import Server, allow_many_sockets, free_port
from .sites import REPO
from .versions import text

BUSY = 64
PATH = "/empty"
SETTLE_SECONDS = 8
"""Of load, at first: the number of event loops settles. Half of it behind each change."""
REST_SECONDS = 3
"""After the crowd's requests: its connections have given their buffers back by then."""
START_SECONDS = 60
ADDRESSES = 50
"""Of the crowd's clients, so that no limit of one address counts."""
AT_ONCE = 200
"""Clients that ask before the first of them reads its answer."""
BAR_CPU = 1.02
BAR_P99 = 1.1
CONFIG = """\
listen = "127.0.0.1:{port}"
control = "{directory}/control"
log.access = "off"
{loops}
[limits]
connections = {connections}
[timeouts]
idle = "10m"
[[site]]
root = "{directory}"
mode = "fastcgi"
lua_raw_url = ["{script}"]
"""


@dataclass(frozen=True)
class Compared:
    """One round: the same load without the crowd and with it."""

    round: int
    loops: str
    cpu_us_without: float
    cpu_us_with: float
    rate_without: float
    rate_with: float
    p99_without: float
    p99_with: float

    @property
    def cpu(self) -> float:
        """Processor time of a request, to that without the crowd."""
        return self.cpu_us_with / self.cpu_us_without

    @property
    def p99(self) -> float:
        """The same of the 99th percentile of the latencies."""
        return self.p99_with / self.p99_without


@contextmanager
def crowd(port: int, number: int, path: str = PATH, host: str = "localhost") -> Iterator[None]:
    """So many clients that have been answered and stay."""
    clients: list[socket.socket] = []
    try:
        for first in range(0, number, AT_ONCE):
            few = [socket.socket() for _ in range(min(AT_ONCE, number - first))]
            clients += few
            for nth, client in enumerate(few):
                client.settimeout(30)
                client.bind((f"127.0.0.{2 + nth % ADDRESSES}", 0))
                client.connect(("127.0.0.1", port))
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            if not all(client.recv(4096).startswith(b"HTTP/1.1 200") for client in few):
                raise RuntimeError("a client of the crowd was not answered 200")
        yield
    finally:
        for client in clients:
            client.close()


def wait_for(port: int, server: Server) -> None:
    """Returns when it accepts connections."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.dead_root() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server does not start") from None
            time.sleep(0.05)


def rounds(directory: Path, loops: str, chosen: Namespace) -> Iterator[Compared]:
    """Without and with the crowd by turns, on one server."""
    directory.mkdir()
    port, generator = free_port(), directory / "pace"
    pace.build(generator)
    config = directory / "tokamak.toml"
    config.write_text(
        CONFIG.format(
            port=port,
            directory=directory,
            loops=f"loops = {loops}" if loops != "auto" else "",
            connections=chosen.idle + 10 * BUSY,
            script=REPO / "bench/sites/lua/empty.lua",
        )
    )
    server = Server()

    def load(seconds: float) -> pace.Paced:
        paced = pace.run(pace.command(generator, port, PATH, BUSY, 0, seconds, False), seconds)
        if paced.errors:
            raise RuntimeError(f"{paced.errors} requests went wrong")
        return paced

    def measured() -> tuple[float, float, float]:
        load(SETTLE_SECONDS / 2)
        before = server.run_seconds()
        paced = load(chosen.seconds)
        return (server.run_seconds() - before) / paced.requests * 1e6, paced.rate, paced.p99

    try:
        command = [f"{chosen.tokamak}", "serve", "--config", f"{config}"]
        server.start(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, directory / "log")
        wait_for(port, server)
        load(SETTLE_SECONDS)
        for number in range(chosen.rounds):
            alone = measured()
            with crowd(port, chosen.idle):
                time.sleep(REST_SECONDS)
                beside = measured()
            pairs = [value for pair in zip(alone, beside, strict=True) for value in pair]
            found = Compared(number, loops, *pairs)
            say(f"loops = {loops}: CPU {found.cpu:.2f}, p99 {found.p99:.2f}")
            yield found
    finally:
        server.stop()


def run(arguments: list[str]) -> int:
    """Measures, and writes a record. Fails if the crowd costs more than the bars."""
    parser = options.measurement("crowd", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=5, help="default: 5")
    option("--idle", type=options.positive, default=10_000, help="connections; default: 10000")
    option("--seconds", type=options.positive, default=5, help="of each load; default: 5")
    chosen = parser.parse_args(arguments)
    allow_many_sockets()
    each = 2 * (chosen.seconds + SETTLE_SECONDS) + REST_SECONDS + 60
    program.begin(chosen.out, 2 * (START_SECONDS + 60 + each * chosen.rounds))
    with program.workshop("crowd") as directory:
        both = (
            found
            for loops in ("auto", "1")
            for found in rounds(directory / f"loops-{loops}", loops, chosen)
        )
        found = record.write(chosen.out / "crowd.csv", Compared, both)
    table = [
        f"| {BUSY} busy clients, {chosen.idle} idle ones | CPU of a request | p99 |",
        "| --- | ---: | ---: |",
    ]
    verdicts = []
    for loops in ("auto", "1"):
        of_these = [one for one in found if one.loops == loops]
        cpu = statistics.median(one.cpu for one in of_these)
        p99 = statistics.median(one.p99 for one in of_these)
        table.append(f"| `loops = {loops}`, to that without the idle ones | {cpu:.2f} | {p99:.2f} |")
        what = f"loops = {loops}: at most {BAR_CPU} times the CPU, {BAR_P99} times the p99"
        is_reached = cpu <= BAR_CPU and p99 <= BAR_P99
        verdicts.append(Verdict(what, is_reached, f"{cpu:.3f}, {p99:.2f}"))
    lines = "\n".join(verdict.line() for verdict in verdicts)
    parts = ["# Beside a crowd", "\n".join(table), f"```\n{lines}\n```"]
    page = "\n\n".join([*parts, f"```\n{text(chosen.tokamak)}\n```"])
    return program.end(chosen.out, page + "\n", all(verdict.reached for verdict in verdicts))
