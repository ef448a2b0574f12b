"""The table about kept connections."""

import unittest

from driver import load, proxy


def row(number, way, rate, front_us):
    return proxy.Row(number, way, 16, True, rate, front_us, 40.0, 500.0, 900.0, 0)


class Proxy(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        found = []
        # The second round is on a machine that is busy with something else.
        for number, speed in ((1, 1.0), (2, 0.5), (3, 1.0)):
            for way, rate in zip(proxy.WAYS, (1000, 1200, 1100, 600, 700), strict=True):
                found.append(row(number, way.name, rate * speed, 20 / speed))
        lines = proxy.table(found).splitlines()[2:]
        self.assertEqual([line.split(" | ")[1] for line in lines], [way.what for way in proxy.WAYS])
        self.assertEqual(
            [line.split(" | ")[3] for line in lines], ["1.00", "1.20", "1.10", "0.60", "0.70"]
        )
        self.assertTrue(all(line.startswith("| 16 clients |") for line in lines))

    def test_a_client_that_connects_says_so(self):
        self.assertNotIn("-H", load.command("http://x/", 1, 1))
        self.assertIn("Connection: close", load.command("http://x/", 1, 1, keeps=False))
