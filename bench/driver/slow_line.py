"""What does a browser show first on a line that is slower than the server? A page with many images
and a style sheet that is found late, over HTTP/2 and TLS, beside nginx and Caddy."""

import http.server
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from . import options, program, record, versions
from .bars import Verdict, at_most
from .contest import CannotRun, say
from .edge import fresh, medians, ratio, shifted, shown
from .edge_peers import BASE, OURS, PEERS, TOKAMAK, Edge, Peer
from .summary import table

INSIDE = "TOKAMAK_BENCH_SLOW_LINE"
"""Set where the line is slow: in a network namespace of its own."""
ALIKE = "tokamak-alike"
"""This server where it does not heed priorities, because the client may be a proxy of many."""
IMAGES, IMAGE_SIZE = 24, 150_000
FILES = {"style.css": 30_000, "late.css": 40_000, "app.js": 120_000}
PATIENCE = 60.0
"""Seconds for one visit."""
SHOWN, STYLED, SCRIPTED, LOADED = "first text", "late style sheet", "script", "last image"
ROWS = (SHOWN, STYLED, SCRIPTED, LOADED)

PAGE = """\
<!DOCTYPE html>
<html><head><link rel="icon" href="data:,"><link rel="stylesheet" href="style.css"></head>
<body><h1>A page</h1>
%(images)s
<script src="app.js"></script>
<script>
addEventListener('load', () => setTimeout(() => {
    const end = name => performance.getEntriesByName(location.origin + '/' + name)[0].responseEnd;
    const images = [...Array(%(count)d).keys()].map(number => end(`${number}.png`));
    const found = [performance.getEntriesByName('first-contentful-paint')[0].startTime,
        end('late.css'), end('app.js'), Math.max(...images)];
    fetch('http://127.0.0.1:%(port)d/' + JSON.stringify(found), {mode: 'no-cors'});
}, 100));
</script></body></html>
"""


@dataclass(frozen=True)
class Moment:
    """When one thing of a page was there, in one visit."""

    round: int
    row: str
    peer: str
    ms: float
    """Since the visit began."""


def tokamak_alike(edge: Edge, peer: Peer) -> list[list[str]]:
    """This server, which takes the browser for a proxy."""
    text = 'trusted_proxies = ["127.0.0.1"]\n' + TOKAMAK
    conf = edge.write(peer, f"{peer.name}.toml", text, mode='mode = "classic"')
    return [[f"{edge.tokamak}", "serve", "--config", f"{conf}"]]


SERVERS = (
    *(peer for peer in PEERS if peer.name in (BASE, "caddy", OURS)),
    Peer(ALIKE, (), tokamak_alike, php=True),
)


def png(size: int, dice: random.Random) -> bytes:
    """An image of about so many bytes, which nothing makes smaller."""
    width, height = 200, size // 600
    lines = b"".join(b"\0" + dice.randbytes(3 * width) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + check

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 0)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def write_page(root: Path, port: int) -> None:
    """The page, which tells this port what came when."""
    dice = random.Random(1)
    for number in range(IMAGES):
        (root / f"{number}.png").write_bytes(png(IMAGE_SIZE, dice))
    for name, size in FILES.items():
        text = {"style.css": '@import "late.css"; body { color: #111 }'}.get(name, "")
        filling = "".join(chr(dice.randrange(64, 96)) for _ in range(size))
        (root / name).write_text(f"{text}/*{filling}*/")
    images = "\n".join(f'<img src="{number}.png" width="50">' for number in range(IMAGES))
    (root / "page.html").write_text(PAGE % {"images": images, "count": IMAGES, "port": port})


class Listener:
    """Hears what the pages tell."""

    def __init__(self) -> None:
        said = self.said = queue.Queue[list[float]]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said.put(json.loads(unquote(self.path[1:])))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def visit(port: int, home: Path, listener: Listener) -> list[float]:
    """One visit of a browser that knows nothing yet."""
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    words += ["--ignore-certificate-errors", f"--user-data-dir={home}"]
    words += [f"https://127.0.0.1:{port}/page.html"]
    environment = os.environ | {"HOME": f"{home}"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, env=environment, start_new_session=True, **quiet) as browser:
        try:
            return listener.said.get(timeout=PATIENCE)
        except queue.Empty:
            raise CannotRun(f"the page did not load in {PATIENCE:.0f} s") from None
        finally:
            browser.terminate()
            browser.wait(10)
            shutil.rmtree(home, ignore_errors=True)


def visits(edge: Edge, listener: Listener, rounds: int) -> Iterator[Moment]:
    """All servers by turns."""
    for number in range(rounds + 1):
        for peer in shifted(list(edge.chosen), number):
            home = edge.directory / f"home-{number}-{peer.name}"
            home.mkdir()
            found = visit(edge.ports[peer.name], home, listener)
            say(f"round {number}: {peer.name} {' '.join(f'{ms:.0f}' for ms in found)} ms")
            rows = zip(ROWS, found, strict=True)
            if number:
                yield from (Moment(number, row, peer.name, round(ms, 1)) for row, ms in rows)
            # What the browser still asks for at its end.
            time.sleep(0.5)


def verdicts(found: list[Moment]) -> list[Verdict]:
    """The bars."""
    return [
        at_most(f"{row}: at most 1.1 times {BASE}'s time", ratio(found, row, OURS, "ms"), 1.1)
        for row in ROWS
    ]


def rows_of(found: list[Moment], peers: tuple[Peer, ...]) -> str:
    """What was measured."""
    return table(
        ["ms", *ROWS],
        [
            [peer.name, *(shown(medians(found, row, peer.name, "ms"), 0) for row in ROWS)]
            for peer in peers
        ],
    )


def slow_down(megabits: int) -> None:
    """Makes the loopback interface of this network namespace a line of so many megabits."""
    for words in (
        ["ip", "link", "set", "lo", "up", "mtu", "1500"],
        ["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", f"{megabits}mbit"]
        + ["burst", "16kb", "latency", "300ms"],
    ):
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
        if done.returncode != 0:
            raise CannotRun(f"{' '.join(words)}: {done.stderr}")


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    parser = options.measurement("slow-line", __doc__)
    option = parser.add_argument
    option("--rounds", type=options.positive, default=7, help="default: 7")
    option("--megabits", type=options.positive, default=20, help="of the line; default: 20")
    chosen = parser.parse_args(arguments)
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    program.begin(chosen.out, 120 + 40 * (chosen.rounds + 1))
    try:
        slow_down(chosen.megabits)
        listener = Listener()
        with program.workshop("slow-line") as directory:
            with fresh(directory / "line", chosen.tokamak, SERVERS) as edge:
                write_page(edge.directory / "site", listener.server.server_port)
                seen = visits(edge, listener, chosen.rounds)
                found = record.write(chosen.out / record.RUNS, Moment, seen)
    except CannotRun as failure:
        print(failure, file=sys.stderr)
        return 1
    judged = verdicts(found)
    lines = "\n".join(verdict.line() for verdict in judged)
    about = (
        f"Chromium, a line of {chosen.megabits} megabits, {IMAGES} images of"
        f" {IMAGE_SIZE // 1000} kB; medians of {chosen.rounds} visits. {ALIKE} is this server"
        " where it does not heed priorities."
    )
    parts = [
        "# A page on a slow line",
        about,
        rows_of(found, SERVERS),
        f"```\n{lines}\n```",
        f"```\n{versions.text(chosen.tokamak)}\n```",
    ]
    reached = all(verdict.reached is not False for verdict in judged)
    return program.end(chosen.out, "\n\n".join(parts) + "\n", reached)
