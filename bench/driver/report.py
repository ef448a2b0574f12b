"""report.html: what a directory of results says, as one page that needs nothing beside it.

The plots are for the reader who has ten seconds; every figure is in the tables below them.
"""

import csv
import re
from html import escape
from pathlib import Path
from string import Template

from . import bars, markdown
from .contestants import PEERS
from .latencies import Latencies
from .sites import SCENARIOS
from .summary import NOISY_PERCENT, Rows, absent, number, times

NAME = "report.html"
PARTS = "parts.csv"
CONTEST = "run"
"""The part whose record the plots are made from."""
GOOD, MISSED = "good", "good, and a bar was missed"
"""How a part ends that has measured."""
PLOTTED = 64
"""Connections of the plots, or as many as a scenario has below it."""

WIDTH, LABEL, BAR, ROW, HEAD = 720, 250, 245, 24, 22
"""Of a plot, in its own units: all of it, the names, the longest bar; one row, the first row."""
RATIO, CPU = 632, 716
"""Where the columns of figures end."""


def plotted(rows: Rows, scenario: str) -> int:
    """Under which load a scenario is shown."""
    found = rows.connections_of(scenario)
    return max((count for count in found if count <= PLOTTED), default=min(found))


def is_ours(peer: str) -> bool:
    """Whether Tokamak takes part in it."""
    return "tokamak" in peer


def spaced(value: float) -> str:
    """A rate, its thousands apart."""
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 10 else f"{value:.1f}"


def label(name: str, known: dict, attribute: str) -> str:
    """What a peer or scenario is, as it says itself; records name some that are gone."""
    return getattr(known[name], attribute) if name in known else name


def bar(
    place: int, peer: str, kind: str, share: float, cells: tuple[str, str, str], about: str
) -> str:
    """One row of a plot: name, bar, and three figures. `about` is shown to a pointer."""
    top, middle = HEAD + place * ROW, HEAD + place * ROW + 16
    width = max(1.0, BAR * share)
    rate, ratio, cpu = cells
    return (
        f'<g class="{kind}"><title>{escape(about)}</title>'
        f'<text x="{LABEL - 8}" y="{middle}" text-anchor="end">{escape(peer)}</text>'
        f'<rect x="{LABEL}" y="{top + 3}" width="{width:.1f}" height="{ROW - 6}" rx="2"/>'
        f'<text x="{LABEL + width + 6:.1f}" y="{middle}">{rate}</text>'
        f'<text x="{RATIO}" y="{middle}" text-anchor="end">{ratio}</text>'
        f'<text x="{CPU}" y="{middle}" text-anchor="end">{cpu}</text></g>'
    )


def plot(rows: Rows, scenario: str) -> str:
    """One scenario: a bar for each server, the best first."""
    load, base = plotted(rows, scenario), rows.base_of(scenario, bars.BASE)
    rates = {peer: rows.median((scenario, load, peer), "rate") for peer in rows.peers_of(scenario)}
    ranked = sorted(rates, key=lambda peer: -rates[peer])
    longest = max(rates.values()) or 1.0
    drawn, told = [], []
    for place, peer in enumerate(ranked):
        key = (scenario, load, peer)
        ratio, used = (
            times(rows.ratio(scenario, load, peer, base, "rate")),
            rows.median(key, "cpu_us"),
        )
        cpu = number(used, 1 if used < 100 else 0)
        wrong = ", requests failed" if rows.errors(key) else ""
        kind = "ours" if is_ours(peer) else "base" if peer == base else "other"
        told.append(f"{peer}: {rates[peer]:.0f} requests/s, {ratio}, {cpu} µs{wrong}")
        cells = (spaced(rates[peer]) + "*" * bool(wrong), ratio, cpu)
        about = label(peer, PEERS, "what") + wrong
        drawn.append(bar(place, peer, kind, rates[peer] / longest, cells, about))
    title = escape(label(scenario, SCENARIOS, "title"))
    heads = ((LABEL, "start", "requests/s"), (RATIO, "end", f"to {base}"), (CPU, "end", "CPU µs"))
    head = "".join(
        f'<text class="head" x="{x}" y="14" text-anchor="{anchor}">{escape(text)}</text>'
        for x, anchor, text in heads
    )
    where = f'<span class="faint">· {escape(scenario)}, {load} connections</span>'
    size = f"0 0 {WIDTH} {HEAD + len(ranked) * ROW + 4}"
    words = f"{title}: {escape('; '.join(told))}"
    picture = f'<svg viewBox="{size}" role="img" aria-label="{words}">{head}{"".join(drawn)}</svg>'
    return f"<section><h2>{title} {where}</h2>{picture}</section>"


def keys(rows: Rows) -> str:
    """The one figure of each scenario in which we stand beside the usual server."""
    items = []
    for scenario in rows.scenarios():
        load = plotted(rows, scenario)
        found = [
            (ratio, peer)
            for peer in (bars.CLASSIC, bars.WORKER, bars.SEALED)
            if (ratio := rows.ratio(scenario, load, peer, bars.BASE, "rate")) is not None
        ]
        if found:
            ratio, peer = max(found)
            title = escape(label(scenario, SCENARIOS, "title"))
            who = f'<span class="faint">{peer} to {bars.BASE}</span>'
            items.append(f"<li><strong>{ratio:.1f}×</strong> {title}<br>{who}</li>")
    return "\n".join(items)


def noise(rows: Rows) -> str:
    """How small a difference still says something."""
    rounds = max((run.round for run in rows.runs), default=0)
    spreads = sorted(rows.spread(key, "rate") for key in rows.keys())
    if rounds < 2 or not spreads:
        return "Noise: unknown, there was one round only."
    middle, worst = spreads[len(spreads) // 2], spreads[-1]
    advice = " This machine was busy: repeat it." if middle > NOISY_PERCENT else ""
    return (
        f"Noise: {rounds} rounds lie {middle:.0f} % apart (median of all rows; {worst:.0f} % at"
        f" worst), so smaller differences say nothing.{advice} Ratios are taken within a round."
    )


def verdicts(rows: Rows, latencies: Latencies) -> str:
    """The bars, as a list: first what was missed."""
    order = {False: 0, True: 1}
    both = [*bars.verdicts(rows), *bars.latency(latencies)]
    found = [one for one in both if one.reached is not None]
    found.sort(key=lambda one: order[bool(one.reached)])
    missed = sum(not one.reached for one in found)
    lines = "\n".join(escape(one.line(), quote=False) for one in found)
    return fold(f"Bars: {len(found) - missed} of {len(found)} reached", f"<pre>{lines}</pre>")


def fold(title: str, body: str, is_open: bool = False) -> str:
    """Something that one opens to read."""
    start = "<details open>" if is_open else "<details>"
    return f"{start}<summary>{escape(title)}</summary>\n{body}\n</details>"


def parts(directory: Path) -> list[str]:
    """What else was measured: each has its own summary in a directory below."""
    told = directory / PARTS
    found = list(csv.DictReader(told.read_text().splitlines())) if told.exists() else []
    shown = []
    for part in found:
        if part["part"] == CONTEST and part["outcome"] == GOOD:
            continue
        page = directory / part["part"] / "summary.md"
        outcome = part["outcome"]
        body = (
            markdown.html(page.read_text(), level=1)
            if page.exists()
            else f"<p>{escape(outcome)}</p>"
        )
        bad = "" if outcome == GOOD else f" — {outcome}"
        shown.append(fold(f"{part['part']}: {part['about']}{bad}", body, is_open=bool(bad)))
    return shown


def absences(rows: Rows) -> str:
    """Who is in no plot, and why."""
    return (
        f"<section><h2>Not there</h2>{markdown.html(absent(rows))}</section>"
        if rows.absences
        else ""
    )


def page(rows: Rows, latencies: Latencies, summary: str, others: list[str]) -> str:
    """The whole page. `summary` is summary.md, which has all tables."""
    found = re.search(r"^## Versions\s+```\n(.*?)^```", summary, re.MULTILINE | re.DOTALL)
    lines = found[1].strip().splitlines() if found else []
    return Template(Path(__file__).with_name("report.html").read_text()).substitute(
        title="Tokamak beside other servers",
        machine=escape("; ".join(lines[:2])),
        keys=keys(rows),
        noise=escape(noise(rows)),
        plots="\n".join(plot(rows, scenario) for scenario in rows.scenarios()),
        absent=absences(rows),
        details="\n".join(
            [
                verdicts(rows, latencies),
                *others,
                fold("All figures", markdown.html(summary, level=1)),
            ]
        ),
    )


def write(directory: Path) -> Path:
    """Makes the report of a directory that a contest has written, or of what else is in it."""
    summary = directory / "summary.md"
    is_there = summary.exists()
    rows = Rows.in_directory(directory) if is_there else Rows([], [])
    path = directory / NAME
    text = summary.read_text() if is_there else ""
    path.write_text(page(rows, Latencies.in_directory(directory), text, parts(directory)))
    return path
