"""What the command line accepts."""

import contextlib
import io
import unittest

from driver import options
from driver.sites import SCENARIOS, SITES


class Options(unittest.TestCase):
    def refused(self, *arguments):
        """What is printed about arguments that are refused."""
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), self.assertRaises(SystemExit) as end:
            options.parse(list(arguments))
        self.assertEqual(end.exception.code, 2)
        return printed.getvalue()

    def test_a_plan(self):
        plan, choice, out = options.parse(
            "--scenario empty --peers nginx-fpm,apache-modphp --connections 1,64 --rounds 2 --seconds 1 --out x".split()
        )
        self.assertEqual((plan.scenarios, plan.peers), (["empty"], ["nginx-fpm", "apache-modphp"]))
        self.assertEqual((plan.connections, plan.rounds, plan.seconds, str(out)), ([1, 64], 2, 1, "x"))
        # The count of system calls uses 64 connections whatever the plan says.
        self.assertEqual(choice.most_connections, 64)

    def test_unknown_names_are_listed_with_the_known(self):
        self.assertIn("nginx-fpn: one or more of nginx-fpm", self.refused("--peers", "nginx-fpn"))

    def test_numbers_are_positive(self):
        for text in ("0", "1,x", "-4", ""):
            self.refused("--connections", text)

    def test_a_server_that_is_not_built_is_named(self):
        self.assertIn("no/tokamak does not exist", self.refused("--peers", "tokamak-classic", "--tokamak", "no/tokamak"))


class Sites(unittest.TestCase):
    def test_every_scenario_has_a_site_whose_scripts_exist(self):
        for scenario in SCENARIOS.values():
            site = SITES[scenario.site]
            self.assertTrue((site.source / site.root / "index.php").is_file())
            self.assertTrue((site.source / site.worker).is_file())

    def test_a_wrong_answer_is_noticed(self):
        self.assertTrue(SCENARIOS["empty"].is_right(b'{"errno": 0, "errmsg": "success", "data": "e"}'))
        self.assertFalse(SCENARIOS["empty"].is_right(b"<html>502 Bad Gateway</html>"))
        self.assertFalse(SCENARIOS["symfony-page"].is_right(b"<li " * 59 + b"</html>"))


if __name__ == "__main__":
    unittest.main()
