"""Runs count what comes behind the last change of the number of event loops."""

import subprocess
import tempfile
import unittest
import xml.dom.minidom
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from driver import bars, contest, course, load, options, peers, status, steady, summary
from driver.contest import Contest, Entry, Plan
from driver.contestants import PEERS
from driver.load import Load
from driver.record import Run, Second
from driver.sites import SCENARIOS, SITES
from driver.steady import MOST_WARM, RUN, WARM, Course
from driver.summary import Rows

KEY = ("empty", 64, "tokamak-worker")


class World:
    """A clock, and loads that send a thousand requests a second. `loops` says how many loops serve
    at a time."""

    def __init__(self, loops):
        self.now, self.loops = 0.0, loops

    def monotonic(self):
        return self.now

    @contextmanager
    def running(self, url, connections, seconds):
        world = self

        class Child:
            begun = world.now
            args = "wrk"

            def wait(self, timeout):
                until = world.now + timeout
                world.now = min(until, self.begun + seconds)
                if world.now == until:
                    raise subprocess.TimeoutExpired("wrk", timeout)

        yield Child()

    def sent(self, child):
        return int((self.now - child.begun) * 1000)

    def result(self, child, seconds):
        self.now = child.begun + seconds
        return Load(seconds, seconds * 1000, 1, 1, 1, 0, 0, 0)

    def course(self):
        return Course(lambda: self.loops(self.now), 1, *(KEY[0], KEY[2], KEY[1]))


class Courses(unittest.TestCase):
    def begin(self, loops):
        world = World(loops)
        for name in ("time", "load"):
            patch = mock.patch.object(steady, name, world)
            patch.start()
            self.addCleanup(patch.stop)
        return world, world.course()

    def parts(self, found):
        return "".join(second.part[0] for second in found.seconds)

    def test_without_event_loops_the_warm_up_takes_what_is_asked(self):
        world, found = self.begin(lambda now: None)
        found.warm_up("url", 64, 5)
        self.assertEqual(world.now, 5)
        self.assertIsNotNone(found.run("url", 64, 20, is_last=False))
        self.assertEqual([row.second for row in found.seconds], list(range(1, 26)))
        self.assertEqual(self.parts(found), "w" * 5 + "r" * 20)
        self.assertEqual({row.rate for row in found.seconds}, {1000.0})
        self.assertIsNone(found.loops_of_run())

    def test_the_warm_up_lasts_until_the_number_has_stayed(self):
        world, found = self.begin(lambda now: 2 if 1 <= now < 3 else 1)
        found.warm_up("url", 64, 5)
        self.assertEqual(world.now, 8)
        found.run("url", 64, 20, is_last=False)
        self.assertEqual((found.loops_of_run(), found.changes_in_run), (1, 0))

    def test_the_warm_up_ends_though_the_number_never_stays(self):
        world, found = self.begin(int)
        found.warm_up("url", 64, 5)
        self.assertEqual(world.now, MOST_WARM)

    def test_a_run_within_which_the_number_changes_is_cut_short(self):
        world, found = self.begin(lambda now: 1 if now < 12 else 2)
        found.warm_up("url", 64, 5)
        self.assertIsNone(found.run("url", 64, 20, is_last=False))
        self.assertEqual(world.now, 12)
        self.assertEqual(self.parts(found), "w" * 5 + "c" * 7)
        found.warm_up("url", 64, 5)
        self.assertEqual(world.now, 17)
        self.assertIsNotNone(found.run("url", 64, 20, is_last=True))
        self.assertEqual((found.loops_of_run(), found.changes_in_run), (2, 0))

    def test_the_last_try_counts_and_says_what_changed(self):
        _, found = self.begin(lambda now: 1 if now < 12 else 2)
        found.warm_up("url", 64, 5)
        self.assertIsNotNone(found.run("url", 64, 20, is_last=True))
        self.assertEqual((found.loops_of_run(), found.changes_in_run), (2, 1))

    def test_a_load_that_does_not_end_is_an_error(self):
        world, found = self.begin(lambda now: 1)
        with world.running("url", 64, 1000) as child:
            with self.assertRaises(subprocess.TimeoutExpired):
                found.follow(child, RUN, 30, lambda: False)

    def test_the_contest_measures_once_more(self):
        """And begins each time with a warm-up."""
        steps = []

        class Twice(Course):
            def warm_up(self, url, connections, calm):
                steps.append(calm)

            def run(self, url, connections, seconds, is_last):
                steps.append(is_last)
                return Load(1, 10, 1, 1, 1, 0, 0, 0) if is_last else None

        place = mock.Mock(site=SITES["empty"], port=1)
        place.admin.exists.return_value = False
        server = mock.Mock()
        server.cpu_seconds.return_value = 0.0
        entry = Entry(PEERS["go"], place, server, [])
        begun = Contest(Plan(["empty"], ["go"], [64], 1, 20, calm=5), None, Path("nowhere"))
        with mock.patch.object(contest, "Course", Twice), mock.patch.object(contest, "say"):
            run = begun.run(1, "go", SCENARIOS["empty"], entry, 64)
        self.assertEqual((run.tries, steps), (2, [5, False, 5, True]))


class Reading(unittest.TestCase):
    def test_requests_that_were_sent(self):
        self.assertEqual(load.parse_writes("rchar: 1\nsyscr: 3\nsyscw: 17\nread_bytes: 0\n"), 17)

    def test_event_loops_that_serve(self):
        rows = '# HELP tokamak_event_loops x\ntokamak_event_loops{state="idle"} 3\n'
        self.assertIsNone(status.parse_loops(rows.encode()))
        rows += 'tokamak_event_loops{state="serving"} 2\n'
        self.assertEqual(status.parse_loops(rows.encode()), 2)

    def test_extensions_that_are_not_loaded(self):
        choice = peers.Choice(1, 1, Path("tokamak"), "auto", ("zmq",))
        with tempfile.TemporaryDirectory() as directory:
            for name in ("10-opcache.ini", "20-zmq.ini"):
                Path(directory, name).touch()
            with mock.patch.object(peers, "EXTENSIONS", directory):
                loaded = [peers.extension(file) for file in choice.extensions()]
        self.assertEqual(loaded, ["opcache"])

    def test_who_gets_many_connections(self):
        words = "--peers limit,go --connections 64,1024 --peers-at 1024=limit --calm 0"
        plan, _, _ = options.parse(words.split())
        loads = [plan.loads_of(peer, SCENARIOS["empty"]) for peer in plan.peers]
        self.assertEqual((loads, plan.calm), ([[64, 1024], [64]], 0))
        # Some have a process for each client.
        self.assertEqual([plan.most_of(peer) for peer in plan.peers], [1024, 64])


def seconds(rates, number=1, loops=None, peer=KEY[2]):
    """A course of these rates."""
    counts = loops or [1] * len(rates)
    return [
        Second(number, KEY[0], peer, KEY[1], at, WARM if at < 5 else RUN, rate, count)
        for at, (rate, count) in enumerate(zip(rates, counts, strict=True), 1)
    ]


class Tables(unittest.TestCase):
    def test_a_later_second_beside_the_better_of_two(self):
        rates = [90.0, 50.0, 100.0] + [70.0] * 16 + [80.0]
        self.assertEqual(course.later(seconds(rates)), 0.8)
        self.assertIsNone(course.later(seconds(rates[:19])))

    def test_rates_by_loops_leave_out_the_change(self):
        found = seconds([10.0, 20.0, 5.0, 30.0, 30.0], loops=[1, 1, 2, 2, 2])
        self.assertEqual(course.by_loops([found]), "1: 20 (1 s), 2: 30 (2 s)")
        self.assertEqual(course.changes(found), [3])

    def test_names_do_not_cover_each_other(self):
        self.assertEqual(course.places([20, 100, 22]), [20, 100, 20 + course.APART])

    def test_the_picture_has_a_curve_for_each_and_a_dot_for_a_change(self):
        rows = seconds([10.0, 20.0, 5.0], loops=[1, 2, 2]) + seconds([1.0, 2.0], peer="go")
        text = course.picture(rows, "empty", 64)
        xml.dom.minidom.parseString(text)
        self.assertEqual((text.count("<polyline"), text.count("<circle")), (2, 1))

    def test_bars_of_what_lasts(self):
        def run(peer, connections, rate, cpu):
            return Run(1, "empty", peer, connections, rate, 1, 1, 1, cpu, 1000, 0, 0, 0)

        for factor, expected in ((1.0, True), (0.9, False)):
            runs = [run("tokamak-worker", 64, 100, 10), run("limit", 1024, 100, 10)]
            runs += [run("tokamak-worker", 1024, 76 * factor, 11.4 / factor)]
            rates = [100.0] * 19 + [98.0 * factor]
            rows = Rows(runs, [], seconds=seconds(rates))
            self.assertEqual([one.reached for one in bars.lasting(rows)], [expected] * 3)

    def test_the_page_says_how_many_loops_served_and_what_changed(self):
        run = Run(1, *(KEY[0], KEY[2], KEY[1]), 100.0, 1, 1, 1, 9.0, 1000, 0, 0, 0)
        steady_one = Run(**{**vars(run), "loops": 1})
        odd = Run(**{**vars(run), "round": 2, "loops": 2, "changes": 3, "tries": 2})
        page = summary.page(Rows([steady_one, odd], [], seconds=seconds([5.0, 6.0])), "go", "")
        self.assertIn("| 0 | 1, 2 |", page)
        self.assertIn("round 2: measured again, changed 3 times in what counts", page)
        self.assertIn("course-empty-64.svg", page)
        self.assertNotIn("event loops", summary.page(Rows([run], []), "go", ""))


if __name__ == "__main__":
    unittest.main()
