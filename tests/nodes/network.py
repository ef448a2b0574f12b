"""Machines of their own: network namespaces on one bridge, with the processes that run there."""

import os
import pathlib
import subprocess
import time

NETWORK = "10.0.0."


def run(*command, **options):
    """Runs a command to its end, and returns what it prints."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=options.pop("timeout", 60), **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def eventually(what, question, seconds=60.0, pause=0.1):
    """Asks until the answer is true, and returns it."""
    until = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > until:
            raise RuntimeError(f"not within {seconds:.0f} s: {what}")
        time.sleep(pause)


def make_bridge():
    """What all machines are connected to; the test itself is there with the address 1."""
    run("ip", "link", "add", "bridge", "type", "bridge")
    run("ip", "address", "add", f"{NETWORK}1/24", "dev", "bridge")
    run("ip", "link", "set", "bridge", "up")


class Machine:
    """A network and a space of processes, whose first process does nothing but reap."""

    def __init__(self, name, number, folder):
        self.name, self.address = name, f"{NETWORK}{number}"
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir(mode=0o755)
        self.link = f"to-{number}"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", self.link, "master", "bridge", "up")
        for command in (
                ("address", "add", f"{self.address}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            run("ip", "-n", name, *command)
        self.first = None

    def switch_on(self):
        """Gives it a space of processes."""
        pid = self.folder / "first"
        pid.unlink(missing_ok=True)
        # `echo` comes before the shell has its new space of processes, and names it from outside.
        self.outer = subprocess.Popen(
            ["ip", "netns", "exec", self.name, "unshare", "--uts", "--pid", "--fork",
             "--kill-child", "--mount-proc", "bash", "-c",
             f"hostname {self.name}; echo >{pid}; while :; do sleep 1000 & wait; done"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(f"{self.name} is on", pid.exists, 20, 0.02)
        children = f"/proc/{self.outer.pid}/task/{self.outer.pid}/children"
        self.first = int(pathlib.Path(children).read_text().split()[0])

    def switch_off(self):
        """Ends all of its processes at once, by SIGKILL of the first one."""
        self.outer.kill()
        self.outer.wait()
        # The test is the first process of its own space, and so the parent of who has lost one.
        os.waitpid(self.first, 0)

    def command(self, *command):
        """That command, to be run there."""
        return ("nsenter", "-t", str(self.first), "-m", "-u", "-n", "-p", f"--wd={self.folder}",
                *command)

    def start(self, *command, log="log", environment=None):
        """Starts a process there, which goes on."""
        with open(self.folder / log, "ab") as output:
            return subprocess.Popen(
                self.command(*command), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=environment)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def disconnect(self):
        run("ip", "link", "set", self.link, "down")

    def connect(self):
        run("ip", "link", "set", self.link, "up")
