"""What does a server cost in front of an application of HTTP? nginx and Tokamak, both with kept
connections, in front of an nginx that sends files of two sizes.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import ClassVar

from . import options, program, record
from .contest import CannotRun, answer, say
from .in_front import Compared, measured, wait
from .process import Server, free_port
from .proxy import user
from .stage import Stage
from .versions import text


FILES = {"1 kB": 1_000, "1 MB": 1_000_000}
"""Answers of the application, by their names in the table: bytes."""

NGINX = """\
$user
worker_processes $processes;
daemon off;
pid $dir/$name.pid;
error_log $dir/$name.log warn;
events { worker_connections 4096; }
http {
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    client_body_temp_path $dir/tmp/body;
    fastcgi_temp_path $dir/tmp/fastcgi;
    proxy_temp_path $dir/tmp/proxy;
    uwsgi_temp_path $dir/tmp/uwsgi;
    scgi_temp_path $dir/tmp/scgi;
    upstream application {
        server 127.0.0.1:$application;
        keepalive 256;
        keepalive_requests 1000000000;
    }
    server {
        listen 127.0.0.1:$port backlog=4096;
        location / { $answer }
    }
}
"""

PASSES = """\
proxy_pass http://application;
proxy_http_version 1.1;
proxy_set_header Connection "";
proxy_set_header Host $http_host;
proxy_set_header X-Forwarded-For $remote_addr;
proxy_set_header X-Forwarded-Proto $scheme;
proxy_set_header X-Forwarded-Host $http_host;
proxy_set_header X-Real-IP $remote_addr;
"""

TOKAMAK = """\
listen = ["127.0.0.1:$port"]
control = "$dir/tokamak.control"

[[upstream]]
name = "application"
address = "http://127.0.0.1:$application"
connections = 2048

[[site]]
root = "$dir/files"
upstream = "application"
"""

FRONTS = ("nginx", "tokamak")


@dataclass(frozen=True)
class Row:
    """One run."""

    round: int
    front: str
    file: str
    clients: int
    rate: float
    front_us: float
    """Processor time of the server in front, per request."""
    application_us: float
    p50: float
    p99: float
    errors: int


@dataclass
class Scene(Stage):
    """The application and both servers in front of it."""

    directory: Path
    chosen: argparse.Namespace
    port: int = 0
    ports: dict[str, int] = field(default_factory=dict)
    fronts: dict[str, Server] = field(default_factory=dict)
    application: Server = field(default_factory=Server)
    passes: ClassVar[str] = PASSES
    """What nginx in front is told of the application."""

    def start(self) -> None:
        """Writes the configurations, starts everything, and waits for the right answers."""
        temporary = self.directory / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        files = self.directory / "files"
        files.mkdir()
        for name, size in FILES.items():
            (files / name.replace(" ", "")).write_bytes(b"x" * size)
        self.port = free_port()
        self.launch(self.application, self.application_command())
        for front in FRONTS:
            self.ports[front], self.fronts[front] = free_port(), Server()
            command = (
                self.nginx(front, self.ports[front], self.passes)
                if front == "nginx"
                else self.tokamak(self.ports[front])
            )
            self.launch(self.fronts[front], command)
        for front in FRONTS:
            self.wait(front)

    def application_command(self) -> list[str]:
        """Starts the application, which sends files."""
        return self.nginx("application", self.port, f"root {self.directory}/files;")

    def stop(self) -> None:
        """Ends every process."""
        for server in (*self.fronts.values(), self.application):
            server.stop()

    def launch(self, server: Server, command: list[str]) -> None:
        """Starts a server."""
        log = self.directory / f"{len(list(self.directory.glob('*-output.log')))}-output.log"
        server.start(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, log)

    def fill(self, template: str, **values: object) -> str:
        """A configuration with its $names filled in; what nginx knows itself stays."""
        known = {"dir": self.directory, "application": self.port, "user": user(pool=False)}
        return Template(template).safe_substitute(known | values)

    def nginx(self, name: str, port: int, given: str) -> list[str]:
        """Starts nginx, which answers so."""
        processes = os.cpu_count() or 1
        path = self.directory / f"{name}.conf"
        path.write_text(self.fill(NGINX, name=name, port=port, processes=processes, answer=given))
        log = f"{self.directory}/{name}.log"
        return ["nginx", "-p", f"{self.directory}", "-c", f"{path}", "-e", log]

    def tokamak(self, port: int) -> list[str]:
        """Starts Tokamak."""
        path = self.directory / "tokamak.toml"
        path.write_text(self.fill(TOKAMAK, port=port))
        return [f"{self.chosen.tokamak}", "serve", "--config", f"{path}"]

    def url(self, front: str, file: str) -> str:
        """Where a server has a file of the application."""
        return f"http://127.0.0.1:{self.ports[front]}/{file.replace(' ', '')}"

    def wait(self, front: str) -> None:
        """Asks until the answers are right."""
        wait(front, lambda: self.is_right(front), self.directory)

    def is_right(self, front: str) -> bool:
        """Whether the files come through."""
        return all(len(answer(self.url(front, file))) == size for file, size in FILES.items())


def rows(scene: Scene) -> Iterator[Row]:
    """Both servers in turn, in rounds; the order changes with each."""
    chosen = scene.chosen
    for number in range(chosen.rounds):
        order = FRONTS if number % 2 == 0 else FRONTS[::-1]
        for file in FILES:
            for clients in chosen.connections:
                for front in order:
                    url = scene.url(front, file)
                    servers = scene.fronts[front], scene.application
                    seen, own, behind = measured(*servers, url, clients, chosen.seconds)
                    errors = seen.bad_status + seen.socket_errors + seen.timeouts
                    row = Row(
                        number + 1,
                        front,
                        file,
                        clients,
                        round(seen.rate, 1),
                        own,
                        behind,
                        seen.p50,
                        seen.p99,
                        errors,
                    )
                    say(
                        f"round {row.round}: {front} {file} c={clients}: {row.rate:.0f}/s,"
                        f" {own:.1f} + {behind:.1f} µs, {errors} errors"
                    )
                    yield row


def table(found: list[Row]) -> str:
    """Medians over the rounds; ratios to nginx are taken within each round."""
    head = (
        "| answer | clients | server | requests/s | to nginx | CPU of the server, µs a request "
        "| to nginx | CPU of the application, µs | p50 µs | p99 µs | to nginx | errors |"
    )
    lines = [head, "| --- | ---: | --- |" + " ---: |" * 9]
    for file, clients in dict.fromkeys((row.file, row.clients) for row in found):
        here = [row for row in found if (row.file, row.clients) == (file, clients)]
        base = [row for row in here if row.front == FRONTS[0]]
        for front in FRONTS:
            mine = [row for row in here if row.front == front]
            compared = Compared(mine, base)
            median, ratio = compared.median, compared.ratio
            lines.append(
                f"| {file} | {clients} | {front} | {median('rate'):.0f} | {ratio('rate'):.2f} "
                f"| {median('front_us'):.1f} | {ratio('front_us'):.2f} "
                f"| {median('application_us'):.1f} | {median('p50'):.0f} | {median('p99'):.0f} "
                f"| {ratio('p99'):.2f} | {sum(row.errors for row in mine)} |"
            )
    return "\n".join(lines)


def measure(
    name: str,
    about: str,
    arguments: list[str],
    connections: list[int],
    sizes: int,
    write: Callable[[Path, argparse.Namespace], str],
) -> int:
    """Measures what a program of this name is about, with answers of so many sizes, and writes a
    record. `write` is given a directory for the servers, and gives title and table of the page."""
    parser = options.measurement(name, about)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=5, help="default: 5")
    option("--seconds", type=options.positive, default=4, help="of each run; default: 4")
    usual = ",".join(map(str, connections))
    option(
        "--connections",
        type=options.numbers,
        default=connections,
        help=f"of clients; default: {usual}",
    )
    chosen = parser.parse_args(arguments)
    runs = chosen.rounds * sizes * len(chosen.connections) * len(FRONTS)
    program.begin(chosen.out, 120 + 2 * runs * (chosen.seconds + 1))
    with program.workshop(name) as directory:
        try:
            page = write(directory, chosen)
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    return program.end(chosen.out, f"{page}\n\n```\n{text(chosen.tokamak)}\n```\n")


def written(directory: Path, chosen: argparse.Namespace) -> str:
    """Measures, and gives title and table."""
    with Scene(directory, chosen) as scene:
        found = record.write(chosen.out / "http-proxy.csv", Row, rows(scene))
        for front in FRONTS:
            scene.wait(front)
    return f"# An application of HTTP, behind nginx and Tokamak\n\n{table(found)}"


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    return measure("http-proxy", __doc__, arguments, [1, 64, 256], len(FILES), written)
