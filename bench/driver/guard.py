"""What a request costs, counted and not timed, against the figures that the repository keeps.

Instructions are counted by callgrind: for seven ways of answering, in the front and in the PHP
process. Sealed mode cannot run under valgrind, so its pages, system calls and context switches are
counted. One client asks, one request after the other, so a count does not depend on how fast the
machine is or what else it does. Beside that there is worker mode with 64 clients that ask as fast
as they are answered.
"""

import argparse
import http.client
import json
import platform
import re
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import sites
from .program import stop_politely
from .process import Server, free_port
from .sites import REPO

FIGURES = REPO / "bench/guard.json"
TOLERANCE = 0.03
"""Part of a count by which it may move."""
LEAST = {
    "sealed, php: pages rolled back": 3,
    "sealed, php: system calls": 0.3,
    "sealed, php: context switches": 0.2,
    "steady, front: calls to clients": 0.1,
}
"""Small counts may move by so much. A path that is some bytes longer moves what is written over a
page's border: 24 to 26 pages were seen of one program. A call that each request makes is a whole
one more."""
WARM = 300
"""Requests before anything counts: they fill opcache and PHP's caches."""
COUNTED = 100
ROUNDS = 5
IDLE = 0.4
"""Seconds in which it is counted what an idle server does."""
IDLE_TOGETHER = 3.0
"""The same behind many clients, after whom there is more to do at first."""
CLIENTS = 64
"""Who ask at once, where not one alone does."""
COUNTED_TOGETHER = 600
SETTLED = 3000
"""Requests after which sealed mode has given back the pages that it need not copy."""
START = 120
"""Seconds in which a server must answer; valgrind makes it start fifty times more slowly."""

CONFIG = """\
listen = ["127.0.0.1:{port}"]
control = "{control}"
loops = {loops}
"""
SITE = """
[[site]]
host = "{name}"
root = "{root}"
{rest}
"""
SCRIPT = "/index.php?id=7"
PHP = """\
[site.pool]
workers = 1
manager = "static"
"""
WORKER = f'worker = "site/worker.php"\n{PHP}'
WAITING = f'worker = "site/waiting.php"\n{PHP}'
INI = """\
zend_extension = opcache
variables_order = EGPCS
"""
"""No other extension, whichever are installed: each has its own work in a request."""


@dataclass(frozen=True)
class Way:
    """One way of answering a request: a site, by its host name, and a path."""

    name: str
    path: str
    settings: str
    is_right: Callable[[bytes], bool]
    php: bool = False
    """Whether a PHP process takes part."""


def tells_the_request(body: bytes) -> bool:
    """Whether the script has seen this very request."""
    return json.loads(body) == {"path": SCRIPT, "id": "7"}


WAYS = [
    Way(
        "lua", "/empty", 'mode = "fastcgi"\nlua_raw_url = ["site/empty.lua"]', sites.is_empty_answer
    ),
    Way("file", "/page.html", 'mode = "fastcgi"', sites.is_kept_page),
    Way("cached", "/", f'mode = "classic"\ncache = true\n{PHP}', sites.is_kept_page),
    Way("classic", SCRIPT, f'mode = "classic"\n{PHP}', tells_the_request, php=True),
    Way("worker", SCRIPT, f'mode = "worker"\n{WORKER}', tells_the_request, php=True),
]
ASYNC = [
    Way("async", SCRIPT, f'mode = "async"\n{WORKER}', tells_the_request, php=True),
    Way("waiting", SCRIPT, f'mode = "async"\n{WAITING}', tells_the_request, php=True),
]
"""In a server of their own: with each pool more the front has more to look at before it sleeps."""
STEADY = Way("steady", SCRIPT, f'mode = "worker"\n{WORKER}', tells_the_request, php=True)
"""With 64 clients, and up to two event loops, as many as the server chooses."""
STEADY_LOOPS = 2
SEALED = Way("sealed", SCRIPT, f'mode = "sealed"\n{WORKER}', tells_the_request, php=True)

# As many variables as a service manager gives, the same on each machine.
ENVIRONMENT = {f"SERVICE_VARIABLE_{number:02}": f"value-{number}" for number in range(40)} | {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}


class Broken(Exception):
    """Something could not be counted; the text says what and why."""


class Client:
    """One kept connection."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def get(self, way: Way) -> None:
        """One request, whose answer must be right."""
        self.ask(way)
        self.check(way)

    def ask(self, way: Way) -> None:
        """Sends a request."""
        self.connection.request("GET", way.path, headers={"Host": way.name})

    def check(self, way: Way) -> None:
        """Waits for its answer, which must be right."""
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200 or not way.is_right(body):
            raise Broken(f"{way.name}: status {answer.status}, {body[:200]!r}")

    def get_many(self, way: Way, number: int, processes: Iterable[int] = ()) -> None:
        """Asks so many times, one after the other. Waits before each request until these processes
        sleep, so that every request finds them alike and wakes them."""
        for _ in range(number):
            while any(is_running(pid) for pid in processes):
                time.sleep(0.0001)
            self.get(way)


def get_together(clients: list[Client], way: Way, number: int) -> None:
    """So many requests of all clients together: each asks again when it is answered."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            client.ask(way)
            selector.register(client.connection.sock, selectors.EVENT_READ, client)
        asked, answered = len(clients), 0
        while answered < number:
            ready = selector.select(START)
            if not ready:
                raise Broken(f"{way.name}: no answer for {START} seconds")
            for key, _ in ready:
                key.data.check(way)
                answered += 1
                if asked < number:
                    key.data.ask(way)
                    asked += 1


def is_running(pid: int) -> bool:
    """Whether a thread of the process does something."""
    return any(state(task) not in "St" for task in Path(f"/proc/{pid}/task").iterdir())


def state(task: Path) -> str:
    """What a thread does: one letter. Of one that has just ended: that it sleeps."""
    try:
        return (task / "stat").read_text().rsplit(") ", 1)[1][0]
    except (FileNotFoundError, ProcessLookupError):
        return "S"


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    tokamak: Path
    control: Path
    client: Client
    server: Server
    port: int

    def status(self) -> dict:
        """What `tokamak status --json` says."""
        command = [f"{self.tokamak}", "status", "--json", "--control", f"{self.control}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return json.loads(done.stdout)

    def processes(self, way: Way) -> dict[str, int]:
        """The numbers of the front and, if it takes part, of the only worker of this way."""
        status = self.status()
        found = {"front": status["front_pid"]}
        if way.php:
            pool = next(pool for pool in status["pools"] if pool["site"] == way.name)
            (worker,) = pool["workers"]
            found["php"] = worker["pid"]
        return found


def files(directory: Path) -> Path:
    """The document root of all ways."""
    root = directory / "site"
    shutil.copytree(REPO / "bench/sites/guard", root)
    shutil.copy(REPO / "bench/sites/lua/empty.lua", root)
    (root / "cached").mkdir()
    shutil.copy(REPO / "bench/sites/page/index.php", root / "cached")
    (root / "page.html").write_bytes(b"x" * sites.KEPT_PAGE_SIZE)
    return root


@contextmanager
def serving(
    tokamak: Path,
    ways: list[Way],
    before: list[str],
    directory: Path,
    settings: str = "",
    loops: int = 1,
) -> Iterator[Running]:
    """The server with a site for each way, behind the command `before` (valgrind, or nothing), with
    further settings of the whole server."""
    root, port, control = files(directory), free_port(), directory / "control"
    text = CONFIG.format(port=port, control=control, loops=loops) + settings
    for way in ways:
        below = root / "cached" if way.name == "cached" else root
        text += SITE.format(name=way.name, root=below, rest=way.settings)
    config = directory / "tokamak.toml"
    config.write_text(text)
    (directory / "php.ini").write_text(INI)
    environment = ENVIRONMENT | {"PHPRC": f"{directory}", "PHP_INI_SCAN_DIR": ""}
    log = directory / "output.log"
    server = Server()
    try:
        server.start([*before, f"{tokamak}", "serve", "--config", f"{config}"], environment, log)
        wait_until_it_answers(port, server, log)
        yield Running(tokamak, control, Client(port), server, port)
    finally:
        server.stop(patience=60)


def wait_until_it_answers(port: int, server: Server, log: Path) -> None:
    """Returns when connections are accepted."""
    deadline = time.monotonic() + START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.dead_root() is not None or time.monotonic() > deadline:
                raise Broken(f"the server does not start:\n{log.read_text()}") from None
            time.sleep(0.1)


def callgrind_control(*arguments: str) -> None:
    """Tells a process under callgrind something."""
    subprocess.run(["callgrind_control", *arguments], check=True, capture_output=True, timeout=60)


def total(path: Path) -> int:
    """The instructions that a file of callgrind tells."""
    found = re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.MULTILINE)
    if found is None:
        raise Broken(f"{path} has no total")
    return int(found[1])


def count(
    processes: dict[str, int], directory: Path, work: Callable[[], None]
) -> tuple[dict[str, int], float]:
    """Instructions in each process, by their names, while `work` runs, and its seconds."""
    for pid in processes.values():
        callgrind_control("--zero", f"{pid}")
    start = time.monotonic()
    work()
    seconds = time.monotonic() - start
    found = {}
    for process, pid in processes.items():
        callgrind_control("--dump", f"{pid}")
        (dump,) = directory.glob(f"count.{pid}.[0-9]*")
        found[process] = total(dump)
        dump.unlink()
    return found, seconds


def count_requests(
    ask: Callable[[], None],
    number: int,
    processes: dict[str, int],
    directory: Path,
    rest: float = IDLE,
) -> dict[str, float]:
    """Instructions per request in each process, by their names; `ask` asks so many times."""
    rounds: dict[str, list[float]] = {process: [] for process in processes}
    for _ in range(ROUNDS):
        idle, idle_seconds = count(processes, directory, lambda: time.sleep(rest))
        busy, seconds = count(processes, directory, ask)
        for process in processes:
            # An event loop has work some times a second even if no client asks: it is taken off.
            beside = idle[process] / idle_seconds * seconds
            rounds[process].append((busy[process] - beside) / number)
    return {process: statistics.median(counts) for process, counts in rounds.items()}


def instructions(
    ways: list[Way], tokamak: Path, directory: Path, settings: str = ""
) -> dict[str, float]:
    """Instructions per request of each of these ways, in each process."""
    found = {}
    with serving(tokamak, ways, valgrind(directory), directory, settings) as running:
        for way in ways:
            running.client.get_many(way, WARM)
            processes = running.processes(way)
            ask = partial(running.client.get_many, way, COUNTED, processes.values())
            found |= named(way, count_requests(ask, COUNTED, processes, directory))
    return found


def valgrind(directory: Path) -> list[str]:
    """The command in front of a server whose instructions are counted."""
    output = f"--callgrind-out-file={directory}/count.%p"
    return ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes", output]


def named(way: Way, counts: dict[str, float]) -> dict[str, float]:
    """Instructions of processes, by the names that they are kept by."""
    return {f"{way.name}, {process}: instructions": round(of) for process, of in counts.items()}


def steady_instructions(tokamak: Path, directory: Path) -> dict[str, float]:
    """Instructions per request of worker mode while many clients ask. valgrind makes the server so
    slow that a request of each client always waits, so how many are taken at once is no chance."""
    before = valgrind(directory)
    with serving(tokamak, [STEADY], before, directory, loops=STEADY_LOOPS) as running:
        clients = [Client(running.port) for _ in range(CLIENTS)]
        get_together(clients, STEADY, COUNTED_TOGETHER)
        ask = partial(get_together, clients, STEADY, COUNTED_TOGETHER)
        processes = running.processes(STEADY)
        counted = count_requests(ask, COUNTED_TOGETHER, processes, directory, IDLE_TOGETHER)
        return named(STEADY, counted)


def steady_calls(tokamak: Path, directory: Path) -> dict[str, float]:
    """The calls by which the front reads from clients and writes to them, for each request of many
    clients that ask. Its other calls wait and wake, as often as chance lets requests meet."""
    with serving(tokamak, [STEADY], [], directory, loops=STEADY_LOOPS) as running:
        clients = [Client(running.port) for _ in range(CLIENTS)]
        get_together(clients, STEADY, SETTLED)
        output = directory / "calls"
        with tracing(running.processes(STEADY)["front"], output):
            get_together(clients, STEADY, SETTLED)
        made = calls(output.read_text(), lambda name: name in TO_CLIENTS)
    return {"steady, front: calls to clients": round(made / SETTLED, 2)}


@contextmanager
def tracing(pid: int, output: Path) -> Iterator[None]:
    """Has strace count the system calls of a process, all its threads included."""
    command = ["strace", "-f", "-c", "-U", "calls,name", "-o", f"{output}", "-p", f"{pid}"]
    tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not all(is_traced(task) for task in Path(f"/proc/{pid}/task").iterdir()):
            if time.monotonic() > deadline or tracer.poll() is not None:
                raise Broken(f"strace cannot look at process {pid}")
            time.sleep(0.01)
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(20)


def is_traced(task: Path) -> bool:
    """Whether a thread has a tracer."""
    return "TracerPid:\t0\n" not in (task / "status").read_text()


WAITING_CALLS = {"futex", "restart_syscall"}
"""How often a worker waits depends on how quickly the client asks again, so these calls are left
out; the context switches show the waiting."""
TO_CLIENTS = {"recvfrom", "recvmsg", "readv", "sendto", "sendmsg", "writev"}
"""What reads from a socket or writes to it. Files and eventfds have `read` and `write`."""


def waits_for_nobody(name: str) -> bool:
    """Whether a call is none of those that wait for a request."""
    return name not in WAITING_CALLS


def calls(output: str, counts: Callable[[str], bool] = waits_for_nobody) -> int:
    """The calls of these names that a table of strace counts."""
    rows = (line.split() for line in output.splitlines())
    return sum(
        int(row[0])
        for row in rows
        if len(row) == 2 and row[0].isdigit() and row[1] != "total" and counts(row[1])
    )


def switches(pid: int) -> int:
    """How often the threads of a process have gone to sleep so far."""
    texts = ((task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(
        int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", text, re.MULTILINE)[1])
        for text in texts
    )


def sealed(tokamak: Path, directory: Path) -> dict[str, float]:
    """Pages, system calls and context switches of the PHP process for each sealed request."""
    with serving(tokamak, [SEALED], [], directory) as running:
        running.client.get_many(SEALED, SETTLED)
        processes = running.processes(SEALED)
        pid = processes["php"]
        before = switches(pid)
        running.client.get_many(SEALED, COUNTED, processes.values())
        slept = switches(pid) - before
        output = directory / "calls"
        with tracing(pid, output):
            running.client.get_many(SEALED, COUNTED)
        (pool,) = running.status()["pools"]
        (worker,) = pool["workers"]
    return {
        "sealed, php: pages rolled back": worker["hot_pages"],
        "sealed, php: system calls": round(calls(output.read_text()) / COUNTED, 1),
        "sealed, php: context switches": round(slept / COUNTED, 1),
    }


STARTS = 3
"""Servers of which sealed mode's figures are the medians: in some, pages that a request writes and
leaves as they were come and go."""


def everything(tokamak: Path) -> dict[str, float]:
    """All counts."""
    plain_ways = [partial(instructions, WAYS), partial(instructions, ASYNC)]
    servers = [*plain_ways, steady_instructions, steady_calls, *[sealed] * STARTS]
    starts = []
    for counted in servers:
        with tempfile.TemporaryDirectory(prefix="tokamak-guard-") as directory:
            starts.append(counted(tokamak, Path(directory)))
    plain, of_async, of_many, of_calls, *starts = starts
    sealed_mode = {name: statistics.median(one[name] for one in starts) for name in starts[0]}
    return plain | of_async | of_many | of_calls | sealed_mode


def versions(tokamak: Path) -> dict[str, str]:
    """What the counts depend on beside the code."""
    rustc = subprocess.run(
        ["rustc", "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    php = subprocess.run(
        [f"{tokamak}", "php-info"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    found = re.search(r"^PHP\s+(\S+)", php, re.MULTILINE)
    # By these libc chooses its functions for memory and texts.
    flags = set(Path("/proc/cpuinfo").read_text().split())
    processor = " ".join(
        [platform.machine(), *sorted(flags & {"avx2", "avx512vl", "erms", "fsrm"})]
    )
    return {"rustc": rustc.strip(), "php": found[1] if found else "unknown", "processor": processor}


def compare(kept: dict[str, float], found: dict[str, float]) -> tuple[list[str], bool]:
    """A line for each figure, and whether all are as they were."""
    lines, good = [], kept.keys() == found.keys()
    for name, now in found.items():
        was = kept.get(name)
        if was is None:
            lines.append(f"{name}: {now}, not kept yet")
            continue
        change, limit = now - was, max(TOLERANCE * was, LEAST.get(name, 0))
        verdict = ""
        if change > limit:
            good, verdict = False, "  <- costs more"
        elif change < -limit:
            good, verdict = False, "  <- costs less: keep the new figure"
        lines.append(f"{name}: {now} (kept {was}, {change / was:+.1%}){verdict}")
    lines += [f"{name}: kept, but not counted any more" for name in kept.keys() - found.keys()]
    return lines, good


def run(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="bench/guard",
        description="Counts what a request costs, and compares it with bench/guard.json.",
    )
    parser.add_argument(
        "--tokamak",
        type=Path,
        default=REPO / "target/quick/tokamak",
        help="the program (%(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="keep these figures from now on")
    choice = parser.parse_args(arguments)
    about = versions(choice.tokamak)
    signal.signal(signal.SIGTERM, stop_politely)
    try:
        found = everything(choice.tokamak)
    except Broken as failure:
        print(failure, file=sys.stderr)
        return 1
    if choice.keep:
        FIGURES.write_text(json.dumps({"with": about, "per request": found}, indent=4) + "\n")
        print(f"kept in {FIGURES.relative_to(REPO)}")
        return 0
    kept = json.loads(FIGURES.read_text())
    lines, good = compare(kept["per request"], found)
    if not good:
        # A real change is there again; a moment in which the machine did much else is not.
        lines, good = compare(kept["per request"], everything(choice.tokamak))
    print("\n".join(lines))
    if kept["with"] != about:
        print(f"not judged: the figures were kept with {kept['with']}, these are of {about}")
        return 0
    if not good:
        advice = "If the change is meant: bench/guard --keep, and commit bench/guard.json with it."
        print(advice, file=sys.stderr)
    return 0 if good else 1
