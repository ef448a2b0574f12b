"""What does an application answer that waits for its database? A page of Laravel asks it ten times,
and each answer takes two milliseconds. Requests come in an open loop, whatever becomes of earlier
ones: looked for are the most a second at which 99 of 100 are answered within a tenth of a second.
Tokamak in sealed mode finds its number of workers by itself; nginx and php-fpm get several."""

import http.client
import json
import shutil
import statistics
import subprocess
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import options, program, record
from .bars import at_least
from .contest import CannotRun, say
from .database import PASSWORD, MariaDb
from .peers import FPM
from .process import Server, free_port
from .sites import REPO
from .versions import text

NAMES = [f"thing {number}" for number in range(1, 11)]
BOUND = "100ms"
READY_SECONDS = 60
YOUNG_SECONDS = 3
"""opcache keeps no file that is younger than two seconds."""
BAR = 5.0
TOKAMAK = "tokamak-sealed"
ROUTE = """
Route::get('/ten', static function () {
    $sql = 'SELECT name, SLEEP(0.002) FROM things WHERE id = ?';
    $name = static fn (int $id) => Illuminate\\Support\\Facades\\DB::selectOne($sql, [$id])->name;
    return new Illuminate\\Http\\JsonResponse(array_map($name, range(1, 10)));
});
"""
DATABASE = """<?php
return ['default' => 'mysql', 'connections' => ['mysql' => [
    'driver' => 'mysql', 'unix_socket' => '%s', 'database' => 'things', 'username' => 'things',
    'password' => '%s', 'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci',
]]];
"""
POOL = """[global]
daemonize = no
error_log = /dev/stderr
[site]
listen = {directory}/fpm.sock
listen.mode = 0666
listen.backlog = 4096
user = nobody
group = nogroup
pm = static
pm.max_children = {children}
php_value[error_reporting] = 8191
{env}
"""
NGINX = """daemon off; pid {directory}/nginx.pid; worker_processes 2; error_log stderr;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_NAME /index.php;
            fastcgi_param SCRIPT_FILENAME {site}/public/index.php;
            fastcgi_pass unix:{directory}/fpm.sock;
        }}
    }}
}}
"""
SITE = """listen = "127.0.0.1:{port}"
log.access = "off"
[[site]]
root = "{site}/public"
mode = "sealed"
boot = "{site}/boot.php"
front_controller = "index.php"
php_value = {{ error_reporting = 8191 }}
env = {{ {env} }}
"""


@dataclass(frozen=True)
class Capacity:
    """The most requests a second that one of them answered in time."""

    round: int
    peer: str
    rate: float


def build(directory: Path, database: MariaDb) -> Path:
    """The application of `examples/laravel`, with a database and a page that asks it."""
    rows = ", ".join(f"({number}, '{name}')" for number, name in enumerate(NAMES, 1))
    table = "CREATE TABLE things.things (id INT PRIMARY KEY, name VARCHAR(20))"
    database.query(f"{table}; INSERT INTO things.things VALUES {rows}")
    site = directory / "site"
    shutil.copytree(f"{REPO}/examples/laravel", site)
    (site / "config/database.php").write_text(DATABASE % (database.socket, PASSWORD))
    with (site / "routes/api.php").open("a") as routes:
        routes.write(ROUTE)
    time.sleep(YOUNG_SECONDS)
    return site


def environment(directory: Path) -> dict[str, str]:
    """What the application is told, and where it may write."""
    storage = directory / "storage"
    storage.mkdir()
    storage.chmod(0o777)
    return {
        "APP_KEY": f"base64:{'A' * 43}=",
        "APP_STORAGE": f"{storage}",
        "APP_SERVICES_CACHE": f"{storage}/services.php",
        "APP_PACKAGES_CACHE": f"{storage}/packages.php",
    }


def tokamak(directory: Path, site: Path, port: int, program: Path) -> list[list[str]]:
    """This server, as it comes."""
    env = ", ".join(f'{name} = "{value}"' for name, value in environment(directory).items())
    config = directory / "tokamak.toml"
    config.write_text(SITE.format(port=port, site=site, env=env))
    return [[f"{program}", "serve", "--config", f"{config}", "--control", f"{directory}/control"]]


def nginx_fpm(directory: Path, site: Path, port: int, children: int) -> list[list[str]]:
    """nginx and php-fpm with so many children."""
    env = "\n".join(f'env[{name}] = "{value}"' for name, value in environment(directory).items())
    fpm, nginx = directory / "fpm.conf", directory / "nginx.conf"
    fpm.write_text(POOL.format(directory=directory, children=children, env=env))
    nginx.write_text(NGINX.format(directory=directory, port=port, site=site))
    return [
        [FPM, "--nodaemonize", "--fpm-config", f"{fpm}"],
        ["nginx", "-c", f"{nginx}", "-e", "stderr"],
    ]


def until_right(port: int) -> None:
    """Asks until the page is what it should be."""
    deadline = time.monotonic() + READY_SECONDS
    answer = b"no answer"
    while time.monotonic() < deadline:
        try:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            client.request("GET", "/ten")
            answer = client.getresponse().read()
            client.close()
            if json.loads(answer) == NAMES:
                return
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    raise CannotRun(f"another page: {answer[:200]!r}")


def measure(commands: list[list[str]], directory: Path, port: int, chosen: Namespace) -> float:
    """Starts a server, and looks for the most that it answers in time."""
    server = Server()
    try:
        for command in commands:
            server.start(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, directory / "log")
        until_right(port)
        search = ["capacity", f"http://127.0.0.1:{port}/ten", "--p99", BOUND, "--json"]
        words = [f"{chosen.tokamak}", *search, "--for", f"{chosen.seconds}s"]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=2 * chosen.seconds + 60
        )
        if done.returncode:
            raise CannotRun(f"tokamak capacity: {done.stderr}")
        return rate_in(done.stdout)
    finally:
        server.stop()


def rate_in(report: str) -> float:
    """What `tokamak capacity --json` has found; 0 if not even the lowest rate was answered."""
    return float(json.loads(report)["peak"] or 0)


def capacities(directory: Path, site: Path, chosen: Namespace) -> Iterator[Capacity]:
    """By turns."""
    for number in range(chosen.rounds):
        for children in [None, *chosen.children]:
            peer = TOKAMAK if children is None else f"nginx-fpm, {children} children"
            place, port = directory / f"{children or TOKAMAK}-{number}", free_port()
            place.mkdir()
            commands = (
                tokamak(place, site, port, chosen.tokamak)
                if children is None
                else nginx_fpm(place, site, port, children)
            )
            rate = measure(commands, place, port, chosen)
            say(f"{peer}: {rate:.0f}/s")
            yield Capacity(number, peer, rate)


def run(arguments: list[str]) -> int:
    """Measures, and writes a record. Fails if Tokamak does not reach the bar."""
    parser = options.measurement("waiting", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=3, help="default: 3")
    option("--seconds", type=options.positive, default=60, help="of each search; default: 60")
    option(
        "--children",
        type=options.numbers,
        default=[4, 8, 16, 32, 64],
        help="of php-fpm; default: 4,8,16,32,64",
    )
    chosen = parser.parse_args(arguments)
    each = READY_SECONDS + 2 * chosen.seconds + 60
    program.begin(chosen.out, 120 + (1 + len(chosen.children)) * each * chosen.rounds)
    with program.workshop("waiting") as directory:
        database = MariaDb(directory / "mariadb", "things")
        try:
            site = build(directory, database)
            found = record.write(
                chosen.out / "waiting.csv", Capacity, capacities(directory, site, chosen)
            )
        finally:
            database.stop()
    peers = list(dict.fromkeys(one.peer for one in found))
    medians = {
        peer: statistics.median(one.rate for one in found if one.peer == peer) for peer in peers
    }
    best = max(rate for peer, rate in medians.items() if peer != TOKAMAK)
    ratio = medians[TOKAMAK] / best if best else None
    verdict = at_least(f"{TOKAMAK}: to nginx-fpm with its best number of children", ratio, BAR)
    lines = "\n".join(f"| {peer} | {rate:.0f} |" for peer, rate in medians.items())
    table = f"| ten queries of 2 ms, 99 of 100 within {BOUND} | requests/s |\n| --- | ---: |"
    parts = ["# An application that waits", f"{table}\n{lines}"]
    page = "\n\n".join([*parts, f"```\n{verdict.line()}\n```", f"```\n{text(chosen.tokamak)}\n```"])
    return program.end(chosen.out, page + "\n", verdict.reached)
