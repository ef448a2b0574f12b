"""How the load of each peer went on, second by second: a picture, and a table beside it."""

import statistics
from html import escape
from itertools import pairwise

from . import curve
from .record import Key, Second

LEFT, RIGHT, TOP, BOTTOM = 90, 460, 20, 310
"""Of the curves. The names of the peers stand to their right."""
APART = 15
"""Least distance between two names."""
EARLY, LATE = (2, 3), 20
"""Seconds that are compared. The server may try another number of event loops in the second one,
and answer less, so the better of both is what the later one must keep up with."""


def of(seconds: list[Second], key: Key) -> list[list[Second]]:
    """The courses of one row: a list for each round."""
    found: dict[int, list[Second]] = {}
    for row in seconds:
        if (row.scenario, row.connections, row.peer) == key:
            found.setdefault(row.round, []).append(row)
    return list(found.values())


def keys(seconds: list[Second], scenario: str, connections: int) -> list[Key]:
    """The rows of one load."""
    found = dict.fromkeys((row.scenario, row.connections, row.peer) for row in seconds)
    return [key for key in found if key[:2] == (scenario, connections)]


def medians(courses: list[list[Second]]) -> dict[int, float]:
    """The rate in each second, as far as half of the rounds have come."""
    by_second: dict[int, list[float]] = {}
    for row in (row for course in courses for row in course):
        by_second.setdefault(row.second, []).append(row.rate)
    return {
        second: statistics.median(rates)
        for second, rates in sorted(by_second.items())
        if 2 * len(rates) >= len(courses)
    }


def later(course: list[Second]) -> float | None:
    """The rate of a later second to that of the beginning; nothing where the load was shorter."""
    rates = {row.second: row.rate for row in course}
    early = max((rates.get(second, 0.0) for second in EARLY), default=0.0)
    return rates[LATE] / early if LATE in rates and early else None


def later_median(courses: list[list[Second]]) -> float | None:
    """The same: the median of the rounds."""
    ratios = [ratio for course in courses if (ratio := later(course)) is not None]
    return statistics.median(ratios) if ratios else None


def changes(course: list[Second]) -> list[int]:
    """The seconds in which the number of event loops became another one."""
    return [new.second for old, new in pairwise(course) if new.loops != old.loops]


def by_loops(courses: list[list[Second]]) -> str:
    """The rate with each number of event loops: the median of all seconds in which it did not
    change."""
    found: dict[int, list[float]] = {}
    for course in courses:
        for old, new in pairwise(course):
            if new.loops is not None and new.loops == old.loops:
                found.setdefault(new.loops, []).append(new.rate)
    return ", ".join(
        f"{loops}: {statistics.median(rates):.0f} ({len(rates)} s)"
        for loops, rates in sorted(found.items())
    )


HEAD = [
    "peer",
    *(f"second {at}, requests/s" for at in (*EARLY, LATE)),
    f"{LATE} to the better of {EARLY[0]} and {EARLY[1]}",
    "requests/s by event loops",
]


def lines(seconds: list[Second], scenario: str, connections: int) -> list[list[str]]:
    """A line for each peer."""
    found = []
    for key in keys(seconds, scenario, connections):
        courses = of(seconds, key)
        rates, ratio = medians(courses), later_median(courses)
        cells = [f"{rates[at]:.0f}" if at in rates else "–" for at in (*EARLY, LATE)]
        shown = "–" if ratio is None else f"{ratio:.2f}"
        found.append([key[2], *cells, shown, by_loops(courses) or "–"])
    return found


def upper(value: float) -> float:
    """The next round number, for the end of an axis."""
    step = 10 ** (len(f"{value:.0f}") - 1)
    return step * (value // step + 1)


def places(heights: list[float]) -> list[float]:
    """Heights of names, the same order, none over another one."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    found = list(heights)
    for above, below in pairwise(order):
        found[below] = max(found[below], found[above] + APART)
    return found


def picture(seconds: list[Second], scenario: str, connections: int) -> str:
    """The curves: seconds to the right, requests a second upwards. A dot: the number of event loops
    changed there in some round."""
    courses = {key: of(seconds, key) for key in keys(seconds, scenario, connections)}
    curves = {key: medians(found) for key, found in courses.items()}
    last = max(second for rates in curves.values() for second in rates)
    most = upper(max(rate for rates in curves.values() for rate in rates.values()))

    def x(second: float) -> float:
        return LEFT + (RIGHT - LEFT) * second / last

    def y(rate: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * rate / most

    lines = curve.axes(LEFT, "seconds of load, warm-up included")
    for share in (0.25, 0.5, 0.75, 1.0):
        lines += curve.grid(LEFT, y(most * share), f"{most * share:.0f}")
    lines += [curve.note(x(second), 328, f"{second}", "middle") for second in range(0, last + 1, 5)]
    ends = []
    for key, rates in curves.items():
        kind = "ours" if "tokamak" in key[2] else "other"
        lines.append(curve.line(kind, [(x(second), y(rate)) for second, rate in rates.items()]))
        changed = {second for course in courses[key] for second in changes(course)}
        lines += [
            f'<circle class="seen" cx="{x(second):.1f}" cy="{y(rates[second]):.1f}" r="3"/>'
            for second in sorted(changed & rates.keys())
        ]
        ends.append((key[2], max(rates), y(rates[max(rates)])))
    heights = places([height for _, _, height in ends])
    lines += [
        curve.note(x(second) + 8, height + 4, escape(peer))
        for (peer, second, _), height in zip(ends, heights, strict=True)
    ]
    return curve.drawing(
        f"Requests a second over time: {escape(scenario)}, {connections} connections",
        "Median of the rounds in each second of load, warm-up included; a dot: the number of event"
        " loops changed there in some round.",
        *lines,
    )
