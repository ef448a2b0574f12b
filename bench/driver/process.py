"""Processes as /proc shows them: the tree of a server, its processor time, its memory, and its
end."""

import os
import resource
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Stat:
    """The part of /proc/PID/stat that matters here."""

    pid: int
    name: str
    parent: int
    session: int
    ticks: int
    """Of this process and of its children that have ended and were waited for."""


def parse_stat(text: str) -> Stat:
    """Reads one line of /proc/PID/stat. The name may hold spaces and parentheses, so it ends at
    the last one."""
    pid, rest = text.split(" (", 1)
    name, fields = rest.rsplit(") ", 1)
    field = fields.split()
    # Numbered as in proc(5), less the three that are gone or counted from zero: state is field 3
    # there, 0 here.
    return Stat(
        int(pid), name, int(field[1]), int(field[3]), sum(int(value) for value in field[11:15])
    )


def everything() -> list[Stat]:
    """All processes of the machine at this moment."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found.append(parse_stat(Path("/proc", entry, "stat").read_text()))
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended while we were looking.
    return found


def tree_of(roots: set[int], stats: list[Stat]) -> list[Stat]:
    """The roots and all below them. Who lost its parent still counts by its session, which each
    root has opened."""
    found = {stat.pid for stat in stats if stat.pid in roots or stat.session in roots}
    grew = True
    while grew:
        below = {stat.pid for stat in stats if stat.parent in found} - found
        found |= below
        grew = bool(below)
    return [stat for stat in stats if stat.pid in found]


def parse_private_kib(rollup: str) -> int:
    """Memory that no other process shares, from the text of /proc/PID/smaps_rollup."""
    rows = (line.split() for line in rollup.splitlines())
    return sum(int(row[1]) for row in rows if row[0] in ("Private_Clean:", "Private_Dirty:"))


def run_time(pid: int) -> int:
    """Nanoseconds that all threads of a process have run."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir())


def private_kib(pid: int) -> int:
    """Memory that only this process holds: what one more worker costs."""
    return parse_private_kib(Path(f"/proc/{pid}/smaps_rollup").read_text())


def proportional_kib(pid: int) -> int:
    """Memory of this process: of what it shares with others, its part."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))


def private_kibs(pids: list[int]) -> list[int]:
    """The same of each that is still there: a pool ends workers for which there is no work."""
    found = []
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(private_kib(pid))
    return found


def allow_many_sockets() -> int:
    """Raises the limit on open files as far as anybody may, for the servers too. Gives it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def free_port() -> int:
    """A port of the loopback device that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """The processes of one running server: one or more roots that we started, and whatever they
    started."""

    def __init__(self) -> None:
        self.roots: list[subprocess.Popen] = []

    def start(self, command: list[str], env: dict[str, str], log: Path) -> None:
        """Starts one root in a session of its own; the kernel tells it to stop should the thread
        end that has started it."""
        with log.open("ab") as output:
            self.roots.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "TERM", *command],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )

    def tree(self) -> list[Stat]:
        """Its processes now."""
        return tree_of({root.pid for root in self.roots}, everything())

    def cpu_seconds(self) -> float:
        """Processor time that all of them have used so far, those that ended included."""
        return sum(stat.ticks for stat in self.tree()) / TICK

    def run_seconds(self) -> float:
        """The same to the nanosecond, without processes that have ended: for many that each do
        little, of which `cpu_seconds` leaves out what has not filled a tick."""
        return sum(run_time(pid) for pid in (stat.pid for stat in self.tree())) / 1e9

    def mib(self) -> float:
        """Memory of its processes; what several share counts once."""
        return sum(proportional_kib(stat.pid) for stat in self.tree()) / 1024

    def own_kib(self) -> int:
        """Memory that its processes have alone."""
        return sum(private_kibs([stat.pid for stat in self.tree()]))

    def dead_root(self) -> int | None:
        """The exit status of a root that has ended, if one has."""
        return next((root.returncode for root in self.roots if root.poll() is not None), None)

    def ask_to_stop(self) -> None:
        """Asks the roots, without waiting for them; `stop` then takes less."""
        for root in self.roots:
            if root.poll() is None:
                root.terminate()

    def stop(self, patience: float = 5.0) -> None:
        """Ends every process: first asks the roots, then kills what is left."""
        left = {stat.pid for stat in self.tree()}
        self.ask_to_stop()
        deadline = time.monotonic() + patience
        for root in self.roots:
            try:
                root.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
        own = {root.pid for root in self.roots}
        for stat in everything():
            # Both, since a number may by now belong to a process that is none of ours.
            if stat.pid in left and (stat.session in own or stat.pid in own):
                try:
                    os.kill(stat.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for root in self.roots:
            root.wait()
