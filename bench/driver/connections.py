"""What does a connection cost? One query a request: connecting for each, with connections that
sealed mode keeps, and with persistent ones elsewhere."""

import argparse
import shutil
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from . import load, options, peers, program, record
from .contest import CannotRun, Entry, enter, say, wait_until_ready
from .databases import Databases
from .sites import REPO, Scenario, Site
from .versions import text

ON = ("mysql", "pgsql", "redis")


@dataclass(frozen=True)
class Way:
    """A server, and how its requests connect."""

    name: str
    peer: str
    boot: str
    is_persistent: bool

    def scenario(self, on: str) -> Scenario:
        """Its request to one database."""
        path = f"/index.php?on={on}" + ("&persistent" if self.is_persistent else "")
        return Scenario(on, "connections", path, lambda body: body == b"the thing")


WAYS = (
    Way("sealed, connecting", "tokamak-sealed", "functions.php", is_persistent=False),
    Way("sealed, kept", "tokamak-sealed", "keep.php", is_persistent=True),
    Way("classic, persistent", "tokamak-classic", "", is_persistent=True),
    Way("nginx + php-fpm, persistent", "nginx-fpm-keepalive", "", is_persistent=True),
)


@dataclass(frozen=True)
class Row:
    """One run."""

    round: int
    on: str
    way: str
    rate: float
    cpu_us: float
    """Of PHP and the server in front of it, per request."""
    database_us: float
    p50: float
    errors: int


def warm_up(way: Way, entry: Entry, connections: int) -> None:
    """Lets it do what it does only at first."""
    for on in ON:
        wait_until_ready(entry, way.scenario(on))
        load.run(entry.url(way.scenario(on)), connections, 1)


def rows(
    entries: dict[Way, Entry], databases: Databases, chosen: argparse.Namespace
) -> Iterator[Row]:
    """All ways in turn, in rounds; the order changes with each."""
    for number in range(chosen.rounds):
        order = list(entries)[number % len(entries) :] + list(entries)[: number % len(entries)]
        for on in ON:
            for way in order:
                entry, database = entries[way], databases.servers[on]
                before = entry.server.cpu_seconds(), database.cpu_seconds()
                seen = load.run(entry.url(way.scenario(on)), chosen.connections, chosen.seconds)
                used = entry.server.cpu_seconds() - before[0], database.cpu_seconds() - before[1]
                cpu, of_database = (seconds * 1e6 / max(seen.requests, 1) for seconds in used)
                errors = seen.bad_status + seen.socket_errors + seen.timeouts
                row = Row(number + 1, on, way.name, seen.rate, cpu, of_database, seen.p50, errors)
                say(
                    f"round {row.round}: {on}, {way.name}: {row.rate:.0f}/s,"
                    f" {cpu:.0f} + {of_database:.0f} µs, {errors} errors"
                )
                yield row


def table(found: list[Row]) -> str:
    """Medians over the rounds; the ratio is taken within each round."""
    lines = [
        "| database | way | requests/s | to sealed, connecting | CPU µs a request "
        "| of the database, µs | p50 µs | errors |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for on in ON:
        base = {row.round: row.rate for row in found if (row.on, row.way) == (on, WAYS[0].name)}
        for way in WAYS:
            mine = [row for row in found if (row.on, row.way) == (on, way.name)]
            ratio = statistics.median(row.rate / base[row.round] for row in mine)
            rate, cpu, database, p50 = (
                statistics.median(getattr(row, name) for row in mine)
                for name in ("rate", "cpu_us", "database_us", "p50")
            )
            errors = sum(row.errors for row in mine)
            lines.append(
                f"| {on} | {way.name} | {rate:.0f} | {ratio:.2f} | {cpu:.0f} "
                f"| {database:.0f} | {p50:.0f} | {errors} |"
            )
    return "\n".join(lines)


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    parser = options.measurement("connections", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=5, help="default: 5")
    option("--seconds", type=options.positive, default=3, help="of each run; default: 3")
    option("--connections", type=options.positive, default=8, help="of clients; default: 8")
    option("--children", type=options.positive, default=8, help="php-fpm's processes; default: 8")
    option("--tokamak-workers", default="auto", help="default: auto")
    chosen = parser.parse_args(arguments)
    runs = chosen.rounds * len(ON) * len(WAYS)
    program.begin(chosen.out, 240 + 2 * runs * (chosen.seconds + 1))
    choice = peers.Choice(
        chosen.children, chosen.connections, chosen.tokamak, chosen.tokamak_workers
    )
    with program.workshop("connections") as directory:
        files = directory / "site"
        shutil.copytree(REPO / "bench/sites/connections", files)
        entries: dict[Way, Entry] = {}
        try:
            with Databases(directory) as databases:
                databases.tell(files)
                for number, way in enumerate(WAYS):
                    sealed = {way.peer: f'boot = "$root/{way.boot}"'}
                    site = Site("connections", files, ".", "", sealed, front_controller=False)
                    entries[way] = enter(
                        way.peer, site, files, directory / f"server-{number}", choice
                    )
                with ThreadPoolExecutor(len(WAYS)) as threads:
                    warm = partial(warm_up, connections=chosen.connections)
                    list(threads.map(warm, entries, entries.values()))
                found = record.write(
                    chosen.out / "connections.csv", Row, rows(entries, databases, chosen))
        except (CannotRun, RuntimeError) as failure:
            print(failure, file=sys.stderr)
            return 1
        finally:
            for entry in entries.values():
                entry.server.stop()
    page = f"# One query a request\n\n{table(found)}\n\n```\n{text(chosen.tokamak)}\n```\n"
    return program.end(chosen.out, page)
