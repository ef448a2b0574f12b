"""Latencies as they were: the load generator of bench/pace, which can send at a given rate."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .sites import REPO

GRACE = 2
"""Seconds that it waits for the last answers."""


@dataclass(frozen=True)
class Paced:
    """One run. Times in microseconds, over all requests that were answered."""

    seconds: float
    requests: int
    p50: float
    p90: float
    p99: float
    p999: float
    lag: float
    """How late the generator itself was, 99th percentile; it is in the latencies."""
    bad_status: int
    broken: int
    """The connection failed, or ended before its answer."""
    unanswered: int
    """After the grace time, those included that could not even be sent."""

    @property
    def rate(self) -> float:
        """Right answers a second."""
        return (self.requests - self.bad_status) / self.seconds

    @property
    def errors(self) -> int:
        """Requests that went wrong."""
        return self.bad_status + self.broken + self.unanswered


def build(program: Path) -> None:
    """Compiles it."""
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
    source = f"{REPO}/bench/pace/pace.c"
    subprocess.run(["cc", *flags, source, "-o", f"{program}", "-lm"], check=True, timeout=60)


def command(
    program: Path, port: int, path: str, connections: int, rate: float, seconds: float, closes: bool
) -> list[str]:
    """The command line. Rate 0: each connection asks again when it is answered."""
    numbers = [f"{connections}", f"{rate:.1f}", f"{seconds * 1000:.0f}"]
    return [f"{program}", f"{port}", path, *numbers, *(["close"] if closes else [])]


def run(words: list[str], seconds: float) -> Paced:
    """Runs such a command."""
    # It gives up by itself; the rest is for a machine that is busy.
    limit = seconds + GRACE + 15
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=limit)
    return Paced(**json.loads(done.stdout))
