"""Everything there is to measure, one after the other, into one directory with one page."""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from . import contention, options, program, record, report
from .contest import say
from .sites import REPO
from .versions import commit

QUICK_SECONDS, SPARE_SECONDS = 275, 25
"""What all of `--quick` is planned to take, and what it may take beyond: five minutes together."""
MEASURING = 0.92
"""The part of its time in which one measures that is told to end in time. In the rest it stops its
servers and writes its summary."""
PATIENCE = 60
"""Seconds that a measurement gets to stop its servers."""
QUICK_PEERS = (
    "nginx-fpm caddy-fpm php-server frankenphp roadrunner swoole tokamak-classic tokamak-worker"
    " tokamak-async tokamak-sealed nginx-lua lighttpd-magnet tokamak-lua go node python"
    " tokamak-file tokamak-cached"
)
QUICK_LATENCY_PEERS = (
    "nginx-fpm tokamak-classic tokamak-worker tokamak-sealed go nginx-lua tokamak-lua"
)
# The last ones are left out where there is no time.
QUICK_SCENARIOS = "empty php-http php-redis symfony-json wordpress lua-empty lua-http cached-page"


@dataclass(frozen=True)
class Part:
    """One program of this directory."""

    name: str
    about: str
    seconds: int
    """What it takes with `--quick` on a machine that does nothing else."""
    quick: str
    """What it is told so that it takes no longer."""
    limit: int
    """Seconds after which one that is not quick is stopped."""
    full: str = ""
    is_bounded: bool = False
    """Whether it can be told to end in time, with less measured (`--within`)."""
    has_build: bool = True
    """Whether it measures the build of `--tokamak`."""


CONTEST = Part(
    report.CONTEST,
    "requests, all servers",
    120,
    f"--peers {QUICK_PEERS.replace(' ', ',')} --scenario {QUICK_SCENARIOS.replace(' ', ',')}"
    " --rounds 2 --seconds 1 --settle 1 --calm 0 --connections 64 --children 4"
    " --footprints empty --orientation empty",
    limit=5 * 3600,
    full="--rounds 3",
    is_bounded=True,
)
LATENCY = Part(
    "latency",
    "how long do requests wait, at half load and with many clients?",
    32,
    f"--peers {QUICK_LATENCY_PEERS.replace(' ', ',')} --rounds 1 --seconds 0.25 --children 4",
    limit=3600,
    full="--rounds 3",
    is_bounded=True,
)
PARTS = (
    Part(
        "many-cores",
        "what would 64 processors do, by a model?",
        1,
        "--checks",
        limit=300,
        full="--image {place}/curve.svg",
        has_build=False,
    ),
    Part(
        "roll-back",
        "what does a roll-back cost, page by page?",
        6,
        "--rounds 2 --image {place}/curve.svg",
        limit=300,
        full="--image {place}/curve.svg",
        has_build=False,
    ),
    Part(
        "contention",
        "which lines of the queue go from processor to processor?",
        10,
        "--rounds 1 --lines 20 --most 1 --program {contention}",
        limit=1200,
        full="--program {contention}",
        has_build=False,
    ),
    Part(
        "survive",
        "what is lost when backends are killed under load?",
        6,
        "--requests 30000 --kills 2 --away 0.3",
        limit=1800,
    ),
    Part(
        "soak",
        "does a visitor see another one's name?",
        9,
        "--careless --minutes 0.06",
        limit=1200,
        full="--careless --minutes 10",
    ),
    Part("memory", "does a sealed server grow?", 9, "--requests 10000", limit=1800),
    Part(
        "connections",
        "what does connecting to a database cost?",
        26,
        "--rounds 1 --seconds 1",
        limit=900,
    ),
    Part(
        "proxy",
        "what does a kept FastCGI connection save?",
        12,
        "--rounds 1 --seconds 1 --connections 16",
        limit=900,
    ),
    Part(
        "personalised",
        "what do a cache in the process and affinity bring?",
        18,
        "--rounds 1 --seconds 1 --clients 10 --users 20000",
        limit=2400,
    ),
    Part(
        "in-flight",
        "what does a request cost that waits, in async mode?",
        10,
        "--rounds 1 --seconds 2 --concurrency 128",
        limit=600,
    ),
    Part(
        "set-up",
        "what of a request is set-up, in 2006 and now?",
        16,
        "--rounds 1 --seconds 1",
        limit=900,
    ),
    LATENCY,
    CONTEST,
)
"""Those that can be told to end in time come last, so that a slow machine shortens them and leaves
nobody out."""
APART = {
    "all": "runs the others",
    "anatomy": "compares tables of `tokamak anatomy` with strace's, and no servers",
    "before-after": "needs a second build",
    "check": "reads a record",
    "compression": "compares what compression costs, and no requests/s",
    "crowd": "compares the server with itself, beside a crowd of idle clients",
    "edge": "has HTTP/2 and TLS, other peers and another client",
    "guard": "counts, and is a part of `make test`",
    "http-proxy": "compares servers in front of a third one, and no answers of their own",
    "idle": "measures what no request takes",
    "lua": "runs the contest with some of its rows",
    "metrics": "compares the server with itself, without metrics, and needs many rounds",
    "push": "compares the server with itself, and how long updates take to subscribers",
    "readme-table": "reads a record",
    "report": "reads a record",
    "slow-clients": "looks for failures and memory, and no requests/s",
    "slow-line": "compares what a browser shows when, and no requests/s",
    "steady": "runs the contest with some of its rows, for long",
    "start": "measures how long a start takes, and no requests/s",
    "unbooted": "compares modes of the server with each other",
    "websockets": "compares servers in front of a third one, and messages",
    "waiting": "searches for the most requests/s that are answered in time, for many minutes",
}
"""The programs that are no part, and why."""


@dataclass(frozen=True)
class Outcome:
    """How one of them ended."""

    part: str
    about: str
    seconds: float
    outcome: str


def command(part: Part, words: str, chosen: argparse.Namespace) -> list[str]:
    """Its command line. The contest's record is the directory's own, each other one is below it."""
    place = chosen.out if part is CONTEST else chosen.out / part.name
    told = words.format(place=place, contention=chosen.contention).split()
    if part.has_build:
        told += ["--tokamak", f"{chosen.tokamak}"]
    return [sys.executable, f"{REPO}/bench/{part.name}", *told, "--out", f"{place}"]


def supervise(words: list[str], log: Path, limit: float) -> str:
    """Runs one; says how it ended. It stops its own servers if it is asked to."""
    with log.open("w") as output:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            return f"stopped after {limit:.0f} seconds"
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
    if status in (0, program.MISSED):
        log.unlink()
        return report.GOOD if status == 0 else report.MISSED
    return f"ended with status {status}, see {log.name}"


def limits(parts: Sequence[Part], left: float) -> tuple[float, float]:
    """Seconds that the first of these may take at most, and that it should take if it is bounded.
    The bounded ones behind it can do with half of their time."""
    first, others = parts[0], parts[1:]
    least = sum(part.seconds / (2 if part.is_bounded else 1) for part in others)
    share = left * first.seconds / sum(part.seconds for part in parts)
    return left + SPARE_SECONDS - least, share * MEASURING


def quick_words(parts: Sequence[Part], left: float) -> tuple[str, float]:
    """What the first of these is told, and the limit on its time."""
    limit, share = limits(parts, left)
    part = parts[0]
    bound = f" --within {max(1, round(share))}" if part.is_bounded else ""
    return part.quick + bound, limit


def outcomes(chosen: argparse.Namespace) -> Iterator[Outcome]:
    """All of them in turn. One that fails does not end the others."""
    begun = time.monotonic()
    for place, part in enumerate(chosen.parts):
        left = QUICK_SECONDS - (time.monotonic() - begun)
        words, limit = part.full, float(part.limit)
        if chosen.quick:
            words, limit = quick_words(chosen.parts[place:], left)
        if limit < part.seconds / 2:
            yield Outcome(part.name, part.about, 0.0, "left out: no time was left")
            continue
        say(f"{part.name}: {part.about}")
        since = time.monotonic()
        log = chosen.out / f"{part.name}.log"
        ended = supervise(command(part, words, chosen), log, limit)
        took = round(time.monotonic() - since, 1)
        say(f"{part.name}: {ended}, {took} s")
        yield Outcome(part.name, part.about, took, ended)


def parse(arguments: list[str]) -> argparse.Namespace:
    """What one may say to bench/all."""
    parser = argparse.ArgumentParser(prog="bench/all", description=__doc__)
    option = parser.add_argument
    known = [part.name for part in PARTS]
    option("--quick", action="store_true", help="all kinds, short: five minutes")
    option("--only", default=",".join(known), help=f"some of {','.join(known)}; default: all")
    options.of_build(parser)
    about = "directory of the results; default: bench/results/all-<date>-<commit>, or quick-…"
    option("--out", type=Path, help=about)
    chosen = parser.parse_args(arguments)
    chosen.parts = [part for part in PARTS if part.name in chosen.only.split(",")]
    if len(chosen.parts) != len(chosen.only.split(",")):
        parser.error(f"--only {chosen.only}: some of {', '.join(known)}")
    if not chosen.tokamak.exists():
        parser.error(f"{chosen.tokamak} does not exist: build it with `make build`")
    kind = "quick" if chosen.quick else "all"
    chosen.out = chosen.out or REPO / "bench/results" / f"{kind}-{date.today()}-{commit()}"
    return chosen


def run(arguments: list[str]) -> int:
    """Measures everything, and writes the page. Fails if something could not be measured."""
    chosen = parse(arguments)
    program.begin(chosen.out)
    # Before the time counts.
    needs_it = any(part.name == "contention" for part in chosen.parts)
    chosen.contention = contention.build() if needs_it else None
    found = record.write(chosen.out / report.PARTS, Outcome, outcomes(chosen))
    for one in found:
        print(f"{one.part:14}{one.seconds:8.1f} s  {one.outcome}")
    print(f"read {report.write(chosen.out)}")
    return 0 if all(one.outcome in (report.GOOD, report.MISSED) for one in found) else 1
