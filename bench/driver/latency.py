"""How long do requests wait? One client, 1 024 clients, a new connection for each request, and an
open loop at half load: at half of what each server can answer, and at one rate for all.

Capacity is measured first, with 64 clients that ask as fast as they are answered.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import bars, options, pace, program, record
from .contest import CannotRun, Contest, Entry, Plan, say
from .contestants import PEERS
from .latencies import CROWD, FILE, LOADS, MANY, OWN, Latencies, Load, Row
from .peers import Choice
from .sites import Scenario
from .summary import Rows, absent, number, table, times
from .versions import text

PHP = (
    "nginx-fpm lighttpd-fpm apache-modphp caddy-fpm frankenphp roadrunner swoole"
    " tokamak-classic tokamak-worker tokamak-sealed go"
)
WITHOUT_PHP = "nginx-lua lighttpd-magnet tokamak-lua limit"
SCENARIO_NAMES = ("empty", "lua-empty")
OPEN = [load for load in LOADS if load.half_of]
CLOSED = [load for load in LOADS if not load.half_of]


@dataclass
class Runs:
    """All runs: those that find capacities out, then those that need them."""

    contest: Contest
    generator: Path
    chosen: argparse.Namespace

    def rows(self) -> Iterator[Row]:
        """In rounds, in which all peers take turns under each load."""
        seen: list[Row] = []
        for some in (CLOSED, OPEN):
            for number in range(self.chosen.rounds):
                for load in some:
                    if load.name in self.chosen.loads:
                        for row in self.round(number, load, seen):
                            seen.append(row)
                            yield row

    def round(self, number: int, load: Load, seen: list[Row]) -> Iterator[Row]:
        """One turn of each under one load."""
        for peer, scenario, entry in self.contest.pairs(shift=number):
            with self.contest.going_on_without([peer], scenario.site, scenario):
                self.contest.begin()
                asked = half(load, Latencies(seen), scenario.name, peer)
                yield self.run(number + 1, peer, scenario, entry, load, asked)

    def run(
        self, number: int, peer: str, scenario: Scenario, entry: Entry, load: Load, asked: float
    ) -> Row:
        """One run."""
        seconds = self.chosen.seconds
        shape = (load.connections, asked, seconds, load.closes)
        words = pace.command(self.generator, entry.place.port, scenario.path, *shape)
        before = entry.server.run_seconds()
        seen = pace.run(words, seconds)
        used = entry.server.run_seconds() - before
        if not seen.requests:
            raise CannotRun(f"no answer ({load.title})")
        cpu = round(used * 1e6 / seen.requests, 2)
        percentiles = (seen.p50, seen.p90, seen.p99, seen.p999)
        rates = (round(asked, 1), round(seen.rate, 1))
        row = Row(
            number,
            scenario.name,
            load.name,
            peer,
            *rates,
            *percentiles,
            cpu,
            seen.requests,
            seen.errors,
            seen.lag,
        )
        say(
            f"round {number}: {row.scenario} {load.name} {peer}: {row.rate:.0f}/s,"
            f" p99 {row.p99:.0f} µs, {cpu:.1f} µs, {row.errors} errors"
        )
        return row


def half(load: Load, seen: Latencies, scenario: str, peer: str) -> float:
    """How many requests fall due each second; 0 in a closed loop."""
    if not load.half_of:
        return 0.0
    measured = seen.peers(scenario, MANY)
    peers = [peer] if load.half_of == OWN else measured
    return min(seen.median(scenario, MANY, name, "rate") for name in peers) / 2


def load_table(found: Latencies, scenario: str, load: Load) -> str:
    """All peers under one load."""
    peers = found.peers(scenario, load)
    base = bars.BASE if bars.BASE in peers else peers[0]
    lines = []
    for peer in peers:

        def value(metric: str, digits: int = 0, peer: str = peer) -> str:
            return number(found.median(scenario, load, peer, metric), digits)

        def ratio(metric: str, peer: str = peer) -> str:
            return times(found.ratio(scenario, load, peer, base, metric))

        lines.append(
            [peer]
            + ([value("asked")] if load.half_of else [])
            + [value("rate"), ratio("rate")]
            + [value("p50"), value("p90"), value("p99"), ratio("p99"), value("p999")]
            + [value("cpu_us", 1), ratio("cpu_us"), f"{found.errors(scenario, load, peer)}"]
        )
    to = f"to {base}"
    head = ["peer", *(["asked/s"] if load.half_of else []), "answers/s", to]
    head += ["p50 µs", "p90 µs", "p99 µs", to, "p99.9 µs", "CPU µs/request", to, "errors"]
    return table(head, lines)


def growth_table(found: Latencies, scenario: str) -> str:
    """What 1 024 clients do to a server that does well with 64."""
    lines = [
        [
            peer,
            *(times(found.growth(scenario, peer, metric)) for metric in ("rate", "cpu_us", "p99")),
            f"{found.errors(scenario, CROWD, peer)}",
        ]
        for peer in found.peers(scenario, CROWD)
    ]
    return table(["peer", "answers/s", "CPU per request", "p99", "errors"], lines)


def page(found: Latencies, absences: list[record.Absence], about: str) -> str:
    """The whole summary.md."""
    parts = [
        "# Latency",
        "Medians over the rounds; ratios are medians of the ratios within each round.",
    ]
    for scenario in found.scenarios():
        parts.append(f"## {scenario}")
        for load in LOADS:
            if found.peers(scenario, load):
                parts += [f"### {load.title}", load_table(found, scenario, load)]
        if found.peers(scenario, CROWD) and found.peers(scenario, MANY):
            parts += ["### 1 024 clients to 64", growth_table(found, scenario)]
    if absences:
        parts += ["## Not there", absent(Rows([], [], absences))]
    parts += ["## Bars", "```\n" + "\n".join(lines_of_bars(found)) + "\n```"]
    return "\n\n".join([*parts, "## Versions", f"```\n{about.strip()}\n```"]) + "\n"


def lines_of_bars(found: Latencies) -> list[str]:
    """The bars that could be judged."""
    return [one.line() for one in bars.latency(found) if one.reached is not None]


def seconds(value: str) -> float:
    """A positive number of seconds."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < 3600:
        raise argparse.ArgumentTypeError(f"{value}: a number of seconds above 0")
    return found


def parse(arguments: list[str]) -> argparse.Namespace:
    """What one may say to bench/latency."""
    loads = options.names({load.name: load for load in LOADS})
    default = f"{PHP} {WITHOUT_PHP}".split()
    parser = options.measurement("latency", __doc__)
    option: Callable = parser.add_argument
    option("--peers", type=options.names(PEERS), default=default, help=f"default: {default}")
    option("--loads", type=loads, default=[load.name for load in LOADS], help="default: all")
    option("--rounds", type=options.positive, default=5, help="default: 5")
    option("--seconds", type=seconds, default=4.0, help="of each run; default: 4")
    option("--children", type=options.positive, default=8, help="php-fpm's; default: 8")
    about = "run servers and generator before all other jobs of this machine, as root; good for"
    about += " loads that leave processors idle (one, same-half), since the kernel bounds it"
    option("--real-time", action="store_true", help=about)
    about = "seconds; who would have his turn later is left out; default: no limit"
    option("--within", type=options.positive, help=about)
    chosen = parser.parse_args(arguments)
    if any(load.half_of for load in LOADS if load.name in chosen.loads):
        # Half of what is not known without it.
        chosen.loads = list(dict.fromkeys([MANY.name, *chosen.loads]))
    return chosen


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    chosen = parse(arguments)
    out: Path = chosen.out
    connections = [load.connections for load in LOADS if load.name in chosen.loads]
    plan = Plan(
        list(SCENARIO_NAMES),
        chosen.peers,
        connections,
        chosen.rounds,
        1,
        settle=1,
        within=chosen.within,
    )
    # The generator's grace time comes to each run only where requests are lost.
    runs = len(plan.pairs()) * len(chosen.loads) * chosen.rounds
    program.begin(out, 300 + 2 * round(runs * (chosen.seconds + 1)))
    if chosen.real_time:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    choice = Choice(chosen.children, max(connections), chosen.tokamak, "auto")
    with program.workshop("latency") as directory:
        generator = directory / "pace"
        pace.build(generator)
        with Contest(plan, choice, directory) as contest:
            rows = Runs(contest, generator, chosen).rows()
            found = Latencies(record.write(out / FILE, Row, rows))
            contest.check_again()
            record.write(out / record.ABSENCES, record.Absence, contest.absences)
    about = text(choice.tokamak)
    if chosen.real_time:
        about += "\nscheduled before all other jobs of the machine (SCHED_RR)"
    program.end(out, page(found, contest.absences, about))
    return 1 if contest.has_lost_ours() else 0
