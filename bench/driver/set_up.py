"""What of a request is set-up? The five systems of 2006, in which each leaves out something that
the one before does at every request, with today's programs: lighttpd, as then, and Tokamak, both
in front of php-fpm; and Tokamak's own PHP workers.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from . import load, options, peers, program, record
from .bars import Verdict
from .contest import CannotRun, answer, say
from .process import Server, free_port
from .stage import Stage
from .versions import text

ANSWER = b"123"
PHP = b'<?php echo "123" ?>'
READY_SECONDS = 20

FPM = """\
[global]
error_log = $dir/fpm.log
daemonize = no
$checked
$unchecked
"""

POOL = """\
[$name]
$user
listen = $dir/$name.sock
listen.mode = 0666
pm = static
; Tokamak keeps connections, each of which holds a child.
pm.max_children = 8
php_admin_value[opcache.validate_timestamps] = $looks
php_admin_value[opcache.revalidate_freq] = 0
"""

LIGHTTPD = """\
server.modules = ("mod_fastcgi", "mod_magnet")
server.document-root = "$dir/site"
server.bind = "127.0.0.1"
server.port = $port
$user
server.max-keep-alive-requests = 1000000000
server.max-keep-alive-idle = 75
server.errorlog = "$dir/lighttpd.log"
$$HTTP["url"] == "/index.php" { fastcgi.server = (".php" => (("socket" => "$dir/checked.sock"))) }
$$HTTP["url"] == "/unchecked.php" {
    fastcgi.server = (".php" => (("socket" => "$dir/unchecked.sock")))
}
$$HTTP["url"] == "/script.lua" { fastcgi.server = (".lua" => (("socket" => "$dir/lua.sock"))) }
$$HTTP["url"] == "/magnet" { magnet.attract-raw-url-to = ("$dir/magnet.lua") }
"""

TOKAMAK = """\
listen = ["127.0.0.1:$port"]
control = "$dir/front.control"

[[upstream]]
name = "lua"
address = "unix:$dir/lua.sock"

[[upstream]]
name = "checked"
address = "unix:$dir/checked.sock"

[[upstream]]
name = "unchecked"
address = "unix:$dir/unchecked.sock"

[[site]]
root = "$dir/site"
upstream = "checked"

[[site.route]]
path = "/unchecked.php"
upstream = "unchecked"

[[site.route]]
path = "/magnet"
lua_raw_url = ["$dir/magnet.lua"]

[[site.route]]
path = "/script.lua"
upstream = "lua"
"""

CLASSIC = """\
listen = ["127.0.0.1:$port"]
control = "$dir/classic.control"

[[site]]
root = "$dir/site"
mode = "classic"
php_admin_value = { "opcache.validate_timestamps" = 0 }
"""

POOLS = {"checked": 1, "unchecked": 0}
"""Who looks at the script's file at every request, as everybody did in 2006, and who never does."""

LUA_PROGRAM = 'print("Content-Type: text/html\\r\\n\\r\\n", "123")\n'
LUA_IN_THE_SERVER = """\
lighty.r.resp_header["Content-Type"] = "text/html"
lighty.r.resp_body.set("123")
return 200
"""


@dataclass(frozen=True)
class Step:
    """One of the five systems."""

    what: str
    ms_2006: float
    rate_2006: int
    client_keeps: bool
    path: str


STEPS = (
    Step("PHP without keep-alive", 2.9, 345, False, "/index.php"),
    Step("PHP", 2.4, 416, True, "/index.php"),
    Step("PHP, no second look at the file", 2.1, 465, True, "/unchecked.php"),
    Step("Lua over FastCGI", 1.6, 625, True, "/script.lua"),
    Step("Lua in the server", 0.6, 1700, True, "/magnet"),
)
CHAINS = {"lighttpd": "lighttpd", "tokamak": "Tokamak"}
OWN = "classic"
"""PHP in Tokamak's own workers: a further run, which had no like in 2006. It has one step, the
third."""
OWN_STEP = 2

# A look at a file is one of a hundred microseconds: what it saves is less than what rounds differ
# by.
SLACK = 0.97


@dataclass(frozen=True)
class Row:
    """One run: one client, one request after the other."""

    round: int
    chain: str
    step: int
    rate: float
    cpu_us: float
    """Processor time per request of all servers together: of the others next to nothing, since
    they have no requests."""
    errors: int


@dataclass
class Scene(Stage):
    """All servers."""

    directory: Path
    chosen: argparse.Namespace
    ports: dict[str, int] = field(default_factory=dict)
    servers: dict[str, Server] = field(default_factory=dict)

    def start(self) -> None:
        """Writes the configurations, starts everything, and waits for the right answers."""
        (self.directory / "tmp").mkdir()
        (self.directory / "tmp").chmod(0o1777)
        site = self.directory / "site"
        site.mkdir()
        for name in ("index.php", "unchecked.php"):
            (site / name).write_bytes(PHP)
            # opcache does not keep files that are younger than two seconds.
            os.utime(site / name, times=(time.time() - 60,) * 2)
        (site / "script.lua").write_text(LUA_PROGRAM)
        (self.directory / "magnet.lua").write_text(LUA_IN_THE_SERVER)
        (self.directory / "lighttpd.log").touch()
        (self.directory / "lighttpd.log").chmod(0o666)
        self.ports = {name: free_port() for name in (*CHAINS, OWN)}
        self.write("php.ini", peers.PHP_INI)
        tokamak = f"{self.chosen.tokamak}"
        pool = peers.as_root("user = www-data\ngroup = www-data")
        pools = {
            name: self.fill(POOL, name=name, user=pool, looks=looks)
            for name, looks in POOLS.items()
        }
        fpm = self.write("fpm.conf", FPM, **pools)
        user = peers.as_root('server.username = "www-data"\nserver.groupname = "www-data"')
        lighttpd = self.write("lighttpd.conf", LIGHTTPD, port=self.ports["lighttpd"], user=user)
        front = self.write("tokamak.toml", TOKAMAK, port=self.ports["tokamak"])
        classic = self.write("classic.toml", CLASSIC, port=self.ports[OWN])
        self.run("fpm", [peers.FPM, "--nodaemonize", "--fpm-config", f"{fpm}"])
        self.run(
            "lua-fcgi",
            [
                tokamak,
                "lua-fcgi",
                f"{site}",
                "--listen",
                f"unix:{self.directory}/lua.sock",
                "--mode",
                "666",
            ],
        )
        self.run("lighttpd", ["lighttpd", "-D", "-f", f"{lighttpd}"])
        self.run("tokamak", [tokamak, "serve", "--config", f"{front}"])
        self.run(OWN, [tokamak, "serve", "--config", f"{classic}"])
        self.check()

    def stop(self) -> None:
        """Ends every process."""
        for server in self.servers.values():
            server.stop()

    def fill(self, template: str, **values: object) -> str:
        """A configuration with its $names filled in."""
        return Template(template).substitute({"dir": self.directory} | values)

    def write(self, file: str, template: str, **values: object) -> Path:
        """Writes a configuration file."""
        path = self.directory / file
        path.write_text(self.fill(template, **values))
        return path

    def run(self, name: str, command: list[str]) -> None:
        """Starts one of them."""
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        environment = {
            "PATH": path,
            "PHPRC": f"{self.directory}",
            "PHP_INI_SCAN_DIR": peers.EXTENSIONS,
        }
        self.servers[name] = Server()
        self.servers[name].start(command, environment, self.directory / f"{name}-output.log")

    def url(self, chain: str, step: int) -> str:
        """Where a step is to be had."""
        return f"http://127.0.0.1:{self.ports[chain]}{STEPS[step].path}"

    def check(self) -> None:
        """Asks everybody until the answer is right."""
        deadline = time.monotonic() + READY_SECONDS
        for url in (self.url(*way) for way in ways()):
            while (last := self.answer(url)) != ANSWER:
                if time.monotonic() > deadline:
                    logs = "\n".join(
                        log.read_text(errors="replace")[-2000:]
                        for log in sorted(self.directory.glob("*.log"))
                    )
                    raise CannotRun(f"{url} answers {last[:300]!r}\n{logs}")
                time.sleep(0.1)

    def answer(self, url: str) -> bytes:
        """One answer, or why there is none."""
        try:
            return answer(url)
        except OSError as error:
            return f"{error}".encode()

    def run_seconds(self) -> float:
        """Processor time of all servers."""
        return sum(server.run_seconds() for server in self.servers.values())


def ways() -> list[tuple[str, int]]:
    """What is measured: who serves, and the step."""
    return [*((chain, step) for step in range(len(STEPS)) for chain in CHAINS), (OWN, OWN_STEP)]


def rows(scene: Scene) -> Iterator[Row]:
    """All of it in turn, in rounds; the order changes with each."""
    all_ways = ways()
    for number in range(scene.chosen.rounds):
        shift = number % len(all_ways)
        for chain, place in all_ways[shift:] + all_ways[:shift]:
            step = STEPS[place]
            before = scene.run_seconds()
            seen = load.run(
                scene.url(chain, place), 1, scene.chosen.seconds, keeps=step.client_keeps
            )
            used = (scene.run_seconds() - before) * 1e6 / max(seen.requests, 1)
            row = Row(
                number + 1,
                chain,
                place,
                round(seen.rate, 1),
                round(used, 2),
                seen.bad_status + seen.socket_errors + seen.timeouts,
            )
            say(
                f"round {row.round}: {chain}, {step.what}: {row.rate:.0f}/s,"
                f" {row.cpu_us:.1f} µs, {row.errors} errors"
            )
            yield row


def ratio(found: list[Row], chain: str, upper: int, lower: int) -> float:
    """How many times as fast one step is as another: the median of the ratios within each round."""
    rates = {(row.round, row.step): row.rate for row in found if row.chain == chain}
    rounds = {row.round for row in found}
    return statistics.median(
        rates[number, upper] / max(rates[number, lower], 0.1) for number in rounds
    )


def cells_of(found: list[Row], chain: str, step: int, factor: float) -> list[str]:
    """What is told of one system: medians."""
    mine = [row for row in found if (row.chain, row.step) == (chain, step)]
    rate = statistics.median(row.rate for row in mine)
    cpu = statistics.median(row.cpu_us for row in mine)
    return [f"{1000 / max(rate, 0.1):.3f}", f"{rate:.0f}", f"{factor:.1f}", f"{cpu:.0f}"]


def table(found: list[Row]) -> str:
    """What was then, and what is now: medians, and factors to the first row."""
    head = ["system", "2006: ms", "req/s", "factor"]
    for what in CHAINS.values():
        head += [f"{what}: ms", "req/s", "factor", "CPU µs"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for place, step in enumerate(STEPS):
        cells = [
            step.what,
            f"{step.ms_2006}",
            f"{step.rate_2006}",
            f"{step.rate_2006 / STEPS[0].rate_2006:.1f}",
        ]
        for chain in CHAINS:
            cells += cells_of(found, chain, place, ratio(found, chain, place, 0))
        lines.append("| " + " | ".join(cells) + " |")
    # To Tokamak's own first row.
    factor = statistics.median(
        own.rate / max(first.rate, 0.1)
        for own in found
        for first in found
        if own.chain == OWN and (first.chain, first.step, first.round) == ("tokamak", 0, own.round)
    )
    own = ["PHP in the server's own workers", *["–"] * 7, *cells_of(found, OWN, OWN_STEP, factor)]
    return "\n".join([*lines, "| " + " | ".join(own) + " |"])


def verdicts(found: list[Row]) -> list[Verdict]:
    """Each step is to be quicker than the one before, as then."""
    said = []
    for chain, what in CHAINS.items():
        ratios = [ratio(found, chain, place, place - 1) for place in range(1, len(STEPS))]
        shown = ", ".join(f"{value:.2f}" for value in ratios)
        said.append(
            Verdict(f"{what}: the order of 2006", all(value > SLACK for value in ratios), shown)
        )
    wrong = sum(row.errors for row in found)
    return [*said, Verdict("no request went wrong", wrong == 0, f"{wrong}")]


def run(arguments: list[str]) -> int:
    """Measures, and writes a record. Fails if the order is another one."""
    parser = options.measurement("set-up", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=7, help="default: 7")
    option("--seconds", type=options.positive, default=2, help="of each run; default: 2")
    chosen = parser.parse_args(arguments)
    program.begin(chosen.out, 120 + 2 * chosen.rounds * len(ways()) * (chosen.seconds + 1))
    with program.workshop("set-up") as directory:
        try:
            with Scene(directory, chosen) as scene:
                found = record.write(chosen.out / "set-up.csv", Row, rows(scene))
                scene.check()
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    said = verdicts(found)
    lines = "\n".join(verdict.line() for verdict in said)
    parts = ["# What of a request is set-up", table(found), f"```\n{lines}\n```"]
    page = "\n\n".join([*parts, f"```\n{text(chosen.tokamak)}\n```"]) + "\n"
    return program.end(chosen.out, page, all(verdict.reached for verdict in said))
