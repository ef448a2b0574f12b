"""Are the tables of `tokamak anatomy` true? For each server, whether the sum of the phases is the
mean response time, and whether an `strace -c` of its own counts the same calls for each request.
"""

import argparse
import http.client
import json
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import options
from .contest import CannotRun, Entry, alone, say
from .contestants import PEERS
from .peers import Choice
from .sites import SCENARIOS

SERVERS = "nginx-fpm nginx-fpm-keepalive lighttpd-fpm apache-modphp go"
OURS = "tokamak-classic tokamak-worker tokamak-sealed"

WAITS = {
    *("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"),
    *("futex", "nanosleep", "clock_nanosleep", "rt_sigtimedwait", "sched_yield", "restart_syscall"),
    *("epoll_ctl", "wait4"),
}
"""How often a server waits, or arranges it, depends on who is quicker. So does how often a call
fails for lack of data (EAGAIN): of all others, those that succeeded are compared, as whole numbers
for each request: what timers do is less than a call for a request."""

SETTLED = 0.3
"""Seconds in which a server does what comes after its last response."""

BOUND = 0.10
"""The sum of the phases may be so far from the mean without a tracer."""


@dataclass(frozen=True)
class Row:
    """What was found about one server with one kind of client."""

    peer: str
    keeps: bool
    calls: float
    sum_ms: float
    untraced_ms: float
    wrong: dict[str, tuple[float, float]]
    """Calls for each request that the two count differently: anatomy's number, strace's."""
    notes: list[str]

    @property
    def difference(self) -> float:
        """By how much the sum is larger than the mean, as a part of that."""
        return self.sum_ms / self.untraced_ms - 1.0

    def line(self) -> str:
        """The row as text."""
        keeps = "kept" if self.keeps else "new"
        both = (f"{name} {ours:.2f}/{theirs:.2f}" for name, (ours, theirs) in self.wrong.items())
        wrong = ", ".join(both)
        return (
            f"{self.peer:<22}{keeps:<6}{self.calls:>8.2f}{self.sum_ms:>9.3f}"
            f"{self.untraced_ms:>9.3f}{100 * self.difference:>+8.1f} %  {wrong or 'same calls'}"
        )


def pids(entry: Entry) -> list[int]:
    """All processes of the server."""
    return [stat.pid for stat in entry.server.tree()]


def ask(port: int, path: str, requests: int, keeps: bool) -> None:
    """The requests of a client, one after the other. It waits until the server closes."""
    if keeps:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for _ in range(requests):
            connection.request("GET", path)
            connection.getresponse().read()
        connection.close()
        return
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    for _ in range(requests):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(head.encode())
            while connection.recv(65536):
                pass


def counted(entry: Entry, path: str, requests: int, keeps: bool) -> Counter[str]:
    """The calls that succeeded, by their names, as `strace -c` counts them for these requests."""
    watched = pids(entry)
    with tempfile.NamedTemporaryFile("r") as table:
        names = [word for pid in watched for word in ("-p", f"{pid}")]
        command = ["strace", "-c", "-f", "-o", table.name, *names]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            left = set(watched)
            assert strace.stderr
            for line in strace.stderr:
                left -= {pid for pid in left if f"Process {pid} attached" in line}
                if not left:
                    break
            ask(entry.place.port, path, requests, keeps)
            time.sleep(SETTLED)
            strace.send_signal(signal.SIGINT)
            strace.communicate(timeout=60)
        return Counter(dict(succeeded(table.read())))


def succeeded(table: str) -> Iterator[tuple[str, int]]:
    """The rows of a table of strace: the name, and the calls without errors."""
    for words in (line.split() for line in table.splitlines()):
        if len(words) in (5, 6) and words[3].isdigit() and words[-1] != "total":
            yield words[-1], int(words[3]) - (int(words[4]) if len(words) == 6 else 0)


def measured(entry: Entry, path: str, choice: argparse.Namespace, keeps: bool) -> dict:
    """What `tokamak anatomy` says about the server."""
    url = f"http://127.0.0.1:{entry.place.port}{path}"
    named = [word for root in entry.server.roots for word in ("--pid", f"{root.pid}")]
    command = [f"{choice.tokamak}", "anatomy", url, "--json", "-n", f"{choice.requests}", *named]
    command += ["--keep-alive"] * keeps
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise CannotRun(f"{entry.peer.name}: {done.stderr.strip()}")
    return json.loads(done.stdout)["servers"][0]


def row(entry: Entry, path: str, choice: argparse.Namespace, keeps: bool) -> Row:
    """Measures one server with one kind of client."""
    found = measured(entry, path, choice, keeps)
    theirs = counted(entry, path, choice.requests, keeps)
    ours: Counter[str] = Counter()
    for call in found["calls"]:
        ours[call["name"]] += call["count"] - call["failed"]
    names = sorted((set(ours) | set(theirs)) - WAITS)
    each = {name: (ours[name] / choice.requests, theirs[name] / choice.requests) for name in names}
    wrong = {name: two for name, two in each.items() if int(two[0] + 0.1) != int(two[1] + 0.1)}
    calls = sum(call["per_request"] for call in found["calls"])
    untraced = found["untraced_ms"]["mean"]
    notes = found["notes"]
    return Row(entry.peer.name, keeps, calls, found["sum_ms"], untraced, wrong, notes)


def parse(arguments: list[str]) -> argparse.Namespace:
    """What one may say to bench/anatomy."""
    parser = argparse.ArgumentParser(prog="bench/anatomy", description=__doc__)
    default = f"{SERVERS} {OURS}".split()
    option = parser.add_argument
    option("--peers", type=options.names(PEERS), default=default, help=f"default: {default}")
    option("--requests", type=options.positive, default=1000, help="default: 1000")
    option("--children", type=options.positive, default=2, help="php-fpm's; default: 2")
    options.of_build(parser)
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    """Measures all servers, with a connection for each request and with kept ones; 1: one of them
    misses the bound, or is counted differently."""
    choice = parse(arguments)
    scenario = SCENARIOS["empty"]
    most = Choice(choice.children, 4, choice.tokamak, "2")
    print(f"{'server':<22}{'client':<6}{'calls':>8}{'sum ms':>9}{'mean ms':>9}{'differs':>10}")
    is_good = True
    for name in choice.peers:
        if reason := PEERS[name].missing():
            say(f"{name}: {reason}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            # Servers that change their user look for their files there.
            Path(folder).chmod(0o755)
            try:
                with alone(name, scenario, most, Path(folder)) as entry:
                    for keeps in (False, True):
                        found = row(entry, scenario.path, choice, keeps)
                        print(found.line(), flush=True)
                        for note in found.notes:
                            print(f"    {note}")
                        is_good &= abs(found.difference) <= BOUND and not found.wrong
            except CannotRun as error:
                say(f"{error}")
                is_good = False
    return 0 if is_good else 1


