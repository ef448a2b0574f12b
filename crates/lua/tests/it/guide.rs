//! The guide's reference says what there is, and its examples run.

use std::collections::BTreeSet;
use std::path::Path;

use tokamak_lua::{Attribute, Item, Limits, Outcome, Stage};

use crate::harness::{Site, request, show};

fn guide() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lua.md");
    std::fs::read_to_string(path).expect("the guide")
}

/// Rows of the table whose header begins with this word, as cells.
fn table(page: &str, head: &str) -> Vec<Vec<String>> {
    let lines = page.lines().skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect()).collect()
}

#[test]
fn attributes_and_items_are_listed() {
    let page = guide();
    let listed = table(&page, "attribute");
    let there: Vec<Vec<String>> = Attribute::ALL
        .iter()
        .map(|attribute| {
            let assignable = if attribute.is_writable() { "yes" } else { "no" };
            vec![format!("`{}`", attribute.name()), assignable.to_string(), attribute.meaning().to_string()]
        })
        .collect();
    assert_eq!(listed, there);
    let there: Vec<Vec<String>> =
        Item::ALL.iter().map(|item| vec![format!("`{}`", item.name()), item.meaning().to_string()]).collect();
    assert_eq!(table(&page, "item"), there);
}

#[test]
fn functions_are_listed() {
    let page = guide();
    let listed: BTreeSet<String> = table(&page, "function")
        .iter()
        .map(|row| row[0].trim_matches('`').split('(').next().unwrap_or_default().to_string())
        .collect();
    let there = show(
        "local t = {} for name in next, lighty.c do t[#t + 1] = name end return show(table.concat(t, ' '))",
    );
    let there: BTreeSet<String> = there.trim_matches('"').split(' ').map(str::to_string).collect();
    assert_eq!(listed, there);
}

#[test]
fn methods_are_listed() {
    let page = guide();
    let listed: BTreeSet<String> = table(&page, "method")
        .iter()
        .map(|row| row[0].trim_matches('`').split('(').next().unwrap_or_default().to_string())
        .collect();
    let there = show(
        "local t = {} for name in next, tokamak.shared.main do t[#t + 1] = name end return show(table.concat(t, ' '))",
    );
    let there: BTreeSet<String> = there.trim_matches('"').split(' ').map(str::to_string).collect();
    assert_eq!(listed, there);
}

#[test]
fn tables_are_listed() {
    let page = guide();
    let listed: BTreeSet<String> =
        table(&page, "name").iter().map(|row| row[0].trim_matches('`').replace("lighty.r.", "")).collect();
    let there = show(
        "local t = {} for name in next, lighty.r do t[#t + 1] = name end return show(table.concat(t, ' '))",
    );
    let there: BTreeSet<String> = there.trim_matches('"').split(' ').map(str::to_string).collect();
    assert_eq!(listed, there);
    let names = show(
        "local t = {} for name in next, lighty do t[#t + 1] = name end return show(table.concat(t, ' '))",
    );
    for name in names.trim_matches('"').split(' ') {
        assert!(page.contains(&format!("lighty.{name}")), "the guide does not mention lighty.{name}");
    }
    let names = show(
        "local t = {} for name in next, tokamak do t[#t + 1] = name end return show(table.concat(t, ' '))",
    );
    for name in names.trim_matches('"').split(' ') {
        assert!(page.contains(&format!("tokamak.{name}")), "the guide does not mention tokamak.{name}");
    }
}

#[test]
fn examples_run() {
    let page = guide();
    let mut parts = page.split("```");
    let mut count = 0;
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let Some((first, script)) = block.split_once('\n') else { continue };
        if first.split(' ').next() == Some("lua") {
            count += 1;
            let site = Site::new(Limits::default(), &[("test.lua", script)]);
            let mut memory = request();
            memory.attributes.insert("physical.doc-root", b"/nonexistent".to_vec());
            let (outcome, memory) = site.ask_at(Stage::Physical, "test.lua", memory);
            assert!(!matches!(outcome, Outcome::Failed(_)), "{script}\n{:?}", memory.log);
        }
    }
    assert!(count >= 1, "{count} examples");
}
