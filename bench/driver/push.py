"""What does a crowd of subscribers cost? A hub in the server, one script that publishes for all of
them, and a client who asks for a file meanwhile.
"""

import os
import statistics
import subprocess
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import options, program, record
from .bars import Verdict
from .contest import say
from .crowd import wait_for
from .process import Server, allow_many_sockets, free_port
from .sites import REPO
from .versions import text

REST_SECONDS = 15
"""After the crowd has come: connections and allocator have given their buffers back by then."""
BAR_MS = 200
BAR_KIB = 6
BAR_OTHERS = 2
CONFIG = """\
listen = "127.0.0.1:{port}"
control = "{directory}/control"
log.access = "off"
[limits]
connections = {connections}
[timeouts]
idle = "10m"
[[site]]
root = "{directory}/site"
pool.workers = 1
{user}
[site.mercure]
enabled = true
anonymous = true
subscribers = {connections}
"""
SCRIPT = "<?php echo tokamak_publish('/bench', $_SERVER['QUERY_STRING']);"


@dataclass(frozen=True)
class Row:
    """One round, with a server of its own."""

    round: int
    published: int
    kib: float
    """Memory of the server's processes for each subscriber, before anything is published."""
    updates: int
    """That subscribers got."""
    p50: float
    p99: float
    """Of their way, in microseconds."""
    cpu_us: float
    """Processor time of the server for each update that a subscriber got."""
    others_p99: float
    """Of other requests meanwhile."""
    others_alone_p99: float
    """The same while nothing is published."""


class Crowd:
    """The program with the subscribers, once they are there."""

    def __init__(self, generator: Path, port: int, chosen: Namespace, rate: float) -> None:
        numbers = port, chosen.subscribers, chosen.seconds, rate
        command, pipe = [f"{generator}", *map(str, numbers)], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.patience = chosen.seconds + 60
        if self.process.stdout.readline() != "\n":
            raise OSError(self.process.communicate(timeout=10)[1])

    def figures(self) -> list[float]:
        """Publishes, and says what came of it."""
        try:
            said, problem = self.process.communicate("\n", timeout=self.patience)
        finally:
            self.process.kill()
        if self.process.returncode != 0:
            raise OSError(problem)
        return [float(number) for number in said.split()]


def rounds(directory: Path, chosen: Namespace) -> Iterator[Row]:
    """Each with a server of its own: first nothing is published, then it is."""
    generator = directory / "push"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
    source = f"{REPO}/bench/driver/push.c"
    subprocess.run(["cc", *flags, source, "-o", f"{generator}"], check=True, timeout=60)
    site = directory / "site"
    site.mkdir()
    (site / "say.php").write_text(SCRIPT)
    (site / "other.txt").write_text("x" * 1000)
    for number in range(chosen.rounds):
        port, server = free_port(), Server()
        config = directory / "tokamak.toml"
        # The crowd before may not be counted off yet.
        connections = 2 * chosen.subscribers + 100
        config.write_text(CONFIG.format(
                port=port,
                directory=directory,
                connections=connections,
                user='user = "www-data"' if os.geteuid() == 0 else "",
            ))
        try:
            command = [f"{chosen.tokamak}", "serve", "--config", f"{config}"]
            environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
            server.start(command, environment, directory / f"{number}.log")
            wait_for(port, server)
            # What begins late has begun then.
            one = Namespace(**{**vars(chosen), "subscribers": 1, "seconds": 1})
            Crowd(generator, port, one, chosen.rate).figures()
            before = server.own_kib()
            crowd = Crowd(generator, port, chosen, 0)
            time.sleep(REST_SECONDS)
            kib = (server.own_kib() - before) / chosen.subscribers
            alone = crowd.figures()
            crowd = Crowd(generator, port, chosen, chosen.rate)
            began = server.run_seconds()
            published, updates, p50, p99, _, others = crowd.figures()
            cpu = (server.run_seconds() - began) * 1e6 / max(updates, 1)
            shown = round(kib, 2), int(updates), p50, p99, round(cpu, 2)
            row = Row(number + 1, int(published), *shown, others, alone[5])
            say(f"round {row.round}: {row.kib} KiB each, p99 {p99 / 1000:.0f} ms, {row.cpu_us} µs")
            yield row
        finally:
            server.stop()


def run(arguments: list[str]) -> int:
    """Measures, and writes a record. Fails if a bar is missed."""
    parser = options.measurement("push", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=3, help="default: 3")
    option("--subscribers", type=options.positive, default=10_000, help="default: 10000")
    option("--rate", type=options.positive, default=5, help="updates a second; default: 5")
    option("--seconds", type=options.positive, default=20, help="of each load; default: 20")
    chosen = parser.parse_args(arguments)
    allow_many_sockets()
    program.begin(chosen.out, chosen.rounds * (2 * chosen.seconds + REST_SECONDS + 180))
    with program.workshop("push") as directory:
        found = record.write(chosen.out / "push.csv", Row, rounds(directory, chosen))

    def median(figure: str) -> float:
        return statistics.median(getattr(row, figure) for row in found)

    p99, kib = median("p99") / 1000, median("kib")
    others = statistics.median(row.others_p99 / max(row.others_alone_p99, 1) for row in found)
    table = [
        "| subscribers | updates/s | memory of each, KiB | delivery p50, ms | p99, ms "
        "| CPU, µs a delivery | other requests' p99, to that without |",
        "| ---: |" + " ---: |" * 6,
        f"| {chosen.subscribers} | {chosen.rate} | {kib:.1f} | {median('p50') / 1000:.1f} "
        f"| {p99:.1f} | {median('cpu_us'):.2f} | {others:.2f} |",
    ]
    lost = sum(row.published * chosen.subscribers - row.updates for row in found)
    verdicts = [
        Verdict(f"delivery p99 ≤ {BAR_MS} ms", p99 <= BAR_MS, f"{p99:.1f}"),
        Verdict(f"memory ≤ {BAR_KIB} KiB", kib <= BAR_KIB, f"{kib:.1f}"),
        Verdict(f"other requests' p99 ≤ {BAR_OTHERS} times", others <= BAR_OTHERS, f"{others:.2f}"),
        Verdict("every subscriber got every update", lost == 0, f"{lost} missing"),
    ]
    lines = "\n".join(verdict.line() for verdict in verdicts)
    parts = ["# Subscribers of a hub", "\n".join(table), f"```\n{lines}\n```"]
    page = "\n\n".join([*parts, f"```\n{text(chosen.tokamak)}\n```"])
    return program.end(chosen.out, page + "\n", all(verdict.reached for verdict in verdicts))
