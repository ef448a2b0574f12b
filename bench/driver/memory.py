"""Does a sealed server grow? Its memory after many requests beside that after a few."""

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import load, options, peers, program, record, status
from .bars import Verdict
from .contest import CannotRun, Entry, alone, answer, say
from .sites import SCENARIOS
from .versions import text

FEW = 1000
WORKERS = "1"
"""So that all requests are that worker's: its memory is looked at, not how evenly work is
distributed."""
CLIENTS = 8
CONNECTIONS = 64
LOAD_SECONDS = 5
"""Of each page in turn, at most."""
PER_SECOND = 300
"""Requests that even a busy machine serves: the limit on the whole run."""
BAR_PERCENT = 1.0


@dataclass(frozen=True)
class Moment:
    """The memory of the site's PHP processes at one moment."""

    requests: int
    held_kib: int
    """Zygote and worker together, each page counted once."""
    hot_pages: int
    pid: int
    """The worker: a replaced one would begin anew."""


OWN = ("/memfd:tokamak-image", "/dev/zero", "[")
"""Mappings that count, beside those without a name: the image, opcache's memory, heap and stack.
Programs and libraries are shared with whoever else runs them; of the queue more is touched the
more clients there are, up to its size."""


def parse_held_kib(smaps: str) -> int:
    """Memory of a process, of what it shares its part, from the text of /proc/PID/smaps."""
    held, counts = 0, False
    for line in smaps.splitlines():
        field = line.split()
        if not field[0].endswith(":"):
            counts = len(field) < 6 or field[5].startswith(OWN)
        elif field[0] == "Pss:" and counts:
            held += int(field[1])
    return held


def look(entry: Entry, requests: int) -> Moment:
    """Asks the kernel and the server."""
    php = [stat.pid for stat in entry.server.tree() if stat.name == "tokamak-php"]
    (worker,) = status.workers(entry.place)
    held = sum(parse_held_kib(Path(f"/proc/{pid}/smaps").read_text()) for pid in php)
    return Moment(requests, held, worker.hot_pages, worker.pid)


def ask(urls: list[str], times: int) -> None:
    """So many requests, from a few clients at once."""

    def client(number: int) -> None:
        for turn in range(number, times, CLIENTS):
            answer(urls[turn % len(urls)])

    clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()


def moments(entry: Entry, urls: list[str], many: int) -> Iterator[Moment]:
    """After a few requests, ten times on the way, and after many."""
    ask(urls, FEW)
    served, next_look = FEW, 0
    seconds = max(1, min(LOAD_SECONDS, many // 10_000))
    while True:
        if served >= next_look:
            time.sleep(1)  # Until the last request's roll-back is over.
            moment = look(entry, served)
            say(f"{moment.requests} requests: {moment.held_kib} KiB, {moment.hot_pages} hot pages")
            yield moment
            next_look = min(served + many // 10, max(many, served + 1))
        if served >= many:
            return
        for url in urls:
            served += load.run(url, CONNECTIONS, seconds).requests


def verdict(rows: list[Moment]) -> tuple[bool, str]:
    """Whether the last moment is the first one again."""
    first, last = rows[0], rows[-1]
    change = (last.held_kib - first.held_kib) / first.held_kib * 100
    replaced = "" if first.pid == last.pid else "; the worker was replaced, so this says nothing"
    line = (
        f"{first.held_kib} KiB after {first.requests} requests,"
        f" {last.held_kib} KiB after {last.requests}: {change:+.2f} %{replaced}"
    )
    return abs(change) <= BAR_PERCENT and not replaced, line


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    parser = options.measurement("memory", __doc__)
    option = parser.add_argument
    option("--requests", type=options.positive, default=1_000_000, help="default: 1000000")
    chosen = parser.parse_args(arguments)
    program.begin(chosen.out, 120 + chosen.requests // PER_SECOND)
    with program.workshop("memory") as directory:
        try:
            choice = peers.Choice(0, CONNECTIONS, chosen.tokamak, WORKERS)
            with alone(
                "tokamak-sealed", SCENARIOS["symfony-json"], choice, directory
            ) as entry:
                urls = [entry.url(SCENARIOS[name]) for name in ("symfony-json", "symfony-page")]
                rows = record.write(
                    chosen.out / "memory.csv", Moment, moments(entry, urls, chosen.requests)
                )
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    reached, line = verdict(rows)
    bar = f"memory of the PHP processes equal within {BAR_PERCENT:.0f} %"
    said = Verdict(bar, reached, line).line()
    page = f"# Memory of a sealed server\n\n{said}\n\n```\n{text(chosen.tokamak)}\n```\n"
    return program.end(chosen.out, page, reached)
