"""One contest: every peer up, every answer checked, then the measurements in rounds in which all take turns.

What is compared has been measured within the same minutes on the same machine; a disturbance hits neighbours alike, and the
order changes with each round so that nobody always runs after the same one.
"""

import shutil
import statistics
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import load, peers, process, status, syscalls
from .peers import Peer, Place
from .process import Server
from .record import Footprint, Run
from .sites import SCENARIOS, SITES, Scenario, Site

READY_SECONDS = 20
# What one connection more or less changes in the system calls per request is nothing; this many keep every worker busy.
FOOTPRINT_CONNECTIONS = 64


class CannotRun(Exception):
    """A peer did not start or gives a wrong answer; the text says which and shows its log."""


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    scenarios: list[str]
    peers: list[str]
    connections: list[int]
    rounds: int
    seconds: int

    def seconds_in_all(self) -> int:
        """An estimate, for the limit on the whole run."""
        pairs = len(self.scenarios) * len(self.peers)
        runs = pairs * len(self.connections) * self.rounds
        return runs * (self.seconds + 1) + pairs * (READY_SECONDS + self.seconds + 2 * self.warm_up() + 10)

    def warm_up(self) -> int:
        """Seconds of load before anything counts: compiled scripts, spawned processes, a filled container cache."""
        return min(2, self.seconds)


@dataclass
class Entry:
    """A peer that serves a site, up and checked."""

    peer: Peer
    place: Place
    server: Server
    commands: list[list[str]]

    def url(self, scenario: Scenario) -> str:
        """Where the scenario is to be had from this peer."""
        return f"http://127.0.0.1:{self.place.port}{scenario.path}"


def say(text: str) -> None:
    """Progress, for whoever watches."""
    print(text, file=sys.stderr, flush=True)


def logs_of(place: Place) -> str:
    """The last lines of everything the peer has written."""
    shown = []
    for log in sorted(place.directory.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()[-15:]
        shown += [f"--- {log.name}", *lines]
    return "\n".join(shown)


def answer(url: str) -> bytes:
    """The body of one request, of an error page too."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        return b"%d: %s" % (error.code, error.read())


def wait_until_ready(entry: Entry, scenario: Scenario) -> None:
    """Asks until the answer is right, for a bounded time."""
    deadline = time.monotonic() + READY_SECONDS
    last: object = "no answer"
    while time.monotonic() < deadline:
        status = entry.server.dead_root()
        if status is not None:
            last = f"it ended with status {status}"
            break
        try:
            last = answer(entry.url(scenario))
            if scenario.is_right(last):
                return
        except OSError as error:
            last = error
        time.sleep(0.1)
    raise CannotRun(f"{entry.peer.name}, {scenario.name}: {str(last)[:300]}\n{logs_of(entry.place)}")


def enter(name: str, site: Site, files: Path, directory: Path, choice: peers.Choice) -> Entry:
    """Starts a peer for a site; it need not be ready yet."""
    directory.mkdir()
    place = Place(directory, site, files, peers.free_port(), choice)
    server, commands = peers.start(peers.PEERS[name], place)
    return Entry(peers.PEERS[name], place, server, commands)


def make_ready(entry: Entry, scenario: Scenario) -> None:
    """Waits until it answers, with an image that was made of a finished application."""
    wait_until_ready(entry, scenario)
    if entry.peer.is_sealed:
        peers.renew_image(entry.place)
        wait_until_ready(entry, scenario)


@contextmanager
def alone(
    name: str, scenario: Scenario, choice: peers.Choice, directory: Path, edit: Callable[[Path], None] = lambda files: None
) -> Iterator[Entry]:
    """One peer, ready, without any others beside it; `edit` may change its copy of the site before."""
    site = SITES[scenario.site]
    files = directory / "site"
    shutil.copytree(site.source, files)
    edit(files)
    entry = enter(name, site, files, directory / name, choice)
    try:
        make_ready(entry, scenario)
        yield entry
    finally:
        entry.server.stop()


class Contest:
    """All servers of one contest. Leaving the `with` block ends every process."""

    def __init__(self, plan: Plan, choice: peers.Choice, directory: Path) -> None:
        self.plan = plan
        self.choice = choice
        self.directory = directory
        self.entries: dict[tuple[str, str], Entry] = {}

    def __enter__(self) -> "Contest":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts each peer for each site that is needed; each serves the same copy of the site."""
        for name in dict.fromkeys(SCENARIOS[scenario].site for scenario in self.plan.scenarios):
            site = SITES[name]
            files = self.directory / "sites" / name
            shutil.copytree(site.source, files)
            for peer in self.plan.peers:
                self.entries[peer, name] = enter(peer, site, files, self.directory / f"{peer}-{name}", self.choice)
        for peer, scenario, entry in self.pairs():
            make_ready(entry, scenario)
            load.run(entry.url(scenario), max(self.plan.connections), self.plan.warm_up())
            say(f"ready: {peer}, {scenario.name}")

    def stop(self) -> None:
        """Ends every process."""
        for entry in self.entries.values():
            entry.server.stop()

    def pairs(self, shift: int = 0) -> list[tuple[str, Scenario, Entry]]:
        """Each scenario with each peer; `shift` changes which peer comes first."""
        shift %= len(self.plan.peers)
        order = self.plan.peers[shift:] + self.plan.peers[:shift]
        scenarios = [SCENARIOS[name] for name in self.plan.scenarios]
        return [(peer, scenario, self.entries[peer, scenario.site]) for scenario in scenarios for peer in order]

    def runs(self) -> Iterator[Run]:
        """The timed runs, in rounds."""
        for number in range(self.plan.rounds):
            for connections in self.plan.connections:
                for peer, scenario, entry in self.pairs(shift=number):
                    before = entry.server.cpu_seconds()
                    seen = load.run(entry.url(scenario), connections, self.plan.seconds)
                    used = entry.server.cpu_seconds() - before
                    run = Run.of(number + 1, scenario.name, peer, connections, seen, used)
                    say(f"round {run.round}: {run.scenario} {run.peer} c={run.connections}: {run.rate:.0f}/s, {run.cpu_us:.1f} µs")
                    yield run

    def footprints(self) -> Iterator[Footprint]:
        """System calls and memory, after the timed runs: by now every worker has worked."""
        reason = syscalls.can_count()
        if reason:
            say(f"system calls are not counted: {reason}")
        for peer, scenario, entry in self.pairs():
            calls = None
            if reason is None:
                calls = syscalls.per_request(entry.server, entry.url(scenario), FOOTPRINT_CONNECTIONS, self.plan.warm_up())
            stats = {stat.pid: stat for stat in entry.server.tree()}
            workers = [stat.pid for stat in stats.values() if entry.peer.is_worker(stat, stats)]
            memory = statistics.median(process.private_kib(pid) for pid in workers) if workers else None
            roll_back = self.roll_back(entry, scenario) or (None, None)
            yield Footprint(scenario.name, peer, calls, memory, len(workers), len(stats), *roll_back)

    def roll_back(self, entry: Entry, scenario: Scenario) -> tuple[float, int] | None:
        """What putting a worker back takes under load: microseconds and pages."""
        if not entry.peer.is_sealed:
            return None
        with status.Sampler(entry.place) as sampler:
            load.run(entry.url(scenario), FOOTPRINT_CONNECTIONS, self.plan.seconds)
        return sampler.medians()

    def check_again(self) -> None:
        """The answers must be right at the end as well: a server that broke under load has measured its error page."""
        for _, scenario, entry in self.pairs():
            wait_until_ready(entry, scenario)
