"""What the visitors of the soak take for a leak, and what a memory record says."""

import tempfile
import unittest
from pathlib import Path

from driver import memory, soak, visitors
from driver.memory import Moment
from driver.sites import SITES


class Marks(unittest.TestCase):
    def test_own_name_is_none_and_another_is_a_leak(self):
        mine, other = visitors.new_name(), visitors.new_name()
        visitors.check_marks(mine, f"<h1>Hello, {mine}!</h1>")
        with self.assertRaisesRegex(visitors.Wrong, f"LEAK: {mine} sees {other}"):
            visitors.check_marks(mine, f"<h1>Hello, {mine}!</h1><!-- {other} -->")

    def test_a_session_that_nobody_began_is_a_leak(self):
        cookie = "PHPSESSID=abc; path=/; httponly"
        anonymous = visitors.Visitor(1, logs_in=False)
        with self.assertRaisesRegex(visitors.Wrong, "LEAK"):
            anonymous.take_cookie(cookie, may_begin=False)
        self.assertIsNone(anonymous.session)
        anonymous.take_cookie(cookie, may_begin=True)
        self.assertEqual(anonymous.session, "abc")


class Mistake(unittest.TestCase):
    def test_can_be_planted(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory, "src/Controller.php")
            copy.parent.mkdir()
            copy.write_text((SITES["symfony"].source / "src/Controller.php").read_text())
            soak.make_careless(Path(directory))
            self.assertIn("static $name;", copy.read_text())


class Memory(unittest.TestCase):
    def test_equal_within_one_percent_and_the_same_process(self):
        first = Moment(1000, 20000, 120, 7)
        for held, pid, expected in (
            (20200, 7, True),
            (20201, 7, False),
            (19799, 7, False),
            (20000, 8, False),
        ):
            self.assertIs(memory.verdict([first, Moment(10**6, held, 110, pid)])[0], expected)


if __name__ == "__main__":
    unittest.main()
