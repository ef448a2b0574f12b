"""What does a kept FastCGI connection save? nginx and Tokamak in front of the same php-fpm,
connecting for each request and not.

Each way has a pool of its own in that php-fpm, all of one size: a kept connection holds a child,
and the children of one way must not be held by another's.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from . import options, peers, program, record
from .contest import CannotRun, answer, say
from .in_front import Compared, measured, wait
from .process import Server, free_port
from .stage import Stage
from .versions import text

ANSWER = b'{"errno":0,"errmsg":"success","data":"e"}'

FPM = """\
[global]
error_log = $dir/fpm.log
daemonize = no
$pools
"""

POOL = """\
[$name]
$user
listen = $dir/$name.sock
listen.mode = 0666
listen.backlog = 4096
pm = static
pm.max_children = $children
"""

TOKAMAK = """\
listen = ["127.0.0.1:$port"]
control = "$dir/$name.control"

[[upstream]]
name = "php"
address = "unix:$dir/$name.sock"
$connections
requests = $requests

[[site]]
root = "$root"
upstream = "php"
"""


@dataclass(frozen=True)
class Way:
    """A server in front of php-fpm."""

    name: str
    what: str
    is_nginx: bool
    keeps: bool
    is_bounded: bool = True
    """Whether Tokamak has its default bound, beyond which requests wait for a connection, and
    not a connection for each client."""


WAYS = (
    Way("nginx-kept", "nginx, connection kept", is_nginx=True, keeps=True),
    Way("tokamak-kept", "Tokamak, connection kept", is_nginx=False, keeps=True),
    Way(
        "tokamak-kept-each",
        "Tokamak, one kept for each client",
        is_nginx=False,
        keeps=True,
        is_bounded=False,
    ),
    Way("nginx-connecting", "nginx, connecting", is_nginx=True, keeps=False),
    Way("tokamak-connecting", "Tokamak, connecting", is_nginx=False, keeps=False),
)


@dataclass(frozen=True)
class Row:
    """One run."""

    round: int
    way: str
    clients: int
    client_keeps: bool
    rate: float
    front_us: float
    """Processor time of the server in front, per request."""
    fpm_us: float
    p50: float
    p99: float
    errors: int


@dataclass
class Scene(Stage):
    """php-fpm and all servers in front of it."""

    directory: Path
    chosen: argparse.Namespace
    ports: dict[Way, int] = field(default_factory=dict)
    fronts: dict[Way, Server] = field(default_factory=dict)
    fpm: Server = field(default_factory=Server)

    def start(self) -> None:
        """Writes the configurations, starts everything, and waits for the right answers."""
        temporary = self.directory / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        site = self.directory / "site"
        site.mkdir()
        (site / "index.php").write_bytes(b"<?php echo '" + ANSWER + b"';\n")
        self.write("php.ini", peers.PHP_INI)
        pools = [self.fill(POOL, name=way.name, user=user(pool=True)) for way in WAYS]
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PHPRC": f"{self.directory}",
            "PHP_INI_SCAN_DIR": peers.EXTENSIONS,
        }
        configuration = self.write("fpm.conf", FPM, pools="\n".join(pools))
        self.fpm.start(
            [peers.FPM, "--nodaemonize", "--fpm-config", f"{configuration}"],
            environment,
            self.directory / "fpm-output.log",
        )
        for way in WAYS:
            self.ports[way], self.fronts[way] = free_port(), Server()
            self.fronts[way].start(
                self.command(way), environment, self.directory / f"{way.name}-output.log"
            )
        for way in WAYS:
            self.wait(way)

    def stop(self) -> None:
        """Ends every process."""
        for server in (*self.fronts.values(), self.fpm):
            server.stop()

    def fill(self, template: str, **values: object) -> str:
        """A configuration with its $names filled in."""
        most = max(self.chosen.connections)
        # A child for each connection that nginx's processes may keep, or some would starve; see
        # peers.nginx_fpm_keepalive.
        children = most * (os.cpu_count() or 1)
        known = {"dir": self.directory, "root": self.directory / "site", "children": children}
        return Template(template).substitute(known | values)

    def write(self, file: str, template: str, **values: object) -> Path:
        """Writes a configuration file."""
        path = self.directory / file
        path.write_text(self.fill(template, **values))
        return path

    def command(self, way: Way) -> list[str]:
        """Starts the server of one way."""
        port = self.ports[way]
        if way.is_nginx:
            keep = (
                f"keepalive {max(self.chosen.connections)}; keepalive_requests 1000000000;"
                if way.keeps
                else ""
            )
            path = self.write(
                f"{way.name}.conf",
                peers.NGINX,
                server=way.name,
                socket=f"{way.name}.sock",
                processes=os.cpu_count() or 1,
                routing="",
                port=port,
                user=user(pool=False),
                keepalive=keep,
                keep_connection="fastcgi_keep_conn on;" if way.keeps else "",
            )
            return [
                "nginx",
                "-p",
                f"{self.directory}",
                "-c",
                f"{path}",
                "-e",
                f"{self.directory}/{way.name}.log",
            ]
        bound = "" if way.is_bounded else f"connections = {max(self.chosen.connections)}"
        path = self.write(
            f"{way.name}.toml",
            TOKAMAK,
            name=way.name,
            port=port,
            requests=0 if way.keeps else 1,
            connections=bound,
        )
        return [f"{self.chosen.tokamak}", "serve", "--config", f"{path}"]

    def url(self, way: Way) -> str:
        """Where this way serves the script."""
        return f"http://127.0.0.1:{self.ports[way]}/index.php"

    def wait(self, way: Way) -> None:
        """Asks until the answer is right."""
        wait(way.name, lambda: answer(self.url(way)) == ANSWER, self.directory)


def user(pool: bool) -> str:
    """The line that drops privileges, which only a server started by root may have."""
    return peers.as_root("user = www-data\ngroup = www-data" if pool else "user www-data;")


def rows(scene: Scene) -> Iterator[Row]:
    """All ways in turn, in rounds; the order changes with each."""
    chosen = scene.chosen
    loads = [(1, False), *((clients, True) for clients in chosen.connections)]
    for number in range(chosen.rounds):
        shift = number % len(WAYS)
        for clients, client_keeps in loads:
            for way in WAYS[shift:] + WAYS[:shift]:
                seen, front, fpm = measured(
                    scene.fronts[way],
                    scene.fpm,
                    scene.url(way),
                    clients,
                    chosen.seconds,
                    client_keeps,
                )
                errors = seen.bad_status + seen.socket_errors + seen.timeouts
                row = Row(
                    number + 1,
                    way.name,
                    clients,
                    client_keeps,
                    round(seen.rate, 1),
                    front,
                    fpm,
                    seen.p50,
                    seen.p99,
                    errors,
                )
                say(
                    f"round {row.round}: {row.way} c={clients}: {row.rate:.0f}/s,"
                    f" {front:.1f} + {fpm:.1f} µs, {errors} errors"
                )
                yield row


def table(found: list[Row]) -> str:
    """Medians over the rounds; ratios to nginx with kept connections are taken within each
    round."""
    head = (
        "| load | way | requests/s | to nginx kept | CPU of the front, µs a request "
        "| to nginx kept | CPU of php-fpm, µs | p50 µs | p99 µs | errors |"
    )
    lines = [head, "| --- | --- |" + " ---: |" * 8]
    for clients, client_keeps in dict.fromkeys((row.clients, row.client_keeps) for row in found):
        here = [row for row in found if (row.clients, row.client_keeps) == (clients, client_keeps)]
        base = [row for row in here if row.way == WAYS[0].name]
        named = f"{clients} client{'s' if clients > 1 else ''}"
        named += "" if client_keeps else " that connects for each"
        for way in WAYS:
            mine = [row for row in here if row.way == way.name]
            compared = Compared(mine, base)
            median, ratio = compared.median, compared.ratio
            lines.append(
                f"| {named} | {way.what} | {median('rate'):.0f} | {ratio('rate'):.2f} "
                f"| {median('front_us'):.1f} | {ratio('front_us'):.2f} "
                f"| {median('fpm_us'):.1f} | {median('p50'):.0f} | {median('p99'):.0f} "
                f"| {sum(row.errors for row in mine)} |"
            )
    return "\n".join(lines)


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    parser = options.measurement("proxy", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=7, help="default: 7")
    option("--seconds", type=options.positive, default=2, help="of each run; default: 2")
    option(
        "--connections",
        type=options.numbers,
        default=[1, 16, 64],
        help="of clients; default: 1,16,64",
    )
    chosen = parser.parse_args(arguments)
    runs = chosen.rounds * (len(chosen.connections) + 1) * len(WAYS)
    program.begin(chosen.out, 120 + 2 * runs * (chosen.seconds + 1))
    with program.workshop("proxy") as directory:
        try:
            with Scene(directory, chosen) as scene:
                found = record.write(chosen.out / "proxy.csv", Row, rows(scene))
                for way in WAYS:
                    scene.wait(way)
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    title = "# A FastCGI connection, kept and not"
    page = f"{title}\n\n{table(found)}\n\n```\n{text(chosen.tokamak)}\n```\n"
    return program.end(chosen.out, page)
