"""What is set up for a while and taken down again."""

from typing import Self


class Stage:
    """Something that is there for a `with` block. A start that fails ends what it has started."""

    def start(self) -> None:
        """Starts everything, and waits until it can be used."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends all that was started, as far as it was."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
