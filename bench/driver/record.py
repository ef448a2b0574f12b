"""What was measured, as rows; and the files that hold them. Everything else is computed from
these rows."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from .load import Load

RUNS = "raw.csv"
FOOTPRINTS = "footprint.csv"
Key = tuple[str, int, str]
"""Scenario, connections, peer."""

ABSENCES = "absent.csv"
COURSES = "course.csv"


@dataclass(frozen=True)
class Run:
    """One timed run of one peer. Times in microseconds."""

    round: int
    scenario: str
    peer: str
    connections: int
    rate: float
    p50: float
    p90: float
    p99: float
    cpu_us: float
    """Processor time per request, over all processes of the peer."""
    requests: int
    bad_status: int
    socket_errors: int
    timeouts: int
    database_us: float = 0.0
    """Processor time of the database per request; it is not in `cpu_us`."""
    loops: int | None = None
    """Event loops that served for most of the run; nothing where it is not known."""
    changes: int = 0
    """How often their number changed within the run."""
    tries: int = 1
    """Runs until one counted: one within which the number changes is measured again, once."""

    @classmethod
    def of(
        cls,
        number: int,
        scenario: str,
        peer: str,
        connections: int,
        seen: Load,
        cpu_seconds: float,
        database_seconds: float,
    ) -> "Run":
        """Puts together what the load generator and the kernel say about one run."""

        def per_request(seconds: float) -> float:
            return round(seconds * 1e6 / seen.requests, 2) if seen.requests else 0.0

        times = (round(seen.rate, 1), seen.p50, seen.p90, seen.p99, per_request(cpu_seconds))
        errors = (seen.requests, seen.bad_status, seen.socket_errors, seen.timeouts)
        return cls(
            number, scenario, peer, connections, *times, *errors, per_request(database_seconds)
        )

    @property
    def errors(self) -> int:
        """Requests that went wrong."""
        return self.bad_status + self.socket_errors + self.timeouts


@dataclass(frozen=True)
class Footprint:
    """What one peer needs for one scenario, whatever the speed."""

    scenario: str
    peer: str
    syscalls: float | None
    """Per request, over all processes; nothing where they cannot be counted."""
    private_kib: float | None
    """Memory that one worker holds alone: the median over the workers."""
    workers: int
    processes: int
    roll_back_us: float | None = None
    """Median of the roll-backs looked at under load, in sealed mode."""
    hot_pages: int | None = None
    """Pages that a roll-back copies: the median likewise."""
    switches: float | None = None
    """Context switches per request, as `syscalls`."""


@dataclass(frozen=True)
class Second:
    """One second of a load that holds a run."""

    round: int
    scenario: str
    peer: str
    connections: int
    second: int
    """From the load's beginning; the first one is 1."""
    part: str
    """Of the load: `steady.WARM`, `steady.RUN`, or `steady.CUT`."""
    rate: float
    """Requests that the clients sent."""
    loops: int | None
    """Event loops that served at its end; nothing where the server does not say."""


@dataclass(frozen=True)
class Absence:
    """A peer that should have taken part in a scenario, and why it did not."""

    scenario: str
    peer: str
    reason: str


def write(path: Path, kind: type, rows: Iterable[object]) -> list:
    """Writes rows of one kind as they come, so that an interrupted contest leaves what it had;
    gives them back."""
    names = [field.name for field in fields(kind)]
    kept = []
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(names)
        for row in rows:
            values = (getattr(row, name) for name in names)
            out.writerow(["" if value is None else value for value in values])
            file.flush()
            kept.append(row)
    return kept


def read(path: Path, kind: type) -> list:
    """Reads what `write` wrote."""
    convert = {field.name: CONVERT[field.type] for field in fields(kind)}
    with path.open(newline="") as file:
        return [
            kind(**{name: convert[name](text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]


CONVERT = {
    str: str,
    int: int,
    float: float,
    float | None: lambda text: float(text) if text else None,
    int | None: lambda text: int(text) if text else None,
}
