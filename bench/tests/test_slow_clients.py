"""Slow clients: what their record judges."""

import unittest

from driver import slow_readers
from driver.slow_clients import Moment, verdict
from driver.slow_readers import Reading


def moments(failures: int, most: int, last: int) -> list[Moment]:
    """Before the crowd, beside it and after it."""
    return [
        Moment(0, 0, 0, 0, 0, 0.0, 7_000),
        Moment(60, 4_000, 4_000, 50, failures, 1.0, most),
        Moment(140, 0, 8_000, 99, failures, 1.0, last),
    ]


class Verdict(unittest.TestCase):
    """Whether a run is good."""

    def test_what_counts(self) -> None:
        """Failures of others, memory for each slow connection, and memory that is kept."""
        for failures, most, last, expected in [
            (0, 90_000, 10_000, True),
            (1, 90_000, 10_000, False),
            (0, 300_000, 10_000, False),
            (0, 90_000, 80_000, False),
            (0, 7_000, 7_000, True),
        ]:
            with self.subTest(failures=failures, most=most, last=last):
                self.assertEqual(verdict(moments(failures, most, last), 4_000)[0], expected)

    def test_readers(self) -> None:
        """Failures of others, and how long they wait."""
        for failures, slowest, expected in [(0, 20.0, True), (1, 20.0, False), (0, 5000.0, False)]:
            with self.subTest(failures=failures, slowest=slowest):
                good, bad = (
                    Reading("classic", "HTTP/2", 100, *found)
                    for found in [(0, 1.0, 2.0), (failures, 1.0, slowest)]
                )
                is_good, text = slow_readers.verdict([good, bad])
                self.assertEqual(is_good, expected)
                self.assertIn(f"| classic | HTTP/2 | 100 | {failures} | 1.0 | {slowest} |", text)


if __name__ == "__main__":
    unittest.main()
