"""The guard counts right, and tells a change from none."""

import http.server
import tempfile
import threading
import unittest
from pathlib import Path

from driver import guard


class Counts(unittest.TestCase):
    def test_the_total_of_callgrind(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "count")
            path.write_text("# callgrind format\nevents: Ir\nfn=(1) main\n5 99\n\ntotals: 1234\n")
            self.assertEqual(guard.total(path), 1234)
            path.write_text("# cut short\n")
            with self.assertRaises(guard.Broken):
                guard.total(path)

    def test_calls_of_strace_without_those_that_wait(self):
        rows = "      100 write\n       99 getpid\n       30 futex\n"
        table = f"    calls syscall\n--------- ------\n{rows}--------- ------\n      229 total\n"
        self.assertEqual(guard.calls(table), 199)
        self.assertEqual(guard.calls(table, lambda name: name == "write"), 100)


class Together(unittest.TestCase):
    def test_so_many_requests_over_connections_that_are_kept(self):
        seen = []

        class Answer(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                seen.append(self.client_address)
                self.send_response(200)
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"good")

            def log_message(self, *_):
                pass

        way = guard.Way("way", "/", "", lambda body: body == b"good")
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever).start()
            clients = [guard.Client(server.server_address[1], 10) for _ in range(4)]
            guard.get_together(clients, way, 30)
            guard.get_together(clients, way, 4)
            self.assertEqual((len(seen), len(set(seen))), (34, 4))
            with self.assertRaises(guard.Broken):
                guard.get_together(clients, guard.Way("way", "/", "", lambda body: False), 4)
            for client in clients:
                client.connection.close()
            server.shutdown()


class Verdict(unittest.TestCase):
    def test_within_three_percent_is_the_same(self):
        for now in (97.1, 100, 102.9):
            self.assertTrue(guard.compare({"a": 100}, {"a": now})[1])

    def test_small_counts_may_move_by_a_little_and_not_by_a_call(self):
        for name, same, more in (
            ("sealed, php: pages rolled back", (22, 28), 29),
            ("sealed, php: system calls", (2.8, 3.2), 4.0),
            ("sealed, php: context switches", (0.9, 1.1), 2.0),
            ("steady, front: calls to clients", (1.95, 2.05), 3.0),
        ):
            was = sum(same) / 2
            for now in same:
                self.assertTrue(guard.compare({name: was}, {name: now})[1], (name, now))
            self.assertFalse(guard.compare({name: was}, {name: more})[1], name)

    def test_more_and_less_are_changes(self):
        for now, words in ((104, "costs more"), (96, "keep the new figure")):
            lines, good = guard.compare({"a": 100}, {"a": now})
            self.assertFalse(good)
            self.assertIn(words, lines[0])

    def test_a_figure_that_is_missing_on_either_side_is_told(self):
        lines, good = guard.compare({"a": 1}, {"b": 1})
        self.assertFalse(good)
        self.assertEqual(len(lines), 2)
