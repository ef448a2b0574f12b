"""What does a request cost that waits? A service that takes its time, asked in async mode by more
clients than there are workers: requests/s beside what arithmetic allows, and the memory that each
request under way needs."""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from . import load, options, peers, program, record
from .bars import Verdict, at_least, at_most
from .contest import CannotRun, answer, say
from .process import Server, free_port
from .sampling import Sampling
from .services import compile_limit
from .sites import EMPTY, REPO, Site
from .versions import text

READY_SECONDS = 20
WAITS = {"sleep": "`usleep`", "http": "an HTTP service, connections kept"}
RATE_BAR, KIB_BAR = 0.9, 48.0
"""Of what arithmetic allows; and resident memory of its worker for each request that sleeps. The
pages of the queue are not in it: they are there for each client, in all modes."""

SITE = Site(
    "in-flight", REPO / "bench/sites/in-flight", ".", "worker.php", {}, front_controller=False
)
TOKAMAK = """\
listen = ["127.0.0.1:$port"]
control = "$dir/control"

[[site]]
root = "$root"
mode = "async"
worker = "$root/worker.php"
concurrency = $concurrency

[site.pool]
workers = $workers
manager = "static"
"""


@dataclass(frozen=True)
class Row:
    """One run."""

    round: int
    waits_for: str
    concurrency: int
    clients: int
    in_flight: int
    """Requests that all workers together have under way."""
    rate: float
    limit: float
    """What arithmetic allows: all of them, each as long as the service takes."""
    p99: float
    cpu_us: float
    idle_kib: int
    """Resident memory of all workers together before the load, without what is shared."""
    busy_kib: int
    """The same under load, at most."""
    shared_kib: int
    """What has come to the shared memory that is resident in all workers together."""
    errors: int

    @property
    def kib(self) -> float:
        """For each request under way."""
        return (self.busy_kib - self.idle_kib) / self.in_flight


class Scene:
    """The service and one server. Leaving the `with` block ends both."""

    def __init__(self, directory: Path, concurrency: int, chosen: argparse.Namespace) -> None:
        directory.mkdir()
        directory.chmod(0o755)
        self.directory, self.workers = directory, chosen.workers
        self.port, service = free_port(), free_port()
        files = directory / "site"
        shutil.copytree(SITE.source, files)
        places = f"const SERVICE = '127.0.0.1:{service}';\nconst MICROSECONDS = "
        (files / "places.php").write_text(f"<?php\n\n{places}{chosen.milliseconds * 1000};\n")
        self.service, self.server = Server(), Server()
        self.slow = [f"{directory}/limit", f"{service}", "1", f"{chosen.milliseconds}"]
        compile_limit(directory / "limit")
        (directory / "tmp").mkdir(mode=0o1777)
        choice = peers.Choice(0, chosen.clients, chosen.tokamak, f"{chosen.workers}")
        self.place = peers.Place(directory, SITE, files, self.port, choice)
        values = {"concurrency": concurrency, "workers": chosen.workers}
        config = self.place.write("tokamak.toml", TOKAMAK, **values)
        self.place.write("php.ini", peers.PHP_INI)
        self.command = [f"{chosen.tokamak}", "serve", "--config", f"{config}"]

    def __enter__(self) -> "Scene":
        environment = peers.environment(self.place)
        try:
            self.service.start(self.slow, environment, self.directory / "limit.log")
            self.server.start(self.command, environment, self.directory / "tokamak.log")
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self.service.stop()

    def url(self, waits_for: str) -> str:
        """Where a request waits for this."""
        return f"http://127.0.0.1:{self.port}/index.php?for={waits_for}"

    def wait(self) -> None:
        """Asks until every worker has worked."""
        deadline = time.monotonic() + READY_SECONDS
        while len(list(self.resident())) < self.workers or not self.is_right():
            if time.monotonic() > deadline:
                log = (self.directory / "tokamak.log").read_text(errors="replace")
                raise CannotRun(f"{self.url('http')} does not give the right answer\n{log[-2000:]}")
            time.sleep(0.1)
        for waits_for in WAITS:
            load.run(self.url(waits_for), self.workers, 1)

    def is_right(self) -> bool:
        """Whether it gives the right answer by now."""
        try:
            return all(answer(self.url(waits_for)) == EMPTY.encode() for waits_for in WAITS)
        except OSError:
            return False

    def resident(self) -> Iterator[tuple[int, int]]:
        """KiB of each worker, of its own and shared."""
        for stat in self.server.tree():
            if stat.name == "tokamak-php":
                yield resident_kib(Path(f"/proc/{stat.pid}/status").read_text())

    def memory(self) -> tuple[int, int]:
        """The same of all together."""
        own, shared = zip(*self.resident(), strict=True)
        return sum(own), sum(shared)


def resident_kib(status: str) -> tuple[int, int]:
    """A process' own and shared memory, from the text of /proc/PID/status."""
    lines = {line.split()[0]: line.split()[1] for line in status.splitlines() if line.split()[1:]}
    return int(lines["RssAnon:"]), int(lines["RssShmem:"])


class Watch(Sampling):
    """The most memory that the workers hold while the `with` block runs."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene
        self.own = self.shared = 0

    def look(self) -> None:
        """Asks the kernel."""
        own, shared = self.scene.memory()
        self.own, self.shared = max(self.own, own), max(self.shared, shared)


def measure(
    number: int, scene: Scene, waits_for: str, concurrency: int, chosen: argparse.Namespace
) -> Row:
    """One run."""
    (idle, shared), before = scene.memory(), scene.server.run_seconds()
    with Watch(scene) as watch:
        seen = load.run(scene.url(waits_for), chosen.clients, chosen.seconds)
    cpu = (scene.server.run_seconds() - before) * 1e6 / max(seen.requests, 1)
    in_flight = min(chosen.clients, concurrency * chosen.workers)
    row = Row(
        number,
        waits_for,
        concurrency,
        chosen.clients,
        in_flight,
        round(seen.rate, 1),
        in_flight * 1000 / chosen.milliseconds,
        seen.p99,
        round(cpu, 1),
        idle,
        watch.own,
        watch.shared - shared,
        seen.bad_status + seen.socket_errors + seen.timeouts,
    )
    say(f"{row}, {row.kib:.1f} KiB each")
    return row


def rows(directory: Path, chosen: argparse.Namespace) -> Iterator[Row]:
    """A server of its own for each run, so that each begins with as little memory."""
    for number in range(1, chosen.rounds + 1):
        for concurrency in chosen.concurrency:
            for waits_for in WAITS:
                place = directory / f"{number}-{concurrency}-{waits_for}"
                with Scene(place, concurrency, chosen) as scene:
                    yield measure(number, scene, waits_for, concurrency, chosen)


def table(found: list[Row]) -> str:
    """Medians over the rounds."""
    lines = [
        "| waits for | concurrency | under way | requests/s | of what arithmetic allows "
        "| p99 ms | CPU µs a request | KiB for each under way | KiB of the queue | errors |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for waits_for, concurrency in dict.fromkeys((row.waits_for, row.concurrency) for row in found):
        mine = own(found, waits_for, concurrency)
        rate, part, p99 = ratios(mine)
        cpu, kib, shared = (
            median(getattr(row, name) for row in mine) for name in ("cpu_us", "kib", "shared_kib")
        )
        lines.append(
            f"| {WAITS[waits_for]} | {concurrency} | {mine[0].in_flight} | {rate:.0f} | {part:.2f} "
            f"| {p99 / 1000:.1f} | {cpu:.0f} | {kib:.1f} | {shared:.0f} "
            f"| {sum(row.errors for row in mine)} |"
        )
    return "\n".join(lines)


def own(found: list[Row], waits_for: str, concurrency: int) -> list[Row]:
    """The runs of one line."""
    return [row for row in found if (row.waits_for, row.concurrency) == (waits_for, concurrency)]


def ratios(mine: list[Row]) -> tuple[float, float, float]:
    """Requests/s, the part of the limit, and the slowest percent."""
    return (
        median(row.rate for row in mine),
        median(row.rate / row.limit for row in mine),
        median(row.p99 for row in mine),
    )


def verdicts(found: list[Row]) -> list[Verdict]:
    """What waiting may cost."""
    said = []
    for concurrency in dict.fromkeys(row.concurrency for row in found):
        asks, sleeps = (own(found, waits_for, concurrency) for waits_for in ("http", "sleep"))
        limit = f"at least {RATE_BAR} of what arithmetic allows (concurrency {concurrency})"
        memory = f"at most {KIB_BAR:.0f} KiB for each that sleeps (concurrency {concurrency})"
        said += [
            at_least(limit, ratios(asks)[1], RATE_BAR),
            at_most(memory, median(row.kib for row in sleeps), KIB_BAR),
        ]
    wrong = sum(row.errors for row in found)
    return [*said, Verdict("no request went wrong", wrong == 0, f"{wrong}")]


def parse(arguments: list[str]) -> argparse.Namespace:
    """What one may say to bench/in-flight."""
    parser = options.measurement("in-flight", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=3, help="default: 3")
    option("--seconds", type=options.positive, default=5, help="of each run; default: 5")
    option("--clients", type=options.positive, default=256, help="default: 256")
    option("--workers", type=options.positive, default=2, help="default: 2")
    option("--milliseconds", type=options.positive, default=100, help="of the wait; default: 100")
    several = "requests of a worker at once; default: 32,128"
    option("--concurrency", type=options.numbers, default=[32, 128], help=several)
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    chosen = parse(arguments)
    runs = chosen.rounds * len(chosen.concurrency) * len(WAITS)
    program.begin(chosen.out, 60 + 2 * runs * (chosen.seconds + READY_SECONDS))
    with program.workshop("in-flight") as directory:
        try:
            found = record.write(chosen.out / "in-flight.csv", Row, rows(directory, chosen))
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    said = verdicts(found)
    lines = "\n".join(verdict.line() for verdict in said)
    about = f"{chosen.workers} workers, {chosen.clients} clients, {chosen.milliseconds} ms"
    parts = [f"# Requests that wait: {about}", table(found), f"```\n{lines}\n```"]
    page = "\n\n".join([*parts, f"```\n{text(chosen.tokamak)}\n```"]) + "\n"
    return program.end(chosen.out, page, all(verdict.reached for verdict in said))
