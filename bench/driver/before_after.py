"""Two builds of Tokamak, in every row of both contests, by turns: what does a change cost?"""

import argparse
import statistics
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from . import options, program, record, versions
from .contest import CannotRun, Contest, Plan, say
from .contestants import PEERS
from .peers import Choice
from .record import Run
from .sites import REPO, SCENARIOS
from .summary import table

OURS = [name for name in PEERS if "tokamak" in name]
FILES = ("before.csv", "after.csv")


@dataclass(frozen=True)
class Row:
    """What one peer costs in one scenario after a change, as a part of what it cost before."""

    scenario: str
    peer: str
    cpu: list[float]
    """Processor time per request: the ratio of each round."""
    rate: list[float]
    """Requests per second, likewise."""
    before_us: float
    after_us: float
    errors: int

    @classmethod
    def of(cls, before: list[Run], after: list[Run]) -> "Row":
        """From the runs of one row, in the order of their rounds."""
        pairs = list(zip(before, after, strict=True))
        return cls(
            before[0].scenario,
            before[0].peer,
            [new.cpu_us / old.cpu_us for old, new in pairs],
            [new.rate / old.rate for old, new in pairs],
            statistics.median(run.cpu_us for run in before),
            statistics.median(run.cpu_us for run in after),
            sum(run.errors for run in before + after),
        )

    def cells(self) -> list[str]:
        """For the table. The middle half of the rounds says how far to trust the median."""
        low, _, high = statistics.quantiles(self.cpu, n=4) if len(self.cpu) > 1 else self.cpu * 3
        return [
            f"{self.scenario}, {self.peer}",
            f"{self.before_us:.1f}",
            f"{self.after_us:.1f}",
            f"{statistics.median(self.cpu):.3f}",
            f"{low:.2f} to {high:.2f}",
            f"{statistics.median(self.rate):.2f}",
            f"{self.errors}",
        ]


def rows(before: Iterable[Run], after: Iterable[Run]) -> list[Row]:
    """All rows, in the order in which they were measured first."""
    found: dict[tuple[str, str], tuple[list[Run], list[Run]]] = {}
    for side, runs in enumerate((before, after)):
        for run in sorted(runs, key=lambda run: run.round):
            found.setdefault((run.scenario, run.peer), ([], []))[side].append(run)
    return [Row.of(*sides) for sides in found.values()]


def page(found: list[Row], about: str) -> str:
    """The whole summary.md."""
    in_all = statistics.median(statistics.median(row.cpu) for row in found)
    head = ["row", "CPU µs/request before", "after", "ratio", "middle half", "requests/s", "errors"]
    parts = [
        "# Before and after",
        "Each row is measured with both builds in turn, in each round; a ratio is taken within a"
        " round, and the median of the rounds is shown. Below 1 the build after is cheaper;"
        " requests/s above 1 are more.",
        table(head, [row.cells() for row in found]),
        f"Median of all ratios of CPU: {in_all:.3f}",
        f"```\n{about.strip()}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def turns(plan: Plan, contests: tuple[Contest, Contest]) -> Iterable[tuple[int, Run]]:
    """The runs: 0 for the build before, 1 for the one after. Who begins changes each round."""
    for number in range(plan.rounds):
        for peer, scenario in plan.pairs(shift=number):
            connections = plan.connections_of(scenario)[0]
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                entry = contests[side].entries[peer, scenario.site]
                yield side, contests[side].run(number + 1, peer, scenario, entry, connections)


def parse(arguments: list[str]) -> tuple[Plan, Path, Path, Path]:
    """The plan, the two programs, and where the results go."""
    about = "Compares two builds of Tokamak."
    parser = argparse.ArgumentParser(prog="bench/before-after", description=about)
    option = parser.add_argument
    option("before", type=options.path, help="the program `tokamak` of the build to compare with")
    this = REPO / "target/release/tokamak"
    option("--after", type=options.path, default=this, help="default: target/release/tokamak")
    known = options.names(SCENARIOS)
    option("--scenario", type=known, default=list(SCENARIOS), help="default: all")
    ours = options.names(dict.fromkeys(OURS))
    option("--peers", type=ours, default=OURS, help="default: all that are Tokamak")
    option("--rounds", type=options.positive, default=9, help="default: 9")
    option("--seconds", type=options.positive, default=1, help="of each run; default: 1")
    option("--connections", type=options.positive, default=64, help="default: 64")
    calm = "seconds before each run in which the number of event loops must stay; default: 0"
    option("--calm", type=options.natural, default=0, help=calm)
    options.of_record(parser, "before-after")
    chosen = parser.parse_args(arguments)
    for build in (chosen.before, chosen.after):
        if not build.exists():
            parser.error(f"{build} does not exist: build it with `make build`")
    plan = Plan(
        chosen.scenario,
        chosen.peers,
        [chosen.connections],
        chosen.rounds,
        chosen.seconds,
        calm=chosen.calm,
    )
    return plan, chosen.before, chosen.after, chosen.out


def run(arguments: list[str]) -> int:
    """Measures, and writes the directory of results."""
    plan, before, after, out = parse(arguments)
    # Twice what both should take.
    program.begin(out, 4 * plan.seconds_in_all() + 60)
    choice = Choice(8, plan.connections[0], before, "auto")
    with program.workshop("bench") as directory, ExitStack() as stack:
        try:
            contests = []
            for name, build in (("before", before), ("after", after)):
                place = directory / name
                place.mkdir()
                contest = Contest(plan, replace(choice, tokamak=build), place)
                contests.append(stack.enter_context(contest))
                if contest.absences:
                    raise CannotRun(f"{name}: {contest.absences[0].peer} does not take part")
            runs: tuple[list[Run], list[Run]] = ([], [])
            for side, seen in turns(plan, (contests[0], contests[1])):
                say("before" if side == 0 else "after")
                runs[side].append(seen)
            for contest in contests:
                contest.check_again()
        except CannotRun as failure:
            say(str(failure))
            return 1
    for name, side in zip(FILES, runs, strict=True):
        record.write(out / name, Run, side)
    return program.end(out, page(rows(*runs), versions.text(after)))
