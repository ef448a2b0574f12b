"""What do HTTP/2 and TLS cost at the edge, beside nginx, h2o, lighttpd and Caddy? Requests, PHP,
handshakes, and connections that wait."""

import contextlib
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import options, program, record, tls_client, versions
from .bars import Verdict, at_least, at_most
from .contest import CannotRun, say
from .edge_peers import BASE, OURS, OURS_WORKER, PEERS, SIZES, Edge, Peer
from .process import allow_many_sockets, private_kib
from .summary import table

CONNECTIONS, STREAMS = 64, 10
HANDSHAKES = 300
"""Of each run: a tenth of a second of the server's time."""
SETTLING = 15.0
"""Seconds after the last idle connection has begun before memory is read: by then allocators have
given back what handshakes took."""
FULL, RESUMED = "full", "resumed"
HTTP2, HTTP1 = "HTTP/2", "HTTP/1.1"
PHP = "php"


@dataclass(frozen=True)
class Speed:
    """One run of requests."""

    round: int
    row: str
    peer: str
    rate: float
    cpu_us: float
    """Processor time per request, of all processes of the server; php-fpm's is in nginx's."""
    errors: int


@dataclass(frozen=True)
class Handshakes:
    """One run of handshakes."""

    round: int
    row: str
    peer: str
    cpu_us: float
    """Processor time for each."""


@dataclass(frozen=True)
class Memory:
    """Connections that wait for their next request."""

    row: str
    peer: str
    connections: int
    total_kib: int
    """Memory of all processes of the server that nobody shares, while the connections are open."""
    each_kib: float
    """What it grew by for each of them."""


@dataclass(frozen=True)
class Load:
    """What h2load has seen."""

    rate: float
    requests: int
    errors: int


def parse_load(output: str) -> Load:
    """Reads what h2load prints."""
    finished = re.search(r"^finished in .*, ([\d.]+) req/s", output, re.MULTILINE)
    counts = re.search(
        r"^requests: .* (\d+) failed, (\d+) errored, (\d+) timeout", output, re.MULTILINE
    )
    answers = r"^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx"
    statuses = re.search(answers, output, re.MULTILINE)
    if finished is None or counts is None or statuses is None:
        raise ValueError(f"h2load reported nothing:\n{output}")
    good, *bad = (int(count) for count in statuses.groups())
    # An answer of 400 and above is a failed request, too.
    wrong = max(sum(bad), int(counts[1])) + int(counts[3])
    return Load(float(finished[1]), good, wrong)


def load(url: str, seconds: int) -> Load:
    """Asks by as many streams as the rows name."""
    words = ["h2load", "-t1", f"-c{CONNECTIONS}", f"-m{STREAMS}", f"-D{seconds}", url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 30)
    if done.returncode != 0:
        raise CannotRun(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return parse_load(done.stdout)


def shifted(found: list[Peer], number: int) -> list[Peer]:
    """Who begins changes from round to round."""
    at = number % len(found)
    return found[at:] + found[:at]


def speeds(edge: Edge, rounds: int, seconds: int) -> Iterator[Speed]:
    """Requests for files and for the empty script, all servers by turns."""
    rows = [(name, f"{name}.html", lambda peer: peer.static) for name in SIZES]
    rows.append((PHP, "index.php", lambda peer: peer.php))
    # The first round warms up.
    for number in range(rounds + 1):
        for row, path, takes_part in rows:
            for peer in shifted([peer for peer in edge.chosen if takes_part(peer)], number):
                server = edge.servers[peer.name]
                before = server.run_seconds()
                seen = load(f"https://127.0.0.1:{edge.ports[peer.name]}/{path}", seconds)
                used = (server.run_seconds() - before) * 1e6 / max(seen.requests, 1)
                say(f"round {number}: {row} {peer.name} {seen.rate:.0f}/s, {used:.1f} µs")
                if number:
                    yield Speed(number, row, peer.name, seen.rate, round(used, 2), seen.errors)


def handshakes(edge: Edge, rounds: int) -> Iterator[Handshakes]:
    """Handshakes of both kinds, all servers by turns."""
    servers = [peer for peer in edge.chosen if peer.static]
    for number in range(rounds + 1):
        for peer in shifted(servers, number):
            server, port = edge.servers[peer.name], edge.ports[peer.name]
            sessions = ((FULL, None), (RESUMED, tls_client.session(port)))
            for row, session in sessions:
                before = server.run_seconds()
                tls_client.handshakes(port, HANDSHAKES, session)
                used = (server.run_seconds() - before) * 1e6 / HANDSHAKES
                say(f"round {number}: {row} handshake {peer.name} {used:.0f} µs")
                if number:
                    yield Handshakes(number, row, peer.name, round(used, 1))


def memory(edge: Edge, idle: int) -> Iterator[Memory]:
    """So many connections over HTTP/2 that wait, and a fifth of them over HTTP/1 with TLS. The
    first ones, which make a server fill its pools, do not count."""
    kinds: tuple[tuple[str, Callable, int], ...] = (
        (HTTP1, tls_client.idle_http1, max(1, idle // 5)),
        (HTTP2, tls_client.idle_http2, idle),
    )
    for row, begin, number in kinds:
        for peer in (peer for peer in edge.chosen if peer.static):
            port = edge.ports[peer.name]
            for _ in range(64):
                begin(port)[0].close()
            before = held(edge, peer)
            open_ones = as_many(begin, port, number)
            time.sleep(SETTLING)
            after = held(edge, peer)
            for connection in open_ones:
                connection.close()
            come = len(open_ones)
            each = (after - before) / max(come, 1)
            say(f"{come} connections over {row}: {peer.name} {after} KiB, {each:.1f} each")
            yield Memory(row, peer.name, come, after, round(each, 2))


def as_many(begin: Callable, port: int, number: int) -> list[socket.socket]:
    """So many connections, or as many as a server takes: lighttpd takes no more than half of the
    files that it may open."""
    found = []
    with contextlib.suppress(TimeoutError, ConnectionError):
        while len(found) < number:
            found.append(begin(port)[0])
    return found


def held(edge: Edge, peer: Peer) -> int:
    """KiB of all processes of a server that nobody shares."""
    return sum(private_kib(stat.pid) for stat in edge.servers[peer.name].tree())


def by_round(found: Iterable, row: str, peer: str, column: str) -> dict[int, float]:
    """The values of one server in one row."""
    return {
        one.round: getattr(one, column) for one in found if (one.row, one.peer) == (row, peer)
    }


def medians(found: Iterable, row: str, peer: str, column: str) -> float | None:
    """The median over the rounds."""
    values = by_round(found, row, peer, column).values()
    return statistics.median(values) if values else None


def ratio(found: Iterable, row: str, peer: str, column: str) -> float | None:
    """The median of the ratios to nginx, each taken within a round."""
    base = by_round(found, row, BASE, column)
    mine = by_round(found, row, peer, column)
    ratios = [value / base[number] for number, value in mine.items() if base.get(number)]
    return statistics.median(ratios) if ratios else None


def shown(value: float | None, digits: int) -> str:
    """A cell."""
    return "" if value is None else f"{value:.{digits}f}"


def verdicts(speed: list[Speed], shakes: list[Handshakes], kept: list[Memory]) -> list[Verdict]:
    """The bars."""
    found = []
    for row in SIZES:
        what = f"static {row} over HTTP/2 and TLS: {OURS}"
        found += [
            at_least(f"{what}: at least {BASE}'s requests/s", ratio(speed, row, OURS, "rate"), 1),
            at_most(f"{what}: at most {BASE}'s CPU", ratio(speed, row, OURS, "cpu_us"), 1),
        ]
    for peer in (OURS, OURS_WORKER):
        bar = f"empty PHP over HTTP/2 and TLS: {peer}: at least 3 times {BASE} + php-fpm"
        found.append(at_least(bar, ratio(speed, PHP, peer, "rate"), 3))
    for row in (FULL, RESUMED):
        cpu = ratio(shakes, row, OURS, "cpu_us")
        bar = f"{row} handshakes per second of CPU: at least {BASE}'s"
        found.append(at_least(bar, cpu and 1 / cpu, 1))
    totals = {(one.row, one.peer): one for one in kept}
    for row, column, times in ((HTTP2, "total_kib", 1.0), (HTTP1, "each_kib", 1.2)):
        mine, base = totals.get((row, OURS)), totals.get((row, BASE))
        both = mine and base and mine.connections == base.connections
        value = getattr(mine, column) / max(getattr(base, column), 0.1) if both else None
        number = mine.connections if mine else 0
        bar = f"memory of {number} idle connections over {row}: at most {times} times {BASE}'s"
        found.append(at_most(bar, value, times))
    return found


def tables(speed: list[Speed], shakes: list[Handshakes], kept: list[Memory]) -> Iterator[str]:
    """What was measured."""

    def keys(found: list) -> Iterable[tuple[str, str]]:
        order = {peer.name: number for number, peer in enumerate(PEERS)}
        rows = list(dict.fromkeys(one.row for one in found))
        pairs = dict.fromkeys((one.row, one.peer) for one in found)
        return sorted(pairs, key=lambda pair: (rows.index(pair[0]), order[pair[1]]))

    head = ["row", "requests/s", f"to {BASE}", "CPU µs", f"to {BASE}", "errors"]
    yield table(
        head,
        [
            [
                f"{row}, {peer}",
                shown(medians(speed, row, peer, "rate"), 0),
                shown(ratio(speed, row, peer, "rate"), 2),
                shown(medians(speed, row, peer, "cpu_us"), 1),
                shown(ratio(speed, row, peer, "cpu_us"), 2),
                f"{sum(one.errors for one in speed if (one.row, one.peer) == (row, peer))}",
            ]
            for row, peer in keys(speed)
        ],
    )
    yield table(
        ["handshake", "CPU µs", f"to {BASE}", "for each second of CPU"],
        [
            [
                f"{row}, {peer}",
                shown(cpu := medians(shakes, row, peer, "cpu_us"), 0),
                shown(ratio(shakes, row, peer, "cpu_us"), 2),
                shown(cpu and 1e6 / cpu, 0),
            ]
            for row, peer in keys(shakes)
        ],
    )
    yield table(
        ["idle over TLS", "connections", "memory, MiB", "for each, KiB"],
        [
            [
                f"{one.row}, {one.peer}",
                f"{one.connections}",
                f"{one.total_kib / 1024:.1f}",
                f"{one.each_kib:.1f}",
            ]
            for one in kept
        ],
    )


def fresh(directory: Path, tokamak: Path, chosen: tuple[Peer, ...]) -> Edge:
    """All servers, in a directory of their own."""
    directory.mkdir()
    return Edge(directory, tokamak, chosen)


def run(arguments: list[str]) -> int:
    """Measures, and writes a record."""
    parser = options.measurement("edge", __doc__)
    option = parser.add_argument
    known = {peer.name: peer for peer in PEERS}
    option("--peers", type=options.names(known), default=list(known), help="default: all")
    option("--rounds", type=options.positive, default=5, help="default: 5")
    option("--seconds", type=options.positive, default=1, help="of each run; default: 1")
    option("--idle", type=options.positive, default=10_000, help="connections; default: 10000")
    chosen = parser.parse_args(arguments)
    program.begin(chosen.out, 360 + 40 * chosen.rounds * (chosen.seconds + 1) + chosen.idle // 10)
    allow_many_sockets()
    with program.workshop("edge") as directory:
        try:
            servers = tuple(known[name] for name in chosen.peers)
            # Memory that servers have freed after much load would hide what connections take.
            with fresh(directory / "idle", chosen.tokamak, servers) as edge:
                kept = record.write(chosen.out / "memory.csv", Memory, memory(edge, chosen.idle))
            with fresh(directory / "load", chosen.tokamak, servers) as edge:
                asked = speeds(edge, chosen.rounds, chosen.seconds)
                speed = record.write(chosen.out / "speed.csv", Speed, asked)
                made = handshakes(edge, chosen.rounds)
                shakes = record.write(chosen.out / "handshakes.csv", Handshakes, made)
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    judged = verdicts(speed, shakes, kept)
    lines = "\n".join(verdict.line() for verdict in judged)
    about = (
        f"{CONNECTIONS} connections with {STREAMS} streams each; medians of {chosen.rounds} rounds,"
        " ratios within a round. CPU is that of the server's processes, php-fpm's included; the"
        f" client shares the processors. Handshakes are made one by one, {HANDSHAKES} in a run."
    )
    parts = [
        "# HTTP/2 and TLS at the edge",
        about,
        *tables(speed, shakes, kept),
        f"```\n{lines}\n```",
        f"```\n{versions.text(chosen.tokamak)}\n```",
    ]
    reached = all(verdict.reached is not False for verdict in judged)
    return program.end(chosen.out, "\n\n".join(parts) + "\n", reached)
