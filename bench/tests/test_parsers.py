"""What other programs print is read right."""

import os
import unittest

from driver import counters, load, memory, process, status


class Stat(unittest.TestCase):
    LINE = "42 (a (strange) name) S 7 42 40 0 -1 4194304 9 8 0 0 100 20 3 4 20 0 1 0 99 1 2"

    def test_name_with_parentheses(self):
        stat = process.parse_stat(self.LINE)
        self.assertEqual(
            (stat.pid, stat.name, stat.parent, stat.session), (42, "a (strange) name", 7, 40)
        )

    def test_time_counts_own_and_ended_children(self):
        self.assertEqual(process.parse_stat(self.LINE).ticks, 100 + 20 + 3 + 4)


class Tree(unittest.TestCase):
    def test_descendants_and_orphans_of_the_session_but_nobody_else(self):
        def stat(pid, parent, session):
            return process.Stat(pid, "x", parent, session, 0)

        # In an order in which children come before their parents.
        stats = [
            stat(13, 12, 99),
            stat(12, 10, 10),
            stat(10, 1, 10),
            stat(11, 1, 10),
            stat(20, 1, 20),
            stat(21, 20, 20),
        ]
        self.assertEqual({found.pid for found in process.tree_of({10}, stats)}, {10, 11, 12, 13})


class Memory(unittest.TestCase):
    def test_only_private_pages_count(self):
        rollup = (
            "5581c0000000-7ffd00000000 ---p 00000000 00:00 0    [rollup]\n"
            "Rss:  900 kB\nShared_Clean:  500 kB\nPrivate_Clean:  30 kB\nPrivate_Dirty:  70 kB\n"
            "Private_Hugetlb: 5 kB\n"
        )
        self.assertEqual(process.parse_private_kib(rollup), 100)
        self.assertEqual(len(process.private_kibs([os.getpid(), 1 << 30])), 1)


class Held(unittest.TestCase):
    def test_libraries_and_the_queue_do_not_count(self):
        def mapping(name, kib):
            head = f"7f00-7f01 rw-p 00000000 00:01 7    {name}\n"
            return f"{head}Rss: 999 kB\nPss:    {kib} kB\nVmFlags: rd wr\n"

        names = (
            "/memfd:tokamak-image (deleted)",
            "/dev/zero (deleted)",
            "[heap]",
            "",
            "/usr/lib/libc.so.6",
            "/memfd:tokamak-shop (deleted)",
        )
        smaps = "".join(mapping(name, 10**place) for place, name in enumerate(names))
        self.assertEqual(memory.parse_held_kib(smaps), 1111)


class Status(unittest.TestCase):
    def test_workers_of_all_pools(self):
        worker = '{"pid": %d, "state": "idle", "requests": 7, "roll_back_us": %s, "hot_pages": %d}'
        pools = ", ".join(
            '{"workers": [%s]}' % (worker % numbers)
            for numbers in ((5, "11.5", 90), (6, "null", 0))
        )
        self.assertEqual(
            status.parse('{"pid": 1, "pools": [%s]}' % pools),
            [status.Worker(5, 7, 11.5, 90), status.Worker(6, 7, None, 0)],
        )


class Wrk(unittest.TestCase):
    OUTPUT = (
        "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 2 connections\n"
        'RESULT {"seconds":2.0,"requests":1010,"p50":90.0,"p90":120.5,"p99":300.0,'
        '"bad_status":10,"socket_errors":1,"timeouts":2}\n'
    )

    def test_only_right_answers_make_the_rate(self):
        self.assertEqual(load.parse(self.OUTPUT).rate, 500.0)

    def test_silence_is_an_error(self):
        with self.assertRaises(ValueError):
            load.parse("unable to connect to 127.0.0.1:1 Connection refused\n")


class Perf(unittest.TestCase):
    def test_counts(self):
        lines = "# started\n\n123456,,raw_syscalls:sys_enter,999,100.00,,\n"
        lines += "42,,context-switches:u,999,100.00,,\n"
        self.assertEqual(counters.parse(lines), {counters.SYSCALLS: 123456, counters.SWITCHES: 42})

    def test_switches_may_not_be_counted(self):
        lines = "7,,raw_syscalls:sys_enter,9,100.00,,\n<not supported>,,context-switches,0\n"
        self.assertEqual(counters.parse(lines), {counters.SYSCALLS: 7})

    def test_no_count_is_an_error(self):
        with self.assertRaises(ValueError):
            counters.parse("<not supported>,,other,0\n")


if __name__ == "__main__":
    unittest.main()
