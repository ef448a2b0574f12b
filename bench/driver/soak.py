"""Half an hour of visitors at once, logged in and anonymous: does one of them ever see another
one's name?"""

import http.client
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import options, peers, process, program, record, status
from .contest import CannotRun, Entry, alone, say
from .sites import SCENARIOS
from .versions import text
from .visitors import Visitor, Wrong

MODES = ("sealed", "worker", "classic")
MOST_SHOWN = 20
"""Wrong answers that are written down in full; all are counted."""


@dataclass(frozen=True)
class Minute:
    """How it stands."""

    seconds: int
    requests: int
    wrong: int
    lost: int
    """Requests without any answer."""
    private_kib: int
    """What the workers hold alone, in sum."""
    roll_back_us: float | None
    hot_pages: int
    pids: str


@dataclass
class Crowd:
    """All visitors, each a thread; half of them log in."""

    port: int
    size: int
    seed: int
    stop: threading.Event = field(default_factory=threading.Event)
    visitors: list[Visitor] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Crowd":
        for number in range(self.size):
            visitor = Visitor(self.port, logs_in=number % 2 == 0)
            self.visitors.append(visitor)
            self.threads.append(
                threading.Thread(
                    target=self.visit, args=(visitor, random.Random(self.seed + number))
                )
            )
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def visit(self, visitor: Visitor, chance: random.Random) -> None:
        """Until the time is up. After a wrong answer it is another person who goes on."""
        while not self.stop.is_set():
            try:
                visitor.act(chance)
            except Wrong as wrong:
                self.wrong.append(str(wrong))
                visitor.forget()
            except (OSError, http.client.HTTPException) as error:
                self.lost.append(repr(error))
                visitor.connection.close()
                visitor.forget()
                # A server that is gone should not be asked a thousand times a second.
                self.stop.wait(0.1)

    def seen(self) -> Counter[str]:
        """Requests by path."""
        return sum((visitor.seen for visitor in self.visitors), Counter())


def make_careless(files: Path) -> None:
    """A mistake that is made everywhere: what is asked for often is kept in a static variable."""
    controller = files / "src/Controller.php"
    good = "$name = $request->hasPreviousSession() ? $request->getSession()->get('name') : null;"
    bad = (
        "static $name; if ($request->hasPreviousSession())"
        " { $name ??= $request->getSession()->get('name'); }"
    )
    source = controller.read_text()
    if good not in source:
        raise CannotRun(
            "the controller of the Symfony example has changed: its mistake has to be written anew"
        )
    controller.write_text(source.replace(good, bad))


def private_kib(pid: int) -> int:
    """Memory of a worker; none if it has just been replaced."""
    try:
        return process.private_kib(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def look(entry: Entry, crowd: Crowd, seconds: float) -> Minute:
    """Asks the kernel and the server."""
    workers = status.workers(entry.place)
    took = [worker.roll_back_us for worker in workers if worker.roll_back_us is not None]
    return Minute(
        round(seconds),
        crowd.seen().total(),
        len(crowd.wrong),
        len(crowd.lost),
        sum(private_kib(worker.pid) for worker in workers),
        max(took, default=None),
        max((worker.hot_pages for worker in workers), default=0),
        " ".join(str(worker.pid) for worker in workers),
    )


def minutes(entry: Entry, crowd: Crowd, seconds: int, between: int) -> Iterator[Minute]:
    """Looks now and then until the time is up."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(min(between, seconds - passed))
        minute = look(entry, crowd, time.monotonic() - began)
        say(
            f"{minute.seconds} s: {minute.requests} requests, {minute.wrong} wrong,"
            f" {minute.lost} lost, {minute.private_kib} KiB"
        )
        yield minute


def page(rows: list[Minute], crowd: Crowd, what: str, about: str) -> str:
    """The record for a reader."""
    last = rows[-1]
    leaks = sum(wrong.startswith("LEAK") for wrong in crowd.wrong)
    paths = "\n".join(f"| `{path}` | {count} |" for path, count in crowd.seen().most_common())
    shown = "\n".join(f"- {line}" for line in (crowd.wrong + crowd.lost)[:MOST_SHOWN])
    return f"""# Soak, {what}

{crowd.size} visitors at once, every other one logged in, for {last.seconds} s:
{crowd.seen().total()} requests.

- another visitor's name or session seen: **{leaks}**
- other wrong answers: {len(crowd.wrong) - leaks}
- requests without an answer: {len(crowd.lost)}
- memory that the workers hold alone: {rows[0].private_kib} KiB at first, {last.private_kib} KiB at
  last
- workers: {rows[0].pids} at first, {last.pids} at last

{shown}

| path | requests |
| --- | ---: |
{paths}

```
{about.strip()}
```
"""


def run(arguments: list[str]) -> int:
    """Soaks, and writes a record. Fails if anything was wrong."""
    parser = options.measurement("soak", __doc__)
    option = parser.add_argument
    option("--minutes", type=float, default=30.0, help="default: 30")
    option("--visitors", type=options.positive, default=16, help="at once; default: 16")
    option("--mode", choices=MODES, default="sealed", help="default: sealed")
    option(
        "--careless",
        action="store_true",
        help="plant a mistake in the application: it keeps a name in a static variable",
    )
    option("--seed", type=int, default=1, help="of what visitors do; default: 1")
    chosen = parser.parse_args(arguments)
    seconds = round(chosen.minutes * 60)
    program.begin(chosen.out, seconds + 180)
    with program.workshop("soak") as directory:
        choice = peers.Choice(0, chosen.visitors, chosen.tokamak, "auto")
        edit = make_careless if chosen.careless else lambda files: None
        try:
            with alone(
                f"tokamak-{chosen.mode}", SCENARIOS["symfony-json"], choice, directory, edit
            ) as entry:
                with Crowd(entry.place.port, chosen.visitors, chosen.seed) as crowd:
                    rows = record.write(
                        chosen.out / "soak.csv",
                        Minute,
                        minutes(entry, crowd, seconds, min(60, max(1, seconds // 5))),
                    )
        except CannotRun as failure:
            print(failure, file=sys.stderr)
            return 1
    what = f"{chosen.mode} mode" + (", the application with a mistake" if chosen.careless else "")
    if not crowd.seen():
        print("nobody was answered", file=sys.stderr)
        return 1
    summary = page(rows, crowd, what, text(chosen.tokamak))
    return program.end(chosen.out, summary, not crowd.wrong and not crowd.lost)
