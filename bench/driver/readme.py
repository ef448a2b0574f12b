"""The tables of the project's README, made of the records that they name.

A block in README.md says which table and of which directories; what stands below is generated:

    <!-- figures: speed
    bench/results/DIRECTORY
    -->
"""

import argparse
import re
import sys
from pathlib import Path

from .contestants import PEERS
from .report import plotted, spaced
from .sites import REPO
from .summary import Rows, number, table

README = REPO / "README.md"
BLOCK = re.compile(
    r"(?P<head><!-- figures: (?P<name>\w+)\n)(?P<from>(?:\S+\n)+)-->\n.*?<!-- end of figures -->",
    re.DOTALL,
)

SPEED_PEERS = (
    "nginx-fpm nginx-fpm-keepalive apache-modphp caddy-fpm php-server frankenphp roadrunner swoole"
    " python node go tokamak-classic tokamak-worker tokamak-sealed"
).split()
SPEED = (
    ("empty", "empty script, requests/s", "rate"),
    ("empty", "CPU µs a request", "cpu_us"),
    ("empty", "p99 ms", "p99"),
    ("empty", "system calls", "syscalls"),
    ("symfony-json", "Symfony JSON, requests/s", "rate"),
    ("symfony-json", "CPU µs a request", "cpu_us"),
    ("symfony-page", "Symfony page, requests/s", "rate"),
    ("wordpress", "WordPress, requests/s", "rate"),
)
LUA_PEERS = {
    "tokamak-lua": "Tokamak",
    "nginx-lua": "nginx + Lua",
    "lighttpd-magnet": "lighttpd + magnet",
    "go": "Go's net/http",
}
LUA = {
    "lua-empty": "a script answers",
    "lua-redis": "it reads one value from Redis",
    "lua-http": "it calls one service over HTTP",
}


def together(directories: list[Path]) -> Rows:
    """The rows of several records. Each scenario is from the first that has it: others ran at
    another time, and are not to be compared with it."""
    runs, footprints = [], []
    for directory in directories:
        rows = Rows.in_directory(directory)
        new = set(rows.scenarios()) - {run.scenario for run in runs}
        runs += [run for run in rows.runs if run.scenario in new]
        footprints += [row for row in rows.footprints if row.scenario in new]
    return Rows(runs, footprints)


def cell(rows: Rows, scenario: str, peer: str, metric: str) -> str:
    """One figure, or a dash where it was not measured."""
    if peer not in rows.peers_of(scenario):
        return "–"
    if metric == "syscalls":
        footprint = rows.footprint(scenario, peer)
        return number(footprint.syscalls if footprint else None)
    value = rows.median((scenario, plotted(rows, scenario), peer), metric)
    if metric == "p99":
        return f"{value / 1000:.1f}"
    return (
        spaced(value).replace("\u202f", " ")
        if metric == "rate"
        else number(value, 1 if value < 30 else 0)
    )


def speed(rows: Rows) -> str:
    """PHP in all servers, and other languages beside it."""
    asked = [column for column in SPEED if column[0] in rows.scenarios()]
    there = [
        peer for peer in SPEED_PEERS if any(peer in rows.peers_of(column[0]) for column in asked)
    ]
    lines = [
        [PEERS[peer].what, *(cell(rows, scenario, peer, metric) for scenario, _, metric in asked)]
        for peer in there
    ]
    return table(["", *(title for _, title, _ in asked)], lines)


def lua(rows: Rows) -> str:
    """Scripts in the server."""

    def both(scenario: str, peer: str) -> str:
        rate, cpu = (cell(rows, scenario, peer, metric) for metric in ("rate", "cpu_us"))
        return rate if rate == "–" else f"{rate} ({cpu})"

    lines = [
        [what, *(both(scenario, peer) for peer in LUA_PEERS)]
        for scenario, what in LUA.items()
        if scenario in rows.scenarios()
    ]
    return table(["requests/s (CPU µs a request)", *LUA_PEERS.values()], lines)


TABLES = {"speed": speed, "lua": lua}


def body(name: str, directories: list[str]) -> str:
    """What stands in a block: the table, and where it comes from."""
    made = TABLES[name](together([REPO / directory for directory in directories]))
    links = ",\n".join(
        f"[{count + 1}]({directory}/summary.md)" for count, directory in enumerate(directories)
    )
    word = "Records" if len(directories) > 1 else "Record"
    return f"\n{made}\n\n{word}: {links}.\n\n"


def renewed(text: str, directories: list[str] | None = None) -> str:
    """The README with its tables made anew, of other directories if they are given."""

    def replace(found: re.Match[str]) -> str:
        chosen = directories or found["from"].split()
        named = "".join(f"{directory}\n" for directory in chosen)
        return f"{found['head']}{named}-->\n{body(found['name'], chosen)}<!-- end of figures -->"

    return BLOCK.sub(replace, text)


def run(arguments: list[str]) -> int:
    """Writes the tables."""
    parser = argparse.ArgumentParser(
        prog="bench/readme-table", description="Makes the tables of README.md."
    )
    parser.add_argument(
        "directories",
        type=Path,
        nargs="*",
        help="records to take them from; default: those it names",
    )
    chosen = parser.parse_args(arguments)
    try:
        named = [f"{path.resolve().relative_to(REPO)}" for path in chosen.directories]
        README.write_text(renewed(README.read_text(), named))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
