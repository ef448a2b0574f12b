"""The model of many processors says what is measured, and nothing that cannot be."""

import unittest

from driver import many_cores
from driver.many_cores import EMPTY, MEASURED, SLOW, ask, check


TAKE_TURNS = [of for of in MEASURED if of.loops == 2 and "206ef631" in of.record]


class Checks(unittest.TestCase):
    def test_one_processor_is_as_measured(self):
        [of] = (of for of in MEASURED if of.processors == 1)
        says = check(of)
        self.assertAlmostEqual(says.rate / of.rate, 1, delta=0.05)
        self.assertAlmostEqual(says.server / of.server, 1, delta=0.1)
        self.assertGreater(says.processors, 0.99)

    def test_two_processors_are_as_measured_within_a_quarter(self):
        for of in MEASURED:
            if of.processors == 2 and of not in TAKE_TURNS:
                self.assertAlmostEqual(check(of).server / of.server, 1, delta=0.25)

    def test_that_two_loops_take_turns_with_workers_and_client_is_not_in_the_model(self):
        """The page says so. Who teaches it to the model changes the page as well."""
        (two,) = TAKE_TURNS
        (one,) = (of for of in MEASURED if of.record == two.record and of.loops == 1)
        self.assertLess(two.rate / one.rate, 0.7)
        self.assertGreater(check(two).rate / check(one).rate, 0.95)

    def test_the_same_numbers_come_out_again(self):
        self.assertEqual(ask(4, 2, EMPTY, 64), ask(4, 2, EMPTY, 64))


class Processors(unittest.TestCase):
    def test_an_empty_script_needs_loops_for_its_processors(self):
        one, chosen = ask(16, 1, EMPTY, 64), ask(16, many_cores.CHOSEN[16], EMPTY, 64)
        self.assertGreater(one.loops, 0.95)
        self.assertGreater(chosen.rate, 9 * one.rate)
        self.assertGreater(chosen.processors, 0.85)

    def test_a_script_of_5_ms_needs_one_loop(self):
        one, all_of_them = ask(16, 1, SLOW, 4), ask(16, 16, SLOW, 4)
        self.assertGreater(one.processors, 0.98)
        self.assertAlmostEqual(one.rate / all_of_them.rate, 1, delta=0.02)
        self.assertLess(one.loops, 0.1)

    def test_nobody_claims_more_than_the_head_allows(self):
        says = ask(64, 48, EMPTY, 64)
        each = many_cores.CLAIM * many_cores.SERVER.line
        self.assertLessEqual(says.rate * each / 1e6, 1.001)
        self.assertAlmostEqual(says.head, says.rate * each / 1e6, delta=0.02)
