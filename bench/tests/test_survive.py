"""What the survival run takes for a wrong, a failed and a strayed answer."""

import unittest

from driver.survive import Tally, judge, request


class Judge(unittest.TestCase):
    def seen(self, status, body, is_post=False, home=b"a"):
        tally = Tally()
        _, expected = request(7, "1-2", is_post)
        wrong = judge(tally, status, body, expected, home, {b"a"}, is_post)
        return tally, wrong

    def test_the_answer_to_the_request_is_right(self):
        self.assertEqual(self.seen(200, b"a /index.php?key=7&n=1-2 "), (Tally(), None))
        self.assertEqual(
            self.seen(200, b"a /index.php?key=7&n=1-2 1-2", is_post=True), (Tally(), None)
        )

    def test_another_requests_answer_is_wrong(self):
        for body in (b"a /index.php?key=7&n=1-3 ", b"a /index.php?key=7&n=1-2 1-2", b""):
            tally, wrong = self.seen(200, body)
            self.assertEqual(tally, Tally(wrong=1))
            self.assertTrue(wrong)

    def test_only_a_post_may_be_lost(self):
        self.assertEqual(self.seen(502, b"")[0], Tally(failed=1))
        self.assertEqual(self.seen(502, b"", is_post=True), (Tally(lost=1), None))

    def test_only_a_dead_ones_keys_may_move(self):
        self.assertEqual(self.seen(200, b"b /index.php?key=7&n=1-2 ")[0], Tally(away=1))
        tally, wrong = self.seen(200, b"b /index.php?key=7&n=1-2 ", home=b"c")
        self.assertEqual(tally, Tally(strayed=1))
        self.assertTrue(wrong)


if __name__ == "__main__":
    unittest.main()
