"""A million requests over eight php-fpm with kept connections, of which two are killed and started
again ten times: does anybody notice?

Each request has a key, by which it is bound to one php-fpm, and a number; its answer has both,
and the name of the php-fpm. Every tenth one is a POST, which may be lost with a process that has
begun it, but must not be answered wrongly or twice.
"""

import argparse
import multiprocessing
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from string import Template

from . import options, peers, program, record
from .contest import CannotRun, say
from .process import Server, free_port
from .stage import Stage
from .versions import text

READY_SECONDS = 20
MOST_SHOWN = 20
"""Wrong answers that are written down in full; all are counted."""

SCRIPT = """\
<?php
$body = file_get_contents('php://input');
if ($body !== '') {
    // Each POST leaves its mark once: a second one would show that it was repeated.
    file_put_contents(getenv('MARKS'), "$body\\n", FILE_APPEND);
}
echo getenv('POOL'), ' ', $_SERVER['REQUEST_URI'], ' ', $body;
"""

FPM = """\
[global]
error_log = $dir/$name.log
daemonize = no
[$name]
$user
listen = $dir/$name.sock
listen.mode = 0666
listen.backlog = 4096
pm = static
pm.max_children = $children
env[POOL] = $name
env[MARKS] = $dir/marks/$name
"""

TOKAMAK = """\
listen = ["127.0.0.1:$port"]
control = "$dir/control"
$user

[[upstream]]
name = "php"
address = [$addresses]
affinity = "query:key"
connections = $children
pause = "100ms"

[[site]]
root = "$dir/site"
upstream = "php"
"""


@dataclass
class Tally:
    """What has come of the requests."""

    requests: int = 0
    wrong: int = 0
    """Answers that were not the one to their request."""
    failed: int = 0
    """GET requests without a good answer."""
    lost: int = 0
    """POST requests without one."""
    away: int = 0
    """Answers of another php-fpm than the key's, which was one of those that are killed."""
    strayed: int = 0
    """The same for a key whose php-fpm was there all the time."""


NAMES = [field.name for field in fields(Tally)]


@dataclass(frozen=True)
class Kill:
    """How it stood when the victims had come back."""

    number: int
    seconds: float
    requests: int
    wrong: int
    failed: int
    lost: int
    away: int
    strayed: int


class Client:
    """A connection that is kept, and opened again when it is lost."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket: socket.socket | None = None

    def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body."""
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self.more()
        head = data[:end].lower()
        at = head.find(b"content-length: ")
        length = int(head[at + 16 :].split(b"\r", 1)[0]) if at >= 0 else 0
        body = data[end + 4 :]
        while len(body) < length:
            body += self.more()
        return int(head[9:12]), body

    def more(self) -> bytes:
        """The next bytes."""
        data = self.socket.recv(65536) if self.socket else b""
        if not data:
            raise ConnectionError("the connection was closed")
        return data

    def close(self) -> None:
        """The next request opens another one."""
        if self.socket:
            self.socket.close()
            self.socket = None


def request(key: int, number: str, is_post: bool) -> tuple[bytes, bytes]:
    """A request, and its answer behind the name of the php-fpm."""
    target = f"/index.php?key={key}&n={number}"
    if is_post:
        head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
        text = f"{head}Content-Length: {len(number)}\r\n\r\n{number}"
        return text.encode(), f" {target} {number}".encode()
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), f" {target} ".encode()


def judge(
    tally: Tally,
    status: int,
    body: bytes,
    expected: bytes,
    home: bytes,
    victims: set[bytes],
    is_post: bool,
) -> str | None:
    """Counts an answer; what is wrong with it, if anything is."""
    if status != 200:
        if is_post:
            tally.lost += 1
            return None
        tally.failed += 1
        return f"status {status}: {body[:100]!r}"
    name, rest = body[:1], body[1:]
    if rest != expected:
        tally.wrong += 1
        return f"{body[:100]!r} in place of {expected!r}"
    if name != home:
        if home in victims:
            tally.away += 1
        else:
            tally.strayed += 1
            return f"key of {home!r} at {name!r}"
    return None


@dataclass(frozen=True)
class Crowd:
    """All clients: threads of several processes, since one of Python uses no more than one
    processor."""

    port: int
    count: int
    """Requests of each."""
    homes: list[bytes]
    """Which php-fpm each key belongs to."""
    victims: set[bytes]
    shared: SynchronizedArray
    """The sums, in the order of `Tally`."""
    said: multiprocessing.Queue
    """What went wrong."""

    def come(self, process: int, threads: int) -> None:
        """The clients of one process."""
        visitors = [
            threading.Thread(target=self.visit, args=(f"{process}.{thread}",))
            for thread in range(threads)
        ]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join()

    def visit(self, visitor: str) -> None:
        """One client."""
        client, chance = Client(self.port), random.Random(visitor)
        tally = Tally()
        for number in range(self.count):
            wrong = self.act(
                client,
                tally,
                chance.randrange(len(self.homes)),
                f"{visitor}-{number}",
                number % 10 == 9,
            )
            if wrong:
                self.said.put(f"{visitor}-{number}: {wrong}")
            if number % 50 == 49 or wrong:
                tally = self.tell(tally)
        self.tell(tally)
        client.close()

    def act(self, client: Client, tally: Tally, key: int, number: str, is_post: bool) -> str | None:
        """One request; what was wrong with it, if anything was."""
        sent, expected = request(key, number, is_post)
        tally.requests += 1
        try:
            status, body = client.ask(sent)
        except OSError as error:
            client.close()
            tally.lost += is_post
            tally.failed += not is_post
            return None if is_post else repr(error)
        return judge(tally, status, body, expected, self.homes[key], self.victims, is_post)

    def tell(self, tally: Tally) -> Tally:
        """Adds it to the sums, and begins a new one."""
        with self.shared.get_lock():
            for place, name in enumerate(NAMES):
                self.shared[place] += getattr(tally, name)
        return Tally()


class Scene(Stage):
    """All php-fpm and the server in front of them."""

    def __init__(self, directory: Path, chosen: argparse.Namespace) -> None:
        self.directory, self.chosen = directory, chosen
        self.names = [chr(ord("a") + number) for number in range(chosen.backends)]
        self.port = free_port()
        self.front = Server()
        self.backends: dict[str, Server] = {}

    def start(self) -> None:
        """Starts everything, and waits for answers."""
        marks, site = self.directory / "marks", self.directory / "site"
        marks.mkdir()
        marks.chmod(0o1777)
        site.mkdir()
        (site / "index.php").write_text(SCRIPT)
        (self.directory / "php.ini").write_text(
            Template(peers.PHP_INI).safe_substitute(dir=self.directory)
        )
        pool_user = peers.as_root("user = www-data\ngroup = www-data")
        for name in self.names:
            values = {
                "dir": self.directory,
                "name": name,
                "user": pool_user,
                "children": self.chosen.children,
            }
            (self.directory / f"{name}.conf").write_text(Template(FPM).substitute(values))
            self.begin(name)
        addresses = ", ".join(f'"unix:{self.directory}/{name}.sock"' for name in self.names)
        values = {
            "dir": self.directory,
            "port": self.port,
            "addresses": addresses,
            "children": self.chosen.children,
        }
        configuration = self.directory / "tokamak.toml"
        configuration.write_text(
            Template(TOKAMAK).substitute(values, user=peers.as_root('user = "www-data"'))
        )
        command = [f"{self.chosen.tokamak}", "serve", "--config", f"{configuration}"]
        self.front.start(command, self.environment(), self.directory / "tokamak.log")
        self.wait()

    def environment(self) -> dict[str, str]:
        """Without this one's own."""
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PHPRC": f"{self.directory}",
            "PHP_INI_SCAN_DIR": peers.EXTENSIONS,
        }

    def begin(self, name: str) -> None:
        """Starts one php-fpm."""
        self.backends[name] = Server()
        command = [peers.FPM, "--nodaemonize", "--fpm-config", f"{self.directory}/{name}.conf"]
        self.backends[name].start(
            command, self.environment(), self.directory / f"{name}-output.log"
        )

    def kill(self, name: str) -> None:
        """Ends all of its processes at once."""
        for root in self.backends[name].roots:
            os.killpg(root.pid, signal.SIGKILL)
            root.wait()

    def stop(self) -> None:
        """Ends everything."""
        for server in (self.front, *self.backends.values()):
            server.stop()

    def wait(self) -> None:
        """Until each php-fpm has answered."""
        deadline = time.monotonic() + READY_SECONDS
        seen: set[bytes] = set()
        client, key = Client(self.port), 0
        while len(seen) < len(self.names):
            if time.monotonic() > deadline:
                raise CannotRun(
                    f"not all answer:\n{(self.directory / 'tokamak.log').read_text()[-2000:]}"
                )
            key += 1
            try:
                status, body = client.ask(request(key, "0", is_post=False)[0])
                seen |= {body[:1]} if status == 200 else set()
            except OSError:
                client.close()
                time.sleep(0.1)

    def homes(self, keys: int) -> list[bytes]:
        """Which php-fpm each key belongs to."""
        client = Client(self.port)
        return [client.ask(request(key, "0", is_post=False)[0])[1][:1] for key in range(keys)]

    def repeated(self) -> int:
        """POSTs that were acted on more than once."""
        marks = [
            mark
            for file in (self.directory / "marks").iterdir()
            for mark in file.read_text().splitlines()
        ]
        return len(marks) - len(set(marks))


def kills(
    scene: Scene, shared: SynchronizedArray, processes: list[multiprocessing.Process]
) -> Iterator[Kill]:
    """Kills the victims at equal distances, and lets them come back."""
    chosen, began = scene.chosen, time.monotonic()
    for number in range(1, chosen.kills + 1):
        while shared[0] < chosen.requests * number // (chosen.kills + 1) and any(
            process.is_alive() for process in processes
        ):
            time.sleep(0.02)
        for name in scene.names[: chosen.victims]:
            scene.kill(name)
            time.sleep(0.1)
        time.sleep(chosen.away)
        for name in scene.names[: chosen.victims]:
            scene.begin(name)
        time.sleep(0.5)
        row = Kill(number, round(time.monotonic() - began, 1), *shared[:])
        say(f"{row.seconds} s: {row}")
        yield row
    for process in processes:
        process.join()


def page(
    tally: Tally,
    repeated: int,
    seconds: float,
    chosen: argparse.Namespace,
    said: list[str],
    about: str,
) -> str:
    """The record for a reader."""
    shown = "\n".join(f"- {line}" for line in said[:MOST_SHOWN])
    posts = chosen.requests // 10
    title = f"{tally.requests} requests over {chosen.backends} php-fpm"
    return f"""# {title}, {chosen.victims} of them killed {chosen.kills} times

{chosen.clients} clients, every tenth request a POST; {chosen.children} connections to each php-fpm,
kept; requests are bound to a php-fpm by `affinity = "query:key"`. The victims are killed
(`SIGKILL`, all processes) one after the other, and start again {chosen.away} s later.

| | |
| --- | ---: |
| requests | {tally.requests} |
| wrong answers | **{tally.wrong}** |
| failed GET requests | **{tally.failed}** |
| POST requests that were acted on twice | **{repeated}** |
| POST requests that were lost with a process | {tally.lost} of {posts} |
| answers of another php-fpm while the key's was gone | {tally.away} |
| answers of another php-fpm though the key's was there | **{tally.strayed}** |
| seconds | {seconds:.0f} |
| requests/s, the clients on the same machine | {tally.requests / seconds:.0f} |

{shown}

```
{about.strip()}
```
"""


def run(arguments: list[str]) -> int:
    """Kills, counts, and writes a record. Fails if anybody noticed."""
    parser = options.measurement("survive", __doc__)
    option = parser.add_argument
    option("--requests", type=options.positive, default=1_000_000, help="default: 1000000")
    option("--backends", type=options.positive, default=8, help="default: 8")
    option("--victims", type=options.positive, default=2, help="default: 2")
    option("--kills", type=options.positive, default=10, help="default: 10")
    option(
        "--away", type=float, default=1.0, help="seconds until a victim starts again; default: 1"
    )
    option("--clients", type=options.positive, default=16, help="default: 16")
    option("--children", type=options.positive, default=3, help="of each php-fpm; default: 3")
    option("--keys", type=options.positive, default=1000, help="default: 1000")
    chosen = parser.parse_args(arguments)
    program.begin(chosen.out)
    with program.workshop("survive") as directory:
        try:
            with Scene(directory, chosen) as scene:
                began = time.monotonic()
                tally, said = load(scene, chosen.out)
                seconds, repeated = time.monotonic() - began, scene.repeated()
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    if not tally.requests:
        print("nobody was answered", file=sys.stderr)
        return 1
    summary = page(tally, repeated, seconds, chosen, said, text(chosen.tokamak))
    noticed = tally.wrong or tally.failed or tally.strayed or repeated
    return program.end(chosen.out, summary, not noticed)


def load(scene: Scene, out: Path) -> tuple[Tally, list[str]]:
    """All requests, while the victims come and go."""
    chosen = scene.chosen
    crowd = Crowd(
        port=scene.port,
        count=-(-chosen.requests // chosen.clients),
        homes=scene.homes(chosen.keys),
        victims={name.encode() for name in scene.names[: chosen.victims]},
        shared=multiprocessing.Array("q", len(NAMES)),
        said=multiprocessing.Queue(),
    )
    split = (chosen.clients - chosen.clients // 2, chosen.clients // 2)
    processes = [
        multiprocessing.Process(target=crowd.come, args=(number, threads), daemon=True)
        for number, threads in enumerate(split)
        if threads
    ]
    for process in processes:
        process.start()
    record.write(out / "survive.csv", Kill, kills(scene, crowd.shared, processes))
    lines = []
    while not crowd.said.empty():
        lines.append(crowd.said.get())
    return Tally(*crowd.shared[:]), lines
