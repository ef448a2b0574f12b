"""Runs a command in a pseudo terminal.

Reads orders as lines of JSON, [method, argument, ...], and answers each with a line of JSON.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

# Longer than anything takes on a busy machine; who waits for so long has failed.
PATIENCE = 30


def settings(terminal=0):
    """How the terminal treats what is typed and shown, and its keys; not its speed, which a program
    may only have written in another way."""
    return [termios.tcgetattr(terminal)[nth] for nth in (0, 1, 3, 6)]


def inside(theirs, report, command):
    """Runs the command with this terminal, and reports of it: when a session ends, the kernel sets
    its terminal back by itself, so the session must outlive the command."""
    os.setsid()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(theirs, number)
    before = settings()
    pid = os.fork()
    if pid == 0:
        os.execvp(command[0], command)
    os.write(report, f"{pid}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    same = settings() == before
    os.write(report, json.dumps({"status": status, "same": same}).encode() + b"\n")
    os._exit(0)


class Terminal:
    """A terminal with one command in it."""

    def __init__(self, command):
        self.ours, theirs = pty.openpty()
        self.size(100, 30)
        self.seen = b""
        self.theirs, self.before = theirs, termios.tcgetattr(theirs)
        report, to = os.pipe()
        if os.fork() == 0:
            inside(theirs, to, command)
        os.close(to)
        self.report = os.fdopen(report)
        self.pid = int(self.report.readline())

    def size(self, columns, rows):
        """Gives the terminal another size, as a window does."""
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """Takes what the command writes."""
        if select.select([self.ours], [], [], seconds)[0]:
            self.seen += os.read(self.ours, 65536)

    def until(self, pattern):
        """What the command has written since the last call, once it matches."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.1)
            text = self.seen.decode(errors="replace")
            if re.search(pattern, text, re.S):
                self.seen = b""
                return text
        raise TimeoutError(f"{pattern}: {self.seen!r}")

    def size_and_key(self, columns, rows, text):
        """Gives the terminal another size and types before the command has taken note of it."""
        self.size(columns, rows)
        self.key(text)

    def key(self, text):
        """Types."""
        os.write(self.ours, text.encode())

    def kill(self, name):
        """Sends a signal to the command."""
        os.kill(self.pid, getattr(signal, name))

    def stopped(self):
        """Waits until the command is stopped: whether the terminal's settings are then those from
        before."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8") as stat:
                if stat.read().rsplit(") ", 1)[1][0] == "T":
                    return settings(self.theirs) == [self.before[nth] for nth in (0, 1, 3, 6)]
            self.read(0.05)
        raise TimeoutError(f"it is not stopped: {self.seen!r}")

    def cook(self):
        """Gives the terminal the settings that it had before the command, as a shell does."""
        termios.tcsetattr(self.theirs, termios.TCSANOW, self.before)

    def end(self):
        """Waits for the command: its status, what it wrote last, and whether the terminal's
        settings are those from before."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.1)
            if select.select([self.report], [], [], 0)[0]:
                ended = json.loads(self.report.readline())
                # What it wrote before it ended may still be on its way.
                try:
                    self.read(0.1)
                except OSError:
                    pass
                return {**ended, "said": self.seen.decode(errors="replace")}
        os.kill(self.pid, signal.SIGKILL)
        raise TimeoutError(f"it does not end: {self.seen!r}")


def main():
    """Obeys until there are no more orders."""
    terminal = Terminal(sys.argv[1:])
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        try:
            answer = {"value": getattr(terminal, method)(*arguments)}
        except (TimeoutError, OSError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


main()
