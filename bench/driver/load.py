"""The load: wrk with one thread, and what it saw."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("report.lua")
MARK = "RESULT "


@dataclass(frozen=True)
class Load:
    """One run of wrk. Latencies are in microseconds, over the requests that were answered."""

    seconds: float
    requests: int
    p50: float
    p90: float
    p99: float
    bad_status: int
    socket_errors: int
    timeouts: int

    @property
    def rate(self) -> float:
        """Right answers a second; wrk counts an answer of 400 and above among its requests."""
        return (self.requests - self.bad_status) / self.seconds


def parse(output: str) -> Load:
    """Finds the line of report.lua in what wrk printed."""
    line = next((line for line in output.splitlines() if line.startswith(MARK)), None)
    if line is None:
        raise ValueError(f"wrk reported nothing:\n{output}")
    return Load(**json.loads(line[len(MARK) :]))


def command(url: str, connections: int, seconds: int, keeps: bool = True) -> list[str]:
    """The command line, as it is run and as it is written into the record."""
    header = [] if keeps else ["-H", "Connection: close"]
    return [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        "--latency",
        "-s",
        str(SCRIPT),
        *header,
        url,
    ]


def parse_writes(text: str) -> int:
    """The calls of `write` that /proc/PID/io tells."""
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("syscw:"))


def sent(child: subprocess.Popen[str]) -> int | None:
    """The requests that a load has sent so far; nothing if it has ended. wrk sends each by one
    `write`, and writes nothing else before its end. The kernel counts these calls for every
    process, so that neither wrk nor the server is slower for being watched."""
    try:
        return parse_writes(Path(f"/proc/{child.pid}/io").read_text())
    except (OSError, StopIteration):
        return None


@contextmanager
def running(
    url: str, connections: int, seconds: int, keeps: bool = True
) -> Iterator[subprocess.Popen[str]]:
    """A load for as long as the block lasts, and at most for so many seconds."""
    words = command(url, connections, seconds, keeps)
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def result(child: subprocess.Popen[str], seconds: int) -> Load:
    """What a load saw that has so many seconds left at most."""
    # wrk waits for no answer after its time is up; the rest is for a machine that is busy.
    output, _ = child.communicate(timeout=seconds + 15)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, child.args, output)
    return parse(output)


def run(url: str, connections: int, seconds: int, keeps: bool = True) -> Load:
    """Loads one URL for some seconds; `keeps`: over connections that last."""
    with running(url, connections, seconds, keeps) as child:
        return result(child, seconds)
