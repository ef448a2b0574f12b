"""Pages of one's own (examples/personalised) as they were measured in 1996: what do a cache in
the process, affinity, and a kept database connection bring?"""

import argparse
import base64
import http.client
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import load, options, program, record
from .contest import CannotRun, say
from .databases import begin_postgresql, postgresql_programs, query_postgresql
from .load import Load
from .process import Server, free_port
from .sites import REPO
from .versions import first_line, text

EXAMPLE = REPO / "examples/personalised"
SCRIPT = Path(__file__).with_name("users.lua")
PER_USER = 10
"""Requests of each user; users.lua has the same number."""
CHECKED = (1, 7, 4242)
"""Users whose pages must be the same in all configurations."""
READY_SECONDS = 20
LOAD_SECONDS = 300
"""For a million users on a busy machine."""
BAR = 3.0
"""The first configuration is to be so many times as fast as the second."""

FASTCGI = """\
[[upstream]]
name = "personalised"
spawn = ["php", "-c", "{directory}/php.ini", "app.php"]
directory = "{example}"
processes = {processes}
env = {{ {environment} }}
queue_timeout = "60s"
{affinity}

[[site]]
root = "{example}/public"
mode = "fastcgi"

[[site.route]]
path = "/"
upstream = "personalised"
"""

IN_SERVER = """\
[[site]]
root = "{example}/public"
mode = "worker"
worker = "{example}/worker.php"
env = {{ {environment} }}

[site.pool]
manager = "static"
workers = {processes}
queue_timeout = "60s"
"""

TOP = """\
listen = ["127.0.0.1:{port}"]
control = "{directory}/control"
{user}

"""


@dataclass(frozen=True)
class Way:
    """One configuration of the application."""

    name: str
    template: str
    seconds: int
    """How long a process keeps a user; 0: not at all."""
    keeps_connection: bool
    has_affinity: bool
    of_1996: tuple[float, float] | None
    """Milliseconds per request and requests/s of its counterpart."""

    def configuration(self, directory: Path, port: int, dsn: str, processes: int) -> str:
        """The server's configuration file."""
        keeps = "yes" if self.keeps_connection else "no"
        values = {
            "USERS_DSN": dsn,
            "USERS_KEPT_SECONDS": f"{self.seconds}",
            "USERS_KEEP_CONNECTION": keeps,
        }
        return (TOP + self.template).format(
            port=port,
            directory=directory,
            example=EXAMPLE,
            processes=processes,
            environment=", ".join(f'{name} = "{value}"' for name, value in values.items()),
            affinity='affinity = "user"' if self.has_affinity else "",
            user='user = "www-data"' if os.geteuid() == 0 else "",
        )


WAYS = (
    Way("FastCGI: cache, affinity, connection kept", FASTCGI, 600, True, True, (12.0, 83)),
    Way(
        "in the server: no cache, connection for each request",
        IN_SERVER,
        0,
        False,
        False,
        (36.6, 27),
    ),
    Way("in the server: no cache, connection kept", IN_SERVER, 0, True, False, (16.0, 61)),
    Way("FastCGI: no cache, connection kept", FASTCGI, 0, True, True, (20.1, 50)),
    Way("FastCGI: cache, no affinity, connection kept", FASTCGI, 600, True, False, None),
    Way("in the server: cache, no affinity, connection kept", IN_SERVER, 600, True, False, None),
)


@dataclass(frozen=True)
class Row:
    """One run."""

    round: int
    way: str
    clients: int
    rate: float
    p50: float
    p90: float
    p99: float
    cpu_us: float
    """Of the server and the application, per request."""
    database_us: float
    errors: int


PASSWORD = "secret"
"""It stands in a DSN. Not every way of authentication asks for it."""


class Users:
    """A PostgreSQL server with users and their attributes. Leaving the `with` block ends it."""

    def __init__(self, home: Path, count: int, authentication: str) -> None:
        self.home = home
        self.count = count
        self.authentication = authentication
        self.server = Server()

    @property
    def dsn(self) -> str:
        """For PDO."""
        return f"pgsql:host={self.home};dbname=bench;user=bench;password={PASSWORD}"

    def __enter__(self) -> "Users":
        try:
            begin_postgresql(self.server, self.home, PASSWORD, self.authentication)
            words = ["-v", f"users={self.count}", "-f", f"{EXAMPLE}/users.sql"]
            query_postgresql(self.home, PASSWORD, *words, timeout=LOAD_SECONDS)
        except BaseException:
            self.server.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()


class Application:
    """The example behind one server, in one configuration. Leaving the `with` block ends it."""

    def __init__(self, way: Way, directory: Path, users: Users, chosen: argparse.Namespace) -> None:
        self.way = way
        self.users = users
        self.port = free_port()
        self.server = Server()
        self.directory = directory
        self.command = [
            f"{chosen.tokamak.resolve()}",
            "serve",
            "--config",
            f"{directory}/tokamak.toml",
        ]
        directory.mkdir()
        directory.chmod(0o755)
        (directory / "php.ini").write_text("opcache.enable = 1\nopcache.enable_cli = 1\n")
        configuration = way.configuration(directory, self.port, users.dsn, chosen.processes)
        (directory / "tokamak.toml").write_text(configuration)

    def __enter__(self) -> "Application":
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PHPRC": f"{self.directory}"}
        self.server.start(self.command, environment, self.directory / "log")
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.page(1)
                return self
            except (OSError, http.client.HTTPException, CannotRun) as error:
                if time.monotonic() > deadline:
                    self.server.stop()
                    said = (self.directory / "log").read_text(errors="replace")[-2000:]
                    raise CannotRun(f"{self.way.name} does not answer: {error}\n{said}") from error
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def page(self, user: int) -> bytes:
        """One user's page."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        token = base64.b64encode(f"user{user}:secret{user}".encode()).decode()
        try:
            connection.request("GET", "/account", headers={"Authorization": f"Basic {token}"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200 or f"{user} High Street".encode() not in body or b"{" in body:
            raise CannotRun(
                f"{self.way.name}: a wrong page for user {user}: {answer.status} {body[:200]!r}"
            )
        return body


class Clients:
    """The load. Users that were asked for once are not asked for again, so that the cache has
    seen nobody before."""

    def __init__(self, users: int) -> None:
        self.users = users
        self.used = 0

    def run(self, application: Application, clients: int, seconds: int) -> Load:
        """So many clients at once, each with a connection of its own."""
        url = f"http://127.0.0.1:{application.port}/"
        command = [
            "wrk",
            f"-t{clients}",
            f"-c{clients}",
            f"-d{seconds}s",
            "--latency",
            "-s",
            f"{SCRIPT}",
            url,
        ]
        command += ["--", f"{self.users}", f"{self.used}", f"{clients}"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=seconds + 30
        )
        seen = load.parse(done.stdout)
        # Twice as many as were needed in the mean: one client may be luckier than another.
        self.used += 2 * seen.requests // PER_USER + clients
        if self.used > self.users:
            raise CannotRun(f"{self.users} users are too few for so many requests; see --users")
        return seen


def measure(
    number: int, application: Application, clients: Clients, count: int, seconds: int
) -> Row:
    """One run."""
    database = application.users.server
    before = application.server.cpu_seconds(), database.cpu_seconds()
    seen = clients.run(application, count, seconds)
    used = application.server.cpu_seconds() - before[0], database.cpu_seconds() - before[1]
    cpu, of_database = (round(each * 1e6 / max(seen.requests, 1), 1) for each in used)
    errors = seen.bad_status + seen.socket_errors + seen.timeouts
    row = Row(
        number,
        application.way.name,
        count,
        round(seen.rate, 1),
        seen.p50,
        seen.p90,
        seen.p99,
        cpu,
        of_database,
        errors,
    )
    say(
        f"round {number}, {count} clients, {row.way}: {row.rate:.0f}/s,"
        f" p90 {row.p90 / 1e3:.1f} ms, {cpu:.0f} + {of_database:.0f} µs, {errors} errors"
    )
    return row


def rows(
    applications: list[Application], clients: Clients, chosen: argparse.Namespace
) -> Iterator[Row]:
    """All configurations in turn, in rounds with an order that changes: with the ten clients of
    1996, and with other numbers."""
    for number in range(chosen.rounds):
        order = (
            applications[number % len(applications) :] + applications[: number % len(applications)]
        )
        for count in chosen.clients:
            for application in order:
                yield measure(number + 1, application, clients, count, chosen.seconds)


def median(found: list[Row], name: str) -> float:
    """Of one column."""
    return statistics.median(getattr(row, name) for row in found)


def ratio(found: list[Row], clients: int) -> float:
    """How many times as fast the first configuration is as the second, the median over the
    rounds."""
    rates = {(row.round, row.way): row.rate for row in found if row.clients == clients}
    numbers = sorted({number for number, _ in rates})
    return statistics.median(
        rates[number, WAYS[0].name] / rates[number, WAYS[1].name] for number in numbers
    )


def peak(found: list[Row], way: str, limit_ms: float) -> tuple[float, int] | None:
    """The best median rate, and with how many clients, of those numbers of clients with which 90
    % took less than the limit."""
    numbers = sorted({row.clients for row in found})
    medians = [
        (number, [row for row in found if (row.way, row.clients) == (way, number)])
        for number in numbers
    ]
    good = [
        (median(runs, "rate"), number)
        for number, runs in medians
        if median(runs, "p90") < limit_ms * 1e3
    ]
    return max(good, default=None)


def table(found: list[Row], clients: int, limit_ms: float) -> str:
    """Medians over the rounds, beside the figures of 1996."""
    lines = [
        "| configuration | ms per request in 1996 | requests/s in 1996 "
        "| ms per request | requests/s | to the second "
        "| p90 ms | CPU µs a request | of the database, µs | errors | peak requests/s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    second = {
        row.round: row.rate for row in found if (row.way, row.clients) == (WAYS[1].name, clients)
    }
    for way in WAYS:
        mine = [row for row in found if (row.way, row.clients) == (way.name, clients)]
        old = way.of_1996 or ("–", "–")
        times = statistics.median(row.rate / second[row.round] for row in mine)
        best = peak(found, way.name, limit_ms)
        at_best = f"{best[0]:.0f} ({best[1]} clients)" if best else "–"
        rate, p90, cpu, database = (
            median(mine, name) for name in ("rate", "p90", "cpu_us", "database_us")
        )
        errors = sum(row.errors for row in found if row.way == way.name)
        lines.append(
            f"| {way.name} | {old[0]} | {old[1]} "
            f"| {1e3 / rate:.2f} | {rate:.0f} | {times:.2f} | {p90 / 1e3:.1f} "
            f"| {cpu:.0f} | {database:.0f} | {errors} | {at_best} |"
        )
    return "\n".join(lines)


def parse(arguments: list[str]) -> argparse.Namespace:
    """What was typed."""
    parser = options.measurement("personalised", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=5, help="default: 5")
    option("--seconds", type=options.positive, default=3, help="of each run; default: 3")
    option(
        "--clients",
        type=options.numbers,
        default=[1, 2, 5, 10, 20, 40],
        help="must have 10 in it; default: 1,2,5,10,20,40",
    )
    option(
        "--limit",
        type=float,
        default=10.0,
        help="ms within which 90 %% are to be answered for a peak; default: 10",
    )
    option(
        "--processes",
        type=options.positive,
        default=8,
        help="of the application, however it is started; default: 8",
    )
    option(
        "--users",
        type=options.positive,
        default=1_000_000,
        help="in the database; default: 1000000",
    )
    option(
        "--authentication",
        default="trust",
        help="how the database knows the application; default: trust",
    )
    chosen = parser.parse_args(arguments)
    if 10 not in chosen.clients:
        parser.error("--clients must have 10 in it: so many there were in 1996")
    return chosen


def run(arguments: list[str]) -> int:
    """Measures, and writes a record; fails if the bar is not reached."""
    chosen = parse(arguments)
    runs = chosen.rounds * len(chosen.clients) * len(WAYS)
    program.begin(chosen.out, 300 + 2 * runs * (chosen.seconds + 1))
    busy = os.getloadavg()[0]
    with program.workshop("personalised") as directory:
        applications: list[Application] = []
        try:
            with Users(directory / "pgsql", chosen.users, chosen.authentication) as users:
                try:
                    for number, way in enumerate(WAYS):
                        applications.append(
                            Application(
                                way, directory / f"server-{number}", users, chosen
                            ).__enter__()
                        )
                    compare(applications)
                    clients = Clients(chosen.users)
                    for application in applications:
                        clients.run(application, 10, 1)
                    found = record.write(
                        chosen.out / "personalised.csv", Row, rows(applications, clients, chosen)
                    )
                    compare(applications)
                finally:
                    for application in applications:
                        application.server.stop()
        except (CannotRun, RuntimeError) as failure:
            print(failure, file=sys.stderr)
            return 1
    times = ratio(found, 10)
    page = f"""\
# Pages of one's own

10 clients with users of their own, 10 requests of each user; {chosen.processes} processes of the
application, {chosen.rounds} rounds of {chosen.seconds} s, medians. The database lets the
application in by `{chosen.authentication}`. Peak: the best rate with which 90 % take less than
{chosen.limit:g} ms, of {", ".join(map(str, chosen.clients))} clients. Load average before:
{busy:.1f}.

{table(found, 10, chosen.limit)}

The first configuration is {times:.1f} times as fast as the second; at least {BAR:g} times was to be
reached.

```
{text(chosen.tokamak)}
{first_line([f"{postgresql_programs()}/postgres", "--version"])}
```
"""
    return program.end(chosen.out, page, times >= BAR)


def compare(applications: list[Application]) -> None:
    """All of them say the same."""
    for user in CHECKED:
        pages = {application.page(user) for application in applications}
        if len(pages) != 1:
            raise CannotRun(f"the configurations give {len(pages)} different pages to user {user}")
