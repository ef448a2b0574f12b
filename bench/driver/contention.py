"""What do the lines cost that event loops and workers share in a queue?"""

import argparse
import bisect
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from . import options, program, record
from .sites import REPO
from .versions import processor

LOOPS = [1, 2, 4]
WORKERS = [1, 2, 4, 8, 16, 64]
TRACED = [(1, 1), (1, 4), (4, 4), (4, 64), (64, 64)]
REQUESTS = 100_000
TRACED_REQUESTS = 512
"""Of which the second half is counted: by then each slot has been used, and each worker is warm."""
RUNS = 5
LINE_RUNS = 100
"""Short ones: many of them have both processors for themselves, and seldom one is lucky."""
LINE = 64

LAYOUT = 17
"""The layout of the queue (`crates/sys/src/queue/layout.rs`) that the numbers below belong to."""
SLOTS, CELLS_PER_SLOT, REQUEST, RESPONSE = 64, 8, 20 * 1024, 64 * 1024
HEADER, LOOP, ENTRY, SLOT_HEAD = 640, 256, 1152, 4096


@dataclass(frozen=True)
class Row:
    """One run of the threads: nanoseconds, and counts, for each request."""

    loops: int
    workers: int
    ns: float
    cpu_ns: float
    claims: float
    sleeps: float


class Map:
    """What lies where in a queue."""

    def __init__(self, loops: int, workers: int, first_record: int, tail: int) -> None:
        slots = loops * SLOTS
        cells = 1 << (slots * CELLS_PER_SLOT - 1).bit_length()
        board = HEADER + loops * LOOP + cells * 8
        board += -board % 128
        first = board + workers * ENTRY
        first += -first % 4096
        base = first_record - SLOT_HEAD - first
        size = SLOT_HEAD + REQUEST + RESPONSE
        parts = [(0, "constants"), (128, "tail, for onlookers"), (256, "head"), (384, "sleepers")]
        parts += [(512, "pool")]
        for index in range(loops):
            at = HEADER + index * LOOP
            parts += [(at, "loop: asleep"), (at + 128, "loop: ready")]
        parts += [(HEADER + loops * LOOP, "cells"), (board, "board")]
        for slot in range(slots):
            at = first + slot * size
            parts += [
                (at, "slot: words of the loop"),
                (at + 128, "slot: words of the worker"),
                (at + SLOT_HEAD, "record and body"),
                (at + SLOT_HEAD + REQUEST, "response"),
            ]
        self.starts = [base + at for at, _ in parts]
        self.names = [name for _, name in parts]
        self.end = base + first + slots * size
        self.tail = tail // LINE * LINE

    def name(self, address: int) -> str | None:
        """Which part an address belongs to; `None`: it is no part of the queue."""
        if self.tail <= address < self.tail + LINE:
            return "tail"
        if not self.starts[0] <= address < self.end:
            return None
        return self.names[bisect.bisect_right(self.starts, address) - 1]


@dataclass(frozen=True)
class Access:
    """What one instruction does to one line; a write includes reading it."""

    line: int
    address: int
    writes: bool


def accesses(trace: Iterable[str]) -> Iterator[Access]:
    """What valgrind's tool lackey has written down. An atomic addition is a read and a write there,
    of one instruction."""
    lines: dict[int, Access] = {}
    for text in trace:
        kind = text[:3]
        if kind == "I  ":
            yield from lines.values()
            lines.clear()
        elif kind in (" L ", " S ", " M "):
            words = text[3:].split(",")
            address, size = int(words[0], 16), int(words[1])
            for line in range(address // LINE, (address + size - 1) // LINE + 1):
                writes = kind != " L " or (line in lines and lines[line].writes)
                lines[line] = Access(line, max(address, line * LINE), writes)
    yield from lines.values()


def transfers(trace: Iterable[Access], turns: int, who: int, places: Map) -> list[Counter[str]]:
    """How often lines of each part went from one processor to another, turn by turn, if everybody
    had a processor of their own: to be read, because another one had written there, or to be
    written, because others had it. A turn begins with a write to one of the `who` words at
    `turns`."""
    holders: dict[int, set[int]] = {}
    counts: list[Counter[str]] = []
    now = -1
    for access in trace:
        if access.writes and turns <= access.address < turns + 8 * who:
            now = (access.address - turns) // 8
            counts.append(Counter())
            continue
        part = places.name(access.address)
        if now < 0 or part is None:
            continue
        have = holders.setdefault(access.line, set())
        is_hit = have == {now} if access.writes else now in have
        if have and not is_hit:
            counts[-1][part] += 1
        if access.writes:
            have.clear()
        have.add(now)
    return counts


def build() -> Path:
    """The program, of the queue's own code."""
    words = ["cargo", "build", "--locked", "--quiet", "--profile", "quick"]
    words += ["-p", "tokamak-sys", "--example", "contention"]
    subprocess.run(words, check=True, cwd=REPO, timeout=900)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
    return target / "quick/examples/contention"


def ask(example: Path, *words: object) -> list[float]:
    """Runs it; the numbers that it prints."""
    command = [f"{example}", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return [float(word) for word in done.stdout.split()]


def measure(example: Path, rounds: int) -> Iterator[Row]:
    """Measures all sizes by turns, so that a slow moment of the machine meets all."""
    for _ in range(rounds):
        for loops in LOOPS:
            for workers in WORKERS:
                yield Row(loops, workers, *ask(example, "queue", loops, workers, REQUESTS))


def count(example: Path, loops: int, workers: int) -> Counter[str]:
    """The transfers of each part of the queue for one request, in hundredths."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "trace")
        words = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log}"]
        words += [f"{example}", "trace", f"{loops}", f"{workers}", f"{TRACED_REQUESTS}"]
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=600)
        turns, who, tail, layout, record = done.stdout.split()
        if int(layout) != LAYOUT:
            raise SystemExit(f"the queue has layout {layout}; contention.py knows {LAYOUT}")
        places = Map(loops, workers, int(record, 16), int(tail, 16))
        with log.open() as file:
            seen = transfers(accesses(file), int(turns, 16), int(who), places)
    half = seen[len(seen) // 2 :]
    total = sum(half, Counter())
    return Counter({part: round(n * 300 / len(half)) for part, n in total.items()})


SHARED_BY_ALL = ["head", "cells", "sleepers", "tail", "tail, for onlookers"]
"""The parts that all loops and workers of a pool write to; the others belong to a loop or slot."""


def timings(rows: list[Row]) -> str:
    """One line for each number of loops and workers; the medians of the runs."""
    lines = [
        "| loops | workers | ns | ns of processor time | claims tried | sleeps |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for loops in LOOPS:
        for workers in WORKERS:
            own = [row for row in rows if (row.loops, row.workers) == (loops, workers)]
            ns, cpu, claims, sleeps = (
                median(getattr(row, name) for row in own)
                for name in ("ns", "cpu_ns", "claims", "sleeps")
            )
            lines.append(
                f"| {loops} | {workers} | {ns:.0f} | {cpu:.0f} | {claims:.3f} | {sleeps:.3f} |"
            )
    return "\n".join(lines)


def counts(found: dict[tuple[int, int], Counter[str]]) -> str:
    """One line for each part of the queue; those that all share come first."""
    parts = sorted({part for one in found.values() for part in one})
    parts.sort(key=lambda part: part not in SHARED_BY_ALL)
    lines = [
        "| lines | " + " | ".join(f"{loops}, {workers}" for loops, workers in found) + " |",
        "| --- |" + " ---: |" * len(found),
    ]

    def line(name: str, values: Iterable[int]) -> str:
        return f"| {name} | " + " | ".join(f"{value / 100:.2f}" for value in values) + " |"

    lines += [line(part, (one[part] for one in found.values())) for part in parts]
    shared = (sum(one[part] for part in SHARED_BY_ALL) for one in found.values())
    lines.append(line("**those that all share**", shared))
    lines.append(line("**all**", (one.total() for one in found.values())))
    return "\n".join(lines)


def page(
    own: list[float], rows: list[Row], found: dict[tuple[int, int], Counter[str]], machine: str
) -> str:
    """The summary of a run."""
    passed, one, beside, apart = own
    return f"""\
# What the lines of a queue cost

On {machine}, the lower quartile of many runs: a line goes from one processor to the other in
{passed:.0f} ns. Two threads that add to one number take {one:.1f} ns for each addition, to two
numbers on one line {beside:.1f} ns, to two numbers on lines of their own {apart:.1f} ns.

## Threads

Each loop keeps {SLOTS} requests under way, which workers answer at once. For each request, the
median of all runs:

{timings(rows)}

## Transfers

Lines of 64 bytes that would go from one processor to another for each request, if every loop and
every worker had one of its own: counted, by loops and workers. Requests follow each other, and
nobody loses a claim.

{counts(found)}
"""


def parse(arguments: list[str]) -> argparse.Namespace:
    """What one may say to bench/contention."""
    parser = options.measurement("contention", __doc__, has_build=False)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=RUNS, help=f"default: {RUNS}")
    about = "times that the line between two processors is measured; default: 100"
    option("--lines", type=options.positive, default=LINE_RUNS, help=about)
    about = "of loops and workers that are counted; default: all"
    option("--most", type=options.positive, default=max(TRACED[-1]), help=about)
    option("--program", type=Path, help="the example `contention`, built already")
    option("--count", action="store_true", help="count transfers, and measure no time")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    """Measures, and writes the directory of results."""
    chosen = parse(arguments)
    example: Path = chosen.program or build()
    traced = [size for size in TRACED if max(size) <= chosen.most]
    found = {(loops, workers): count(example, loops, workers) for loops, workers in traced}
    if chosen.count:
        print(counts(found))
        return 0
    program.begin(chosen.out)
    lines = [ask(example, "lines") for _ in range(chosen.lines)]
    rows = record.write(chosen.out / record.RUNS, Row, measure(example, chosen.rounds))
    usual = [quantiles(column, n=4)[0] for column in zip(*lines, strict=True)]
    return program.end(chosen.out, page(usual, rows, found, processor()))
