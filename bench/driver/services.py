"""What scripts ask in a contest: a service that answers at once over HTTP, and a Redis with one
key."""

import os
import subprocess
import time
from pathlib import Path

from .process import Server, free_port
from .sites import EMPTY, REPO

START_SECONDS = 10


def compile_limit(program: Path) -> None:
    """Compiles the bare loop."""
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["cc", *flags, f"{REPO}/bench/limit/limit.c", "-o", f"{program}"], check=True, timeout=60
    )


class Services:
    """Both of them, running."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        # Whom the peers run as connects to the socket.
        directory.chmod(0o755)
        self.http = f"127.0.0.1:{free_port()}"
        self.redis = directory / "redis.sock"
        self.server = Server()
        program = directory / "limit"
        compile_limit(program)
        environment = {"PATH": os.environ["PATH"]}
        store = [
            "redis-server",
            "--port",
            "0",
            "--save",
            "",
            "--unixsocket",
            f"{self.redis}",
            "--unixsocketperm",
            "777",
        ]
        self.server.start(
            [f"{program}", self.http.split(":")[1]], environment, directory / "limit.log"
        )
        self.server.start([*store, "--dir", f"{directory}"], environment, directory / "redis.log")
        try:
            self.fill()
        except BaseException:
            self.stop()
            raise

    def fill(self) -> None:
        """Writes the key as soon as Redis runs."""
        deadline = time.monotonic() + START_SECONDS
        command = ["redis-cli", "-s", f"{self.redis}", "set", "answer", EMPTY]
        while subprocess.run(command, capture_output=True, timeout=START_SECONDS).returncode:
            if time.monotonic() > deadline:
                raise RuntimeError("Redis does not start")
            time.sleep(0.1)

    def tell(self, files: Path) -> None:
        """Writes down for PHP whom its scripts ask."""
        text = f"<?php\n\nconst SERVICE = '{self.http}';\nconst REDIS = '{self.redis}';\n"
        (files / "places.php").write_text(text)

    def cpu_seconds(self) -> float:
        """Processor time so far."""
        return self.server.cpu_seconds()

    def stop(self) -> None:
        """Ends them."""
        self.server.stop()
