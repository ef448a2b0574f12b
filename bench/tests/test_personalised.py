"""What the comparison with 1996 makes of its runs, and what it tells the server."""

import tomllib
import unittest
from pathlib import Path

from driver.personalised import WAYS, Row, parse, peak, ratio, table

A, B = WAYS[0].name, WAYS[1].name


def row(number: int, way: str, clients: int, rate: float, p90: float) -> Row:
    """A run of which only this matters."""
    return Row(number, way, clients, rate, p90 / 2, p90, p90 * 2, 100.0, 10.0, 0)


class Figures(unittest.TestCase):
    """The way from runs to the summary."""

    runs = [
        *(row(1, way.name, 10, 300.0 if way.name == A else 100.0, 4000.0) for way in WAYS),
        *(row(2, way.name, 10, 500.0 if way.name == A else 100.0, 6000.0) for way in WAYS),
        *(row(3, way.name, 10, 900.0 if way.name == A else 100.0, 5000.0) for way in WAYS),
        *(row(number, way.name, 40, 2000.0, 20_000.0) for number in (1, 2, 3) for way in WAYS),
    ]

    def test_a_ratio_is_taken_within_a_round(self) -> None:
        self.assertEqual(ratio(self.runs, 10), 5.0)

    def test_a_peak_keeps_the_limit(self) -> None:
        self.assertEqual(peak(self.runs, A, 10), (500.0, 10))
        self.assertEqual(peak(self.runs, A, 30), (2000.0, 40))
        self.assertIsNone(peak(self.runs, B, 1))

    def test_the_table_has_the_figures_of_1996_beside_those_of_today(self) -> None:
        lines = table(self.runs, 10, 10).splitlines()
        self.assertEqual(len(lines), 2 + len(WAYS))
        self.assertIn(
            "| 12.0 | 83 | 2.00 | 500 | 5.00 | 5.0 | 100 | 10 | 0 | 500 (10 clients) |", lines[2]
        )
        self.assertIn("| – | – |", lines[-1])


class Configurations(unittest.TestCase):
    """What each way asks of the server."""

    def test_each_is_toml_and_differs_in_what_it_is_for(self) -> None:
        seen = []
        for way in WAYS:
            server = tomllib.loads(way.configuration(Path("/d"), 8080, "pgsql:dbname=users", 8))
            application = server.get("upstream", server["site"])[0]
            variables = application["env"]
            keeps, seconds = variables["USERS_KEEP_CONNECTION"], variables["USERS_KEPT_SECONDS"]
            seen.append(
                ("upstream" in server, "affinity" in application, keeps == "yes", seconds != "0")
            )
            self.assertEqual(application.get("processes") or application["pool"]["workers"], 8)
        expected = [
            (1, 1, 1, 1),
            (0, 0, 0, 0),
            (0, 0, 1, 0),
            (1, 1, 1, 0),
            (1, 0, 1, 1),
            (0, 0, 1, 1),
        ]
        self.assertEqual(seen, [tuple(map(bool, row)) for row in expected])

    def test_the_ten_clients_cannot_be_left_out(self) -> None:
        self.assertEqual(parse(["--clients", "1,10"]).clients, [1, 10])
        with self.assertRaises(SystemExit):
            parse(["--clients", "1,2"])
