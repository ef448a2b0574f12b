"""What do metrics cost? The same server without `admin`, with it, and while somebody reads
`/metrics` ten times a second, by turns: requests/s, processor time, latencies in an open loop, and
instructions, which are counted."""

import argparse
import statistics
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import guard, options, pace, program, record
from .bars import Verdict
from .contest import CannotRun, say
from .guard import SEALED, WAYS, Running, Way
from .status import scrape
from .summary import table
from .versions import text

OFF, ON, SCRAPED = VARIANTS = ("off", "on", "scraped")
MEASURED = [way for way in WAYS if way.name in ("file", "worker")] + [SEALED]
COUNTED = [way for way in WAYS if way.name in ("file", "worker")]
"""Sealed mode cannot run under valgrind; what is counted is the front's, the same in all modes."""
CONNECTIONS = 64
EVERY = 0.1
"""Seconds between two scrapes."""
RATE_BAR, CPU_BAR = 0.99, 0.1
"""Of the requests/s without metrics; and microseconds of processor time for each request."""


@dataclass(frozen=True)
class Row:
    """One run: capacity in a closed loop, then an open loop at half of the capacity of the server
    without metrics. Times in microseconds."""

    round: int
    way: str
    variant: str
    rate: float
    cpu_us: float
    """Processor time per request, over all processes of the server, scrapes included."""
    p50: float
    p99: float
    scrapes: int
    errors: int


class Scraper:
    """Reads `/metrics` while the `with` block runs."""

    def __init__(self, admin: Path) -> None:
        self.admin, self.scrapes = admin, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.scrape_on)

    def __enter__(self) -> "Scraper":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def scrape_on(self) -> None:
        """Until the block ends."""
        while not self.ended.wait(EVERY):
            self.scrapes += is_whole(scrape(self.admin))


def is_whole(answer: bytes) -> bool:
    """Whether it has the figures of requests and the supervisor's."""
    return b"\ntokamak_requests_total{" in answer and b"\ntokamak_uptime_seconds " in answer


@contextmanager
def servers(tokamak: Path, way: Way, directory: Path) -> Iterator[dict[str, Running]]:
    """One without metrics and one with them, warm."""
    with ExitStack() as stack:
        found = {}
        for variant in (OFF, ON):
            place = directory / f"{way.name}-{variant}"
            place.mkdir(mode=0o755)
            settings = admin_line(place) if variant == ON else ""
            server = guard.serving(tokamak, [way], [], place, settings)
            found[variant] = stack.enter_context(server)
            found[variant].client.get_many(way, guard.SETTLED)
        yield found


def admin(directory: Path) -> Path:
    """The socket of the admin listener."""
    return directory / "admin.sock"


def admin_line(directory: Path) -> str:
    """The setting that switches metrics on."""
    return f'admin = "unix:{admin(directory)}"\n'


@dataclass(frozen=True)
class Bench:
    """What all runs have in common."""

    generator: Path
    seconds: int

    def paced(self, running: Running, way: Way, rate: float) -> tuple[pace.Paced, float]:
        """One load; the processor time per request, too."""
        shape = (CONNECTIONS, rate, self.seconds, False)
        words = pace.command(self.generator, running.port, way.path, *shape)
        before = running.server.run_seconds()
        seen = pace.run(words, self.seconds)
        used = running.server.run_seconds() - before
        if not seen.requests:
            raise CannotRun(f"{way.name}: no answer")
        return seen, used * 1e6 / seen.requests

    def turn(self, number: int, way: Way, running: dict[str, Running], place: Path) -> list[Row]:
        """All variants under both loads. Who begins changes each round."""
        first = number % len(VARIANTS)
        order = VARIANTS[first:] + VARIANTS[:first]
        closed, opened, scrapes = {}, {}, dict.fromkeys(VARIANTS, 0)
        for seen, rate in ((closed, lambda: 0.0), (opened, lambda: closed[OFF][0].rate / 2)):
            for variant in order:
                server = running[OFF if variant == OFF else ON]
                with ExitStack() as stack:
                    if variant == SCRAPED:
                        scraper = stack.enter_context(Scraper(admin(place)))
                    seen[variant] = self.paced(server, way, rate())
                if variant == SCRAPED:
                    scrapes[variant] += scraper.scrapes
        rows = []
        for variant in VARIANTS:
            (full, cpu), (half, _) = closed[variant], opened[variant]
            rate, errors = round(full.rate, 1), full.errors + half.errors
            shown = (round(cpu, 3), half.p50, half.p99, scrapes[variant], errors)
            rows.append(Row(number, way.name, variant, rate, *shown))
            say(f"{rows[-1]}")
        return rows


def rows(bench: Bench, directory: Path, chosen: argparse.Namespace) -> Iterator[Row]:
    """All ways, one after the other; within each, rounds in which the variants take turns."""
    for way in (way for way in MEASURED if way.name in chosen.ways):
        with servers(chosen.tokamak, way, directory) as running:
            for number in range(1, chosen.rounds + 1):
                yield from bench.turn(number, way, running, directory / f"{way.name}-{ON}")


def compared(found: list[Row], way: str, variant: str, base: str, metric: str) -> list[float]:
    """The ratio of each round."""
    by_round = {(row.round, row.variant): row for row in found if row.way == way}
    numbers = sorted({number for number, _ in by_round})
    pairs = [(by_round[number, variant], by_round[number, base]) for number in numbers]
    return [getattr(mine, metric) / getattr(theirs, metric) for mine, theirs in pairs]


def added(found: list[Row], way: str) -> float:
    """Microseconds of processor time that metrics add to a request: the median of the rounds."""
    cpu = {(row.round, row.variant): row.cpu_us for row in found if row.way == way}
    return statistics.median(cpu[n, ON] - cpu[n, OFF] for n, variant in cpu if variant == ON)


def times_table(found: list[Row]) -> str:
    """Medians, and between which ratios the middle half of the rounds lies."""
    lines = []
    for way in dict.fromkeys(row.way for row in found):
        for variant in VARIANTS:
            mine = [row for row in found if (row.way, row.variant) == (way, variant)]
            middle = [f"{statistics.median(getattr(row, name) for row in mine):.{digits}f}"
                      for name, digits in (("rate", 0), ("cpu_us", 2), ("p50", 0), ("p99", 0))]
            base = ON if variant == SCRAPED else OFF
            ratios = [ratio(compared(found, way, variant, base, name))
                      for name in ("rate", "cpu_us", "p99")]
            beside = [""] * 3 if variant == OFF else ratios
            lines.append([way, variant, *middle, *beside, f"{sum(row.errors for row in mine)}"])
    head = ["way", "metrics", "requests/s", "CPU µs", "p50 µs", "p99 µs"]
    return table([*head, "requests/s to", "CPU to", "p99 to", "errors"], lines)


def ratio(ratios: list[float]) -> str:
    """The median, and the middle half."""
    if len(ratios) == 1:
        return f"{ratios[0]:.3f}"
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.2f} to {high:.2f})"


def counts(tokamak: Path, directory: Path) -> dict[str, dict[str, float]]:
    """Instructions per request, without metrics and with them."""
    found = {}
    for variant in (OFF, ON):
        place = directory / f"counted-{variant}"
        place.mkdir(mode=0o755)
        settings = admin_line(place) if variant == ON else ""
        found[variant] = guard.instructions(COUNTED, tokamak, place, settings)
    return found


def counts_table(found: dict[str, dict[str, float]]) -> str:
    """A line for each process."""
    lines = [
        [name, f"{off:.0f}", f"{found[ON][name]:.0f}", f"{found[ON][name] - off:+.0f}",
         f"{found[ON][name] / off:.4f}"]
        for name, off in found[OFF].items()
    ]
    return table(["", "off", "on", "more", "ratio"], lines)


def verdicts(found: list[Row]) -> list[Verdict]:
    """What metrics may cost."""
    said = []
    for way in dict.fromkeys(row.way for row in found):
        rate = statistics.median(compared(found, way, ON, OFF, "rate"))
        bar = f"{way}: at least {RATE_BAR} of the requests/s without metrics"
        said.append(Verdict(bar, rate >= RATE_BAR, f"{rate:.3f}"))
        bar = f"{way}: at most {CPU_BAR} µs of processor time more for each request"
        said.append(Verdict(bar, added(found, way) <= CPU_BAR, f"{added(found, way):+.3f}"))
        # Not visible: of the rounds, not three of four are slower than without scrapes.
        tails = compared(found, way, SCRAPED, ON, "p99")
        low = statistics.quantiles(tails, n=4)[0] if len(tails) > 1 else tails[0]
        bar = f"{way}: ten scrapes a second are not visible in p99"
        said.append(Verdict(bar, low <= 1.0, f"{statistics.median(tails):.3f}"))
    wrong = sum(row.errors for row in found)
    return [*said, Verdict("no request went wrong", wrong == 0, f"{wrong}")]


def parse(arguments: list[str]) -> argparse.Namespace:
    """What one may say to bench/metrics."""
    parser = options.measurement("metrics", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=11, help="default: 11")
    option("--seconds", type=options.positive, default=2, help="of each run; default: 2")
    known = options.names({way.name: way for way in MEASURED})
    option("--ways", type=known, default=[way.name for way in MEASURED], help="default: all")
    option("--no-counts", action="store_true", help="no instructions, which take two minutes")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    chosen = parse(arguments)
    runs = chosen.rounds * len(chosen.ways) * len(VARIANTS) * 2
    program.begin(chosen.out, 900 + 2 * runs * (chosen.seconds + pace.GRACE))
    with program.workshop("metrics") as directory:
        try:
            pace.build(directory / "pace")
            bench = Bench(directory / "pace", chosen.seconds)
            found = record.write(chosen.out / "metrics.csv", Row, rows(bench, directory, chosen))
            counted = None if chosen.no_counts else counts(chosen.tokamak, directory)
        except (CannotRun, guard.Broken) as failure:
            print(failure, file=sys.stderr)
            return 1
    said = verdicts(found)
    lines = "\n".join(verdict.line() for verdict in said)
    parts = ["# What metrics cost", times_table(found)]
    parts += [] if counted is None else ["Instructions per request:", counts_table(counted)]
    page = "\n\n".join([*parts, f"```\n{lines}\n```", f"```\n{text(chosen.tokamak)}\n```"]) + "\n"
    return program.end(chosen.out, page, all(verdict.reached for verdict in said))
