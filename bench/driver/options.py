"""What one may say to bench/run."""

import argparse
from collections.abc import Callable
from datetime import date
from pathlib import Path

from .contest import FOOTPRINT_CONNECTIONS, Plan
from .contestants import PEERS
from .peers import EXTENSIONS, Choice, extension
from .sites import REPO, SCENARIOS
from .versions import commit

CALM = 3
"""Seconds that show that the server has ended its trial of another number of event loops: it takes
two, from the beginning of a load."""

def names(known: dict) -> Callable[[str], list[str]]:
    """A list of names separated by commas, each of them known."""

    def parse(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        unknown = [name for name in chosen if name not in known]
        if unknown or not chosen:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown) or 'nothing'}: one or more of {', '.join(known)}"
            )
        return chosen

    return parse


def numbers(text: str) -> list[int]:
    """A list of positive numbers separated by commas."""
    try:
        chosen = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: numbers separated by commas") from None
    if min(chosen) < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1 each")
    return chosen


def positive(text: str) -> int:
    """One positive number."""
    return numbers(text)[0]


def extensions(text: str) -> tuple[str, ...]:
    """Names of installed extensions."""
    known = sorted({extension(file) for file in Path(EXTENSIONS).glob("*.ini")})
    return tuple(names(dict.fromkeys(known))(text))


def natural(text: str) -> int:
    """One number that may be 0."""
    return 0 if text == "0" else positive(text)


def peers_at(text: str) -> tuple[int, list[str]]:
    """A number of connections, and who gets them."""
    connections, _, peers = text.partition("=")
    return positive(connections), names(PEERS)(peers)


def of_build(parser: argparse.ArgumentParser) -> None:
    """Which Tokamak is measured."""
    about = "default: target/release/tokamak"
    parser.add_argument(
        "--tokamak", type=path, default=REPO / "target/release/tokamak", help=about
    )


def of_record(parser: argparse.ArgumentParser, kind: str = "") -> None:
    """Where the results go."""
    name = f"{kind}-" * bool(kind)
    parser.add_argument(
        "--out",
        type=Path,
        default=REPO / "bench/results" / f"{name}{date.today()}-{commit()}",
        help=f"directory of the record; default: bench/results/{name}<date>-<commit>",
    )


def measurement(name: str, about: str | None, has_build: bool = True) -> argparse.ArgumentParser:
    """What one may say to every program that writes a record of its own."""
    parser = argparse.ArgumentParser(
        prog=f"bench/{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if has_build:
        of_build(parser)
    of_record(parser, name)
    return parser


def path(text: str) -> Path:
    """A file, wherever a server that is told of it looks from."""
    return Path(text).resolve()


def parse(arguments: list[str]) -> tuple[Plan, Choice, Path]:
    """The plan, the choices about the peers, and where the results go."""
    parser = argparse.ArgumentParser(
        prog="bench/run", description="Compares Tokamak with its peers on this machine."
    )
    option = parser.add_argument
    option("--scenario", type=names(SCENARIOS), default=list(SCENARIOS), help="default: all")
    option("--peers", type=names(PEERS), default=list(PEERS), help="default: all")
    option("--rounds", type=positive, default=5, help="default: 5")
    option("--seconds", type=positive, default=4, help="of each run; default: 4")
    settle = "seconds of load before anything counts, at most; default: 8"
    option("--settle", type=positive, default=8, help=settle)
    of_which = "scenarios whose system calls and memory are counted; default: all"
    option("--footprints", type=names(SCENARIOS), default=list(SCENARIOS), help=of_which)
    orientation = "scenarios of the servers that are there for orientation; default: all"
    option("--orientation", type=names(SCENARIOS), default=list(SCENARIOS), help=orientation)
    calm = (
        "seconds of load before each run and each count in which the number of event loops must"
        f" stay; a run within which it changes is repeated, once; 0: no load; default: {CALM}"
    )
    option("--calm", type=natural, default=CALM, help=calm)
    option("--connections", type=numbers, default=[1, 64, 256], help="default: 1,64,256")
    at = "as in 1024=limit,go: nobody else gets so many connections; may be repeated"
    option("--peers-at", type=peers_at, action="append", default=[], metavar="N=PEERS", help=at)
    option("--children", type=positive, default=8, help="php-fpm's processes; default: 8")
    option("--tokamak-workers", default="auto", help="default: auto")
    without = "extensions of PHP that no server loads though they are installed, as in zmq,imagick"
    option("--without", type=extensions, default=(), metavar="NAMES", help=without)
    within = "seconds; who would have his turn later is left out; default: no limit"
    option("--within", type=positive, help=within)
    of_build(parser)
    of_record(parser)
    chosen = parser.parse_args(arguments)
    if any("tokamak" in name for name in chosen.peers) and not chosen.tokamak.exists():
        parser.error(
            f"{chosen.tokamak} does not exist: build it with `cargo build --release`,"
            " or leave its peers out"
        )
    plan = Plan(
        chosen.scenario,
        chosen.peers,
        chosen.connections,
        chosen.rounds,
        chosen.seconds,
        chosen.settle,
        chosen.footprints,
        chosen.orientation,
        chosen.within,
        chosen.calm,
        dict(chosen.peers_at),
    )
    return (
        plan,
        Choice(
            chosen.children,
            max(chosen.connections + [FOOTPRINT_CONNECTIONS]),
            chosen.tokamak,
            chosen.tokamak_workers,
            chosen.without,
        ),
        chosen.out,
    )
