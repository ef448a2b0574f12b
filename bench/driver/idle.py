"""What does a server without requests take of a processor, and what memory does it hold a minute
after a crowd? Many sites in classic mode with some workers each, which have answered once; Tokamak
beside nginx and php-fpm."""

import http.client
import statistics
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import options, program, record
from .bars import Verdict, at_most
from .contest import say
from .crowd import crowd
from .peers import FPM
from .process import Server, allow_many_sockets, free_port
from .versions import text

WORKERS = 4
REST_SECONDS = 15
"""After the last request: surplus workers have left and memory was given back by then."""
READY_SECONDS = 60
CROWD = 10_000
CROWD_SECONDS = 5
"""That the crowd stays when all have been answered."""
AFTER_SECONDS = 60
BAR_PERCENT = 0.05
BAR_MEMORY = 1.3
FPM_POOL = """
[site{site}]
listen = {directory}/{site}.sock
listen.mode = 0666
user = nobody
group = nogroup
pm = static
pm.max_children = {workers}
"""
NGINX_SITE = """
    server {{
        listen 127.0.0.1:{port};
        server_name site{site}.example;
        root {directory}/public;
        location / {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {directory}/public/index.php;
            fastcgi_pass unix:{directory}/{site}.sock;
        }}
    }}
"""


@dataclass(frozen=True)
class Rest:
    """What a server took while nobody asked for anything."""

    round: int
    peer: str
    percent: float
    """Of one processor."""
    mib_before: float
    """Memory of all its processes, what they share once."""
    mib_with: float
    """While as many as `CROWD` have been answered and stay."""
    mib_after: float
    """`AFTER_SECONDS` after they have gone."""

    @property
    def ratio(self) -> float:
        """Memory after the crowd to that before."""
        return self.mib_after / self.mib_before


def tokamak(directory: Path, port: int, sites: int, program: Path) -> list[list[str]]:
    """This server with so many sites."""
    site = '[[site]]\nhost = "site{0}.example"\nroot = "{1}/public"\npool.workers = {2}\n'
    all_sites = "".join(site.format(number, directory, WORKERS) for number in range(sites))
    config = directory / "tokamak.toml"
    limits = f"limits.connections = {2 * CROWD}\n"
    config.write_text(f'listen = "127.0.0.1:{port}"\nlog.access = "off"\n{limits}{all_sites}')
    return [[f"{program}", "serve", "--config", f"{config}", "--control", f"{directory}/control"]]


def nginx_fpm(directory: Path, port: int, sites: int, _program: Path) -> list[list[str]]:
    """nginx with two workers, and php-fpm with a static pool for each site."""
    pool = FPM_POOL.format
    pools = (pool(site=n, directory=directory, workers=WORKERS) for n in range(sites))
    fpm = directory / "fpm.conf"
    fpm.write_text("[global]\ndaemonize = no\nerror_log = /dev/stderr\n" + "".join(pools))
    site = NGINX_SITE.format
    servers = (site(site=n, directory=directory, port=port) for n in range(sites))
    nginx = directory / "nginx.conf"
    nginx.write_text(
        f"daemon off; pid {directory}/nginx.pid; worker_processes 2; error_log stderr;\n"
        f"worker_rlimit_nofile {4 * CROWD};\nevents {{ worker_connections {2 * CROWD}; }}\n"
        "http { access_log off; server_names_hash_bucket_size 128;\n"
        + "".join(servers)
        + "}\n"
    )
    return [
        [FPM, "--nodaemonize", "--fpm-config", f"{fpm}"],
        ["nginx", "-c", f"{nginx}", "-e", "stderr"],
    ]


PEERS = {"nginx-fpm": nginx_fpm, "tokamak": tokamak}


def ask(port: int, site: int) -> None:
    """One request of a client that leaves again."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            client.request("GET", "/", headers={"Host": f"site{site}.example"})
            answer = client.getresponse().read()
            client.close()
            if answer == b"here":
                return
        except OSError:
            answer = b"no answer"
        if time.monotonic() > deadline:
            raise RuntimeError(f"site{site}: {answer[:200]!r}")
        time.sleep(0.05)


def measure(name: str, directory: Path, chosen: Namespace, number: int) -> Rest:
    """Starts it, asks each site once, and waits; has a crowd ask the first site, and waits."""
    directory.mkdir()
    (directory / "public").mkdir()
    (directory / "public/index.php").write_text("<?php echo 'here';")
    port = free_port()
    server = Server()
    try:
        for command in PEERS[name](directory, port, chosen.sites, chosen.tokamak):
            server.start(command, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, directory / "log")
        for site in range(chosen.sites):
            ask(port, site)
        time.sleep(REST_SECONDS)
        before = server.run_seconds()
        time.sleep(chosen.seconds)
        percent = (server.run_seconds() - before) / chosen.seconds * 100
        memory = [server.mib()]
        with crowd(port, CROWD, "/", "site0.example"):
            time.sleep(CROWD_SECONDS)
            memory.append(server.mib())
        time.sleep(AFTER_SECONDS)
        return Rest(number, name, percent, *memory, server.mib())
    finally:
        server.stop()


def rests(directory: Path, chosen: Namespace) -> Iterator[Rest]:
    """By turns."""
    for number in range(chosen.rounds):
        for name in PEERS:
            rest = measure(name, directory / f"{name}-{number}", chosen, number)
            say(f"{name}: {rest.percent:.4f} % of a processor, memory {rest.ratio:.2f}")
            yield rest


FIGURES = ("percent", "mib_before", "mib_with", "mib_after", "ratio")


def median(found: list[Rest], peer: str, figure: str) -> float:
    """Of one peer's rounds."""
    return statistics.median(getattr(rest, figure) for rest in found if rest.peer == peer)


def run(arguments: list[str]) -> int:
    """Measures, and writes a record. Fails if Tokamak takes more than the bars."""
    parser = options.measurement("idle", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=3, help="default: 3")
    option("--sites", type=options.positive, default=26, help="default: 26")
    option("--seconds", type=options.positive, default=60, help="of each rest; default: 60")
    chosen = parser.parse_args(arguments)
    allow_many_sockets()
    each = READY_SECONDS + REST_SECONDS + chosen.seconds + 2 * AFTER_SECONDS
    program.begin(chosen.out, 60 + len(PEERS) * each * chosen.rounds)
    with program.workshop("idle") as directory:
        found = record.write(chosen.out / "idle.csv", Rest, rests(directory, chosen))
    table = [
        f"| {chosen.sites} sites, {WORKERS} workers each | % of a processor | memory, MiB"
        f" | with {CROWD} clients | {AFTER_SECONDS} s later | to that before |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in PEERS:
        of = {figure: median(found, name, figure) for figure in FIGURES}
        memory = " | ".join(f"{of[moment]:.0f}" for moment in FIGURES[1:4])
        table.append(f"| {name} | {of['percent']:.3f} | {memory} | {of['ratio']:.2f} |")
    percent, ratio = (median(found, "tokamak", figure) for figure in ("percent", "ratio"))
    what = f"tokamak: at most {BAR_PERCENT} % of a processor"
    verdicts = [
        Verdict(what, percent <= BAR_PERCENT, f"{percent:.3f}"),
        at_most("tokamak: memory a minute after the crowd to that before", ratio, BAR_MEMORY),
    ]
    lines = "\n".join(verdict.line() for verdict in verdicts)
    parts = ["# Without requests", "\n".join(table), f"```\n{lines}\n```"]
    page = "\n\n".join([*parts, f"```\n{text(chosen.tokamak)}\n```"])
    return program.end(chosen.out, page + "\n", all(verdict.reached for verdict in verdicts))
