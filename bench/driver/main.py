"""The two commands: run a contest, check its results."""

import sys
from pathlib import Path

from . import bars, course, load, options, peers, program, record, report, summary, versions
from .contest import Contest
from .latencies import Latencies
from .record import ABSENCES, COURSES, FOOTPRINTS, RUNS, Absence, Footprint, Run, Second
from .sites import SCENARIOS


def run(arguments: list[str]) -> int:
    """Measures, and writes the directory of results."""
    plan, choice, out = options.parse(arguments)
    # Twice what it should take.
    program.begin(out, 2 * plan.seconds_in_all() + 60)
    ours = any(name.startswith("tokamak") for name in plan.peers)
    loaded = ", ".join(peers.extension(file) for file in choice.extensions())
    about = f"{versions.text(choice.tokamak if ours else None)}\nextensions of PHP: {loaded}"
    with program.workshop("bench") as directory:
        with Contest(plan, choice, directory) as contest:
            (out / "commands.txt").write_text(commands(contest))
            try:
                runs = record.write(out / RUNS, Run, contest.runs())
            finally:
                record.write(out / COURSES, Second, contest.seconds)
            footprints = record.write(out / FOOTPRINTS, Footprint, contest.footprints())
            contest.check_again()
            record.write(out / ABSENCES, Absence, contest.absences)
    rows = summary.Rows.of_all(runs, footprints, contest.absences, contest.seconds)
    if not rows.runs:
        print("nobody could be measured", file=sys.stderr)
        return 1
    text = summary.page(rows, bars.BASE, about)
    (out / "summary.md").write_text(text)
    for scenario in rows.scenarios():
        for connections in rows.connections_of(scenario):
            if course.keys(rows.seconds, scenario, connections):
                picture = course.picture(rows.seconds, scenario, connections)
                (out / summary.picture_name(scenario, connections)).write_text(picture)
    report.write(out)
    print(text)
    for verdict in bars.verdicts(rows):
        if verdict.reached is not None:
            print(verdict.line())
    print(f"written to {out}")
    return 1 if contest.has_lost_ours() else 0


def commands(contest: Contest) -> str:
    """Every command and every configuration file, so that a run can be repeated by hand."""
    parts = []
    # They were started side by side.
    for (peer, site), entry in sorted(contest.entries.items()):
        parts.append(f"# {peer}, {site}")
        parts += [" ".join(command) for command in entry.commands]
        configurations = [
            path
            for kind in ("conf", "ini", "toml")
            for path in sorted(entry.place.directory.glob(f"*.{kind}"))
        ]
        parts += [f"\n## {path.name}\n{path.read_text()}" for path in configurations]
    plan = contest.plan
    parts.append("# load")
    parts += [
        " ".join(
            load.command(f"http://127.0.0.1:PORT{SCENARIOS[name].path}", connections, plan.seconds)
        )
        for name in plan.scenarios
        for connections in plan.connections
    ]
    text = peers.shown("\n".join(parts))
    return text.replace(f"{contest.directory}", "TMP") + "\n"


def check(arguments: list[str]) -> int:
    """Says which bars a contest reached. Fails if one was missed."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: bench/check DIRECTORY   (one that bench/run has written)", file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    latencies = Latencies.in_directory(directory)
    found = bars.latency(latencies)
    try:
        # The record of bench/latency alone has no other rows.
        if not latencies.rows or (directory / RUNS).exists():
            found += bars.verdicts(summary.Rows.in_directory(directory))
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    for verdict in found:
        print(verdict.line())
    return 1 if any(verdict.reached is False for verdict in found) else 0


def make_report(arguments: list[str]) -> int:
    """Makes the page of a directory anew."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: bench/report DIRECTORY   (one that bench/run has written)", file=sys.stderr)
        return 2
    try:
        print(f"written: {report.write(Path(arguments[0]))}")
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
