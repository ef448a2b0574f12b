"""What is served and what is asked for: a site is a document root, a scenario one URL of a site."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]

EMPTY_ANSWER = {"errno": 0, "errmsg": "success", "data": "e"}


@dataclass(frozen=True)
class Site:
    """An application in its own directory, with a script for each way of running it."""

    name: str
    source: Path
    root: str
    """The document root, below the source."""
    worker: str
    """The script of worker mode, below the source."""
    sealed: str
    """What the site says in its configuration about sealed mode, beside the root."""
    front_controller: bool
    """Whether index.php answers for every path that is no file."""


@dataclass(frozen=True)
class Scenario:
    """One URL, and what a right answer looks like."""

    name: str
    site: str
    path: str
    is_right: Callable[[bytes], bool]


def is_empty_answer(body: bytes) -> bool:
    """Whether this is the empty endpoint's JSON, however spaced."""
    try:
        return json.loads(body) == EMPTY_ANSWER
    except ValueError:
        return False


def is_page(body: bytes) -> bool:
    """Whether this is the whole Twig page."""
    return body.count(b"<li ") == 60 and b"</html>" in body


SITES = {
    site.name: site
    for site in (
        # No boot: what is measured is the roll-back beside a request's start and end.
        Site("empty", REPO / "bench/sites/empty", ".", "worker.php", 'warm = "/index.php"', front_controller=False),
        Site(
            "symfony",
            REPO / "examples/symfony",
            "public",
            "worker.php",
            'worker = "$worker"\nwarm = ["/empty", "/page"]',
            front_controller=True,
        ),
    )
}

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("empty", "empty", "/index.php", is_empty_answer),
        Scenario("symfony-json", "symfony", "/empty", is_empty_answer),
        Scenario("symfony-page", "symfony", "/page", is_page),
    )
}
