"""How runs of two builds become a table."""

import contextlib
import io
import unittest
from pathlib import Path

from driver import before_after
from driver.before_after import OURS, page, parse, rows, turns
from driver.contest import Plan
from driver.record import Run
from driver.sites import SCENARIOS


def run(number, peer, cpu_us, rate=1000.0, bad_status=0):
    """A run of the empty script."""
    return Run(number, "empty", peer, 64, rate, 1, 2, 3, cpu_us, 1000, bad_status, 0, 0)


class Entry:
    """A peer that is ready."""


class FakeContest:
    """Runs are as dear as they come late."""

    def __init__(self, log, side):
        self.log, self.side = log, side
        self.entries = {("tokamak-classic", "empty"): Entry()}

    def run(self, number, peer, scenario, entry, connections):
        self.log.append((number, self.side, connections))
        return run(number, peer, 1.0)


class BeforeAfter(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        before = [run(1, "a", 10.0), run(2, "a", 100.0), run(3, "a", 10.0)]
        after = [run(3, "a", 11.0), run(1, "a", 11.0), run(2, "a", 110.0, bad_status=2)]
        (row,) = rows(before, after)
        self.assertEqual([round(ratio, 3) for ratio in row.cpu], [1.1, 1.1, 1.1])
        self.assertEqual((row.before_us, row.after_us, row.errors), (10.0, 11.0, 2))

    def test_the_page_has_a_line_for_each_row(self):
        before, after = ([run(1, "a", us), run(1, "b", us)] for us in (10.0, 9.0))
        text = page(rows(before, after), "about")
        self.assertIn("| empty, a | 10.0 | 9.0 | 0.900 |", text)
        self.assertIn("| empty, b |", text)
        self.assertIn("Median of all ratios of CPU: 0.900", text)

    def test_the_builds_take_turns_and_so_does_who_begins(self):
        log = []
        plan = Plan(["empty"], ["tokamak-classic"], [64], 2, 1)
        sides = [side for side, _ in turns(plan, tuple(FakeContest(log, side) for side in (0, 1)))]
        self.assertEqual(sides, [0, 1, 1, 0])
        self.assertEqual(log, [(1, 0, 64), (1, 1, 64), (2, 1, 64), (2, 0, 64)])

    def test_the_plan_has_all_rows_of_both_contests(self):
        plan, before, after, out = parse([__file__, "--after", __file__])
        self.assertEqual(plan.scenarios, list(SCENARIOS))
        self.assertEqual(plan.peers, OURS)
        self.assertTrue({"tokamak-classic", "nginx-tokamak-fpm", "tokamak-lua"} <= set(OURS))
        self.assertFalse({"nginx-fpm", "limit", "go"} & set(OURS))
        self.assertEqual(before, Path(__file__).resolve())
        self.assertTrue(out.name.startswith("before-after-"))

    def test_a_program_that_is_not_built_is_named(self):
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), self.assertRaises(SystemExit):
            before_after.parse(["/nowhere/tokamak"])
        self.assertIn("/nowhere/tokamak does not exist", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
