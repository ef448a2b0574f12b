"""What a running Tokamak says about its event loops and workers, and how long roll-backs take."""

import json
import re
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from socket import AF_UNIX, socket

from .peers import Place
from .sampling import Sampling


@dataclass(frozen=True)
class Worker:
    """The part of `tokamak status --json` that matters here."""

    pid: int
    requests: int
    roll_back_us: float | None
    """Duration of the last roll-back."""
    hot_pages: int
    """Pages that it copied."""


def scrape(admin: Path) -> bytes:
    """One answer of `/metrics`, head included."""
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket(AF_UNIX) as line:
        line.settimeout(10)
        line.connect(f"{admin}")
        line.sendall(request)
        pieces = []
        while piece := line.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def parse_loops(answer: bytes) -> int | None:
    """The event loops that serve; nothing if there is no such metric."""
    found = re.search(rb'^tokamak_event_loops\{state="serving"\} (\d+)', answer, re.MULTILINE)
    return int(found[1]) if found else None


def loops(place: Place) -> int | None:
    """The event loops that serve in the server of this place; nothing if it is none of ours."""
    return parse_loops(scrape(place.admin)) if place.admin.exists() else None


def parse(text: str) -> list[Worker]:
    """The workers of all pools."""
    rows = (row for pool in json.loads(text)["pools"] for row in pool["workers"])
    return [
        Worker(row["pid"], row["requests"], row["roll_back_us"], row["hot_pages"]) for row in rows
    ]


def workers(place: Place) -> list[Worker]:
    """Asks the server of this place."""
    command = [f"{place.choice.tokamak}", "status", "--json", "--control", f"{place.control}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return parse(done.stdout)


class Sampler(Sampling):
    """Looks at the last roll-back of each worker while the `with` block puts load on them."""

    # Ten times a second: each look starts a program, which should not become a part of what is
    # measured.
    PAUSE = 0.1

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.seen: list[Worker] = []

    def look(self) -> None:
        """Asks the server."""
        self.seen += [worker for worker in workers(self.place) if worker.roll_back_us is not None]

    def medians(self) -> tuple[float, int] | None:
        """Microseconds and pages of a roll-back; nothing if none was seen."""
        if not self.seen:
            return None
        took = statistics.median(worker.roll_back_us or 0.0 for worker in self.seen)
        return round(took, 2), round(statistics.median(worker.hot_pages for worker in self.seen))
