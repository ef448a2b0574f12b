"""System calls and context switches per request, counted by the kernel itself.

A run of its own, apart from the timed ones: the count costs a server that makes many calls more
than one that makes few.
"""

import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

from . import load
from .process import Server

SYSCALLS = "raw_syscalls:sys_enter"
SWITCHES = "context-switches"
EVENTS = f"{SYSCALLS},{SWITCHES}"


@dataclass(frozen=True)
class Counts:
    """What all processes of a server did, for each request; nothing where it was not counted."""

    syscalls: float | None = None
    switches: float | None = None


def can_count() -> str | None:
    """Nothing if the kernel's counters can be read here, else why not."""
    if shutil.which("perf") is None:
        return "perf is not installed (package linux-perf)"
    command = ["perf", "stat", "-e", EVENTS, "true"]
    probe = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return None if probe.returncode == 0 else "perf may not count here (root is needed)"


def parse(output: str) -> dict[str, int]:
    """The counts from `perf stat -x,`: value, unit, event, ….

    perf prints one such line for all processes together, and comments or nothing else beside it. It
    may add to an event where it was counted, as in `context-switches:u`.
    """
    found = {}
    for line in output.splitlines():
        field = line.split(",")
        for event in (SYSCALLS, SWITCHES):
            if len(field) > 2 and field[2].startswith(event) and field[0].isdigit():
                found[event] = int(field[0])
    if SYSCALLS not in found:
        raise ValueError(f"perf reported no count:\n{output}")
    return found


def per_request(server: Server, url: str, connections: int, seconds: int) -> Counts:
    """Loads the URL while perf counts, over all processes of the server and those that they start
    meanwhile. Nothing is counted if none of the requests was answered in that time."""
    pids = ",".join(str(stat.pid) for stat in server.tree())
    perf = subprocess.Popen(
        ["perf", "stat", "-x,", "-e", EVENTS, "-p", pids],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # Until perf has attached to every thread; it does not say when. Arbitrary, ten times what
        # 300 processes took.
        time.sleep(0.5)
        done = load.run(url, connections, seconds)
        perf.send_signal(signal.SIGINT)
        _, output = perf.communicate(timeout=20)
    finally:
        perf.kill()
        perf.wait()
    if not done.requests:
        return Counts()
    counted = parse(output)
    switches = counted.get(SWITCHES)
    return Counts(
        counted[SYSCALLS] / done.requests,
        None if switches is None else switches / done.requests,
    )
