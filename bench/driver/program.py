"""What the programs of this directory have in common: a limit on their time, a directory that
their servers may enter, and how they end."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSED = 3
"""Exit status of a measurement that was made and written down, and missed a bar. One that could not
be made ends with 1 or 2, as Python's exceptions and its parser of options do."""


def stop_politely(*_: object) -> None:
    """A signal ends the run the way an error does: through the blocks that stop the servers."""
    raise SystemExit("stopped")


def begin(out: Path, seconds: int = 0) -> None:
    """Makes the directory of the record. After so many seconds something hangs, and the program is
    stopped; 0: whoever started it looks after that."""
    signal.signal(signal.SIGTERM, stop_politely)
    signal.signal(signal.SIGALRM, stop_politely)
    signal.alarm(seconds)
    out.mkdir(parents=True, exist_ok=True)


@contextmanager
def workshop(name: str) -> Iterator[Path]:
    """A directory for as long as the program runs. Servers that drop root get in."""
    with tempfile.TemporaryDirectory(prefix=f"tokamak-{name}-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def end(out: Path, page: str, has_reached: bool = True) -> int:
    """Writes the summary; gives the exit status."""
    (out / "summary.md").write_text(page)
    print(page)
    print(f"written to {out}")
    return 0 if has_reached else MISSED
