"""MariaDB, PostgreSQL and Redis for a measurement: on Unix sockets below one directory, with one
thing to look up in each."""

import os
import subprocess
import time
from pathlib import Path

from .database import PASSWORD, MariaDb
from .process import Server
from .stage import Stage

POSTGRESQL_USER = "postgres"
"""Who its server runs as if we are root: it refuses root."""

THINGS = (
    "CREATE TABLE things (id INT PRIMARY KEY, name VARCHAR(20));"
    " INSERT INTO things VALUES (42, 'the thing');"
)
READY_SECONDS = 30


def quietly(command: list[str], timeout: float = 60, **more: object) -> None:
    """Runs something that must work, and shows what it said if it does not."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **more
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def until_it_works(command: list[str], **more: object) -> None:
    """Asks a server that has just been started."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return quietly(command, **more)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def environment() -> dict[str, str]:
    """Debian keeps servers where an ordinary user's search path does not lead."""
    return os.environ | {
        "LANG": "C.UTF-8",
        "PATH": f"{os.environ['PATH']}:/usr/sbin:{postgresql_programs()}",
    }


def postgresql_programs() -> Path:
    """Where the newest installed version is."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/bin"))


def begin_postgresql(server: Server, home: Path, password: str, authentication: str) -> None:
    """Starts one with its defaults but for places, with a database and a user `bench`."""
    home.mkdir()
    (home / "password").write_text(password)
    become: list[str] = []
    if os.geteuid() == 0:
        user = ["--reuid", POSTGRESQL_USER, "--regid", POSTGRESQL_USER]
        become = ["setpriv", *user, "--init-groups"]
        quietly(["chown", "-R", POSTGRESQL_USER, f"{home}"])
    making = [f"--auth={authentication}", "--username=bench", f"--pwfile={home}/password"]
    quietly([*become, "initdb", *making, f"--pgdata={home}/data"], env=environment())
    settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={home}"]
    command = [*become, "postgres", "-D", f"{home}/data", *settings]
    server.start(command, environment(), home.with_suffix(".log"))
    client = postgresql_client(home)
    secret = environment() | {"PGPASSWORD": password}
    until_it_works([*client, "postgres", "-c", "CREATE DATABASE bench"], env=secret)


def query_postgresql(home: Path, password: str, *words: str, timeout: float = 60) -> None:
    """Has its database do something, by psql's options."""
    secret = environment() | {"PGPASSWORD": password}
    quietly([*postgresql_client(home), "bench", *words], timeout, env=secret)


def postgresql_client(home: Path) -> list[str]:
    """psql, for the server of this directory."""
    return ["psql", "--no-psqlrc", "--quiet", f"--host={home}", "--username=bench"]


def install(files: Path, directory: Path) -> "Databases":
    """Starts them for a site whose scripts ask them."""
    directory.mkdir()
    directory.chmod(0o755)
    databases = Databases(directory).__enter__()
    databases.tell(files)
    return databases


class Databases(Stage):
    """The three servers. Leaving the `with` block ends them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.servers: dict[str, Server] = {}

    def start(self) -> None:
        """Starts them, and waits until they answer."""
        self.mariadb(self.directory / "mysql")
        self.postgresql(self.directory / "pgsql")
        self.redis(self.directory / "redis")

    def stop(self) -> None:
        """Ends every process."""
        for server in self.servers.values():
            server.stop()

    def places(self) -> dict[str, str]:
        """What PHP needs to find each of them."""
        home = self.directory
        return {
            "mysql": f"mysql:unix_socket={home}/mysql/socket;dbname=bench;charset=utf8mb4",
            "pgsql": f"pgsql:host={home}/pgsql;dbname=bench",
            "redis": f"{home}/redis/socket",
        }

    def tell(self, files: Path) -> None:
        """Writes down for PHP how to find them and to get in."""
        # None of the values has a quote.
        places = ", ".join(f"'{name}' => '{place}'" for name, place in self.places().items())
        text = f"<?php\n\nconst PASSWORD = '{PASSWORD}';\nconst PLACES = [{places}];\n"
        (files / "places.php").write_text(text)

    def cpu_seconds(self) -> float:
        """Processor time so far, of all of them."""
        return sum(server.cpu_seconds() for server in self.servers.values())

    def launch(self, name: str, command: list[str]) -> None:
        """Starts one of them."""
        self.servers[name] = Server()
        self.servers[name].start(command, environment(), self.directory / f"{name}.log")

    def mariadb(self, home: Path) -> None:
        """With a thing in it."""
        database = MariaDb(home, "bench")
        self.servers["mysql"] = database.server
        database.query(f"USE bench; {THINGS}")

    def postgresql(self, home: Path) -> None:
        """It asks for a password on the socket too, as servers elsewhere do."""
        self.servers["pgsql"] = Server()
        begin_postgresql(self.servers["pgsql"], home, PASSWORD, "scram-sha-256")
        query_postgresql(home, PASSWORD, "-c", THINGS)

    def redis(self, home: Path) -> None:
        """Without a store on disk."""
        home.mkdir()
        place = ["--unixsocket", f"{home}/socket", "--unixsocketperm", "777", "--dir", f"{home}"]
        self.launch("redis", ["redis-server", "--port", "0", "--save", "", *place])
        until_it_works(["redis-cli", "-s", f"{home}/socket", "set", "thing:42", "the thing"])
