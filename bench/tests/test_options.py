"""What the command line accepts."""

import contextlib
import io
import unittest

from driver import options
from driver.bars import LUA_FCGI
from driver.sites import SCENARIOS, SITES

# The server need not be built for a plan to be made.
TOKAMAK = ["--tokamak", __file__]


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
            "--scenario empty --peers nginx-fpm,apache-modphp --connections 1,64 --rounds 2"
            " --seconds 1 --out x".split()
        )
        self.assertEqual((plan.scenarios, plan.peers), (["empty"], ["nginx-fpm", "apache-modphp"]))
        self.assertEqual(
            (plan.connections, plan.rounds, plan.seconds, str(out)), ([1, 64], 2, 1, "x")
        )
        # The count of system calls uses 64 connections whatever the plan says.
        self.assertEqual(choice.most_connections, 64)

    def test_unknown_names_are_listed_with_the_known(self):
        self.assertIn("nginx-fpn: one or more of nginx-fpm", self.refused("--peers", "nginx-fpn"))

    def test_numbers_are_positive(self):
        for text in ("0", "1,x", "-4", ""):
            self.refused("--connections", text)

    def test_a_server_that_is_not_built_is_named(self):
        self.assertIn(
            "no/tokamak does not exist",
            self.refused("--peers", "tokamak-classic", "--tokamak", "no/tokamak"),
        )


class Sites(unittest.TestCase):
    def test_every_scenario_has_a_site_whose_scripts_exist(self):
        for scenario in SCENARIOS.values():
            site = SITES[scenario.site]
            script = {"lua": "empty.lua"}.get(site.language, "index.php")
            self.assertTrue((site.source / site.root / script).is_file())
            self.assertTrue((site.source / site.worker).exists())

    def test_a_slow_site_bounds_its_connections_and_has_no_peer_without_a_script_for_it(self):
        plan, choice, _ = options.parse(
            "--scenario wordpress,empty --connections 64,1,256".split() + TOKAMAK
        )
        self.assertEqual(plan.connections_of(SCENARIOS["wordpress"]), [16, 1])
        self.assertEqual(plan.connections_of(SCENARIOS["empty"]), [64, 1, 256])
        self.assertEqual(choice.most_connections, 256)
        peers = {
            name: {peer for peer, scenario in plan.pairs() if scenario.name == name}
            for name in plan.scenarios
        }
        self.assertEqual(
            peers["wordpress"] - peers["empty"], {"tokamak-sealed-plugins", "tokamak-sealed-core"}
        )
        of_their_own = {
            "tokamak-worker",
            "tokamak-async",
            "go",
            "node",
            "node-one",
            "python",
            "swoole",
            "roadrunner",
            "tokamak-lua",
            "limit",
            *LUA_FCGI,
        }
        self.assertEqual(
            peers["empty"] - peers["wordpress"],
            {"nginx-tokamak-fpm-sealed", "lighttpd-fpm", *of_their_own},
        )

    def test_a_wrong_answer_is_noticed(self):
        self.assertTrue(
            SCENARIOS["empty"].is_right(b'{"errno": 0, "errmsg": "success", "data": "e"}')
        )
        self.assertFalse(SCENARIOS["empty"].is_right(b"<html>502 Bad Gateway</html>"))
        self.assertFalse(SCENARIOS["symfony-page"].is_right(b"<li " * 59 + b"</html>"))


if __name__ == "__main__":
    unittest.main()
