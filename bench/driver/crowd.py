"""What do busy clients pay for a crowd of others whose connections are idle, and what memory stays
behind?"""

import resource
import socket
import statistics
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import options, pace, program, record
from .bars import Verdict, at_most
from .contest import say
from .process import Server, free_port
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
AFTER_SECONDS = 60
"""Behind the crowd's end, memory is looked at once more."""
BAR_CPU = 1.02
BAR_P99 = 1.1
BAR_MEMORY = 1.3
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


@dataclass(frozen=True)
class Kept:
    """What a server that nobody else asks holds of memory, which no other process shares."""

    round: int
    kib_before: int
    kib_with: int
    kib_after: int

    @property
    def ratio(self) -> float:
        """A minute after the crowd's end to before it."""
        return self.kib_after / self.kib_before


@contextmanager
def crowd(port: int, number: int) -> Iterator[None]:
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
                client.sendall(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
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


def start(directory: Path, loops: str, chosen: Namespace) -> tuple[Server, int]:
    """A server, and its port."""
    directory.mkdir()
    port = free_port()
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
    command = [f"{chosen.tokamak}", "serve", "--config", f"{config}"]
    server.start(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, directory / "log")
    return server, port


def rounds(directory: Path, loops: str, chosen: Namespace) -> Iterator[Compared]:
    """Without and with the crowd by turns, on one server."""
    server, port = start(directory, loops, chosen)
    generator = directory / "pace"

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
        pace.build(generator)
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


def mebibytes(kept: Kept) -> tuple[float, float, float]:
    """The three moments, for the reader."""
    return kept.kib_before / 1024, kept.kib_with / 1024, kept.kib_after / 1024


def memories(directory: Path, chosen: Namespace) -> Iterator[Kept]:
    """Memory before, with and after the crowd, each time of a new server."""
    for number in range(chosen.rounds):
        server, port = start(directory / f"memory-{number}", "auto", chosen)
        try:
            wait_for(port, server)
            with crowd(port, 1):
                pass
            time.sleep(REST_SECONDS)
            before = server.own_kib()
            with crowd(port, chosen.idle):
                time.sleep(REST_SECONDS)
                beside = server.own_kib()
            time.sleep(AFTER_SECONDS)
            found = Kept(number, before, beside, server.own_kib())
        finally:
            server.stop()
        say(f"memory: {found.kib_before}, {found.kib_with}, {found.kib_after} KiB")
        yield found


def run(arguments: list[str]) -> int:
    """Measures, and writes a record. Fails if the crowd costs more than the bars."""
    parser = options.measurement("crowd", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=5, help="default: 5")
    option("--idle", type=options.positive, default=10_000, help="connections; default: 10000")
    option("--seconds", type=options.positive, default=5, help="of each load; default: 5")
    chosen = parser.parse_args(arguments)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    each = 2 * (chosen.seconds + SETTLE_SECONDS) + REST_SECONDS + 60
    each_memory = START_SECONDS + 2 * REST_SECONDS + AFTER_SECONDS + 60
    seconds = 2 * (START_SECONDS + 60 + each * chosen.rounds) + each_memory * chosen.rounds
    program.begin(chosen.out, seconds)
    with program.workshop("crowd") as directory:
        both = (
            found
            for loops in ("auto", "1")
            for found in rounds(directory / f"loops-{loops}", loops, chosen)
        )
        found = record.write(chosen.out / "crowd.csv", Compared, both)
        kept = record.write(chosen.out / "memory.csv", Kept, memories(directory, chosen))
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
    moments = (statistics.median(each) for each in zip(*map(mebibytes, kept), strict=True))
    ratio = statistics.median(one.ratio for one in kept)
    table += [
        "",
        f"| memory | before | with {chosen.idle} idle clients | {AFTER_SECONDS} s later | ratio |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| MiB | " + " | ".join(f"{moment:.1f}" for moment in moments) + f" | {ratio:.2f} |",
    ]
    what = f"memory {AFTER_SECONDS} s after the crowd, to that before"
    verdicts.append(at_most(what, ratio, BAR_MEMORY))
    lines = "\n".join(verdict.line() for verdict in verdicts)
    parts = ["# Beside a crowd", "\n".join(table), f"```\n{lines}\n```"]
    page = "\n\n".join([*parts, f"```\n{text(chosen.tokamak)}\n```"])
    return program.end(chosen.out, page + "\n", all(verdict.reached for verdict in verdicts))
