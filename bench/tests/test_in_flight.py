"""What waiting costs is told for each request under way."""

import unittest

from driver import in_flight
from driver.in_flight import Row, resident_kib


def row(waits_for, rate=600.0, busy=12_000, errors=0):
    """One run with 64 requests under way, of which arithmetic allows 640 a second."""
    return Row(1, waits_for, 32, 256, 64, rate, 640.0, 1e5, 50.0, 10_000, busy, 500, errors)


class InFlight(unittest.TestCase):
    def reached(self, *rows):
        """Which bars these rows reach."""
        return [one.reached for one in in_flight.verdicts(list(rows))]

    def test_memory_is_what_the_load_adds_for_each_request(self):
        self.assertEqual(row("sleep", busy=12_048).kib, 32.0)
        status = "Name:\nVmRSS:\t 9 kB\nRssAnon:\t  1234 kB\nRssShmem:\t 56 kB\n"
        self.assertEqual(resident_kib(status), (1234, 56))

    def test_bars(self):
        self.assertEqual(self.reached(row("http"), row("sleep")), [True, True, True])
        self.assertEqual(self.reached(row("http", 500.0), row("sleep")), [False, True, True])
        self.assertEqual(
            self.reached(row("http"), row("sleep", busy=14_000)), [True, False, True]
        )
        self.assertEqual(
            self.reached(row("http"), row("sleep", errors=1)), [True, True, False]
        )

    def test_a_line_for_each_wait(self):
        lines = in_flight.table([row("http"), row("sleep")]).splitlines()
        self.assertEqual(len(lines), 4)
        self.assertIn("| 32 | 64 | 600 | 0.94 | 100.0 | 50 | 31.2 | 500 | 0 |", lines[3])


if __name__ == "__main__":
    unittest.main()
