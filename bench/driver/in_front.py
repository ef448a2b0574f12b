"""What measurements of a server in front of another one share: the processor time of both, and
ratios that are taken within each round."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol

from . import load
from .contest import CannotRun
from .process import Server

READY_SECONDS = 20


class Row(Protocol):
    """A run of a round, with figures."""

    round: int


def measured(
    front: Server, behind: Server, url: str, clients: int, seconds: int, keeps: bool = True
) -> tuple[load.Load, float, float]:
    """Loads the server in front; the processor time that it and the one behind it took, in
    microseconds for each request."""
    before = front.run_seconds(), behind.run_seconds()
    seen = load.run(url, clients, seconds, keeps=keeps)
    used = front.run_seconds() - before[0], behind.run_seconds() - before[1]
    own, others = (round(time * 1e6 / max(seen.requests, 1), 2) for time in used)
    return seen, own, others


def wait(name: str, is_right: Callable[[], bool], directory: Path) -> None:
    """Asks until the answer of a server is right; its logs are in the directory."""
    deadline = monotonic() + READY_SECONDS
    while monotonic() < deadline:
        try:
            if is_right():
                return
        except OSError:
            pass
        sleep(0.1)
    logs = "\n".join(
        log.read_text(errors="replace")[-2000:] for log in sorted(directory.glob("*.log"))
    )
    raise CannotRun(f"{name} does not give the right answer\n{logs}")


class Compared:
    """Runs of one server beside those of another in the same rounds."""

    def __init__(self, mine: Sequence[Row], base: Sequence[Row]) -> None:
        self.mine = mine
        self.base = {row.round: row for row in base}

    def median(self, figure: str) -> float:
        """The median of a figure over the rounds."""
        return statistics.median(getattr(row, figure) for row in self.mine)

    def ratio(self, figure: str) -> float:
        """The median of its ratios to the other server's."""
        return statistics.median(
            getattr(row, figure) / max(getattr(self.base[row.round], figure), 0.01)
            for row in self.mine
        )
