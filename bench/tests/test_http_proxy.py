"""The table about applications of HTTP."""

import unittest

from driver import http_proxy


class HttpProxy(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        found = []
        # The second round is on a machine that is busy with something else.
        for number, speed in ((1, 1.0), (2, 0.5), (3, 1.0)):
            for front, rate in (("nginx", 1000), ("tokamak", 1200)):
                found.append(
                    http_proxy.Row(
                        number, front, "1 kB", 64, rate * speed, 20 / speed, 9.0, 1.0, 2.0, 0
                    )
                )
        lines = http_proxy.table(found).splitlines()[2:]
        cells = [line.split(" | ") for line in lines]
        self.assertEqual([(row[2], row[4], row[6]) for row in cells], [
            ("nginx", "1.00", "1.00"),
            ("tokamak", "1.20", "1.00"),
        ])
