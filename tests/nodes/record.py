"""What the test has seen, and which promises did not hold."""

import sys


# What visitors do not want to see.
BAD = ("failed, repeatable", "failed, not repeatable", "wrong", "increments lost", "without session",
       "not stored", "logged out", "cookie replaced")


class Record:
    """Rows of a table, and failures."""

    def __init__(self):
        self.failures = []

    def says(self, what, value):
        """A figure."""
        print(f"| {what} | {value} |", flush=True)

    def promises(self, what, value, holds):
        """A figure that must hold."""
        self.says(what, value)
        if not holds:
            self.fails(f"{what}: {value}")

    def fails(self, what):
        self.failures.append(what)
        print(f"test-nodes: {what}", file=sys.stderr, flush=True)

    def visitors(self, step, crowd, allowed=()):
        """What visitors have seen in a step. Beside what is `allowed`, nothing may go wrong."""
        tally = crowd.tally
        counts = tally.counts
        self.says(f"{step}: answers", f"{counts['answered']}, of which {counts['once']} were to "
                  f"requests that may not be repeated; the longest took {tally.longest:.1f} s")
        self.says(f"{step}: TLS handshakes",
                  f"{counts['full handshakes']} full ones, {counts['resumed']} resumed; "
                  f"{counts['tried again over TLS']} requests tried again by their visitor")
        bad = {what: counts[what] for what in BAD if counts[what]}
        self.promises(
            f"{step}: what went wrong",
            "; ".join(f"{what}: {count}" for what, count in bad.items()) or "nothing",
            set(bad) <= set(allowed))
        for mode, readers in crowd.readers.items():
            bad = sum(readers.counts[what] for what in ("failed, repeatable", "wrong"))
            self.promises(
                f"{step}: pages without a session, {mode}",
                f"{readers.counts['answered']} answered, {bad} failed or wrong; the longest took "
                f"{readers.longest:.1f} s", bad == 0)
        for some in (tally, *crowd.readers.values()):
            print(f"test-nodes: {step}: the longest was {some.longest_of}", file=sys.stderr)
        for note in sum((some.notes for some in (tally, *crowd.readers.values())), []):
            print(f"test-nodes: {step}: {note}", file=sys.stderr)

    def ends(self):
        """The exit status."""
        print(f"test-nodes: {len(self.failures)} promises did not hold", file=sys.stderr)
        for failure in self.failures:
            print(f"test-nodes:   {failure}", file=sys.stderr)
        return 1 if self.failures else 0
