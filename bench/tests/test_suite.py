"""All measurements in a row: how each is started, and how it may end."""

import argparse
import os
import sys
import tempfile
import unittest
from pathlib import Path

from driver import contention, latency, options, program, report, suite
from driver.contest import Plan
from driver.sites import REPO, SCENARIOS

CHOSEN = argparse.Namespace(tokamak=Path(__file__), out=Path("out"), contention=Path(__file__))


def quick(part):
    """The command line of a quick one."""
    return suite.command(part, part.quick, CHOSEN)


class Command(unittest.TestCase):
    def test_every_program_here_is_a_part_or_has_a_reason(self):
        here = {path.name for path in (REPO / "bench").iterdir() if os.access(path, os.X_OK)}
        programs = {name for name in here if (REPO / "bench" / name).is_file()}
        self.assertEqual({*(part.name for part in suite.PARTS), *suite.APART}, programs)

    def test_the_contest_writes_beside_the_page_and_the_others_below(self):
        self.assertEqual(quick(suite.CONTEST)[-1], "out")
        self.assertEqual(quick(suite.LATENCY)[-1], "out/latency")

    def test_no_part_draws_the_pictures_of_the_documentation(self):
        for part in suite.PARTS:
            for words in (part.quick, part.full):
                command = suite.command(part, words, CHOSEN)
                if "--checks" not in command and part.name in ("many-cores", "roll-back"):
                    image = command[command.index("--image") + 1]
                    self.assertEqual(image, f"out/{part.name}/curve.svg")

    def test_the_quick_contest_is_a_good_command_and_fits_into_its_time(self):
        plan, choice, _ = options.parse(quick(suite.CONTEST)[2:])
        self.assertEqual((plan.seconds, plan.settle, choice.children), (1, 1, 4))
        missing = sum(peer in ("frankenphp", "roadrunner", "swoole") for peer, _ in plan.pairs())
        # Its longest row of sites takes 30 seconds to be ready; one round of a second each, and
        # two more of a page that takes long; and what is counted.
        pairs = [scenario for _, scenario in plan.pairs()]
        runs = 1.15 * (len(pairs) - missing) + 2 * sum(one.name == "wordpress" for one in pairs)
        within = suite.CONTEST.seconds * suite.MEASURING
        self.assertLess(30 + runs + plan.footprint_seconds(), within)
        self.assertLessEqual({"php-http", "php-redis", "wordpress", "empty"}, set(plan.scenarios))
        self.assertLessEqual(set(plan.scenarios), set(SCENARIOS))

    def test_the_quick_latencies_are_a_good_command_and_fit_into_their_time(self):
        chosen = latency.parse(quick(suite.LATENCY)[2:])
        plan = Plan(list(latency.SCENARIO_NAMES), chosen.peers, [64], chosen.rounds, 1)
        each = len(chosen.loads) * chosen.rounds * (chosen.seconds + 0.1)
        # Its longest site takes 10 seconds to be ready.
        within = suite.LATENCY.seconds * suite.MEASURING
        self.assertLess(10 + len(plan.pairs()) * each, within)

    def test_the_counted_layout_is_that_of_the_queue(self):
        source = (REPO / "crates/sys/src/queue/layout.rs").read_text()
        self.assertIn(f"pub const LAYOUT_VERSION: u32 = {contention.LAYOUT};", source)


class Times(unittest.TestCase):
    def within(self, words):
        """Until when a part that is told so measures."""
        return int(words.split("--within ")[1])

    def test_all_parts_fit_into_what_is_planned(self):
        self.assertLessEqual(sum(part.seconds for part in suite.PARTS), suite.QUICK_SECONDS)
        self.assertEqual(suite.QUICK_SECONDS + suite.SPARE_SECONDS, 300)

    def test_a_slow_machine_shortens_the_last_parts_and_leaves_nobody_out(self):
        left, slowness = float(suite.QUICK_SECONDS), 1.7
        for place, part in enumerate(suite.PARTS):
            words, limit = suite.quick_words(suite.PARTS[place:], left)
            takes = slowness * part.seconds
            if part.is_bounded:
                takes = min(takes, self.within(words) / suite.MEASURING)
            self.assertLessEqual(takes, limit, part.name)
            left -= takes
        self.assertGreater(left, -suite.SPARE_SECONDS)
        # The contest keeps more than a third of its time.
        self.assertGreater(self.within(words), suite.CONTEST.seconds / 3)

    def test_a_part_that_is_not_bounded_leaves_the_others_their_time(self):
        _, limit = suite.quick_words(suite.PARTS[-3:], 200.0)
        bounded = (suite.LATENCY.seconds + suite.CONTEST.seconds) / 2
        self.assertEqual(limit, 200 + suite.SPARE_SECONDS - bounded)


class Supervised(unittest.TestCase):
    def ended(self, program, limit=10.0):
        """How such a program ends, and whether its output was kept."""
        with tempfile.TemporaryDirectory() as name:
            log = Path(name, "part.log")
            return suite.supervise([sys.executable, "-c", program], log, limit), log.exists()

    def test_a_good_end(self):
        self.assertEqual(self.ended("pass"), (report.GOOD, False))

    def test_a_bar_that_is_missed_is_no_failure(self):
        missed = f"raise SystemExit({program.MISSED})"
        self.assertEqual(self.ended(missed), (report.MISSED, False))

    def test_a_failure(self):
        self.assertEqual(
            self.ended("raise SystemExit(1)"), ("ended with status 1, see part.log", True)
        )

    def test_one_that_hangs_is_stopped(self):
        self.assertEqual(
            self.ended("import time; time.sleep(60)", 0.2), ("stopped after 0 seconds", True)
        )


if __name__ == "__main__":
    unittest.main()
