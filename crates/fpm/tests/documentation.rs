//! The page about the configuration has every directive, in the order in which `-tt` shows them,
//! and says of each whether it has an effect.

use std::fs;
use std::path::Path;

use tokamak_fpm::{Documented, directives};

/// The rows of the tables that begin with a directive, section by section.
fn documented() -> Vec<Vec<Documented>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fpm-configuration.md");
    let text = fs::read_to_string(page).expect("the page");
    let tables = text.split("| directive | default | what it does here |\n").skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
        let why = cells.get(2)?.strip_suffix(" |")?.strip_prefix("No effect: ");
        // The same words as in the warning, with a full stop.
        let why = why.map(|why| &*why.trim_end_matches('.').to_string().leak());
        Some(Documented { name: cells[0].strip_suffix('`')?.to_string(), idle: why })
    };
    tables
        .map(|table| {
            table.lines().skip(1).take_while(|line| line.starts_with('|')).filter_map(row).collect()
        })
        .collect()
}

#[test]
fn every_directive_is_documented() {
    let documented = documented();
    assert_eq!(documented, directives());
}
