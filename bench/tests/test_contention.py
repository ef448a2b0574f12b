"""Transfers of cache lines are counted right."""

import unittest

from driver.contention import HEADER, LOOP, SLOT_HEAD, Map, accesses, transfers

RECORD = 0x7000_0000
TAIL = 0x5000
TURNS = 0x6000


class Transfers(unittest.TestCase):
    def setUp(self):
        self.places = Map(1, 2, RECORD, TAIL)
        self.base = self.places.starts[0]

    def counted(self, *steps):
        """By turns: who, and what it does."""
        trace = []
        for who, *words in steps:
            trace += ["I  0,4", f" S {TURNS + 8 * who:x},8"]
            for word in words:
                trace += ["I  0,4"] if word[0] != "+" else []
                kind, address = word.lstrip("+").split(":")
                trace.append(f" {kind} {int(address, 16):x},8")
        return [dict(one) for one in transfers(accesses(trace), TURNS, 3, self.places)]

    def test_names(self):
        self.assertEqual(self.places.name(self.base + 256), "head")
        self.assertEqual(self.places.name(self.base + HEADER), "loop: asleep")
        self.assertEqual(self.places.name(self.base + HEADER + LOOP), "cells")
        self.assertEqual(self.places.name(RECORD), "record and body")
        self.assertEqual(self.places.name(RECORD - SLOT_HEAD + 128), "slot: words of the worker")
        self.assertEqual(self.places.name(TAIL + 8), "tail")
        self.assertIsNone(self.places.name(self.base - 1))
        self.assertIsNone(self.places.name(self.places.end))

    def test_a_line_goes_where_it_is_written_and_read(self):
        head = f"{self.base + 256:x}"
        seen = self.counted(
            (0, f"S:{head}", f"L:{head}"),
            (1, f"L:{head}", f"L:{head}"),
            (2, f"L:{head}"),
            (2, f"S:{head}"),
            (2, f"S:{head}"),
            (0, f"L:{head}"),
        )
        one = {"head": 1}
        self.assertEqual(seen, [{}, one, one, one, {}, one])

    def test_an_atomic_addition_is_one_transfer(self):
        head = f"{self.base + 256:x}"
        seen = self.counted((0, f"S:{head}"), (1, f"L:{head}", f"+S:{head}"))
        self.assertEqual(seen, [{}, {"head": 1}])

    def test_other_memory_does_not_count(self):
        self.assertEqual(self.counted((0, "S:1000"), (1, "S:1000")), [{}, {}])
