"""One contest: every peer up, every answer checked, then the measurements in rounds in which all
take turns.

What is compared has been measured within the same minutes on the same machine; a disturbance
hits neighbours alike, and the order changes with each round so that nobody always runs after the
same one.
"""

import math
import shutil
import statistics
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from . import counters, load, peers, process, status
from .contestants import ORIENTATION, PEERS
from .peers import Peer, Place
from .process import Server, free_port
from .record import Absence, Footprint, Run, Second
from .services import Services
from .sites import SCENARIOS, SITES, Beside, Scenario, Site
from .stage import Stage
from .steady import Course

READY_SECONDS = 20
INSTALL_SECONDS = 120
"""For a site that has to be installed."""
SITES_AT_ONCE = 3
"""That are made ready: a site that is installed takes as long as all others in two rows beside it.
With all of them at once, a server that takes its time to start could be taken for a dead one."""
TRIES = 2
"""Of a run within which the number of event loops changes."""
LATE = "no time was left"
"""Why somebody is absent whose turn would have come after the contest's end."""
# What one connection more or less changes in the system calls per request is nothing; this many
# keep every worker busy.
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
    settle: int = 8
    """Seconds of load before anything counts, at most; a site may ask for fewer."""
    footprints: list[str] = field(default_factory=lambda: list(SCENARIOS))
    """Scenarios whose system calls and memory are counted."""
    orientation: list[str] = field(default_factory=lambda: list(SCENARIOS))
    """Scenarios in which those take part that are there for orientation."""
    within: int | None = None
    """Seconds after which nothing is begun any more; nothing: it takes what it takes."""
    calm: int = 0
    """Seconds of load before each run in which the number of event loops must not change; 0: runs
    begin with their load."""
    peers_at: dict[int, list[str]] = field(default_factory=dict)
    """The only peers that get so many connections, where not all do."""

    def pairs(self, shift: int = 0) -> list[tuple[str, Scenario]]:
        """Each scenario with each peer that can serve it; `shift` changes which peer comes
        first."""
        shift %= len(self.peers)
        order = self.peers[shift:] + self.peers[:shift]
        scenarios = [SCENARIOS[name] for name in self.scenarios]
        both = [(peer, scenario) for scenario in scenarios for peer in order]
        return [pair for pair in both if self.has(*pair)]

    def has(self, peer: str, scenario: Scenario) -> bool:
        """Whether this peer is to serve this scenario."""
        is_asked = peer not in ORIENTATION or scenario.name in self.orientation
        return is_asked and PEERS[peer].fits(SITES[scenario.site])

    def connections_of(self, scenario: Scenario) -> list[int]:
        """The numbers of connections, in the bounds of the site."""
        return list(
            dict.fromkeys(SITES[scenario.site].bound(number) for number in self.connections)
        )

    def loads_of(self, peer: str, scenario: Scenario) -> list[int]:
        """The numbers of connections of this peer."""
        return [
            number
            for number in self.connections_of(scenario)
            if peer in self.peers_at.get(number, [peer])
        ]

    def most_of(self, peer: str) -> int:
        """As many connections as a peer ever gets."""
        found = [number for number in self.connections if peer in self.peers_at.get(number, [peer])]
        return max([*found, FOOTPRINT_CONNECTIONS])

    def seconds_in_all(self) -> int:
        """An estimate, for the limit on the whole run."""
        pairs = len(self.pairs())
        runs = sum(len(self.loads_of(*pair)) for pair in self.pairs()) * self.rounds
        return (
            runs * (self.seconds + self.calm + 1)
            + pairs * (READY_SECONDS + self.seconds + 2 * self.warm_up() + 10)
            + INSTALL_SECONDS
        )

    def warm_up(self) -> int:
        """Seconds of load beside the timed runs, so that a short contest is short."""
        return min(2, self.seconds)

    def footprint_seconds(self) -> float:
        """An estimate for all footprints: a count, and in sealed mode a look at roll-backs."""
        counted = sum(scenario.name in self.footprints for _, scenario in self.pairs())
        return counted * (self.warm_up() + self.calm + self.roll_back_seconds() / 2 + 0.5)

    def roll_back_seconds(self) -> int:
        """Seconds of load while roll-backs are looked at."""
        return min(4, self.seconds)


@dataclass
class Entry:
    """A peer that serves a site, up and checked."""

    peer: Peer
    place: Place
    server: Server
    commands: list[list[str]]
    beside: Beside | None = None

    def url(self, scenario: Scenario) -> str:
        """Where the scenario is to be had from this peer."""
        return f"http://127.0.0.1:{self.place.port}{scenario.path}"

    def connections(self, number: int) -> int:
        """As many of these connections as its site gets."""
        return self.place.site.bound(number)

    def answer(self, scenario: Scenario) -> bytes:
        """One page, with nothing in it that tells which server it comes from."""
        return answer(self.url(scenario)).replace(b"127.0.0.1:%d" % self.place.port, b"HOST")

    def loops(self) -> int | None:
        """How many event loops serve; nothing if it is none of ours."""
        return status.loops(self.place)

    def database_seconds(self) -> float:
        """Processor time that its database, or what its scripts ask, has used so far, for all
        peers."""
        return self.beside.cpu_seconds() if self.beside else 0.0


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


def difference(page: bytes, expected: bytes) -> str:
    """The first line in which two pages differ."""
    lines = zip_longest(page.splitlines(), expected.splitlines(), fillvalue=b"(nothing)")
    return "\n".join(str(line[:300]) for line in next(pair for pair in lines if pair[0] != pair[1]))


def wait_until_ready(entry: Entry, scenario: Scenario, pause: float = 0.1) -> None:
    """Asks until the answer is right, for a bounded time; with so many seconds in between."""
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
        time.sleep(pause)
    raise CannotRun(
        f"{entry.peer.name}, {scenario.name}: {str(last)[:300]}\n{logs_of(entry.place)}"
    )


def enter(
    name: str,
    site: Site,
    files: Path,
    directory: Path,
    choice: peers.Choice,
    beside: Beside | None = None,
) -> Entry:
    """Starts a peer for a site; it need not be ready yet. Its directory may be that of one which
    has ended."""
    directory.mkdir(exist_ok=True)
    place = Place(directory, site, files, free_port(), choice, beside)
    server, commands = peers.start(PEERS[name], place)
    return Entry(PEERS[name], place, server, commands, beside)


def make_ready(entry: Entry, scenario: Scenario) -> None:
    """Waits until it answers, with an image that was made of a finished application."""
    wait_until_ready(entry, scenario)
    if entry.peer.renew:
        entry.peer.renew(entry.place, entry.server)
        wait_until_ready(entry, scenario)


@contextmanager
def alone(
    name: str,
    scenario: Scenario,
    choice: peers.Choice,
    directory: Path,
    edit: Callable[[Path], None] = lambda files: None,
) -> Iterator[Entry]:
    """One peer, ready, without any others beside it; `edit` may change its copy of the site
    before."""
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


class Contest(Stage):
    """All servers of one contest. Leaving the `with` block ends every process."""

    def __init__(self, plan: Plan, choice: peers.Choice, directory: Path) -> None:
        self.plan = plan
        self.choice = choice
        self.directory = directory
        self.entries: dict[tuple[str, str], Entry] = {}
        self.beside: list[Beside] = []
        self.absences: list[Absence] = []
        self.seconds: list[Second] = []
        """The courses of the loads, as far as they were looked at."""
        self.end = time.monotonic() + plan.within if plan.within else math.inf
        # Its threads last as long as the servers: a process that is to end with the one that has
        # started it ends with the thread that has.
        self.threads = ThreadPoolExecutor(SITES_AT_ONCE)
        self.is_stopping = False

    def start(self) -> None:
        """Makes each peer ready for each site that is needed."""
        sites = dict.fromkeys(SCENARIOS[scenario].site for scenario in self.plan.scenarios)
        # What takes longest begins first.
        order = sorted(sites, key=lambda name: SITES[name].install is None)
        list(self.threads.map(self.open, order))
        self.compare()

    def open(self, name: str) -> None:
        """Starts each peer of one site; each serves the same copy of it."""
        fitting = (peer for peer, scenario in self.plan.pairs() if scenario.site == name)
        able = list(dict.fromkeys(fitting))
        if not able:
            return
        with self.going_on_without(able, name):
            files, beside = self.prepare(SITES[name])
            for peer in able:
                with self.going_on_without([peer], name):
                    self.entries[peer, name] = self.enter(peer, SITES[name], files, beside)
        for peer, scenario, entry in self.pairs():
            if scenario.site == name and not self.is_stopping:
                with self.going_on_without([peer], name, scenario):
                    self.warm_up(peer, scenario, entry)

    def warm_up(self, peer: str, scenario: Scenario, entry: Entry) -> None:
        """Lets one of them do what it does only at first."""
        make_ready(entry, scenario)
        seconds = min(entry.place.site.warm_up, self.plan.settle)
        load.run(entry.url(scenario), entry.connections(self.plan.most_of(peer)), seconds)
        say(f"ready: {peer}, {scenario.name}")

    def enter(self, peer: str, site: Site, files: Path, beside: Beside | None) -> Entry:
        """Starts one of them, if this machine has what it needs."""
        reason = PEERS[peer].missing()
        if reason:
            raise CannotRun(f"missing: {reason}")
        self.begin()
        choice = replace(self.choice, most_connections=self.plan.most_of(peer))
        return enter(peer, site, files, self.directory / f"{peer}-{site.name}", choice, beside)

    def prepare(self, site: Site) -> tuple[Path, Beside | None]:
        """A copy of the site, and what has to run beside the peers for it."""
        files = self.directory / "sites" / site.name
        shutil.copytree(site.source, files)
        beside: Beside | None = None
        if site.install:
            beside = site.install(files, self.directory / f"database-{site.name}")
        elif site.services:
            beside = Services(self.directory / f"services-{site.name}")
            if site.language == "php":
                beside.tell(files)
        if beside:
            self.beside.append(beside)
        return files, beside

    @contextmanager
    def going_on_without(
        self, names: list[str], site: str, only: Scenario | None = None
    ) -> Iterator[None]:
        """Whatever goes wrong with one peer must not cost the others their figures: the record says
        who is absent, and why. Without `only`, from all scenarios of the site."""
        try:
            yield
        except Exception as failure:
            reason = str(failure).strip() or type(failure).__name__
            found = [only] if only else [SCENARIOS[name] for name in self.plan.scenarios]
            for peer in names:
                for scenario in found:
                    if scenario.site == site and not self.is_absent(peer, scenario):
                        self.absences.append(Absence(scenario.name, peer, reason))
                        say(f"left out: {peer}, {scenario.name}: {reason}")
                self.retire(peer, site)

    def is_late(self, seconds: float = 0.0) -> bool:
        """Whether there is no time to begin anything, and to keep so many seconds for the rest."""
        return self.is_stopping or time.monotonic() + seconds > self.end

    def begin(self) -> None:
        """Raises if it is too late."""
        if self.is_late():
            raise CannotRun(LATE)

    def has_lost_ours(self) -> bool:
        """Whether Tokamak could not take part. That another server is not there is only told."""
        return any("tokamak" in row.peer and row.reason != LATE for row in self.absences)

    def is_absent(self, peer: str, scenario: Scenario) -> bool:
        """Whether the contest goes on without this peer."""
        return any((row.peer, row.scenario) == (peer, scenario.name) for row in self.absences)

    def retire(self, peer: str, site: str) -> None:
        """Ends a server that has no scenario left, so that it does not disturb the others."""
        if (peer, site) in self.entries and not any(
            (name, scenario.site) == (peer, site) for name, scenario, _ in self.pairs()
        ):
            self.entries[peer, site].server.stop()

    def stop(self) -> None:
        """Ends every process. All are asked before any is waited for, since some take seconds."""
        self.is_stopping = True
        self.threads.shutdown(cancel_futures=True)
        for entry in self.entries.values():
            entry.server.ask_to_stop()
        for entry in self.entries.values():
            entry.server.stop()
        for beside in self.beside:
            beside.stop()

    def compare(self) -> None:
        """All peers give the same page, not only a right one."""
        first: dict[str, tuple[str, bytes]] = {}
        for peer, scenario, entry in self.pairs():
            with self.going_on_without([peer], scenario.site, scenario):
                page = entry.answer(scenario)
                other, expected = first.setdefault(scenario.name, (peer, page))
                if page != expected:
                    raise CannotRun(f"not the page of {other}:\n{difference(page, expected)}")

    def pairs(self, shift: int = 0) -> list[tuple[str, Scenario, Entry]]:
        """What the plan says, with those who serve it."""
        return [
            (peer, scenario, self.entries[peer, scenario.site])
            for peer, scenario in self.plan.pairs(shift)
            if (peer, scenario.site) in self.entries and not self.is_absent(peer, scenario)
        ]

    def runs(self) -> Iterator[Run]:
        """The timed runs, in rounds."""
        for number in range(self.plan.rounds):
            for step in range(len(self.plan.connections)):
                for peer, scenario, entry in self.pairs(shift=number):
                    # A site that bounds them may have fewer steps than the plan.
                    for connections in self.plan.connections_of(scenario)[step : step + 1]:
                        if connections not in self.plan.loads_of(peer, scenario):
                            continue
                        # A further round only says more surely what the first one has said.
                        if number and self.is_late(self.plan.footprint_seconds()):
                            return
                        with self.going_on_without([peer], scenario.site, scenario):
                            self.begin()
                            yield self.run(number + 1, peer, scenario, entry, connections)

    def run(
        self, number: int, peer: str, scenario: Scenario, entry: Entry, connections: int
    ) -> Run:
        """One timed run. One within which the number of event loops changes is repeated, once."""
        seconds = max(self.plan.seconds, entry.place.site.least_seconds)
        url, calm = entry.url(scenario), self.plan.calm
        course = Course(entry.loops, number, scenario.name, peer, connections)
        seen, tries = None, 0
        while seen is None:
            tries += 1
            if calm:
                course.warm_up(url, connections, calm)
            before, database_before = entry.server.cpu_seconds(), entry.database_seconds()
            seen = course.run(url, connections, seconds, is_last=not calm or tries == TRIES)
            used, database_used = (
                entry.server.cpu_seconds() - before,
                entry.database_seconds() - database_before,
            )
        self.seconds += course.seconds
        if entry.peer.ends_connections:
            seen = replace(seen, socket_errors=0)
        run = replace(
            Run.of(number, scenario.name, peer, connections, seen, used, database_used),
            loops=course.loops_of_run(),
            changes=course.changes_in_run,
            tries=tries,
        )
        loops = f", event loops: {run.loops}" if run.loops else ""
        say(
            f"round {run.round}: {run.scenario} {run.peer} c={run.connections}: {run.rate:.0f}/s,"
            f" {run.cpu_us:.1f} µs{loops}"
        )
        return run

    def footprints(self) -> Iterator[Footprint]:
        """What the kernel counts, and memory, after the timed runs: by now every worker has
        worked."""
        reason = counters.can_count()
        if reason:
            say(f"system calls are not counted: {reason}")
        for peer, scenario, entry in self.pairs():
            if scenario.name not in self.plan.footprints or self.is_late():
                continue
            with self.going_on_without([peer], scenario.site, scenario):
                yield self.footprint(peer, scenario, entry, reason is None)

    def footprint(self, peer: str, scenario: Scenario, entry: Entry, can_count: bool) -> Footprint:
        """One peer's."""
        counts = counters.Counts()
        url, connections = entry.url(scenario), entry.connections(FOOTPRINT_CONNECTIONS)
        if self.plan.calm:
            # The trial of another number of loops would be a part of the count.
            course = Course(entry.loops, 0, scenario.name, peer, connections)
            course.warm_up(url, connections, self.plan.calm)
        if can_count:
            counts = counters.per_request(entry.server, url, connections, self.plan.warm_up())
        stats = {stat.pid: stat for stat in entry.server.tree()}
        workers = [stat.pid for stat in stats.values() if entry.peer.is_worker(stat, stats)]
        kibs = process.private_kibs(workers)
        memory = statistics.median(kibs) if kibs else None
        roll_back = self.roll_back(entry, scenario) or (None, None)
        sizes = (memory, len(workers), len(stats))
        return Footprint(scenario.name, peer, counts.syscalls, *sizes, *roll_back, counts.switches)

    def roll_back(self, entry: Entry, scenario: Scenario) -> tuple[float, int] | None:
        """What putting a worker back takes under load: microseconds and pages."""
        if not entry.peer.tells_roll_backs:
            return None
        with status.Sampler(entry.place) as sampler:
            connections = entry.connections(FOOTPRINT_CONNECTIONS)
            load.run(entry.url(scenario), connections, self.plan.roll_back_seconds())
        return sampler.medians()

    def check_again(self) -> None:
        """The answers must be right at the end as well: a server that broke under load has measured
        its error page."""
        for peer, scenario, entry in self.pairs():
            with self.going_on_without([peer], scenario.site, scenario):
                wait_until_ready(entry, scenario)
