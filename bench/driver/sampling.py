"""Looking at something now and then while a load runs."""

import threading
from typing import Self


class Sampling:
    """Looks again and again while the `with` block runs."""

    PAUSE = 0.2

    def __init__(self) -> None:
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def look(self) -> None:
        """One look."""
        raise NotImplementedError

    def run(self) -> None:
        """Until the block ends."""
        while not self.done.wait(self.PAUSE):
            self.look()

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
