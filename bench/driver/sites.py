"""What is served and what is asked for: a site is a document root, a scenario one URL of a site."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from . import databases, wordpress

REPO = Path(__file__).resolve().parents[2]

EMPTY_ANSWER = {"errno": 0, "errmsg": "success", "data": "e"}
EMPTY = json.dumps(EMPTY_ANSWER, separators=(",", ":"))


class Beside(Protocol):
    """What runs beside the peers for a site."""

    def cpu_seconds(self) -> float:
        """Processor time so far."""

    def stop(self) -> None:
        """Ends it."""


@dataclass(frozen=True)
class Site:
    """An application in its own directory, with a script for each way of running it."""

    name: str
    source: Path
    root: str
    """The document root, below the source."""
    worker: str
    """The script of worker mode, below the source; empty: it has none."""
    sealed: dict[str, str]
    """What the site says in its configuration about sealed mode, beside the root, for each peer
    that can serve it so."""
    front_controller: bool
    """Whether index.php answers for every path that is no file."""
    language: str = "php"
    """What its scripts are written in."""
    most_connections: int | None = None
    """A page that takes long is not asked for by more clients than this, lest they wait for
    seconds."""
    warm_up: int = 2
    """Seconds of load before anything counts: compiled scripts, spawned processes, a filled
    container cache."""
    least_seconds: int = 1
    """Least seconds of a timed run: requests under way at its end are not counted, and of a slow
    page they would be many among few."""
    install: Callable[[Path, Path], Beside] | None = None
    """Makes a copy of the source fit to be served, with a database in another directory."""
    services: bool = False
    """Whether its scripts ask others, which all peers share."""

    def bound(self, connections: int) -> int:
        """As many of these connections as the site gets."""
        return min(connections, self.most_connections or connections)


@dataclass(frozen=True)
class Scenario:
    """One URL, and what a right answer looks like."""

    name: str
    site: str
    path: str
    is_right: Callable[[bytes], bool]
    title: str = ""
    """For the reader of a plot."""


def is_empty_answer(body: bytes) -> bool:
    """Whether this is the empty endpoint's JSON, however spaced."""
    try:
        return json.loads(body) == EMPTY_ANSWER
    except ValueError:
        return False


def is_thing(body: bytes) -> bool:
    """Whether this is what both reads find."""
    return body == b"the thing, the thing"


KEPT_PAGE_SIZE = 366 * 28
"""Bytes of the page that the content cache may keep: lines of bench/sites/page/index.php."""


def is_kept_page(body: bytes) -> bool:
    """Whether this is the whole page of 10 KiB."""
    return len(body) == KEPT_PAGE_SIZE


def is_page(body: bytes) -> bool:
    """Whether this is the whole Twig page."""
    return body.count(b"<li ") == 60 and b"</html>" in body


# Without a fallback: a request that the image declines is an error here, and not a page that
# classic mode made.
WORDPRESS = """\
boot = "$repo/examples/wordpress/boot.php"
warm = ["http://127.0.0.1:$port/"]
[site.env]
WORDPRESS_DEPTH = "{depth}"
WORDPRESS_URL = "http://127.0.0.1:$port"
WORDPRESS_CACHE = "$dir/parts"
"""

SITES = {
    site.name: site
    for site in (
        # No boot: what is measured is the roll-back beside a request's start and end.
        Site(
            "empty",
            REPO / "bench/sites/empty",
            ".",
            "worker.php",
            {"tokamak-sealed": 'warm = "/index.php"'},
            front_controller=False,
        ),
        Site(
            "services",
            REPO / "bench/sites/services",
            ".",
            "worker.php",
            {"tokamak-sealed": 'worker = "$worker"\nwarm = "/index.php"'},
            front_controller=False,
            services=True,
        ),
        Site(
            "sql",
            REPO / "bench/sites/sql",
            ".",
            "worker.php",
            {},
            front_controller=False,
            install=databases.install,
        ),
        Site("lua", REPO / "bench/sites/lua", ".", "", {}, front_controller=False, language="lua"),
        Site(
            "lua-services",
            REPO / "bench/sites/lua",
            ".",
            "",
            {},
            front_controller=False,
            language="lua",
            services=True,
        ),
        Site(
            "page",
            REPO / "bench/sites/page",
            ".",
            "",
            {},
            front_controller=False,
            language="cached",
        ),
        Site(
            "symfony",
            REPO / "examples/symfony",
            "public",
            "worker.php",
            {"tokamak-sealed": 'worker = "$worker"\nwarm = ["/empty", "/page"]'},
            front_controller=True,
        ),
        Site(
            "wordpress",
            Path("/usr/share/wordpress"),
            ".",
            "",
            {
                "tokamak-sealed": WORDPRESS.format(depth="loaded"),
                "tokamak-sealed-plugins": WORDPRESS.format(depth="plugins"),
                "tokamak-sealed-core": WORDPRESS.format(depth="core"),
            },
            front_controller=True,
            most_connections=16,
            warm_up=8,
            least_seconds=3,
            install=lambda files, directory: wordpress.install(
                files, directory, REPO / "tests/sites/wordpress/wp-config.php"
            ),
        ),
    )
}

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("empty", "empty", "/index.php", is_empty_answer, "An empty script"),
        Scenario("php-http", "services", "/index.php?ask=http", is_empty_answer, "One HTTP call"),
        Scenario(
            "php-stream",
            "services",
            "/index.php?ask=stream",
            is_empty_answer,
            "One HTTP call, without curl",
        ),
        Scenario(
            "php-redis", "services", "/index.php?ask=redis", is_empty_answer, "One read from Redis"
        ),
        Scenario("php-mysql", "sql", "/index.php?on=mysql", is_thing, "Two reads from MariaDB"),
        Scenario("php-pgsql", "sql", "/index.php?on=pgsql", is_thing, "Two reads from PostgreSQL"),
        Scenario(
            "lua-empty", "lua", "/empty", is_empty_answer, "An empty script, Lua in the server"
        ),
        Scenario(
            "lua-http", "lua-services", "/http", is_empty_answer, "One HTTP call, Lua in the server"
        ),
        Scenario(
            "lua-redis",
            "lua-services",
            "/redis",
            is_empty_answer,
            "One read from Redis, Lua in the server",
        ),
        Scenario("cached-page", "page", "/", is_kept_page, "A page of 10 KiB that is kept"),
        Scenario("symfony-json", "symfony", "/empty", is_empty_answer, "Symfony, a JSON route"),
        Scenario("symfony-page", "symfony", "/page", is_page, "Symfony, a page of 60 rows"),
        Scenario(
            "wordpress", "wordpress", "/", wordpress.is_front_page, "WordPress, the front page"
        ),
    )
}
