"""A contest goes on without those who cannot take part."""

import os
import tempfile
import time
import unittest
from pathlib import Path

from driver import contest, process
from driver.contest import CannotRun, Contest, Entry, Plan
from driver.contestants import PEERS
from driver.peers import needs
from driver.sites import SCENARIOS


class Server:
    """Says whether it was stopped."""

    is_stopped = False

    def stop(self):
        self.is_stopped = True


class GoingOn(unittest.TestCase):
    def setUp(self):
        contest.say, self.say = (lambda text: None), contest.say
        plan = Plan(["php-http", "php-redis"], ["nginx-fpm", "go"], [64], 1, 1)
        self.contest = Contest(plan, None, Path("nowhere"))
        for peer in plan.peers:
            self.contest.entries[peer, "services"] = Entry(PEERS[peer], None, Server(), [])

    def tearDown(self):
        contest.say = self.say

    def left(self):
        return [(peer, scenario.name) for peer, scenario, _ in self.contest.pairs()]

    def fail(self, *scope, failure=None):
        with self.contest.going_on_without(["go"], "services", *scope):
            raise failure or CannotRun("it ended\nits log")

    def test_one_scenario_is_lost_and_the_server_stays_for_the_other(self):
        self.fail(SCENARIOS["php-http"])
        self.assertEqual(
            self.left(),
            [("nginx-fpm", "php-http"), ("nginx-fpm", "php-redis"), ("go", "php-redis")],
        )
        self.assertFalse(self.contest.entries["go", "services"].server.is_stopped)
        (row,) = self.contest.absences
        self.assertEqual(
            (row.scenario, row.peer, row.reason), ("php-http", "go", "it ended\nits log")
        )

    def test_a_server_with_no_scenario_left_is_stopped_and_told_once(self):
        self.fail(failure=ValueError())
        self.fail()
        self.assertEqual(self.left(), [("nginx-fpm", "php-http"), ("nginx-fpm", "php-redis")])
        self.assertTrue(self.contest.entries["go", "services"].server.is_stopped)
        self.assertFalse(self.contest.entries["nginx-fpm", "services"].server.is_stopped)
        self.assertEqual([row.reason for row in self.contest.absences], ["ValueError"] * 2)

    def test_a_site_that_nobody_serves_is_not_prepared(self):
        plan = Plan(["php-http"], ["swoole"], [64], 1, 1)
        self.contest = Contest(plan, None, Path("nowhere"))
        prepared = []
        self.contest.prepare = prepared.append
        self.contest.start()
        self.assertEqual(prepared, [])

    def test_a_signal_ends_the_contest(self):
        with self.assertRaises(SystemExit):
            self.fail(failure=SystemExit("stopped"))

    def test_those_for_orientation_take_part_where_the_plan_says(self):
        plan = Plan(["empty", "php-http"], ["node", "go"], [64], 1, 1, orientation=["empty"])
        named = [(peer, scenario.name) for peer, scenario in plan.pairs()]
        self.assertEqual(named, [("node", "empty"), ("go", "empty"), ("go", "php-http")])


class Stopping(unittest.TestCase):
    def test_what_a_server_started_ends_though_the_server_was_gone_first(self):
        with tempfile.TemporaryDirectory() as name:
            server = process.Server()
            # The child does not hear of the end of its parent.
            command = ["sh", "-c", "sleep 60 & wait"]
            server.start(command, {"PATH": os.environ["PATH"]}, Path(name, "log"))
            while not any(stat.name == "sleep" for stat in server.tree()):
                time.sleep(0.01)
            server.ask_to_stop()
            server.roots[0].wait()
            (child,) = server.tree()
            server.stop()
            deadline = time.monotonic() + 5
            while self.runs(child.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertFalse(self.runs(child.pid))

    def runs(self, pid):
        """Whether a process does, and is not one that has ended and that nobody waited for."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
        except FileNotFoundError:
            return False


class Missing(unittest.TestCase):
    def test_what_is_not_on_the_path_is_named(self):
        self.assertIsNone(needs("sh")())
        self.assertEqual(needs("sh", "no-such-program")(), "no-such-program is not on PATH")


if __name__ == "__main__":
    unittest.main()
