"""From rows to a page that one can read: medians over the rounds, ratios within a round, and how
far the rounds disagree."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import course
from .record import (
    ABSENCES,
    COURSES,
    FOOTPRINTS,
    RUNS,
    Absence,
    Footprint,
    Key,
    Run,
    Second,
    read,
)

# Rounds that differ by more than this make a row doubtful: four times what an idle machine shows.
NOISY_PERCENT = 20.0

METRICS: dict[str, Callable[[Run], float]] = {
    "rate": lambda run: run.rate,
    "p50": lambda run: run.p50,
    "p90": lambda run: run.p90,
    "p99": lambda run: run.p99,
    "cpu_us": lambda run: run.cpu_us,
    "database_us": lambda run: run.database_us,
}


@dataclass(frozen=True)
class Rows:
    """All rows of a contest, with the questions that the page and the bars ask."""

    runs: list[Run]
    footprints: list[Footprint]
    absences: list[Absence] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)

    @classmethod
    def of_all(
        cls,
        runs: list[Run],
        footprints: list[Footprint],
        absences: list[Absence],
        seconds: Sequence[Second] = (),
    ) -> "Rows":
        """Without the rows of peers that broke while they were measured."""
        broke = {(row.scenario, row.peer) for row in absences}

        def kept(rows: list) -> list:
            return [row for row in rows if (row.scenario, row.peer) not in broke]

        return cls(kept(runs), kept(footprints), absences, kept(list(seconds)))

    @classmethod
    def in_directory(cls, directory: Path) -> "Rows":
        """What a contest has written. Old records know of no absence, and of no course."""
        absent, courses = directory / ABSENCES, directory / COURSES
        return cls.of_all(
            read(directory / RUNS, Run),
            read(directory / FOOTPRINTS, Footprint),
            read(absent, Absence) if absent.exists() else [],
            read(courses, Second) if courses.exists() else [],
        )

    def scenarios(self) -> list[str]:
        """Those that were measured, in their order."""
        return list(dict.fromkeys(run.scenario for run in self.runs))

    def connections_of(self, scenario: str) -> list[int]:
        """The loads under which it was measured."""
        return list(dict.fromkeys(run.connections for run in self.runs if run.scenario == scenario))

    def peers_of(self, scenario: str) -> list[str]:
        """Who took part in it."""
        return list(dict.fromkeys(run.peer for run in self.runs if run.scenario == scenario))

    def base_of(self, scenario: str, base: str) -> str:
        """Whom all are compared with: the first, where the usual one takes no part."""
        found = self.peers_of(scenario)
        return base if base in found else found[0]

    def keys(self) -> list[Key]:
        """What was measured, in its order."""
        return list(dict.fromkeys((run.scenario, run.connections, run.peer) for run in self.runs))

    def of(self, key: Key) -> dict[int, Run]:
        """The runs of one key by round."""
        return {
            run.round: run for run in self.runs if (run.scenario, run.connections, run.peer) == key
        }

    def median(self, key: Key, metric: str) -> float:
        """The median over the rounds."""
        return statistics.median(METRICS[metric](run) for run in self.of(key).values())

    def ratio(
        self, scenario: str, connections: int, peer: str, base: str, metric: str
    ) -> float | None:
        """Peer to base under the same load."""
        return self.between((scenario, connections, peer), (scenario, connections, base), metric)

    def between(self, key: Key, base: Key, metric: str) -> float | None:
        """One row to another: the median of the ratios within each round, so that what slowed a
        whole round cancels out."""
        mine, theirs = self.of(key), self.of(base)
        value = METRICS[metric]
        pairs = [
            (value(mine[number]), value(theirs[number])) for number in mine.keys() & theirs.keys()
        ]
        ratios = [upper / lower for upper, lower in pairs if lower]
        return statistics.median(ratios) if ratios else None

    def errors(self, key: Key) -> int:
        """Requests that went wrong, over all rounds."""
        return sum(run.errors for run in self.of(key).values())

    def loops(self, key: Key) -> str:
        """How many event loops served: the numbers of all rounds."""
        counts = {run.loops for run in self.of(key).values()} - {None}
        return ", ".join(f"{count}" for count in sorted(counts)) or "–"

    def spread(self, key: Key, metric: str) -> float:
        """From the lowest to the highest round, in percent of the median."""
        values = [METRICS[metric](run) for run in self.of(key).values()]
        middle = statistics.median(values)
        return (max(values) - min(values)) / middle * 100 if middle else 0.0

    def footprint(self, scenario: str, peer: str) -> Footprint | None:
        """System calls and memory of a peer."""
        return next(
            (row for row in self.footprints if (row.scenario, row.peer) == (scenario, peer)), None
        )


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def times(ratio: float | None) -> str:
    """A ratio, as one says it."""
    return "" if ratio is None else f"{ratio:.2f}×"


def speed_table(rows: Rows, scenario: str, connections: int, base: str) -> str:
    """One table: every peer under one load."""
    lines = []
    runs = [run for run in rows.runs if run.scenario == scenario]
    has_database = any(run.database_us for run in runs)
    has_loops = any(run.loops for run in runs)
    for key in rows.keys():
        if key[:2] != (scenario, connections):
            continue
        value = {metric: rows.median(key, metric) for metric in METRICS}
        ratio = {
            metric: times(rows.ratio(scenario, connections, key[2], base, metric))
            for metric in METRICS
        }
        lines.append(
            [
                key[2],
                f"{value['rate']:.0f}",
                ratio["rate"],
                f"{value['cpu_us']:.1f}",
                ratio["cpu_us"],
            ]
            + [f"{value[metric]:.0f}" for metric in ("p50", "p90", "p99")]
            + [f"{rows.errors(key)}"]
            + [f"{value['database_us']:.0f}"] * has_database
            + [rows.loops(key)] * has_loops
        )
    head = [
        "peer",
        "requests/s",
        f"to {base}",
        "CPU µs/request",
        f"to {base}",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "errors",
    ]
    head += ["CPU µs/request of what it asks"] * has_database + ["event loops"] * has_loops
    return table(head, lines)


def number(value: float | None, digits: int = 1) -> str:
    """A number that may not have been measured."""
    return "–" if value is None else f"{value:.{digits}f}"


def footprint_table(rows: Rows, scenario: str) -> str:
    """What the kernel counted, and the memory of every peer."""
    lines = []
    for row in rows.footprints:
        if row.scenario == scenario:
            memory = None if row.private_kib is None else row.private_kib / 1024
            back = (
                "–"
                if row.roll_back_us is None
                else f"{row.roll_back_us:.1f} µs, {row.hot_pages} pages"
            )
            counts = [number(row.syscalls), number(row.switches, 2), number(memory)]
            lines.append([row.peer, *counts, f"{row.workers}", f"{row.processes}", back])
    head = ["peer", "system calls/request", "context switches/request", "MiB only of one worker"]
    return table([*head, "workers", "processes", "roll-back"], lines)


def picture_name(scenario: str, connections: int) -> str:
    """The file that shows the course of a load."""
    return f"course-{scenario}-{connections}.svg"


def course_of(rows: Rows, scenario: str, connections: int) -> list[str]:
    """How a load went on, if that was looked at."""
    lines = course.lines(rows.seconds, scenario, connections)
    if not lines:
        return []
    name = picture_name(scenario, connections)
    return [table(course.HEAD, lines), f"The whole course: [{name}]({name})."]


def not_steady(rows: Rows) -> str:
    """The runs within which the number of event loops changed."""
    lines = []
    for run in rows.runs:
        again = "measured again" if run.tries > 1 else ""
        changed = f"changed {run.changes} times in what counts" if run.changes else ""
        if again or changed:
            words = ", ".join(word for word in (again, changed) if word)
            what = f"{run.scenario}, {run.connections} connections, {run.peer}"
            lines.append(f"- {what}, round {run.round}: {words}")
    return "\n".join(lines)


def absent(rows: Rows) -> str:
    """Who did not take part, and why: the first line of it."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows.absences:
        reasons.setdefault((row.peer, row.reason.splitlines()[0][:200]), []).append(row.scenario)
    lines = (f"- {peer} ({', '.join(found)}): {why}" for (peer, why), found in reasons.items())
    return "\n".join(lines)


def noise(rows: Rows) -> str:
    """Which rows to trust: how far the rounds lie apart."""
    spreads = defaultdict(list)
    doubtful = []
    for key in rows.keys():
        for metric in ("rate", "cpu_us", "p99"):
            spread = rows.spread(key, metric)
            spreads[metric].append(spread)
            if metric != "p99" and spread > NOISY_PERCENT:
                doubtful.append(
                    f"- {key[0]}, {key[1]} connections, {key[2]}: {metric} {spread:.0f} %"
                )
    lines = [
        [metric, f"{statistics.median(values):.1f} %", f"{max(values):.1f} %"]
        for metric, values in spreads.items()
    ]
    text = "Distance between the lowest and the highest round, in percent of the median:\n\n"
    text += table(["metric", "median over all rows", "worst row"], lines)
    if doubtful:
        text += f"\n\nDoubtful, with more than {NOISY_PERCENT:.0f} %:\n\n" + "\n".join(doubtful)
    return text


def page(rows: Rows, base: str, versions: str) -> str:
    """The whole summary.md. A scenario in which `base` does not take part is compared with the
    first that does."""
    parts = [
        "# Results",
        "Medians over the rounds; ratios are medians of the ratios within each round.",
    ]
    for scenario in rows.scenarios():
        parts.append(f"## {scenario}")
        for connections in rows.connections_of(scenario):
            compared = rows.base_of(scenario, base)
            parts += [
                f"### {connections} connections",
                speed_table(rows, scenario, connections, compared),
                *course_of(rows, scenario, connections),
            ]
        if any(row.scenario == scenario for row in rows.footprints):
            parts += ["### Per request and per worker", footprint_table(rows, scenario)]
    if rows.absences:
        parts += ["## Not there", absent(rows)]
    changed = not_steady(rows)
    if changed:
        parts += ["## The number of event loops changed", changed]
    parts += ["## Noise", noise(rows), "## Versions", f"```\n{versions.strip()}\n```"]
    return "\n\n".join(parts) + "\n"
