"""What bench/latency has measured: its rows, and the questions that its page and the bars ask."""

import statistics
from dataclasses import dataclass
from pathlib import Path

from .record import read

FILE = "latency.csv"
PART = "latency"
"""The directory of `bench/all` that may have it."""

OWN = "own"
SAME = "same"


@dataclass(frozen=True)
class Load:
    """A way to send requests."""

    name: str
    title: str
    connections: int
    closes: bool = False
    """A new connection for each request."""
    half_of: str = ""
    """An open loop at half of what this server (OWN), or the slowest (SAME), answers at most."""


ONE, MANY, CROWD, CONNECTING, OWN_HALF, SAME_HALF = LOADS = (
    Load("one", "One client", 1),
    Load("many", "64 clients: capacity", 64),
    Load("crowd", "1 024 clients", 1024),
    Load("connecting", "64 clients, a new connection for each request", 64, closes=True),
    Load("own-half", "Open loop at half of its own capacity", 64, half_of=OWN),
    Load("same-half", "Open loop at half of the slowest one's capacity", 64, half_of=SAME),
)


@dataclass(frozen=True)
class Row:
    """One run of one peer. Times in microseconds."""

    round: int
    scenario: str
    load: str
    peer: str
    asked: float
    """Requests that fell due each second; 0 in a closed loop."""
    rate: float
    """Right answers a second."""
    p50: float
    p90: float
    p99: float
    p999: float
    cpu_us: float
    """Processor time per request, over all processes of the peer."""
    requests: int
    errors: int
    lag: float
    """How late the generator was, 99th percentile."""


@dataclass(frozen=True)
class Latencies:
    """All rows of a record."""

    rows: list[Row]

    @classmethod
    def in_directory(cls, directory: Path) -> "Latencies":
        """Those of bench/latency, or of `bench/all`; none if neither measured them there."""
        for path in (directory / FILE, directory / PART / FILE):
            if path.exists():
                return cls(read(path, Row))
        return cls([])

    def scenarios(self) -> list[str]:
        """Those that were measured, in their order."""
        return list(dict.fromkeys(row.scenario for row in self.rows))

    def peers(self, scenario: str, load: Load) -> list[str]:
        """Who was measured so."""
        fitting = (row for row in self.rows if (row.scenario, row.load) == (scenario, load.name))
        return list(dict.fromkeys(row.peer for row in fitting))

    def of(self, scenario: str, load: Load, peer: str) -> dict[int, Row]:
        """The runs of one peer by round."""
        key = (scenario, load.name, peer)
        return {row.round: row for row in self.rows if (row.scenario, row.load, row.peer) == key}

    def median(self, scenario: str, load: Load, peer: str, metric: str) -> float:
        """The median over the rounds."""
        runs = self.of(scenario, load, peer).values()
        return statistics.median(getattr(row, metric) for row in runs)

    def errors(self, scenario: str, load: Load, peer: str) -> int:
        """Requests that went wrong, over all rounds."""
        return sum(row.errors for row in self.of(scenario, load, peer).values())

    def ratio(self, scenario: str, load: Load, peer: str, base: str, metric: str) -> float | None:
        """Peer to base under one load: the median of the ratios within each round."""
        return self.compare(self.of(scenario, load, peer), self.of(scenario, load, base), metric)

    def growth(self, scenario: str, peer: str, metric: str) -> float | None:
        """What becomes of one peer's figure with 1 024 clients, beside that with 64."""
        many, crowd = (self.of(scenario, load, peer) for load in (MANY, CROWD))
        return self.compare(crowd, many, metric)

    @staticmethod
    def compare(mine: dict[int, Row], theirs: dict[int, Row], metric: str) -> float | None:
        """The median of the ratios within each round."""
        pairs = [
            (getattr(mine[number], metric), getattr(theirs[number], metric))
            for number in mine.keys() & theirs.keys()
        ]
        ratios = [upper / lower for upper, lower in pairs if lower]
        return statistics.median(ratios) if ratios else None
