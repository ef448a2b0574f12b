"""What does sealed mode cost an application without a worker script and a boot script? Pages of
applications and of libraries from Debian's packages, by turns in classic mode, in sealed mode, and
in sealed mode with a warm-up."""

import http.client
import shutil
import statistics
import subprocess
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from . import load, options, program, record
from .bars import at_most
from .contest import CannotRun, say
from .process import Server, free_port
from .sites import REPO
from .versions import text

WORKERS = 2
CLIENTS = 8
WARM_SECONDS = 2
READY_SECONDS = 60
INSTALL_SECONDS = 120
CLASSIC, SEALED, WARMED = "classic", "sealed", "sealed, warmed up"
WAYS = {
    CLASSIC: 'mode = "classic"',
    SEALED: 'mode = "sealed"',
    WARMED: 'mode = "sealed"\nwarm = {pages}',
}
BAR = 1.05
"""Processor time of a request in sealed mode, to classic mode's; the median over the pages."""
CONFIG = """\
listen = "127.0.0.1:{port}"
control = "{directory}/control"
log.access = "off"
[[site]]
root = "{root}"
{way}
pool.manager = "static"
pool.workers = {workers}
front_controller = "index.php"
env = {{ {env} }}
"""


@dataclass(frozen=True)
class Application:
    """A folder with scripts, and which of its pages are asked for."""

    name: str
    pages: dict[str, bytes]
    """What a right answer has in it, by the page's path."""
    install: Callable[[Path], tuple[Path, dict[str, str]]]
    """Makes it ready in a directory; gives its document root, and its environment."""


@dataclass(frozen=True)
class Row:
    """One load. The time is that of all of the server's processes."""

    round: int
    page: str
    way: str
    cpu_us: float
    rate: float


def writable(path: Path) -> None:
    """The workers' user may write below this."""
    subprocess.run(["chmod", "-R", "a+rwX", f"{path}"], check=True, timeout=INSTALL_SECONDS)


def scripts(directory: Path) -> tuple[Path, dict[str, str]]:
    """The scripts of `bench/sites/unbooted`."""
    root, data = directory / "root", directory / "data"
    shutil.copytree(REPO / "bench/sites/unbooted", root)
    data.mkdir()
    writable(data)
    return root, {"DATA": f"{data}"}


def symfony(directory: Path) -> tuple[Path, dict[str, str]]:
    """`examples/symfony`, whose cache is in this directory."""
    shutil.copytree(REPO / "examples/symfony", directory / "site")
    cache = directory / "cache"
    cache.mkdir()
    writable(cache)
    return directory / "site/public", {"APP_CACHE_DIR": f"{cache}"}


def laravel(directory: Path) -> tuple[Path, dict[str, str]]:
    """`examples/laravel`."""
    shutil.copytree(REPO / "examples/laravel", directory / "site")
    storage = directory / "storage"
    for name in ("views", "sessions"):
        (storage / name).mkdir(parents=True)
    writable(storage)
    return directory / "site/public", {
        "APP_KEY": f"base64:{'A' * 43}=",
        "APP_STORAGE": f"{storage}",
        "APP_SERVICES_CACHE": f"{storage}/services.php",
        "APP_PACKAGES_CACHE": f"{storage}/packages.php",
    }


def phpmyadmin(_directory: Path) -> tuple[Path, dict[str, str]]:
    """The package's own folder."""
    return Path("/usr/share/phpmyadmin"), {}


def dokuwiki(directory: Path) -> tuple[Path, dict[str, str]]:
    """A wiki of one page, with its files in the root."""
    root = directory / "root"
    shutil.copytree("/usr/share/dokuwiki", root, ignore=shutil.ignore_patterns("preload.php"))
    shutil.copytree("/etc/dokuwiki", root / "conf", dirs_exist_ok=True)
    settings = ("title", "Wiki"), ("savedir", "./data"), ("useacl", "")
    lines = (f"$conf['{name}'] = '{value}';\n" for name, value in settings)
    (root / "conf/local.php").write_text("<?php\n" + "".join(lines))
    names = "attic cache index locks log media media_attic media_meta meta pages tmp"
    for name in names.split():
        (root / "data" / name).mkdir(parents=True)
    (root / "data/pages/start.txt").write_text("====== Start ======\nThe core glows.\n")
    writable(root)
    return root, {}


def mediawiki(directory: Path) -> tuple[Path, dict[str, str]]:
    """A wiki with SQLite, by links into the package."""
    root, database = directory / "root", directory / "database"
    own = {"LocalSettings.php", "images", "config", "cache"}
    for made in (root / "images", root / "cache", database):
        made.mkdir(parents=True)
    for entry in Path("/usr/share/mediawiki").iterdir():
        if entry.name not in own:
            (root / entry.name).symlink_to(entry)
    words = ["--dbtype", "sqlite", "--dbname", "wiki", "--dbpath", f"{database}"]
    words += ["--confpath", f"{root}", "--scriptpath", "", "--server", "http://localhost"]
    words += ["--pass", "correct horse 4 battery", "Wiki", "Admin"]
    subprocess.run(
        ["php", "maintenance/install.php", *words],
        env={"PATH": "/usr/bin:/bin", "MW_INSTALL_PATH": f"{root}"},
        cwd=root,
        check=True,
        capture_output=True,
        timeout=INSTALL_SECONDS,
    )
    for path in (root, database):
        writable(path)
    return root, {"MW_INSTALL_PATH": f"{root}"}


SCRIPTS = {
    "/index.php": b"empty",
    "/output.php": b"Line 1999 of a page",
    "/arrays.php": b" bytes of rows",
    "/session.php": b"visited",
    "/sqlite.php": b"200 things",
    "/dom.php": b"19 items",
    "/twig.php": b"&lt;200&gt;",
    "/monolog.php": b"100 lines",
    "/messages.php": b" bytes",
    "/mail.php": b"a letter",
    "/routes.php": b"handler 150",
    "/dates.php": b"Friday, April 10, 2026",
    "/markdown.php": b"40 rows",
}
APPLICATIONS = (
    Application("scripts", SCRIPTS, scripts),
    Application("Symfony", {"/page": b"</html>"}, symfony),
    Application("Laravel", {"/empty": b"success"}, laravel),
    Application("phpMyAdmin", {"/index.php?route=/": b"login_form"}, phpmyadmin),
    Application("DokuWiki", {"/doku.php?id=start": b"The core glows."}, dokuwiki),
    Application("MediaWiki", {"/index.php/Main_Page": b"<title>Wiki</title>"}, mediawiki),
)


def start(application: Application, way: str, directory: Path, binary: Path) -> tuple[Server, int]:
    """A server of its own for one application in one way."""
    directory.mkdir()
    root, env = application.install(directory)
    port = free_port()
    config = directory / "tokamak.toml"
    config.write_text(
        CONFIG.format(
            port=port,
            directory=directory,
            root=root,
            way=WAYS[way].format(pages=list(application.pages)),
            workers=WORKERS,
            env=", ".join(f'{name} = "{value}"' for name, value in env.items()),
        )
    )
    server = Server()
    command = [f"{binary}", "serve", "--config", f"{config}"]
    server.start(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, directory / "log")
    return server, port


def until_right(port: int, path: str, expected: bytes) -> None:
    """Asks until the page is what it should be."""
    deadline = time.monotonic() + READY_SECONDS
    answer = b"no answer"
    while time.monotonic() < deadline:
        try:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            client.request("GET", path)
            response = client.getresponse()
            answer = response.read()
            client.close()
            if response.status == 200 and expected in answer:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise CannotRun(f"{path}: another page: {answer[:300]!r}")


def measure(server: Server, url: str, seconds: int) -> tuple[float, float]:
    """Processor time of a request in microseconds, and requests a second."""
    before = server.run_seconds()
    seen = load.run(url, CLIENTS, seconds)
    if seen.bad_status or seen.socket_errors or seen.timeouts:
        raise CannotRun(f"{url}: {seen}")
    return (server.run_seconds() - before) / seen.requests * 1e6, seen.rate


def shifted(ways: list[str], number: int) -> list[str]:
    """Who begins changes from round to round."""
    at = number % len(ways)
    return ways[at:] + ways[:at]


def rows(application: Application, directory: Path, chosen: Namespace) -> Iterator[Row]:
    """All pages of an application, in rounds in which the ways take turns."""
    with ExitStack() as stack:
        servers = {}
        for number, way in enumerate(WAYS):
            place = directory / f"{application.name}-{number}"
            servers[way] = start(application, way, place, chosen.tokamak)
            stack.callback(servers[way][0].stop)
        for path, expected in application.pages.items():
            page = application.name if len(application.pages) == 1 else path[1:]
            urls = {}
            for way, (_, port) in servers.items():
                until_right(port, path, expected)
                urls[way] = f"http://127.0.0.1:{port}{path}"
                load.run(urls[way], CLIENTS, WARM_SECONDS)
            for number in range(chosen.rounds):
                for way in shifted(list(WAYS), number):
                    found = measure(servers[way][0], urls[way], chosen.seconds)
                    say(f"{page}, {way}: {found[0]:.0f} µs, {found[1]:.0f}/s")
                    yield Row(number, page, way, *found)


def ratio(rows: list[Row], way: str, of: str) -> float:
    """The median over the rounds of a way's figure, to classic mode's in the same round."""
    base = {row.round: getattr(row, of) for row in rows if row.way == CLASSIC}
    mine = (getattr(row, of) / base[row.round] for row in rows if row.way == way)
    return statistics.median(mine)


def run(arguments: list[str]) -> int:
    """Measures, and writes a record. Fails if sealed mode costs more than the bar."""
    parser = options.measurement("unbooted", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=5, help="default: 5")
    option("--seconds", type=options.positive, default=3, help="of each load; default: 3")
    chosen = parser.parse_args(arguments)
    pages = sum(len(application.pages) for application in APPLICATIONS)
    each = len(WAYS) * (WARM_SECONDS + chosen.rounds * (chosen.seconds + 2))
    program.begin(chosen.out, 2 * (pages * each + len(APPLICATIONS) * INSTALL_SECONDS))
    with program.workshop("unbooted") as directory:
        all_rows = (
            row
            for application in APPLICATIONS
            for row in rows(application, directory, chosen)
        )
        found = record.write(chosen.out / "unbooted.csv", Row, all_rows)
    table = [
        f"| page, {CLIENTS} clients | CPU, {CLASSIC}, µs | {SEALED} | requests/s | {WARMED}"
        " | requests/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    ratios: dict[str, list[float]] = {SEALED: [], WARMED: []}
    for page in dict.fromkeys(row.page for row in found):
        mine = [row for row in found if row.page == page]
        classic = statistics.median(row.cpu_us for row in mine if row.way == CLASSIC)
        line = f"| {page} | {classic:.0f} |"
        for way, all_of_way in ratios.items():
            all_of_way.append(ratio(mine, way, "cpu_us"))
            line += f" {all_of_way[-1]:.2f} | {ratio(mine, way, 'rate'):.2f} |"
        table.append(line)
    medians = {way: statistics.median(all_of_way) for way, all_of_way in ratios.items()}
    table.append(f"| median | | {medians[SEALED]:.2f} | | {medians[WARMED]:.2f} | |")
    verdict = at_most("sealed mode without a boot: CPU to classic mode's", medians[SEALED], BAR)
    parts = ["# Sealed mode without a boot", "\n".join(table), f"```\n{verdict.line()}\n```"]
    page = "\n\n".join([*parts, f"```\n{text(chosen.tokamak)}\n```"])
    return program.end(chosen.out, page + "\n", verdict.reached)
