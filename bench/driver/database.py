"""A MariaDB server of a contest's own, which the peers reach by a Unix socket."""

import os
import subprocess
import time
from pathlib import Path

from .process import Server

PROGRAM = "/usr/sbin/mariadbd"
PASSWORD = "kept in the reactor"
START_SECONDS = 30


class MariaDb:
    """A running server with an empty database and a user for it, both of one name."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.socket = directory / "socket"
        self.server = Server()
        directory.mkdir()
        # Whom the peers run as connects to the socket.
        directory.chmod(0o755)
        (directory / "tmp").mkdir()
        install = [
            "mariadb-install-db",
            *self.common(),
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]
        with self.log.open("ab") as log:
            subprocess.run(
                install, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, timeout=60
            )
        self.server.start(self.command(), {"PATH": os.environ["PATH"]}, self.log)
        try:
            self.wait()
            self.query(
                f"CREATE DATABASE {name}; CREATE USER {name}@localhost IDENTIFIED BY '{PASSWORD}';"
                f" GRANT ALL ON {name}.* TO {name}@localhost"
            )
        except BaseException:
            self.stop()
            raise

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.directory / "mariadb.log"

    def common(self) -> list[str]:
        """What the installation and the server must agree on."""
        options = [
            "--no-defaults",
            f"--datadir={self.directory}/data",
            f"--tmpdir={self.directory}/tmp",
        ]
        # As root it refuses to run unless told so; anybody else cannot choose.
        return options + ["--user=root"] * (os.geteuid() == 0)

    def command(self) -> list[str]:
        """Debian's settings, but for places and for as many connections as any peer has
        processes."""
        places = [f"--socket={self.socket}", f"--pid-file={self.directory}/pid"]
        return [
            PROGRAM,
            *self.common(),
            *places,
            "--skip-networking",
            "--skip-log-bin",
            "--max-connections=1000",
        ]

    def client(self, sql: str) -> subprocess.CompletedProcess:
        """Statements of the administrator."""
        command = [
            "mariadb",
            "--no-defaults",
            "--batch",
            f"--socket={self.socket}",
            "--user=root",
            "-e",
            sql,
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    def query(self, sql: str) -> None:
        """Statements that must succeed."""
        done = self.client(sql)
        if done.returncode:
            raise RuntimeError(f"{sql}: {done.stderr}")

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + START_SECONDS
        while self.client("SELECT 1").returncode:
            if time.monotonic() > deadline or self.server.dead_root() is not None:
                raise RuntimeError(
                    f"MariaDB does not start:\n{self.log.read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.1)

    def cpu_seconds(self) -> float:
        """Processor time so far."""
        return self.server.cpu_seconds()

    def stop(self) -> None:
        """Ends it."""
        self.server.stop()
