"""What does a roll-back cost, by the number of pages that requests write to?"""

import argparse
import csv
import subprocess
import tempfile
from dataclasses import astuple, dataclass, fields
from datetime import date
from pathlib import Path

from .sites import REPO
from .versions import commit, processor

PAGES = [1, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256]
APART = [16, 1]
"""Pages from one that is written to the next: as in an application, and side by side."""
RUNS = 9
IMAGE = REPO / "docs/images/roll-back.svg"


@dataclass(frozen=True)
class Row:
    """One run of the program; times in ns."""

    pages: int
    apart: int
    first_request: int
    first_roll_back: int
    request: int
    roll_back: int


def build(directory: Path) -> Path:
    """Compiles the image manager, as the worker has it, with a program that needs no PHP."""
    program = directory / "roll_back"
    image = REPO / "crates/image/c"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O3", "-rdynamic", f"-I{image}"]
    sources = [*sorted(image.glob("*.c")), REPO / "bench/driver/roll_back.c"]
    subprocess.run(["cc", *flags, *map(str, sources), "-o", f"{program}"], check=True, timeout=120)
    return program


def measure(program: Path) -> list[Row]:
    """Measures all numbers of pages by turns, so that a slow moment of the machine meets all."""
    rows = []
    for _ in range(RUNS):
        for apart in APART:
            for pages in PAGES:
                words = [f"{program}", f"{pages}", f"{apart}"]
                done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
                rows.append(Row(pages, apart, *map(int, done.stdout.split())))
    return rows


def best(rows: list[Row], pages: int, apart: int, column: str) -> float:
    """The least of the runs, in µs: what others do on the machine only adds."""
    return (
        min(getattr(row, column) for row in rows if (row.pages, row.apart) == (pages, apart)) / 1000
    )


def slope(rows: list[Row]) -> tuple[float, float]:
    """What a roll-back costs without pages, and for each page, in µs: least squares over the
    pages that lie apart."""
    points = [(pages, best(rows, pages, APART[0], "roll_back")) for pages in PAGES]
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    each = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum(
        (x - mean_x) ** 2 for x, _ in points
    )
    return mean_y - each * mean_x, each


def table(rows: list[Row]) -> str:
    """One line for each number of pages."""
    lines = [
        "| pages that requests write to | roll-back, µs "
        "| of pages side by side, µs | the first time, µs |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for pages in PAGES:
        hot, row = (best(rows, pages, apart, "roll_back") for apart in APART)
        first = best(rows, pages, APART[0], "first_request") + best(
            rows, pages, APART[0], "first_roll_back"
        )
        lines.append(f"| {pages} | {hot:.1f} | {row:.1f} | {first:.0f} |")
    return "\n".join(lines)


SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" role="img" aria-labelledby="title text" \
font-family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" font-size="13">
  <title id="title">What a roll-back costs</title>
  <desc id="text">The time of a roll-back grows in proportion to the number of pages that requests write to.</desc>
  <style>
    .page {{ fill: #faf9f7; }}
    .axis {{ stroke: #8b8794; fill: none; }}
    .grid {{ stroke: #c9c4bb; fill: none; stroke-dasharray: 3 3; }}
    .note {{ fill: #67636f; }}
    .apart {{ stroke: #c2361c; fill: none; stroke-width: 2; }}
    .beside {{ stroke: #8b8794; fill: none; stroke-width: 2; stroke-dasharray: 6 4; }}
    @media (prefers-color-scheme: dark) {{
      .page {{ fill: #16151a; }}
      .grid {{ stroke: #4a4755; }}
      .note {{ fill: #a9a5b4; }}
      .apart {{ stroke: #ff8a5c; }}
    }}
  </style>
  <rect class="page" width="640" height="360"/>
{marks}
  <path class="axis" d="M60 20 V310 H620"/>
  <polyline class="apart" points="{apart}"/>
  <polyline class="beside" points="{beside}"/>
  <text class="note" x="340" y="350" text-anchor="middle">pages that requests write to</text>
  <text class="note" x="72" y="34">roll-back, µs</text>
  <path class="apart" d="M90 60 h36"/><text class="note" x="134" y="64">pages apart from each other</text>
  <path class="beside" d="M90 84 h36"/><text class="note" x="134" y="88">pages side by side</text>
</svg>
"""


def drawing(rows: list[Row]) -> str:
    """The curve: pages to the right, time upwards, both from zero."""
    most = max(best(rows, pages, apart, "roll_back") for pages in PAGES for apart in APART)
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if most / step <= 8)

    def x(pages: float) -> float:
        return 60 + 560 * pages / PAGES[-1]

    def y(micros: float) -> float:
        return 310 - 280 * micros / most

    def line(apart: int) -> str:
        return " ".join(
            f"{x(pages):.1f},{y(best(rows, pages, apart, 'roll_back')):.1f}" for pages in PAGES
        )

    marks = [
        f'  <text class="note" x="{x(n):.1f}" y="328" text-anchor="middle">{n}</text>'
        for n in range(0, PAGES[-1] + 1, 32)
    ]
    for micros in range(step, int(most) + 1, step):
        marks.append(f'  <path class="grid" d="M60 {y(micros):.1f} H620"/>')
        marks.append(
            f'  <text class="note" x="52" y="{y(micros) + 4:.1f}" text-anchor="end">{micros}</text>'
        )
    return SVG.format(marks="\n".join(marks), apart=line(APART[0]), beside=line(APART[1]))


def run(arguments: list[str]) -> int:
    """Measures, and writes the directory of results and the drawing of the documentation."""
    parser = argparse.ArgumentParser(prog="bench/roll-back", description=__doc__)
    default = REPO / "bench/results" / f"roll-back-{date.today()}-{commit()}"
    parser.add_argument(
        "--out",
        type=Path,
        default=default,
        help="directory of the record; default: bench/results/roll-back-<date>-<commit>",
    )
    out: Path = parser.parse_args(arguments).out
    with tempfile.TemporaryDirectory() as directory:
        rows = measure(build(Path(directory)))
    out.mkdir(parents=True, exist_ok=True)
    with (out / "raw.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Row))
        writer.writerows(astuple(row) for row in rows)
    fixed, each = slope(rows)
    law = f"{fixed:.1f} µs, and {each * 1000:.0f} ns for each page, on {processor()}."
    page = f"# What a roll-back costs\n\n{law}\n\n{table(rows)}\n"
    (out / "summary.md").write_text(page)
    IMAGE.write_text(drawing(rows))
    print(page)
    return 0
