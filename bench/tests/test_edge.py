"""HTTP/2 and TLS beside other servers: what h2load prints, ratios, bars, and the small clients."""

import unittest

from driver import edge, tls_client
from driver.edge import Handshakes, Memory, Speed

OUTPUT = """\
starting benchmark...
TLS Protocol: TLSv1.3
Application protocol: h2

finished in 1.00s, {rate} req/s, 40.52MB/s
requests: 27311 total, 27951 started, 27311 done, {good} succeeded, {bad} failed, {bad} errored, 2 timeout
status codes: {good} 2xx, 0 3xx, {bad} 4xx, 0 5xx
traffic: 40.52MB (42488320) total
"""


def speeds(row, rates, cpu):
    """Two rounds of nginx and of this server; the second is on a busy machine."""
    return [
        Speed(number, row, peer, rate * slow, us / slow, 0)
        for number, slow in ((1, 1.0), (2, 0.5))
        for peer, rate, us in zip((edge.BASE, edge.OURS), rates, cpu, strict=True)
    ]


class Parsed(unittest.TestCase):
    def test_what_h2load_prints(self):
        text = OUTPUT.format(rate="27311.42", good=27301, bad=10)
        self.assertEqual(edge.parse_load(text), edge.Load(27311.42, 27301, 12))

    def test_silence_is_no_result(self):
        with self.assertRaises(ValueError):
            edge.parse_load("starting benchmark...\n")


class Judged(unittest.TestCase):
    def judged(self):
        """The bars, where this server is twice as fast, and a little too large."""
        speed = [run for row in edge.SIZES for run in speeds(row, (1000, 2000), (10, 5))]
        speed += speeds(edge.PHP, (1000, 2900), (100, 30))
        shakes = [
            Handshakes(1, row, peer, us)
            for row, pair in ((edge.FULL, (500, 400)), (edge.RESUMED, (400, 500)))
            for peer, us in zip((edge.BASE, edge.OURS), pair, strict=True)
        ]
        kept = [
            Memory(edge.HTTP1, edge.BASE, 2, 10, 10.0),
            Memory(edge.HTTP1, edge.OURS, 2, 10, 12.0),
            Memory(edge.HTTP2, edge.BASE, 10, 1000, 10.0),
            Memory(edge.HTTP2, edge.OURS, 10, 1001, 10.0),
        ]
        return (speed, shakes, kept)

    def test_each_bar_looks_at_its_own_figures(self):
        found = [verdict.reached for verdict in edge.verdicts(*self.judged())]
        self.assertEqual(
            found, [True, True, True, True, False, None, True, False, False, True]
        )

    def test_what_was_not_measured_is_not_judged(self):
        self.assertEqual({verdict.reached for verdict in edge.verdicts([], [], [])}, {None})

    def test_ratios_are_taken_within_a_round(self):
        speed, *rest = self.judged()
        first = next(edge.tables(speed, *rest)).splitlines()
        self.assertIn("| 1k, tokamak | 1500 | 2.00 | 7.5 | 0.50 | 0 |", first)


class Bytes(unittest.TestCase):
    def test_a_frame_and_the_fields_of_a_request(self):
        head = tls_client.head(443, "/a")
        self.assertEqual(head, b"\x82\x87\x04\x02/a\x01\x0d127.0.0.1:443")
        frame = tls_client.frame(tls_client.HEADERS, 5, 1, head)
        self.assertEqual(frame[:9], b"\x00\x00\x15\x01\x05\x00\x00\x00\x01")
        self.assertEqual(frame[9:], head)


if __name__ == "__main__":
    unittest.main()
