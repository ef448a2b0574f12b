"""What does a server cost between clients and an application that speak WebSocket? nginx and
Tokamak in turn; each client sends a message and waits for its echo.
"""

import argparse
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import http_proxy, record
from .contest import say
from .in_front import Compared
from .sites import REPO

SIZES = (64, 16_000)
"""Bytes of a message."""

PASSES = """\
proxy_pass http://application;
proxy_http_version 1.1;
proxy_set_header Upgrade $http_upgrade;
proxy_set_header Connection "upgrade";
proxy_set_header Host $http_host;
"""


@dataclass(frozen=True)
class Row:
    """One run."""

    round: int
    front: str
    size: int
    clients: int
    rate: float
    """Messages a second, each there and back."""
    front_us: float
    """Processor time of the server in front, per message."""
    p50: float
    p99: float


class Scene(http_proxy.Scene):
    """The application and both servers in front of it."""

    passes = PASSES

    def application_command(self) -> list[str]:
        """Compiles both ends of the measurement, and starts the application."""
        flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
        source = f"{REPO}/bench/driver/websockets.c"
        subprocess.run(["cc", *flags, source, "-o", self.talker], check=True, timeout=60)
        return [self.talker, "echo", f"{self.port}"]

    @property
    def talker(self) -> str:
        """The program that is both ends."""
        return f"{self.directory}/websockets"

    def is_right(self, front: str) -> bool:
        """Whether messages come back."""
        return self.talk(front, 1, 0.2, SIZES[0])[0] > 0

    def talk(self, front: str, clients: int, seconds: float, size: int) -> list[float]:
        """Messages, p50 and p99 of a run, and the processor time of the server in it."""
        command = [self.talker, "talk", f"{self.ports[front]}", f"{clients}", f"{seconds}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([*command, f"{size}"], text=True, **pipes) as run:
            try:
                is_ready = run.stdout.readline() == "\n"
                before = self.fronts[front].run_seconds()
                said, problem = run.communicate("\n", timeout=seconds + 30)
                used = self.fronts[front].run_seconds() - before
            finally:
                run.kill()
        if run.returncode != 0 or not is_ready:
            raise OSError(problem)
        return [*(float(number) for number in said.split()), used]


def rows(scene: Scene) -> Iterator[Row]:
    """Both servers in turn, in rounds; the order changes with each."""
    chosen, fronts = scene.chosen, http_proxy.FRONTS
    for number in range(chosen.rounds):
        for size in SIZES:
            for clients in chosen.connections:
                for front in fronts if number % 2 == 0 else fronts[::-1]:
                    messages, p50, p99, used = scene.talk(front, clients, chosen.seconds, size)
                    rate = round(messages / chosen.seconds, 1)
                    cost = round(used * 1e6 / max(messages, 1), 2)
                    row = Row(number + 1, front, size, clients, rate, cost, p50, p99)
                    say(f"round {row.round}: {front} {size} B c={clients}: {rate:.0f}/s, {cost} µs")
                    yield row


def table(found: list[Row]) -> str:
    """Medians over the rounds; ratios to nginx are taken within each round."""
    head = (
        "| message | clients | server | messages/s | to nginx | CPU, µs a message | to nginx "
        "| p50 µs | p99 µs | to nginx |"
    )
    lines = [head, "| ---: | ---: | --- |" + " ---: |" * 7]
    for size, clients in dict.fromkeys((row.size, row.clients) for row in found):
        here = [row for row in found if (row.size, row.clients) == (size, clients)]
        base = [row for row in here if row.front == http_proxy.FRONTS[0]]
        for front in http_proxy.FRONTS:
            compared = Compared([row for row in here if row.front == front], base)
            median, ratio = compared.median, compared.ratio
            lines.append(
                f"| {size} B | {clients} | {front} | {median('rate'):.0f} | {ratio('rate'):.2f} "
                f"| {median('front_us'):.1f} | {ratio('front_us'):.2f} "
                f"| {median('p50'):.0f} | {median('p99'):.0f} | {ratio('p99'):.2f} |"
            )
    return "\n".join(lines)


def written(directory: Path, chosen: argparse.Namespace) -> str:
    """Measures, and gives title and table."""
    with Scene(directory, chosen) as scene:
        found = record.write(chosen.out / "websockets.csv", Row, rows(scene))
    return f"# WebSockets, behind nginx and Tokamak\n\n{table(found)}"


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    return http_proxy.measure(
        "websockets", __doc__, arguments, [1, 64, 1000], len(SIZES), written
    )
