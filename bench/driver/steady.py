"""Runs that count only what comes behind the last change of the number of event loops, and the
course of their load, second by second from its beginning.

The server tries another number of loops when load begins, and again some time later. A short run
from the beginning of a load measures the trial, or a mixture.
"""

import math
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace

from . import load
from .load import Load
from .record import Second

MOST_WARM = 30
"""Seconds of load before a run, at most: then it is measured whatever the loops do."""
LEAST_SECOND = 0.5
"""Seconds that a load must have run before its rate says something."""
LATE = 15
"""Seconds after which a load that should have ended hangs."""
WARM, RUN, CUT = "warm-up", "run", "cut"
"""Parts of a course: before the run, the run, and a run that does not count."""


class Course:
    """One load, from its beginning to its end: warm-up, run, and both again if the number of loops
    changed within the run."""

    def __init__(
        self,
        loops: Callable[[], int | None],
        number: int,
        scenario: str,
        peer: str,
        connections: int,
    ) -> None:
        self.count_loops = loops
        self.of = (number, scenario, peer, connections)
        self.seconds: list[Second] = []
        self.loops = loops()
        self.changes = self.changes_in_run = 0
        self.begun = self.changed = time.monotonic()

    def warm_up(self, url: str, connections: int, calm: int) -> None:
        """Loads until the number of loops has stayed for so many seconds. A server that has none
        is loaded for as long."""
        begun = time.monotonic()
        last = begun + MOST_WARM

        def is_warm() -> bool:
            now = time.monotonic()
            return now >= min(max(begun, self.changed) + calm, last)

        with load.running(url, connections, MOST_WARM + 1) as child:
            self.follow(child, WARM, last + LATE, is_warm)

    def run(self, url: str, connections: int, seconds: int, is_last: bool) -> Load | None:
        """Measures. Nothing if the number of loops changed, unless it is the last try."""
        before, first = self.changes, len(self.seconds)
        end = time.monotonic() + seconds + LATE
        with load.running(url, connections, seconds) as child:
            if self.follow(child, RUN, end, lambda: not is_last and self.changes > before):
                cut = [replace(second, part=CUT) for second in self.seconds[first:]]
                self.seconds[first:] = cut
                return None
            self.changes_in_run = self.changes - before
            return load.result(child, seconds)

    def follow(
        self,
        child: subprocess.Popen[str],
        part: str,
        end: float,
        is_over: Callable[[], bool],
    ) -> bool:
        """Looks at a load at each full second of the course, until it ends by itself, or until
        something is over: whether it was that."""
        sent, since = 0, time.monotonic()
        while not is_over():
            second = math.floor(time.monotonic() - self.begun) + 1
            try:
                child.wait(max(0.0, self.begun + second - time.monotonic()))
                return False
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            if now > end:
                raise subprocess.TimeoutExpired(child.args, end - since)
            loops = self.count_loops()
            if loops != self.loops:
                self.loops, self.changed = loops, now
                self.changes += 1
            if now - since < LEAST_SECOND:
                continue
            total = load.sent(child)
            if total is None:
                continue
            rate = round((total - sent) / (now - since), 1)
            self.seconds.append(Second(*self.of, second, part, rate, loops))
            sent, since = total, now
        return True

    def part(self, name: str) -> list[Second]:
        """The seconds of one part."""
        return [second for second in self.seconds if second.part == name]

    def loops_of_run(self) -> int | None:
        """How many loops served for most of the run."""
        counts = [second.loops for second in self.part(RUN)]
        return statistics.mode(counts) if counts else self.loops
