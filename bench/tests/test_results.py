"""What is concluded from the rows: ratios, the page, the bars."""

import tempfile
import unittest
from pathlib import Path

from driver import bars, record, summary
from driver.record import Footprint, Run
from driver.summary import Rows


def run(
    peer, rate, *, number=1, scenario="empty", connections=64, cpu=100.0, latency=1000.0, timeouts=0
):
    """One row, of which a test says only what it is about."""
    return Run(
        number,
        scenario,
        peer,
        connections,
        rate,
        latency,
        latency,
        latency,
        cpu,
        1000,
        0,
        0,
        timeouts,
    )


def verdict(rows, start):
    """The one bar whose text begins so."""
    (found,) = [one for one in bars.verdicts(rows) if one.bar.startswith(start)]
    return found


class Record(unittest.TestCase):
    def test_what_is_written_is_read(self):
        runs = [run("nginx-fpm", 123.5), run("tokamak-classic", 400.0, number=2)]
        footprints = [
            Footprint("empty", "a", None, 512.0, 8, 12),
            Footprint("empty", "b", 3.5, None, 0, 1),
        ]
        with tempfile.TemporaryDirectory() as directory:
            for name, kind, rows in (("r", Run, runs), ("f", Footprint, footprints)):
                path = Path(directory, name)
                self.assertEqual(record.write(path, kind, iter(rows)), rows)
                self.assertEqual(record.read(path, kind), rows)

    def test_records_from_before_sealed_mode_are_read(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "f")
            path.write_text(
                "scenario,peer,syscalls,private_kib,workers,processes\nempty,a,3.5,,8,12\n"
            )
            self.assertEqual(
                record.read(path, Footprint),
                [Footprint("empty", "a", 3.5, None, 8, 12, None, None)],
            )


class Ratio(unittest.TestCase):
    def test_is_taken_within_each_round(self):
        # The second round ran on a machine twice as slow: the ratio is 2 in both.
        rows = Rows(
            [run("a", 200), run("b", 100), run("a", 100, number=2), run("b", 50, number=2)], []
        )
        self.assertEqual(rows.ratio("empty", 64, "a", "b", "rate"), 2.0)

    def test_of_what_was_not_measured_is_nothing(self):
        rows = Rows([run("a", 200)], [])
        self.assertIsNone(rows.ratio("empty", 64, "a", "b", "rate"))

    def test_spread(self):
        rows = Rows(
            [run("a", rate, number=number) for number, rate in enumerate((90, 100, 110))], []
        )
        self.assertAlmostEqual(rows.spread(("empty", 64, "a"), "rate"), 20.0)


class Page(unittest.TestCase):
    def test_has_every_peer_its_ratio_and_the_noise(self):
        rows = Rows(
            [run("nginx-fpm", 100), run("tokamak-classic", 250), run("nginx-fpm", 150, number=2)],
            [Footprint("empty", "nginx-fpm", 47.0, 1024.0, 8, 12, switches=0.25)],
        )
        page = summary.page(rows, "nginx-fpm", "commit abc")
        self.assertIn("| tokamak-classic | 250 | 2.50× |", page)
        self.assertIn("| nginx-fpm | 47.0 | 0.25 | 1.0 | 8 | 12 |", page)
        self.assertIn("- empty, 64 connections, nginx-fpm: rate 40 %", page)
        self.assertIn("commit abc", page)
        self.assertNotIn("of what it asks", page)

    def test_tells_the_share_of_a_database(self):
        rows = Rows(
            [Run(1, "wordpress", "nginx-fpm", 16, 30.0, 1, 1, 1, 30000.0, 120, 0, 0, 0, 6500.0)], []
        )
        self.assertIn("| 0 | 6500 |", summary.page(rows, "nginx-fpm", ""))


class Bars(unittest.TestCase):
    def test_nothing_measured_is_not_reached(self):
        self.assertEqual({one.reached for one in bars.verdicts(Rows([], []))}, {None})

    def test_rate_and_cpu_on_the_empty_endpoint(self):
        for rate, cpu, expected in ((250, 25, True), (249, 26, False)):
            rows = Rows([run("nginx-fpm", 100), run("tokamak-classic", rate, cpu=cpu)], [])
            self.assertIs(verdict(rows, "tokamak-classic: at least 2.5").reached, expected)
            self.assertIs(verdict(rows, "tokamak-classic: at most a quarter").reached, expected)

    def test_system_calls(self):
        for calls, expected in ((4.0, True), (4.1, False), (None, None)):
            rows = Rows([], [Footprint("empty", "tokamak-worker", calls, None, 2, 4)])
            self.assertIs(verdict(rows, "tokamak-worker: at most 4 system").reached, expected)

    def test_the_way_to_a_worker(self):
        for cpu, rate, expected in ((16.0, 160, True), (16.1, 159, False)):
            peers = (
                ("tokamak-worker", rate, cpu),
                ("tokamak-lua", 200, 10.0),
                ("go", 100, 20.0),
                ("swoole", 100, 12.31),
            )
            rows = [run(peer, a, cpu=b) for peer, a, b in peers]
            found = Rows(rows, [])
            for bar in (
                "at most 1.6 times the CPU per request of tokamak-lua",
                "at least 1.6 times the requests/s of go",
                "at most 1.3 times the CPU per request of swoole",
            ):
                self.assertIs(verdict(found, f"tokamak-worker: {bar}").reached, expected, bar)

    def test_context_switches(self):
        for switches, expected in ((0.15, True), (0.16, False), (None, None)):
            rows = Rows(
                [], [Footprint("empty", "tokamak-sealed", 4.0, None, 2, 4, switches=switches)]
            )
            self.assertIs(verdict(rows, "tokamak-sealed: at most 0.15 context").reached, expected)

    def test_sealed_mode_beside_the_other_modes(self):
        peers = (("tokamak-classic", 800), ("tokamak-sealed", 100), ("tokamak-worker", 80))
        rows = Rows([run(peer, 100, scenario="symfony-json", cpu=cpu) for peer, cpu in peers], [])
        self.assertTrue(verdict(rows, "tokamak-sealed: tokamak-classic takes at least 8.0").reached)
        self.assertTrue(
            verdict(
                rows, "tokamak-sealed: at most 1.3 times the CPU of tokamak-worker (symfony-json"
            ).reached
        )
        self.assertIsNone(
            verdict(rows, "tokamak-sealed: tokamak-classic takes at least 3.5").reached
        )

    def test_wordpress_by_its_worst_row(self):
        rows = [
            run(peer, rate, scenario="wordpress", connections=16)
            for peer, rate in (("nginx-fpm", 100), ("tokamak-sealed", 300))
        ]
        self.assertTrue(verdict(Rows(rows, []), "tokamak-sealed: at least 3").reached)
        slow = [
            run(peer, rate, scenario="wordpress", connections=1)
            for peer, rate in (("nginx-fpm", 100), ("tokamak-sealed", 299))
        ]
        missed = verdict(Rows(rows + slow, []), "tokamak-sealed: at least 3")
        self.assertFalse(missed.reached)
        self.assertIn("2.99 at worst (1 connections)", missed.seen)

    def test_a_shallow_image_may_be_slow_but_not_wrong(self):
        rows = Rows(
            [run("nginx-fpm", 100, latency=500), run("tokamak-sealed-core", 50, timeouts=1)], []
        )
        self.assertIsNone(verdict(rows, "no percentile worse").reached)
        self.assertFalse(verdict(rows, "no request of ours").reached)

    def test_roll_back_and_memory_of_a_sealed_worker(self):
        # 2 MB are 1953 KiB.
        for took, kib, expected in (
            (12.0, 1953.0, True),
            (12.1, 1954.0, False),
            (None, None, None),
        ):
            rows = Rows(
                [], [Footprint("symfony-json", "tokamak-sealed", None, kib, 2, 5, took, 100)]
            )
            self.assertIs(verdict(rows, "tokamak-sealed: a roll-back").reached, expected)
            self.assertIs(
                verdict(
                    rows, "tokamak-sealed: at most 2 MB of memory for one more worker (symfony-json"
                ).reached,
                expected,
            )

    def test_one_slow_row_is_enough(self):
        good = [run("nginx-fpm", 100), run("tokamak-classic", 300)]
        bad = [run("nginx-fpm", 100, connections=256), run("tokamak-classic", 99, connections=256)]
        self.assertTrue(verdict(Rows(good, []), "tokamak-classic: not slower").reached)
        missed = verdict(Rows(good + bad, []), "tokamak-classic: not slower")
        self.assertFalse(missed.reached)
        self.assertIn("256 connections", missed.seen)

    def test_percentiles_of_a_peer_that_starves_its_clients_do_not_count(self):
        ours = run("tokamak-classic", 300, latency=1000)
        for timeouts, expected in ((0, False), (3, None)):
            rows = Rows([run("nginx-fpm-keepalive", 100, latency=500, timeouts=timeouts), ours], [])
            self.assertIs(verdict(rows, "no percentile worse").reached, expected)

    def test_percentiles_of_other_languages_do_not_count(self):
        rows = [
            run("tokamak-lua", 900, latency=1),
            run("go", 900, latency=1),
            run("tokamak-classic", 300),
        ]
        self.assertIsNone(verdict(Rows(rows, []), "no percentile worse").reached)

    def test_lua_beside_its_peers(self):
        for cpu, expected in (
            (8.5, (True, True, True)),
            (9.5, (True, True, False)),
            (11, (True, False, False)),
        ):
            peers = (("nginx-lua", 12), ("lighttpd-magnet", 10), ("tokamak-lua", cpu), ("limit", 6))
            rows = Rows(
                [run(peer, 100, scenario="lua-empty", cpu=value) for peer, value in peers], []
            )
            bars_of_it = (
                "at most the CPU per request of nginx",
                "at most the CPU per request of lighttpd",
                "aim at 0.85",
            )
            self.assertEqual(
                tuple(verdict(rows, f"tokamak-lua: {bar}").reached for bar in bars_of_it), expected
            )
            self.assertTrue(verdict(rows, "tokamak-lua: at least 0.75 times").reached)

    def test_a_scenario_without_the_usual_base_is_compared_with_its_first(self):
        rows = Rows(
            [
                run("nginx-fpm", 100),
                run("nginx-lua", 100, scenario="lua-empty"),
                run("tokamak-lua", 150, scenario="lua-empty"),
            ],
            [],
        )
        page = summary.page(rows, "nginx-fpm", "")
        self.assertIn("to nginx-lua", page)
        self.assertIn("| tokamak-lua | 150 | 1.50× |", page)

    def test_access_log(self):
        for rate, expected in ((97, True), (96, False)):
            rows = Rows([run("tokamak-classic", 100), run("tokamak-classic-log", rate)], [])
            self.assertIs(verdict(rows, "access log").reached, expected)

    def test_our_errors_are_a_miss(self):
        rows = Rows([run("tokamak-worker", 300, timeouts=1)], [])
        self.assertFalse(verdict(rows, "no request of ours").reached)


if __name__ == "__main__":
    unittest.main()
