"""System calls per request, counted by the kernel itself (perf's raw_syscalls tracepoint).

A run of its own, apart from the timed ones: the count costs a server that makes many calls more than one that makes few.
"""

import shutil
import signal
import subprocess
import time

from . import load
from .process import Server

EVENT = "raw_syscalls:sys_enter"


def can_count() -> str | None:
    """Nothing if the calls can be counted here, else why not."""
    if shutil.which("perf") is None:
        return "perf is not installed (package linux-perf)"
    probe = subprocess.run(["perf", "stat", "-e", EVENT, "true"], capture_output=True, text=True, timeout=20)
    return None if probe.returncode == 0 else "perf may not count system calls here (root is needed)"


def parse(output: str) -> int:
    """The count from `perf stat -x,`: value, unit, event, ….

    perf prints one such line for all processes together, and comments or nothing else beside it.
    """
    for line in output.splitlines():
        field = line.split(",")
        if len(field) > 2 and field[2] == EVENT:
            return int(field[0])
    raise ValueError(f"perf reported no count:\n{output}")


def per_request(server: Server, url: str, connections: int, seconds: int) -> float | None:
    """Loads the URL while perf counts, over all processes of the server and those that they start meanwhile. Nothing if none of the
    requests was answered in that time."""
    pids = ",".join(str(stat.pid) for stat in server.tree())
    perf = subprocess.Popen(
        ["perf", "stat", "-x,", "-e", EVENT, "-p", pids],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # Until perf has attached to every thread; it does not say when. Arbitrary, ten times what 300 processes took.
        time.sleep(0.5)
        done = load.run(url, connections, seconds)
        perf.send_signal(signal.SIGINT)
        _, output = perf.communicate(timeout=20)
    finally:
        perf.kill()
        perf.wait()
    return parse(output) / done.requests if done.requests else None
