"""What does a roll-back cost, by the number of pages that requests write to?"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import curve, options, program, record
from .sites import REPO
from .versions import processor

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
    compiled = directory / "roll_back"
    image = REPO / "crates/image/c"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O3", "-rdynamic", f"-I{image}"]
    sources = [*sorted(image.glob("*.c")), REPO / "bench/driver/roll_back.c"]
    subprocess.run(["cc", *flags, *map(str, sources), "-o", f"{compiled}"], check=True, timeout=120)
    return compiled


def measure(compiled: Path, rounds: int) -> Iterator[Row]:
    """Measures all numbers of pages by turns, so that a slow moment of the machine meets all."""
    for _ in range(rounds):
        for apart in APART:
            for pages in PAGES:
                words = [f"{compiled}", f"{pages}", f"{apart}"]
                done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
                yield Row(pages, apart, *map(int, done.stdout.split()))


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


def drawing(rows: list[Row]) -> str:
    """The curve: pages to the right, time upwards, both from zero."""
    most = max(best(rows, pages, apart, "roll_back") for pages in PAGES for apart in APART)
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if most / step <= 8)

    def x(pages: float) -> float:
        return 60 + 560 * pages / PAGES[-1]

    def y(micros: float) -> float:
        return 310 - 280 * micros / most

    def line(kind: str, apart: int) -> str:
        points = [(x(pages), y(best(rows, pages, apart, "roll_back"))) for pages in PAGES]
        return curve.line(kind, points)

    lines = [curve.note(x(n), 328, f"{n}", "middle") for n in range(0, PAGES[-1] + 1, 32)]
    for micros in range(step, int(most) + 1, step):
        lines += curve.grid(60, y(micros), f"{micros}")
    lines += curve.axes(60, "pages that requests write to")
    lines += [line("ours", APART[0]), line("other dashed", APART[1])]
    lines += [curve.note(72, 34, "roll-back, µs")]
    lines += curve.key(0, "ours", "pages apart from each other")
    lines += curve.key(1, "other dashed", "pages side by side")
    about = "It takes time in proportion to the number of pages that requests write to."
    return curve.drawing("What a roll-back costs", about, *lines)


def run(arguments: list[str]) -> int:
    """Measures, and writes the directory of results and the drawing of the documentation."""
    parser = options.measurement("roll-back", __doc__, has_build=False)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=RUNS, help=f"default: {RUNS}")
    option("--image", type=Path, default=IMAGE, help="default: that of the guide")
    chosen = parser.parse_args(arguments)
    program.begin(chosen.out)
    with program.workshop("roll-back") as directory:
        measured = measure(build(directory), chosen.rounds)
        rows = record.write(chosen.out / record.RUNS, Row, measured)
    fixed, each = slope(rows)
    law = f"{fixed:.1f} µs, and {each * 1000:.0f} ns for each page, on {processor()}."
    chosen.image.write_text(drawing(rows))
    return program.end(chosen.out, f"# What a roll-back costs\n\n{law}\n\n{table(rows)}\n")
