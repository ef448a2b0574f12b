"""Everything there is to measure, one after the other, into one directory with one page."""

import argparse
import csv
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from . import report
from .contest import say
from .main import stop_politely
from .sites import REPO
from .versions import commit

QUICK_SECONDS = 300
"""What all of `--quick` may take. What would begin later is left out."""
PATIENCE = 60
"""Seconds that a measurement gets to stop its servers."""
QUICK_PEERS = (
    "nginx-fpm caddy-fpm php-server frankenphp roadrunner swoole tokamak-classic tokamak-worker"
    " tokamak-sealed nginx-lua lighttpd-magnet tokamak-lua go node python"
    " tokamak-file tokamak-cached"
)
QUICK_LATENCY_PEERS = (
    "nginx-fpm tokamak-classic tokamak-worker tokamak-sealed go nginx-lua tokamak-lua"
)
QUICK_SCENARIOS = "empty php-http php-redis lua-empty lua-http cached-page symfony-json wordpress"


@dataclass(frozen=True)
class Part:
    """One program of this directory."""

    name: str
    about: str
    quick: str
    """What it is told so that it takes seconds."""
    limit: int
    """Seconds after which it is stopped; a quick one sooner."""
    full: str = ""
    quick_limit: int = 60


PARTS = (
    Part(
        report.CONTEST,
        "requests, all servers",
        f"--peers {QUICK_PEERS.replace(' ', ',')} --scenario {QUICK_SCENARIOS.replace(' ', ',')}"
        " --rounds 2 --seconds 1 --settle 1 --connections 64 --children 4"
        " --footprints empty --orientation empty",
        limit=3 * 3600,
        full="--rounds 3",
        quick_limit=260,
    ),
    Part(
        "latency",
        "how long do requests wait, at half load and with many clients?",
        f"--peers {QUICK_LATENCY_PEERS.replace(' ', ',')} --rounds 1 --seconds 0.5 --children 4",
        limit=3600,
        full="--rounds 3",
    ),
    Part(
        "survive",
        "what is lost when backends are killed under load?",
        "--requests 30000 --kills 2 --away 0.3",
        limit=1800,
    ),
    Part(
        "soak",
        "does a visitor see another one's name?",
        "--careless --minutes 0.1",
        limit=1200,
        full="--careless --minutes 10",
    ),
    Part("memory", "does a sealed server grow?", "--requests 10000", limit=1800),
    Part(
        "connections",
        "what does connecting to a database cost?",
        "--rounds 1 --seconds 1",
        limit=900,
    ),
    Part(
        "proxy",
        "what does a kept FastCGI connection save?",
        "--rounds 1 --seconds 1 --connections 16",
        limit=900,
    ),
    Part(
        "personalised",
        "what do a cache in the process and affinity bring?",
        "--rounds 1 --seconds 1 --clients 10 --users 20000",
        limit=2400,
    ),
    Part(
        "set-up",
        "what of a request is set-up, in 2006 and now?",
        "--rounds 1 --seconds 1",
        limit=900,
    ),
)
"""On a busy machine `--quick` leaves out the last ones."""


@dataclass(frozen=True)
class Outcome:
    """How one of them ended."""

    part: str
    about: str
    seconds: float
    outcome: str


def command(part: Part, is_quick: bool, tokamak: Path, out: Path) -> list[str]:
    """Its command line. The contest's record is the directory's own, each other one is below it."""
    told = (part.quick if is_quick else part.full).split()
    place = out if part.name == report.CONTEST else out / part.name
    return [
        sys.executable,
        f"{REPO}/bench/{part.name}",
        *told,
        "--tokamak",
        f"{tokamak}",
        "--out",
        f"{place}",
    ]


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
    if status == 0:
        log.unlink()
        return "good"
    return f"ended with status {status}, see {log.name}"


def outcomes(parts: list[Part], is_quick: bool, tokamak: Path, out: Path) -> Iterator[Outcome]:
    """All of them in turn. One that fails does not end the others."""
    begun = time.monotonic()
    for part in parts:
        left = QUICK_SECONDS - (time.monotonic() - begun)
        limit = min(part.quick_limit, left) if is_quick else part.limit
        if limit < 5:
            yield Outcome(part.name, part.about, 0.0, "left out: no time was left")
            continue
        say(f"{part.name}: {part.about}")
        since = time.monotonic()
        ended = supervise(command(part, is_quick, tokamak, out), out / f"{part.name}.log", limit)
        took = round(time.monotonic() - since, 1)
        say(f"{part.name}: {ended}, {took} s")
        yield Outcome(part.name, part.about, took, ended)


def parse(arguments: list[str]) -> argparse.Namespace:
    """What one may say to bench/all."""
    parser = argparse.ArgumentParser(prog="bench/all", description=__doc__)
    option = parser.add_argument
    known = [part.name for part in PARTS]
    option("--quick", action="store_true", help=f"all kinds, short: {QUICK_SECONDS // 60} minutes")
    option("--only", default=",".join(known), help=f"some of {','.join(known)}; default: all")
    option(
        "--tokamak",
        type=Path,
        default=REPO / "target/release/tokamak",
        help="default: target/release/tokamak",
    )
    option(
        "--out",
        type=Path,
        help="directory of the results; default: bench/results/all-<date>-<commit>",
    )
    chosen = parser.parse_args(arguments)
    chosen.parts = [part for part in PARTS if part.name in chosen.only.split(",")]
    if len(chosen.parts) != len(chosen.only.split(",")):
        parser.error(f"--only {chosen.only}: some of {', '.join(known)}")
    chosen.tokamak = chosen.tokamak.resolve()
    if not chosen.tokamak.exists():
        parser.error(f"{chosen.tokamak} does not exist: build it with `make build`")
    kind = "quick" if chosen.quick else "all"
    chosen.out = chosen.out or REPO / "bench/results" / f"{kind}-{date.today()}-{commit()}"
    return chosen


def run(arguments: list[str]) -> int:
    """Measures everything, and writes the page."""
    chosen = parse(arguments)
    signal.signal(signal.SIGTERM, stop_politely)
    chosen.out.mkdir(parents=True, exist_ok=True)
    found = []
    with (chosen.out / report.PARTS).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["part", "about", "seconds", "outcome"])
        for one in outcomes(chosen.parts, chosen.quick, chosen.tokamak, chosen.out):
            rows.writerow([one.part, one.about, one.seconds, one.outcome])
            file.flush()
            found.append(one)
    for one in found:
        print(f"{one.part:14}{one.seconds:8.1f} s  {one.outcome}")
    print(f"read {report.write(chosen.out)}")
    return 0 if all(one.outcome == "good" for one in found) else 1
