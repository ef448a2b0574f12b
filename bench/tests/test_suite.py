"""All measurements in a row: how each is started, and how it may end."""

import sys
import tempfile
import unittest
from pathlib import Path

from driver import latency, options, suite
from driver.contest import Plan
from driver.sites import REPO, SCENARIOS

TOKAMAK = Path(__file__)


class Command(unittest.TestCase):
    def test_every_part_is_a_program_here(self):
        for part in suite.PARTS:
            self.assertTrue((REPO / "bench" / part.name).is_file(), part.name)

    def test_the_contest_writes_beside_the_page_and_the_others_below(self):
        contest, other = suite.PARTS[:2]
        self.assertEqual(suite.command(contest, False, TOKAMAK, Path("out"))[-1], "out")
        self.assertEqual(suite.command(other, False, TOKAMAK, Path("out"))[-1], f"out/{other.name}")

    def test_the_quick_contest_is_a_good_command_and_fits_into_its_time(self):
        command = suite.command(suite.PARTS[0], True, TOKAMAK, Path("out"))
        plan, choice, _ = options.parse(command[2:])
        self.assertEqual((plan.rounds, plan.seconds, plan.settle, choice.children), (2, 1, 1, 4))
        # Four seconds for each peer that starts at once: its warm-up and its two runs. Two more
        # where its system calls are counted.
        counted = sum(scenario.name in plan.footprints for _, scenario in plan.pairs())
        missing = sum(peer in ("frankenphp", "roadrunner", "swoole") for peer, _ in plan.pairs())
        self.assertLess((len(plan.pairs()) - missing) * 4 + counted * 2, 200)
        self.assertLessEqual({"php-http", "php-redis", "wordpress", "empty"}, set(plan.scenarios))
        self.assertLessEqual(set(plan.scenarios), set(SCENARIOS))

    def test_the_quick_latencies_are_a_good_command_and_fit_into_their_time(self):
        (part,) = (part for part in suite.PARTS if part.name == "latency")
        chosen = latency.parse(suite.command(part, True, TOKAMAK, Path("out"))[2:])
        plan = Plan(list(latency.SCENARIO_NAMES), chosen.peers, [64], chosen.rounds, 1)
        # Beside its runs a second for the start and one for the warm-up.
        each = 2 + len(chosen.loads) * chosen.rounds * chosen.seconds
        self.assertLess(len(plan.pairs()) * each, part.quick_limit)


class Supervised(unittest.TestCase):
    def ended(self, program, limit=10.0):
        """How such a program ends, and whether its output was kept."""
        with tempfile.TemporaryDirectory() as name:
            log = Path(name, "part.log")
            return suite.supervise([sys.executable, "-c", program], log, limit), log.exists()

    def test_a_good_end(self):
        self.assertEqual(self.ended("pass"), ("good", False))

    def test_a_failure(self):
        self.assertEqual(
            self.ended("raise SystemExit(3)"), ("ended with status 3, see part.log", True)
        )

    def test_one_that_hangs_is_stopped(self):
        self.assertEqual(
            self.ended("import time; time.sleep(60)", 0.2), ("stopped after 0 seconds", True)
        )


if __name__ == "__main__":
    unittest.main()
