"""How long does it take from the start of a server to its first answer? Tokamak in sealed mode
beside nginx and php-fpm, with a Symfony application whose container is compiled already."""

import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import options, peers, program, record
from .bars import BASE, SEALED, Verdict
from .contest import READY_SECONDS, CannotRun, enter, wait_until_ready
from .sites import SCENARIOS, SITES
from .versions import text

SCENARIO = SCENARIOS["symfony-json"]
NAMES = (BASE, SEALED)
CHILDREN, WORKERS = 8, "auto"
PAUSE = 0.002
"""Between two questions, in seconds: a hundredth of what a start takes."""


@dataclass(frozen=True)
class Start:
    """One start of one server."""

    round: int
    peer: str
    seconds: float
    """To the first right answer."""


def measure(name: str, files: Path, directory: Path, choice: peers.Choice) -> float:
    """Starts it, and asks until it answers."""
    begin = time.monotonic()
    entry = enter(name, SITES[SCENARIO.site], files, directory, choice)
    try:
        wait_until_ready(entry, SCENARIO, PAUSE)
        return time.monotonic() - begin
    finally:
        entry.server.stop()


def starts(directory: Path, choice: peers.Choice, rounds: int) -> Iterator[Start]:
    """By turns; who begins changes."""
    files = directory / "site"
    shutil.copytree(SITES[SCENARIO.site].source, files)
    # Each compiles the container into its own folder, and reads all files for the first time.
    for name in NAMES:
        measure(name, files, directory / name, choice)
    for number in range(rounds):
        for name in NAMES if number % 2 else reversed(NAMES):
            yield Start(number, name, measure(name, files, directory / name, choice))


def run(arguments: list[str]) -> int:
    """Measures, and writes a record. Fails if Tokamak takes longer."""
    parser = options.measurement("start", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=9, help="default: 9")
    chosen = parser.parse_args(arguments)
    program.begin(chosen.out, 120 + 2 * READY_SECONDS * chosen.rounds)
    with program.workshop("start") as directory:
        try:
            choice = peers.Choice(CHILDREN, 64, chosen.tokamak, WORKERS)
            found = record.write(
                chosen.out / "start.csv", Start, starts(directory, choice, chosen.rounds)
            )
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    medians = {
        name: statistics.median(start.seconds for start in found if start.peer == name)
        for name in NAMES
    }
    ratio = medians[SEALED] / medians[BASE]
    verdict = Verdict(f"{SEALED}: no longer than {BASE}", ratio <= 1.0, f"{ratio:.2f}")
    lines = "\n".join(f"| {name} | {1000 * medians[name]:.0f} |" for name in NAMES)
    parts = ["# From the start to the first answer", f"| server | ms |\n| --- | ---: |\n{lines}"]
    page = "\n\n".join([*parts, f"```\n{verdict.line()}\n```", f"```\n{text(chosen.tokamak)}\n```"])
    return program.end(chosen.out, page + "\n", verdict.reached)
