"""The table of what was then and what is now."""

import unittest

from driver import set_up


def rows(rates, errors=0):
    """Two rounds of both chains with these rates; the second round is on a busy machine."""
    return [
        set_up.Row(number, chain, step, rate * speed, 50.0, errors)
        for number, speed in ((1, 1.0), (2, 0.5))
        for chain, step in set_up.ways()
        for rate in rates[step : step + 1]
    ]


class SetUp(unittest.TestCase):
    def test_factors_are_taken_within_a_round(self):
        lines = set_up.table(rows([100, 150, 200, 400, 1000])).splitlines()[2:]
        self.assertEqual(
            [line.split(" | ")[3] for line in lines], ["1.0", "1.2", "1.3", "1.8", "4.9", "–"]
        )
        self.assertEqual(
            [line.split(" | ")[6] for line in lines], ["1.0", "1.5", "2.0", "4.0", "10.0", "–"]
        )
        self.assertTrue(lines[0].startswith("| PHP without keep-alive | 2.9 | 345 |"))
        self.assertEqual(lines[5].split(" | ")[1:], [*["–"] * 7, "6.667", "150", "2.0", "50 |"])

    def test_another_order_and_errors_are_missed(self):
        self.assertEqual(
            [one.reached for one in set_up.verdicts(rows([1, 2, 3, 4, 5]))], [True, True, True]
        )
        self.assertEqual(
            [one.reached for one in set_up.verdicts(rows([1, 2, 4, 3, 5]))], [False, False, True]
        )
        self.assertFalse(set_up.verdicts(rows([1, 2, 3, 4, 5], errors=1))[-1].reached)
