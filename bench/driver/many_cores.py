"""What would more processors do? A model of loops, workers and their queue, checked on those here.

Events follow each other, and what is random comes from a seed: the same numbers come out each
time. A thread runs until it sleeps or its slice is over; who is woken runs as soon as a processor
is free.
"""

import heapq
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace
from math import log2, log10
from pathlib import Path
from random import Random
from statistics import quantiles

from . import curve, options, program
from .sites import REPO

SLICE = 1000.0
"""µs after which a thread makes room for another one that could run."""
BATCH = 80
"""Requests that a loop reads before it wakes workers: those of a millisecond, its longest pause."""
ROUND_TRIP = 50.0
"""µs from an answer to the next request of a client on another machine. Assumed."""


@dataclass(frozen=True)
class Machine:
    """Times in µs."""

    processors: int
    wake: float
    """What waking a sleeper takes of who wakes it."""
    rise: float
    """What the sleeper takes of its processor to sleep and to begin again."""
    line: float
    """What it takes to get a line that another processor has."""


@dataclass(frozen=True)
class Load:
    """Times in µs, where loop and worker share a processor and its caches."""

    read: float = 7.0
    """Of the loop, to read a request and to queue it."""
    answer: float = 4.6
    """Of the loop, to send the response."""
    script: float = 2.7
    """Of the worker."""
    client: float = 0.0
    """Of a load generator on the same machine; 0: it has a machine of its own."""
    connections: int = 64


LINES = 20
"""Lines that a request waits for, of 36 that go to another processor (`bench/contention`): of the
22 with its record, three of four are fetched ahead."""
CLAIM = 3
"""Lines that a worker needs in turn to claim a request: the head, the claim, the head again. Until
then no other worker can claim the next one."""
TICKET = 2
"""The same for two loops that queue requests: the tail, and the cell."""

HERE = Machine(processors=2, wake=7.0, rise=20.0, line=0.165)
"""This machine. `bench/contention` measures a line; `rise` and `wake` make one client's request
take what it takes."""
SERVER = Machine(processors=2, wake=1.5, rise=2.5, line=0.1)
"""A machine without a hypervisor. Assumed: 1 to 2 µs to wake somebody, 50 to 150 ns for a line."""


class Thread:
    """One that runs, waits for a processor, or sleeps."""

    def __init__(self) -> None:
        self.steps: Generator[float | None, None, None]
        self.sleeps = True
        self.is_wanted = False
        self.used = 0.0
        self.slice = 0.0
        self.rest = 0.0
        """Of a step that was put off."""


class Loop(Thread):
    """An event loop: requests that have come, and requests that were answered."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: deque[Request] = deque()
        self.done: deque[Request] = deque()


@dataclass
class Request:
    """One request of a connection; the next one of it takes its place."""

    loop: Loop
    sent: float


class Line:
    """Something that is done by one thread at a time; the others wait for it and do not sleep."""

    def __init__(self) -> None:
        self.free = 0.0
        self.busy = 0.0

    def take(self, now: float, time: float) -> float:
        """What it takes, with the wait."""
        begin = max(now, self.free)
        self.free = begin + time
        self.busy += time
        return self.free - now


@dataclass(frozen=True)
class Result:
    """What came out; times in µs."""

    rate: float
    """Requests a second."""
    median: float
    p99: float
    server: float
    """Processor time of loops and workers, for each request."""
    switches: float
    """Sleeps of loops and workers, for each request."""
    loops: float
    """Part of their time for which the loops ran."""
    processors: float
    """The same, of the processors."""
    head: float
    """Part of the time in which some worker was about to claim a request."""


class Model:
    """Loops and workers on a machine."""

    def __init__(self, machine: Machine, load: Load, loops: int, workers: int) -> None:
        self.machine, self.load = machine, load
        self.now, self.order = 0.0, 0
        self.events: list[tuple[float, int, Thread | Request]] = []
        self.ready: deque[Thread] = deque()
        self.idle = machine.processors
        self.random = Random(1)
        self.queue: deque[Request] = deque()
        self.head, self.tail = Line(), Line()
        self.switches = 0
        self.took: list[float] = []
        # Lines that loop and worker have from each other, each the half of them.
        apart = 0.0 if machine.processors == 1 else LINES / 2 * machine.line
        self.read, self.script = load.read + apart / 2, load.script + apart
        self.answer = load.answer + apart / 2
        self.loops = [Loop() for _ in range(loops)]
        for loop in self.loops:
            loop.steps = self.serve(loop)
        self.workers = [Thread() for _ in range(workers)]
        for worker in self.workers:
            worker.steps = self.work(worker)
        self.resting = dict.fromkeys(range(workers))
        self.client = Thread()
        self.client.steps = self.ask()
        self.answered: deque[Request] = deque()
        for number in range(load.connections):
            self.send(Request(self.loops[number % loops], 0.0))

    def about(self, time: float) -> float:
        """A time that is not always the same: up to a third more or less."""
        return time * self.random.uniform(2 / 3, 4 / 3)

    def after(self, time: float, what: Thread | Request) -> None:
        """Lets it be its turn after this time."""
        self.order += 1
        heapq.heappush(self.events, (self.now + time, self.order, what))

    def send(self, request: Request) -> None:
        """A client's request comes in."""
        request.sent = self.now
        request.loop.arrived.append(request)
        self.rouse(request.loop)

    def rouse(self, thread: Thread) -> None:
        """Wakes a thread, or lets it not sleep."""
        thread.is_wanted = True
        if thread.sleeps:
            thread.sleeps = False
            self.ready.append(thread)
            self.dispatch(self.machine.rise)

    def dispatch(self, rise: float = 0.0) -> None:
        """Gives processors that are free to threads that wait for one."""
        while self.idle and self.ready:
            self.idle -= 1
            thread = self.ready.popleft()
            thread.slice = 0.0
            thread.used += rise
            self.after(rise, thread)

    def step(self, thread: Thread) -> None:
        """Lets a thread that has a processor go on."""
        time = thread.rest or next(thread.steps)
        thread.rest = 0.0
        if time is None:
            if thread.is_wanted:
                thread.is_wanted = False
                return self.after(0.0, thread)
            thread.sleeps = True
            self.switches += thread is not self.client
        elif thread.slice < SLICE or not self.ready:
            thread.used += time
            thread.slice += time
            return self.after(time, thread)
        else:
            # Its slice is over: it takes the step later, behind those who wait.
            thread.rest = time
            self.ready.append(thread)
        self.idle += 1
        # Who takes the processor of another one had its own sleep to come back from.
        self.dispatch(self.machine.rise / 4)
        return None

    def serve(self, loop: Loop) -> Generator[float | None, None, None]:
        """An event loop."""
        while True:
            loop.is_wanted = False
            batch = min(len(loop.arrived), BATCH)
            for _ in range(batch):
                request = loop.arrived.popleft()
                yield self.about(self.read)
                if len(self.loops) > 1:
                    yield self.tail.take(self.now, TICKET * self.machine.line)
                self.queue.append(request)
            for _ in range(batch):
                if not self.queue or not self.resting:
                    break
                lowest = min(self.resting)
                del self.resting[lowest]
                yield self.machine.wake
                self.rouse(self.workers[lowest])
            done = len(loop.done)
            for _ in range(done):
                yield self.about(self.answer)
                self.respond(loop.done.popleft())
            if not batch and not done:
                yield None

    def respond(self, request: Request) -> None:
        """The client has its answer, and asks again."""
        self.took.append(self.now - request.sent)
        if self.load.client:
            self.answered.append(request)
            self.rouse(self.client)
        else:
            self.after(self.about(ROUND_TRIP), request)

    def work(self, worker: Thread) -> Generator[float | None, None, None]:
        """A worker."""
        number = self.workers.index(worker)
        while True:
            if not self.queue:
                self.resting[number] = None
                yield None
                continue
            request = self.queue.popleft()
            if len(self.workers) > 1 and self.machine.processors > 1:
                yield self.head.take(self.now, CLAIM * self.machine.line)
            left = self.about(self.script)
            while left > 0:
                yield min(left, SLICE)
                left -= SLICE
            request.loop.done.append(request)
            if request.loop.sleeps:
                yield self.machine.wake
            self.rouse(request.loop)

    def ask(self) -> Generator[float | None, None, None]:
        """A load generator that shares the processors."""
        while True:
            self.client.is_wanted = False
            if not self.answered:
                yield None
                continue
            yield self.about(self.load.client)
            self.send(self.answered.popleft())

    def run(self, requests: int) -> Result:
        """Serves so many requests, and as many before anything counts."""
        threads = [*self.loops, *self.workers]
        for _ in range(2):
            begin, self.switches, self.head.busy = self.now, 0, 0.0
            self.took.clear()
            before = [thread.used for thread in threads]
            client = self.client.used
            while len(self.took) < requests:
                self.now, _, what = heapq.heappop(self.events)
                if isinstance(what, Request):
                    self.send(what)
                else:
                    self.step(what)
        time = self.now - begin
        used = [thread.used - old for thread, old in zip(threads, before, strict=True)]
        cuts = quantiles(self.took, n=100)
        return Result(
            rate=requests / time * 1e6,
            median=cuts[49],
            p99=cuts[98],
            server=sum(used) / requests,
            switches=self.switches / requests,
            loops=sum(used[: len(self.loops)]) / len(self.loops) / time,
            processors=(sum(used) + self.client.used - client) / time / self.machine.processors,
            head=self.head.busy / time,
        )


PROCESSORS = [1, 2, 4, 16, 64]
CHOSEN = {1: 1, 2: 2, 4: 3, 16: 13, 64: 50}
"""Loops that serve an empty script in the end, where more of them answer more as long as a
processor is idle. The rule is in `crates/front/src/balancer/policy.rs`; its test
`as_many_loops_serve_as_there_are_cores_for_them` says these numbers. The rule keeps a larger number
only if more was answered with it: beside a load generator, on two processors, it keeps one loop."""
EMPTY = Load()
SLOW = Load(script=5000.0)
IMAGE = REPO / "docs/images/many-cores.svg"


@dataclass(frozen=True)
class Measured:
    """A measurement here, with the load generator on the same processors."""

    processors: int
    loops: int
    connections: int
    rate: float
    median: float | None
    p99: float | None
    server: float
    switches: float | None
    record: str


MEASURED = [
    Measured(1, 1, 64, 41_663, 1370, 2240, 14.25, 0.125, "`taskset -c 0`, machine free"),
    Measured(2, 1, 64, 65_000, None, None, 16.5, None, "206ef631, machine free, by hand"),
    Measured(2, 2, 64, 43_000, None, None, 26.9, None, "206ef631, machine free, by hand"),
    Measured(2, 2, 64, 49_649, 1046, 2853, 21.6, 0.13, "2026-11-22-dc473562-empty"),
    Measured(2, 1, 1, 6_792, 104, 9470, 88.6, 3.0, "machine busy"),
]
"""Worker mode, empty script. The first one gives the costs of [`Load`], the last one `rise` and
`wake` of [`HERE`]; those between are the check. The model fails the third one: see
docs/internals/many-cores.md."""
CLIENT = 9.7
"""What the load generator takes for a request, in µs."""


def check(of: Measured) -> Result:
    """The model of a measurement."""
    machine = replace(HERE, processors=of.processors)
    load = Load(client=CLIENT, connections=of.connections)
    return Model(machine, load, of.loops, workers=2).run(4000)


def ask(processors: int, loops: int, load: Load, each: int, line: float = SERVER.line) -> Result:
    """The model of a machine with so many processors, of as many workers (but two at least), and of
    so many connections for each processor."""
    machine = replace(SERVER, processors=processors, line=line)
    load = replace(load, connections=each * processors)
    requests = (500 if load.script < SLICE else 50) * max(processors, 4)
    return Model(machine, load, loops, max(processors, 2)).run(requests)


def both(measured: float | None, says: float, digits: int = 0) -> str:
    """What was measured, if it was, and what the model says."""
    shown = "–" if measured is None else f"{measured:.{digits}f}"
    return f"{shown} → {says:.{digits}f}"


def checks() -> str:
    """A table of what was measured, and what the model says."""
    lines = [
        "| processors | loops | clients | requests/s | server, µs | sleeps | median, µs | p99, µs "
        "| measured |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for of in MEASURED:
        says = check(of)
        pairs = [
            both(of.rate, says.rate),
            both(of.server, says.server, 1),
            both(of.switches, says.switches, 2),
            both(of.median, says.median),
            both(of.p99, says.p99),
        ]
        cells = [f"{of.processors}", f"{of.loops}", f"{of.connections}", *pairs, of.record]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def predictions() -> str:
    """A table of what more processors would do."""
    lines = [
        "| script | processors | loops | requests/s | median, µs | p99, µs | server, µs "
        "| loops busy | processors busy | head taken |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]

    def row(name: str, processors: int, loops: int, of: Result) -> None:
        lines.append(
            f"| {name} | {processors} | {loops} | {of.rate:.0f} | {of.median:.0f} | {of.p99:.0f} "
            f"| {of.server:.1f} | {of.loops:.2f} | {of.processors:.2f} | {of.head:.2f} |"
        )

    for processors in PROCESSORS[2:]:
        fractions = {1, processors // 2, processors * 5 // 8, processors * 3 // 4, processors}
        for loops in sorted({*fractions, CHOSEN[processors]}):
            name = "empty, chosen" if loops == CHOSEN[processors] else "empty"
            row(name, processors, loops, ask(processors, loops, EMPTY, 64))
    most = PROCESSORS[-1]
    for line in (0.05, 0.15):
        name = f"empty, chosen, {line * 1000:.0f} ns a line"
        row(name, most, CHOSEN[most], ask(most, CHOSEN[most], EMPTY, 64, line))
    for processors in PROCESSORS[2:]:
        row("5 ms, chosen", processors, 1, ask(processors, 1, SLOW, 4))
    row("5 ms", most, most, ask(most, most, SLOW, 4))
    return "\n".join(lines)


def drawing() -> str:
    """The curves: processors to the right, requests a second upwards, both by their magnitude."""
    low, high = 2, 8

    def x(processors: float) -> float:
        return 90 + 510 * log2(processors) / log2(PROCESSORS[-1])

    def y(rate: float) -> float:
        return 310 - 280 * (log10(rate) - low) / (high - low)

    def line(kind: str, load: Load, each: int, loops: dict[int, int]) -> str:
        rates = {count: ask(count, loops.get(count, 1), load, each).rate for count in PROCESSORS}
        return curve.line(kind, [(x(count), y(rate)) for count, rate in rates.items()])

    lines = [curve.note(x(count), 328, f"{count}", "middle") for count in PROCESSORS]
    names = {2: "100", 3: "1 000", 4: "10 000", 5: "100 000", 6: "1 million"}
    for power, name in names.items():
        lines += curve.grid(70, y(10**power), name)
    lines += curve.axes(70, "processors")
    lines += [
        line("ours", EMPTY, 64, CHOSEN),
        line("ours dashed", EMPTY, 64, {}),
        line("other", SLOW, 4, {}),
    ]
    full = [of for of in MEASURED if of.loops == CHOSEN[of.processors] and of.connections > 1]
    lines += [
        f'<circle class="seen" cx="{x(of.processors):.1f}" cy="{y(of.rate):.1f}" r="4"/>'
        for of in full
    ]
    about = "requests/s, model; dots: measured, load generator included"
    lines += [curve.note(82, 34, about)]
    lines += curve.key(0, "ours", "empty script, as many event loops as the rule chooses")
    lines += curve.key(1, "ours dashed", "the same with one event loop")
    lines += curve.key(2, "other", "a script of 5 ms, one event loop: what the rule chooses")
    return curve.drawing(
        "Requests a second by the number of processors, in the model",
        "Both the empty script and one of 5 ms grow with the number of processors; with one event"
        " loop the empty script would not.",
        *lines,
    )


def run(arguments: list[str]) -> int:
    """Writes the tables of the documentation, and draws its picture."""
    parser = options.measurement("many-cores", __doc__, has_build=False)
    option = parser.add_argument
    option("--image", type=Path, default=IMAGE, help="default: that of the guide")
    option("--checks", action="store_true", help="only how well the model tells what was measured")
    chosen = parser.parse_args(arguments)
    program.begin(chosen.out)
    parts = ["# Many cores, by a model", checks()]
    if not chosen.checks:
        parts.append(predictions())
        chosen.image.write_text(drawing())
    return program.end(chosen.out, "\n\n".join(parts) + "\n")
