"""The bars that the project has set itself, and whether a contest reached them. One row a bar."""

from collections.abc import Callable
from dataclasses import dataclass

from . import course
from .latencies import CONNECTING, CROWD, ONE, OWN_HALF, SAME_HALF, Latencies, Load
from .summary import Rows

BASE = "nginx-fpm"
CLASSIC = "tokamak-classic"
WORKER = "tokamak-worker"
SEALED = "tokamak-sealed"
DEPTHS = ("tokamak-sealed-plugins", "tokamak-sealed-core")
"""Shallower images of the same application: what they cost is told, but nobody is advised to
take them for speed."""
LOGGING = "tokamak-classic-log"
ASYNC = "tokamak-async"
OURS = (CLASSIC, WORKER, ASYNC, SEALED, LOGGING)
LUA = "tokamak-lua"
LUA_FCGI = ("tokamak-lua-fcgi", "tokamak-lua-fcgi-multiplex")
LUA_PEERS = ("nginx-lua", "lighttpd-magnet")
LIMIT = "limit"
GO = "go"
SWOOLE = "swoole"
ORIENTATION = (LUA, GO, SWOOLE, "node", "node-one", "python", LIMIT)
"""Beside PHP's servers on the empty endpoint: they do not run PHP, or not request by request."""
FPM = "nginx-tokamak-fpm"
FPM_SEALED = "nginx-tokamak-fpm-sealed"

# Two equal servers differ by a few percent from run to run, in the percentiles above all.
PERCENTILE_SLACK = 1.05


@dataclass(frozen=True)
class Verdict:
    """One bar. `reached` is nothing where the contest did not measure what the bar needs."""

    bar: str
    reached: bool | None
    seen: str

    def line(self) -> str:
        """For the reader."""
        word = {True: "reached", False: "MISSED", None: "not measured"}[self.reached]
        return f"{word:12}  {self.bar}: {self.seen}" if self.seen else f"{word:12}  {self.bar}"


def at_least(bar: str, ratio: float | None, limit: float) -> Verdict:
    """A bar that a ratio has to climb over."""
    return Verdict(bar, None, "") if ratio is None else Verdict(bar, ratio >= limit, f"{ratio:.2f}")


def at_most(bar: str, value: float | None, limit: float) -> Verdict:
    """A bar that a value has to stay under."""
    return Verdict(bar, None, "") if value is None else Verdict(bar, value <= limit, f"{value:.2f}")


def empty_endpoint(rows: Rows) -> list[Verdict]:
    """What the server itself may cost, for each mode: 64 connections, nothing to do."""
    verdicts = []
    for ours in (CLASSIC, WORKER):
        rate = rows.ratio("empty", 64, ours, BASE, "rate")
        cpu = rows.ratio("empty", 64, ours, BASE, "cpu_us")
        footprint = rows.footprint("empty", ours)
        calls = footprint.syscalls if footprint else None
        verdicts += [
            at_least(
                f"{ours}: at least 2.5 times the requests/s of {BASE} (empty, 64 connections)",
                rate,
                2.5,
            ),
            at_most(
                f"{ours}: at most a quarter of the CPU per request of {BASE}"
                " (empty, 64 connections)",
                cpu,
                0.25,
            ),
            at_most(f"{ours}: at most 4 system calls per request (empty)", calls, 4.0),
        ]
    return verdicts


MODES = (CLASSIC, WORKER, SEALED)

WAY_TO_A_WORKER = (
    # Ours, beside whom, in what, at least or at most.
    (CLASSIC, LUA, "cpu_us", at_most, 2.1),
    (WORKER, LUA, "cpu_us", at_most, 1.6),
    (SEALED, LUA, "cpu_us", at_most, 1.95),
    (WORKER, GO, "rate", at_least, 1.6),
    (SEALED, GO, "rate", at_least, 1.15),
    (WORKER, SWOOLE, "cpu_us", at_most, 1.3),
    (WORKER, LIMIT, "cpu_us", at_most, 1.8),
    (ASYNC, LIMIT, "cpu_us", at_most, 1.9),
    (SEALED, LIMIT, "cpu_us", at_most, 2.4),
    (LUA, LIMIT, "cpu_us", at_most, 1.25),
)
"""What it may cost to hand an empty request to a PHP process."""

WORDS = {
    ("cpu_us", at_most): "at most {} times the CPU per request of",
    ("rate", at_least): "at least {} times the requests/s of",
}


def beside(rows: Rows, ours: str, peer: str, metric: str, kind: Callable, limit: float) -> Verdict:
    """One bar of the empty endpoint."""
    words = WORDS[metric, kind].format(limit)
    bar = f"{ours}: {words} {peer} (empty, 64 connections)"
    return kind(bar, rows.ratio("empty", 64, ours, peer, metric), limit)


def way_to_a_worker(rows: Rows) -> list[Verdict]:
    """An empty request beside those that need no PHP process, and its wake-ups."""
    switches = {ours: rows.footprint("empty", ours) for ours in MODES}
    bar = "at most 0.15 context switches per request over all processes (empty)"
    return [
        *(beside(rows, *row) for row in WAY_TO_A_WORKER),
        *(at_most(f"{ours}: {bar}", row and row.switches, 0.15) for ours, row in switches.items()),
    ]


def lasting(rows: Rows) -> list[Verdict]:
    """Worker mode after a while, and with more clients: it keeps what it can do."""
    few, many = ("empty", 64, WORKER), ("empty", 1024, WORKER)
    early = f"the better of seconds {course.EARLY[0]} and {course.EARLY[1]}"
    return [
        at_least(
            f"{WORKER}: in second {course.LATE} of a load at least 0.97 times the requests/s of"
            f" {early} (empty, 64 connections)",
            course.later_median(course.of(rows.seconds, few)),
            0.97,
        ),
        at_most(
            f"{WORKER}: with 1024 connections at most 1.15 times the CPU per request of 64 (empty)",
            rows.between(many, few, "cpu_us"),
            1.15,
        ),
        at_least(
            f"{WORKER}: at least 0.75 times the requests/s of {LIMIT} (empty, 1024 connections)",
            rows.ratio("empty", 1024, WORKER, LIMIT, "rate"),
            0.75,
        ),
    ]


def never_slower(rows: Rows, ours: str) -> Verdict:
    """It is never the slower choice: its worst row."""
    worst = None
    for scenario, connections, peer in rows.keys():
        ratio = rows.ratio(scenario, connections, ours, BASE, "rate") if peer == ours else None
        if ratio is not None and (worst is None or ratio < worst[0]):
            worst = (ratio, f"{scenario}, {connections} connections")
    bar = f"{ours}: not slower than {BASE} on any row"
    return (
        Verdict(bar, None, "")
        if worst is None
        else Verdict(bar, worst[0] >= 1.0, f"{worst[0]:.2f} at worst ({worst[1]})")
    )


def worker_on_symfony(rows: Rows) -> Verdict:
    """Booting once pays: the framework's share of a request is gone."""
    ratio = rows.ratio("symfony-json", 64, WORKER, BASE, "rate")
    return at_least(f"{WORKER}: at least 5 times {BASE} (symfony-json, 64 connections)", ratio, 5.0)


def sealed(rows: Rows) -> list[Verdict]:
    """The speed of worker mode with the isolation of classic mode, and what a roll-back and one
    more worker cost."""
    json, page = "symfony-json", "symfony-page"

    def cpu(scenario: str, peer: str, base: str) -> float | None:
        return rows.ratio(scenario, 64, peer, base, "cpu_us")

    verdicts = []
    for scenario, times in ((json, 8.0), (page, 3.5)):
        footprint = rows.footprint(scenario, SEALED)
        memory = footprint.private_kib if footprint else None
        verdicts += [
            at_least(
                f"{SEALED}: {CLASSIC} takes at least {times} times the CPU ({scenario})",
                cpu(scenario, CLASSIC, SEALED),
                times,
            ),
            at_most(
                f"{SEALED}: at most 1.3 times the CPU of {WORKER} ({scenario})",
                cpu(scenario, SEALED, WORKER),
                1.3,
            ),
            at_most(
                f"{SEALED}: at most 2 MB of memory for one more worker ({scenario})",
                memory and memory * 1024 / 1e6,
                2.0,
            ),
        ]
    footprint = rows.footprint(json, SEALED)
    return verdicts + [
        at_most(
            f"{SEALED}: a roll-back takes at most 12 µs ({json}, median)",
            footprint and footprint.roll_back_us,
            12.0,
        ),
        at_least(
            f"{SEALED}: at least 10 times the requests/s of {BASE} ({json})",
            rows.ratio(json, 64, SEALED, BASE, "rate"),
            10.0,
        ),
        at_least(
            f"{SEALED}: at least 0.95 times the requests/s of {CLASSIC} (empty)",
            rows.ratio("empty", 64, SEALED, CLASSIC, "rate"),
            0.95,
        ),
    ]


def wordpress(rows: Rows) -> Verdict:
    """An application that knows nothing of workers, from an image of itself: its worst row."""
    ratios = [
        (ratio, connections)
        for scenario, connections, peer in rows.keys()
        if (scenario, peer) == ("wordpress", SEALED)
        and (ratio := rows.ratio(scenario, connections, SEALED, BASE, "rate")) is not None
    ]
    bar = f"{SEALED}: at least 3 times the requests/s of {BASE} on any row (wordpress)"
    if not ratios:
        return Verdict(bar, None, "")
    ratio, connections = min(ratios)
    return Verdict(bar, ratio >= 3.0, f"{ratio:.2f} at worst ({connections} connections)")


def lua_empty(rows: Rows) -> list[Verdict]:
    """What a script in the server may cost: not more than with those who have done this for
    longer."""
    scenario = "lua-empty"
    ratios = {peer: rows.ratio(scenario, 64, LUA, peer, "cpu_us") for peer in LUA_PEERS}
    # To the better of them: the ratio that is higher.
    worst = None if None in ratios.values() else max(ratio for ratio in ratios.values() if ratio)
    return [
        *(
            at_most(f"{LUA}: at most the CPU per request of {peer} ({scenario})", ratio, 1.0)
            for peer, ratio in ratios.items()
        ),
        at_most(
            f"{LUA}: aim at 0.85 of the better one's CPU per request ({scenario})", worst, 0.85
        ),
        at_least(
            f"{LUA}: at least 0.75 times the requests/s of the bare loop ({scenario})",
            rows.ratio(scenario, 64, LUA, LIMIT, "rate"),
            0.75,
        ),
    ]


def lua_asking(rows: Rows) -> list[Verdict]:
    """A script that asks somebody else meanwhile. Over HTTP, where nginx is near, more than the
    noise."""
    return [
        at_least(
            f"{LUA}: at least {limit} times the requests/s of {peer} ({scenario}, 64 connections)",
            rows.ratio(scenario, 64, LUA, peer, "rate"),
            limit,
        )
        for scenario, peer, limit in (
            ("lua-http", "nginx-lua", 1.05),
            ("lua-http", GO, 1.0),
            ("lua-redis", "nginx-lua", 1.0),
            ("lua-redis", GO, 1.0),
        )
    ]


ASYNC_BARS = (
    # Scenario, beside whom, how many times their requests/s at least.
    ("php-http", GO, 1.3),
    ("php-stream", GO, 1.3),
    ("php-redis", GO, 1.15),
    ("php-mysql", WORKER, 1.0),
    ("php-pgsql", WORKER, 1.0),
    ("php-redis", WORKER, 1.3),
    ("php-http", WORKER, 1.2),
    ("empty", WORKER, 0.95),
)


def asking_at_once(rows: Rows) -> list[Verdict]:
    """A process that serves others while one of its requests waits."""
    return [
        at_least(
            f"{ASYNC}: at least {limit} times the requests/s of {peer}"
            f" ({scenario}, 64 connections)",
            rows.ratio(scenario, 64, ASYNC, peer, "rate"),
            limit,
        )
        for scenario, peer, limit in ASYNC_BARS
    ]


def lua_over_fastcgi(rows: Rows) -> list[Verdict]:
    """The way over FastCGI, with Lua at its end."""
    bar = f"at least 2.5 times the requests/s of {BASE} (empty, 64 connections)"
    return [
        at_least(f"{peer}: {bar}", rows.ratio("empty", 64, peer, BASE, "rate"), 2.5)
        for peer in LUA_FCGI
    ]


def cached_page(rows: Rows) -> Verdict:
    """A page that is kept is as good as a file."""
    ratio = rows.ratio("cached-page", 64, "tokamak-cached", "tokamak-file", "rate")
    return at_least(
        "tokamak-cached: at least 0.9 times the requests/s of a file (cached-page, 64 connections)",
        ratio,
        0.9,
    )


def percentiles(rows: Rows) -> Verdict:
    """No client waits longer than with a peer. A peer whose requests failed or timed out is left
    out of that row: those who waited for ever are not in its percentiles."""
    worse, compared = [], 0
    for scenario, connections, ours in rows.keys():
        if ours not in OURS:
            continue
        for other_scenario, other_connections, peer in rows.keys():
            key = (other_scenario, other_connections, peer)
            is_other_row = (other_scenario, other_connections) != (scenario, connections)
            if is_other_row or peer in OURS + DEPTHS + ORIENTATION or rows.errors(key):
                continue
            for metric in ("p50", "p90", "p99"):
                ratio = rows.ratio(scenario, connections, ours, peer, metric)
                if ratio is not None:
                    compared += 1
                    if ratio > PERCENTILE_SLACK:
                        worse.append(
                            f"{scenario} c={connections} {ours} {metric} {ratio:.2f} times {peer}"
                        )
    bar = f"no percentile worse than a peer's (by more than {PERCENTILE_SLACK - 1:.0%})"
    if not compared:
        return Verdict(bar, None, "")
    seen = f"{compared} compared" + "".join(f"\n{'':16}{text}" for text in worse)
    return Verdict(bar, not worse, seen)


def access_log(rows: Rows) -> Verdict:
    """Writing the log happens beside the requests, not in them."""
    ratio = rows.ratio("empty", 64, LOGGING, CLASSIC, "rate")
    return at_least(
        "access log on costs less than 3 % of the requests/s (empty, 64 connections)", ratio, 0.97
    )


def no_errors(rows: Rows) -> Verdict:
    """A fast wrong answer is worth nothing."""
    counts = {
        key: rows.errors(key)
        for key in rows.keys()
        if key[2] in (*OURS, *DEPTHS, LUA, *LUA_FCGI, "tokamak-cached")
    }
    if not counts:
        return Verdict("no request of ours went wrong", None, "")
    wrong = [f"{key[0]} c={key[1]} {key[2]}: {count}" for key, count in counts.items() if count]
    return Verdict("no request of ours went wrong", not wrong, "; ".join(wrong))


def verdicts(rows: Rows) -> list[Verdict]:
    """All bars."""
    return [
        *empty_endpoint(rows),
        *way_to_a_worker(rows),
        *lasting(rows),
        never_slower(rows, CLASSIC),
        never_slower(rows, FPM),
        at_least(
            f"{FPM_SEALED}: at least 3 times the requests/s of {BASE}"
            " (symfony-page, 64 connections)",
            rows.ratio("symfony-page", 64, FPM_SEALED, BASE, "rate"),
            3.0,
        ),
        worker_on_symfony(rows),
        *sealed(rows),
        wordpress(rows),
        *lua_empty(rows),
        *lua_asking(rows),
        *asking_at_once(rows),
        *lua_over_fastcgi(rows),
        cached_page(rows),
        percentiles(rows),
        access_log(rows),
        no_errors(rows),
    ]


def waits(found: Latencies, ours: str) -> list[Verdict]:
    """How long the clients of one mode wait for an empty script."""
    scenario = "empty"

    def to_base(load: Load, metric: str) -> float | None:
        return found.ratio(scenario, load, ours, BASE, metric)

    def to_best(load: Load) -> float | None:
        others = set(found.peers(scenario, load)) - {*OURS, *ORIENTATION}
        ratios = [found.ratio(scenario, load, ours, peer, "p99") for peer in others]
        return max((ratio for ratio in ratios if ratio is not None), default=None)

    crowd = CROWD.title
    errors = found.errors(scenario, CROWD, ours) if found.of(scenario, CROWD, ours) else None
    return [
        at_most(f"{ours}: p99 at most that of {BASE} ({ONE.title})", to_base(ONE, "p99"), 1.0),
        *(
            at_most(f"{ours}: p99 the best of PHP's servers ({load.title})", to_best(load), 1.0)
            for load in (OWN_HALF, SAME_HALF)
        ),
        at_least(
            f"{ours}: at least 0.9 times the requests/s of 64 clients ({crowd})",
            found.growth(scenario, ours, "rate"),
            0.9,
        ),
        at_most(f"{ours}: p99 at most that of {BASE} ({crowd})", to_base(CROWD, "p99"), 1.0),
        at_most(f"{ours}: no request goes wrong ({crowd})", errors, 0),
    ]


def latency(found: Latencies) -> list[Verdict]:
    """The bars of bench/latency. What connections cost is seen best where nothing else costs."""
    connecting = found.ratio("lua-empty", CONNECTING, LUA, "nginx-lua", "cpu_us")
    return [
        *(verdict for ours in MODES for verdict in waits(found, ours)),
        at_most(f"{LUA}: CPU at most that of nginx-lua ({CONNECTING.title})", connecting, 1.0),
    ]
