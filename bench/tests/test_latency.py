"""How long requests wait: the load generator, what is computed from its figures, and the bars."""

import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path

from driver import bars, latency, pace, record
from driver.latencies import (
    CONNECTING,
    CROWD,
    FILE,
    MANY,
    ONE,
    OWN_HALF,
    PART,
    SAME_HALF,
    Latencies,
    Row,
)

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
ENDED = b"HTTP/1.1 200 OK\r\n\r\nhi"
STALL = 0.4


class Server:
    """Answers each request as `answer` says: with the bytes that it gives, and then with the end
    of the connection if `ends`."""

    def __init__(self, answer, ends=False):
        self.answer, self.ends, self.connections = answer, ends, 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            while client.recv(4096):
                client.sendall(self.answer())
                if self.ends:
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Pace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.program = Path(cls.directory.name, "pace")
        pace.build(cls.program)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def load(self, server, connections=1, rate=0, seconds=0.2, closes=False):
        shape = (connections, rate, seconds, closes)
        return pace.run(pace.command(self.program, server.port, "/", *shape), seconds)

    def test_every_kind_of_answer_has_an_end(self):
        for answer, ends in ((PLAIN, False), (CHUNKED, False), (ENDED, True)):
            with Server(lambda answer=answer: answer, ends) as server:
                seen = self.load(server, connections=4)
                self.assertGreater(seen.requests, 4, answer)
                self.assertEqual(seen.errors, 0, answer)
                self.assertEqual(server.connections == 4, not ends, answer)

    def test_a_new_connection_for_each_request(self):
        with Server(lambda: PLAIN) as server:
            seen = self.load(server, closes=True)
            self.assertEqual((seen.errors, server.connections), (0, seen.requests))

    def test_errors_are_counted_by_kind(self):
        with Server(lambda: PLAIN.replace(b"200 OK", b"503 Busy")) as server:
            seen = self.load(server)
            self.assertEqual((seen.bad_status, seen.rate), (seen.requests, 0))
        with Server(lambda: PLAIN[:-1], ends=True) as server:
            seen = self.load(server)
            self.assertEqual(seen.requests, 0)
            self.assertGreater(seen.broken, 0)

    def test_who_is_never_answered_is_counted(self):
        with Server(lambda: b"") as server:
            seen = self.load(server, rate=100)
            # The one that was sent, and those that fell due behind it.
            self.assertEqual(seen.requests, 0)
            self.assertGreater(seen.unanswered, 5)

    def stalling(self):
        """Answers at once, but for one request in the middle."""
        begun, stalled = time.monotonic(), []

        def answer():
            if not stalled and time.monotonic() > begun + 0.2:
                stalled.append(True)
                time.sleep(STALL)
            return PLAIN

        return answer

    def test_a_stall_is_charged_for_all_who_would_have_come(self):
        with Server(self.stalling()) as server:
            open_loop = self.load(server, rate=200, seconds=1)
        with Server(self.stalling()) as server:
            closed = self.load(server, seconds=1)
        # In the closed loop only one request met it. In the open loop two fifths fell due
        # meanwhile, and half of them waited for more than half of the stall.
        self.assertGreater(open_loop.p90, STALL / 2 * 1e6)
        self.assertLess(closed.p90, STALL / 2 * 1e6)
        self.assertGreater(closed.requests, open_loop.requests / 2)

    def test_as_many_requests_fall_due_as_were_asked_for(self):
        with Server(lambda: PLAIN) as server:
            first, second = (self.load(server, 4, rate=300, seconds=1) for _ in range(2))
        self.assertAlmostEqual(first.requests, 300, delta=60)
        self.assertEqual(first.requests, second.requests)


def row(load, peer, *, number=1, scenario="empty", rate=1000.0, p99=500.0, cpu=50.0, errors=0):
    """One row, of which a test says only what it is about."""
    percentiles = (p99, p99, p99, p99)
    return Row(number, scenario, load.name, peer, 0.0, rate, *percentiles, cpu, 1000, errors, 5.0)


class Half(unittest.TestCase):
    def setUp(self):
        rates = (("nginx-fpm", 1000), ("nginx-fpm", 1200), ("go", 9000), ("go", 8000))
        self.seen = Latencies(
            [row(MANY, peer, number=n, rate=rate) for n, (peer, rate) in enumerate(rates)]
            + [row(MANY, "limit", scenario="lua-empty", rate=10)]
        )

    def test_of_its_own_capacity(self):
        self.assertEqual(latency.half(OWN_HALF, self.seen, "empty", "go"), 4250)

    def test_of_the_slowest_one_of_the_scenario(self):
        self.assertEqual(latency.half(SAME_HALF, self.seen, "empty", "go"), 550)

    def test_a_closed_loop_has_no_rate(self):
        self.assertEqual(latency.half(ONE, self.seen, "empty", "go"), 0)

    def test_capacity_is_measured_where_a_load_needs_it(self):
        self.assertEqual(latency.parse(["--loads", "own-half"]).loads, ["many", "own-half"])
        self.assertEqual(latency.parse(["--loads", "one"]).loads, ["one"])


class Told(unittest.TestCase):
    def test_what_is_written_is_found_alone_and_below_a_suite(self):
        rows = [row(ONE, "nginx-fpm"), row(MANY, "go")]
        with tempfile.TemporaryDirectory() as name:
            self.assertEqual(Latencies.in_directory(Path(name)).rows, [])
            below = Path(name, PART)
            below.mkdir()
            record.write(below / FILE, Row, rows)
            self.assertEqual(Latencies.in_directory(below).rows, rows)
            self.assertEqual(Latencies.in_directory(Path(name)).rows, rows)

    def test_the_page_has_all_loads_their_ratios_and_what_a_crowd_does(self):
        found = Latencies(
            [row(load, "nginx-fpm") for load in (ONE, MANY)]
            + [row(load, "tokamak-classic", rate=2000.0, p99=250.0) for load in (ONE, MANY)]
            + [row(CROWD, "tokamak-classic", rate=1900.0, p99=4000.0, errors=3)]
        )
        page = latency.page(found, [record.Absence("empty", "caddy-fpm", "missing: caddy")], "x")
        line = "| tokamak-classic | 2000 | 2.00× | 250 | 250 | 250 | 0.50× | 250 | 50.0 | 1.00× |"
        self.assertEqual(page.count(line), 2)
        self.assertIn("| tokamak-classic | 0.95× | 1.00× | 16.00× | 3 |", page)
        self.assertIn("- caddy-fpm (empty): missing: caddy", page)


class Bars(unittest.TestCase):
    def verdict(self, rows, start):
        (found,) = [one for one in bars.latency(Latencies(rows)) if one.bar.startswith(start)]
        return found

    def test_nothing_measured_is_not_reached(self):
        self.assertEqual({one.reached for one in bars.latency(Latencies([]))}, {None})

    def test_one_client(self):
        for p99, expected in ((500.0, True), (501.0, False)):
            rows = [row(ONE, "nginx-fpm"), row(ONE, "tokamak-classic", p99=p99)]
            start = "tokamak-classic: p99 at most that of nginx-fpm (One client)"
            self.assertIs(self.verdict(rows, start).reached, expected)

    def test_half_load_is_compared_with_the_best_server_of_php(self):
        others = (("nginx-fpm", 900.0), ("apache-modphp", 500.0), ("go", 1.0))
        for p99, expected in ((500.0, True), (501.0, False)):
            for load in (OWN_HALF, SAME_HALF):
                rows = [row(load, peer, p99=value) for peer, value in others]
                rows.append(row(load, "tokamak-sealed", p99=p99))
                start = f"tokamak-sealed: p99 the best of PHP's servers ({load.title}"
                self.assertIs(self.verdict(rows, start).reached, expected)

    def test_a_crowd(self):
        for rate, errors, expected in ((900.0, 0, True), (899.0, 1, False)):
            crowd = row(CROWD, "tokamak-worker", rate=rate, errors=errors)
            rows = [row(MANY, "tokamak-worker"), crowd]
            for start in ("at least 0.9 times", "no request goes wrong"):
                found = self.verdict(rows, f"tokamak-worker: {start}")
                self.assertIs(found.reached, expected, start)

    def test_a_connection_for_each_request(self):
        for cpu, expected in ((50.0, True), (51.0, False)):
            rows = [
                row(CONNECTING, peer, scenario="lua-empty", cpu=value)
                for peer, value in (("nginx-lua", 50.0), ("tokamak-lua", cpu))
            ]
            found = self.verdict(rows, "tokamak-lua: CPU at most that of nginx-lua")
            self.assertIs(found.reached, expected)


if __name__ == "__main__":
    unittest.main()
