"""What metrics cost is judged within rounds."""

import unittest

from driver import metrics
from driver.metrics import Row


def rows(rate=9_950.0, cpu=50.05, p99=1_000.0, errors=0):
    """Two rounds, of which the second one is twice as slow for all."""
    found = []
    for number, slow in ((1, 1), (2, 2)):
        figures = [("off", 10_000.0, 50.0, 900.0, 0), ("on", rate, cpu, 1_000.0, 0)]
        for variant, *values, wrong in [*figures, ("scraped", rate, cpu, p99, errors)]:
            asked, used, slowest = values
            times = (asked / slow, used, 100.0, slowest * slow)
            found.append(Row(number, "file", variant, *times, 20, wrong))
    return found


class Metrics(unittest.TestCase):
    def reached(self, **figures):
        """Which bars these rows reach."""
        return [one.reached for one in metrics.verdicts(rows(**figures))]

    def test_bars(self):
        self.assertEqual(self.reached(), [True] * 4)
        self.assertEqual(self.reached(rate=9_800.0), [False, True, True, True])
        self.assertEqual(self.reached(cpu=50.2), [True, False, True, True])
        self.assertEqual(self.reached(p99=1_100.0), [True, True, False, True])
        self.assertEqual(self.reached(errors=1), [True, True, True, False])

    def test_table_compares_scrapes_with_the_same_server(self):
        text = metrics.times_table(rows(p99=1_500.0))
        self.assertIn("1.500 (1.50 to 1.50)", text)

    def test_an_answer_without_the_supervisor_is_not_whole(self):
        front = b"200\n\ntokamak_requests_total{site=\"a\"} 1\n"
        self.assertFalse(metrics.is_whole(front))
        self.assertTrue(metrics.is_whole(front + b"tokamak_uptime_seconds 1\n"))
