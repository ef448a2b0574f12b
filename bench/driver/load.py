"""The load: wrk with one thread, and what it saw."""

import json
import subprocess
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


def run(url: str, connections: int, seconds: int, keeps: bool = True) -> Load:
    """Loads one URL for some seconds; `keeps`: over connections that last."""
    done = subprocess.run(
        command(url, connections, seconds, keeps),
        capture_output=True,
        text=True,
        check=True,
        # wrk waits for no answer after its time is up; the rest is for a machine that is busy.
        timeout=seconds + 15,
    )
    return parse(done.stdout)
