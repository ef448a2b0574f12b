"""The page of bench/slow-line, and what it makes of visits."""

import tempfile
import unittest
import zlib
from pathlib import Path
from random import Random

from driver import slow_line
from driver.slow_line import LOADED, OURS, ROWS, Moment


def moment(number: int, row: str, peer: str, ms: float) -> Moment:
    """One visit's."""
    return Moment(number, row, peer, ms)


class Page(unittest.TestCase):
    """What is served."""

    def test_images_are_whole_and_as_large_as_they_are_to_be(self) -> None:
        image = slow_line.png(150_000, Random(1))
        self.assertTrue(150_000 <= len(image) < 152_000, len(image))
        at, kinds = 8, []
        while at < len(image):
            size = int.from_bytes(image[at : at + 4], "big")
            kind, data = image[at + 4 : at + 8], image[at + 8 : at + 8 + size]
            self.assertEqual(zlib.crc32(kind + data), int.from_bytes(image[at + 8 + size :][:4]))
            kinds.append(kind)
            at += 12 + size
        self.assertEqual(kinds, [b"IHDR", b"IDAT", b"IEND"])

    def test_all_that_the_page_names_is_there(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            slow_line.write_page(root, 4711)
            page = (root / "page.html").read_text()
            for name in ("style.css", "app.js", "0.png", "23.png"):
                self.assertIn(name, page)
                self.assertTrue((root / name).exists(), name)
            self.assertIn('@import "late.css"', (root / "style.css").read_text())
            self.assertIn("127.0.0.1:4711/", page)


class Verdicts(unittest.TestCase):
    """The bars."""

    def test_ratios_are_within_a_round(self) -> None:
        found = [
            moment(number, row, peer, ms * number)
            for number in (1, 2, 3)
            for row in ROWS
            for peer, ms in (("nginx", 100.0), (OURS, 120.0 if row == LOADED else 90.0))
        ]
        reached = [verdict.reached for verdict in slow_line.verdicts(found)]
        self.assertEqual(reached, [True, True, True, False])

    def test_what_was_not_measured_is_not_reached(self) -> None:
        self.assertEqual([one.reached for one in slow_line.verdicts([])], [None] * 4)
