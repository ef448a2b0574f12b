"""The page of a directory of results, and the README's tables."""

import re
import tempfile
import unittest
from pathlib import Path

from driver import markdown, readme, record, report
from driver.contestants import PEERS
from driver.record import Absence, Footprint, Run
from driver.summary import Rows


def run(peer, rate, *, number=1, scenario="empty", connections=64, errors=0):
    """One row, of which a test says only what it is about."""
    return Run(number, scenario, peer, connections, rate, 1, 1, 1, 100.0, 1000, errors, 0, 0)


class Plot(unittest.TestCase):
    ROWS = Rows([run("nginx-fpm", 100), run("tokamak-classic", 250), run("node", 180)], [])

    def test_the_best_is_first_and_has_the_longest_bar(self):
        drawn = report.plot(self.ROWS, "empty")
        bars = re.findall(r'<g class="(\w+)">.*?<rect [^>]*width="([\d.]+)"', drawn)
        self.assertEqual(bars, [("ours", "245.0"), ("other", "176.4"), ("base", "98.0")])

    def test_says_in_words_what_it_shows(self):
        drawn = report.plot(self.ROWS, "empty")
        label = re.search(r'role="img" aria-label="([^"]*)"', drawn)[1]
        self.assertIn(
            "An empty script: tokamak-classic: 250 requests/s, 2.50×, 100 µs; node: 180", label
        )

    def test_every_name_has_room(self):
        # The widest letters of a bold face of this size are about 0.62 of it.
        widest = max(len(name) for name in PEERS) * 14 * 0.62
        self.assertLess(widest, report.LABEL - 8)

    def test_failed_requests_are_marked(self):
        rows = Rows([run("nginx-fpm", 110, errors=10)], [])
        self.assertIn(">110*</text>", report.plot(rows, "empty"))

    def test_is_of_the_load_that_all_scenarios_have_if_it_was_measured(self):
        rows = Rows([run("nginx-fpm", 1, connections=count) for count in (1, 64, 256)], [])
        self.assertEqual(report.plotted(rows, "empty"), 64)
        self.assertEqual(
            report.plotted(Rows([run("nginx-fpm", 1, connections=256)], []), "empty"), 256
        )


class Page(unittest.TestCase):
    def test_needs_nothing_beside_it_and_tells_all(self):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            runs = [
                run("nginx-fpm", 100),
                run("tokamak-classic", 250),
                run("node", 9, scenario="odd<name>"),
            ]
            record.write(directory / record.RUNS, Run, runs)
            record.write(directory / record.FOOTPRINTS, Footprint, [])
            record.write(
                directory / record.ABSENCES,
                Absence,
                [Absence("empty", "swoole", "missing: it\nall")],
            )
            (directory / "summary.md").write_text(
                "# Results\n\n## Versions\n\n```\ncommit abc\na machine\nmore\n```\n"
            )
            (directory / report.PARTS).write_text(
                "part,about,seconds,outcome\nrun,all,9,good\nproxy,kept?,1,good\n"
                "soak,names?,1,stopped after 5 seconds\n"
            )
            (directory / "proxy").mkdir()
            (directory / "proxy/summary.md").write_text(
                "# Kept\n\n| a | b |\n| --- | ---: |\n| c | 1 |\n"
            )
            page = report.write(directory).read_text()
        self.assertIsNone(re.search(r"(src|href)=|url\(|@import|<script", page))
        self.assertIn("commit abc; a machine</p>", page)
        self.assertIn("<strong>2.5×</strong> An empty script", page)
        self.assertIn("<li>swoole (empty): missing: it</li>", page)
        self.assertIn("odd&lt;name&gt;", page)
        self.assertNotIn("odd<name>", page)
        self.assertIn('<tr><th scope="row">c</th><td>1</td></tr>', page)
        self.assertIn("<summary>soak: names? — stopped after 5 seconds</summary>", page)
        self.assertIn("<details open>", page)

    def test_noise(self):
        rows = Rows([run("a", rate, number=number) for number, rate in ((1, 90), (2, 110))], [])
        self.assertIn("2 rounds lie 20 % apart", report.noise(rows))
        self.assertIn("unknown", report.noise(Rows([run("a", 90)], [])))


class Absent(unittest.TestCase):
    def test_rows_of_a_peer_that_broke_do_not_count(self):
        gone = [Absence("empty", "node", "it ended")]
        rows = Rows.of_all(
            [run("node", 1), run("go", 2), run("node", 3, scenario="php-http")], [], gone
        )
        self.assertEqual(
            [(row.peer, row.scenario) for row in rows.runs], [("go", "empty"), ("node", "php-http")]
        )


class Markdown(unittest.TestCase):
    def test_what_summaries_are_written_in(self):
        text = "# A `b`\n\n- one <1>\n- two\n\nwords\nand [more](elsewhere)\n"
        text += "\n```\n# no heading\n```\n"
        self.assertEqual(
            markdown.html(text, level=1),
            "<h2>A <code>b</code></h2>\n<ul><li>one &lt;1&gt;</li><li>two</li></ul>\n"
            "<p>words and more</p>\n"
            "<pre># no heading\n</pre>",
        )


class Readme(unittest.TestCase):
    def test_has_the_figures_of_its_records(self):
        text = readme.README.read_text()
        self.assertEqual(
            {found["name"] for found in readme.BLOCK.finditer(text)}, set(readme.TABLES)
        )
        self.assertEqual(readme.renewed(text), text, "make it so with bench/readme-table")

    def test_a_changed_figure_is_seen(self):
        text = readme.README.read_text()
        changed = re.sub(r"(\| nginx \+ php-fpm \| \d+ \d\d)\d", r"\g<1>x", text)
        self.assertNotEqual(changed, text)
        self.assertEqual(readme.renewed(changed), text)

    def test_other_records_take_the_place_of_those_named(self):
        (block, *_) = readme.BLOCK.finditer(readme.README.read_text())
        (first, *_) = block["from"].split()
        made = readme.renewed(block[0], [first])
        self.assertIn(f"<!-- figures: speed\n{first}\n-->\n", made)
        self.assertIn(f"Record: [1]({first}/summary.md).", made)


if __name__ == "__main__":
    unittest.main()
