//! A test that the page of the guide lists all metrics, as the table has them.

use std::fmt::Write;

use crate::{Kind, Row};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
/// The table stands between these lines; the rest of the page is written by hand.
const BEGIN: &str = "<!-- the table of crates/metrics begins -->\n";
const END: &str = "<!-- the table of crates/metrics ends -->\n";

fn table() -> String {
    let mut table =
        String::from("\n| Metric | Type | Labels | What |\n| --- | --- | --- | --- |\n");
    for row in Row::ALL {
        let ending = if row.kind() == Kind::Counter { "_total" } else { "" };
        let labels: Vec<_> = row.labels().iter().map(|label| format!("`{label}`")).collect();
        let (name, word) = (row.name(), row.kind().word());
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        let _ = writeln!(table, "| `{name}{ending}` | {word} | {labels} | {} |", row.help());
    }
    table.push('\n');
    table
}

#[test]
fn the_page_in_docs_says_what_the_table_says() {
    let written = std::fs::read_to_string(FILE).expect("docs/metrics.md");
    let (before, rest) = written.split_once(BEGIN).expect("the table's begin");
    let (_, after) = rest.split_once(END).expect("the table's end");
    let wanted = [before, BEGIN, &table(), END, after].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(FILE, &wanted).expect("docs/ is there");
    } else {
        assert!(
            written == wanted,
            "docs/metrics.md is old; run UPDATE_DOCS=1 cargo test -p tokamak-metrics"
        );
    }
}
