//! The guide's reference lists all functions, and its examples run.

use std::collections::BTreeSet;
use std::path::Path;

use tokamak_lua::{Attribute, Item, Limits, Outcome, Stage};

use crate::harness::{Site, request, show};

fn guide() -> String {
    page("lua.md")
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).expect("the guide")
}

/// Rows of the table whose header begins with this word, as cells.
fn table(page: &str, head: &str) -> Vec<Vec<String>> {
    let lines = page.lines().skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect())
        .collect()
}

#[test]
fn attributes_and_items_are_listed() {
    let page = guide();
    let listed = table(&page, "attribute");
    let there: Vec<Vec<String>> = Attribute::ALL
        .iter()
        .map(|attribute| {
            let assignable = if attribute.is_writable() { "yes" } else { "no" };
            vec![
                format!("`{}`", attribute.name()),
                assignable.to_string(),
                attribute.meaning().to_string(),
            ]
        })
        .collect();
    assert_eq!(listed, there);
    let there: Vec<Vec<String>> = Item::ALL
        .iter()
        .map(|item| vec![format!("`{}`", item.name()), item.meaning().to_string()])
        .collect();
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
        "local t = {} for name in next, lighty.c do t[#t + 1] = name end return \
            show(table.concat(t, ' '))",
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
        "local t = {} for name in next, tokamak.shared.main do t[#t + 1] = name end return \
            show(table.concat(t, ' '))",
    );
    let there: BTreeSet<String> = there.trim_matches('"').split(' ').map(str::to_string).collect();
    assert_eq!(listed, there);
}

#[test]
fn tables_are_listed() {
    let page = guide();
    let listed: BTreeSet<String> = table(&page, "name")
        .iter()
        .map(|row| row[0].trim_matches('`').replace("lighty.r.", ""))
        .collect();
    let there = show(
        "local t = {} for name in next, lighty.r do t[#t + 1] = name end return \
            show(table.concat(t, ' '))",
    );
    let there: BTreeSet<String> = there.trim_matches('"').split(' ').map(str::to_string).collect();
    assert_eq!(listed, there);
    let names = show(
        "local t = {} for name in next, lighty do t[#t + 1] = name end return \
            show(table.concat(t, ' '))",
    );
    for name in names.trim_matches('"').split(' ') {
        assert!(
            page.contains(&format!("lighty.{name}")),
            "the guide does not mention lighty.{name}"
        );
    }
    let names = show(
        "local t = {} for name in next, tokamak do t[#t + 1] = name end return \
            show(table.concat(t, ' '))",
    );
    for name in names.trim_matches('"').split(' ') {
        assert!(
            page.contains(&format!("tokamak.{name}")),
            "the guide does not mention tokamak.{name}"
        );
    }
}

#[test]
fn what_is_said_to_the_cache_is_listed() {
    let listed: BTreeSet<String> = table(&page("lua-cache.md"), "function")
        .iter()
        .map(|row| {
            row[0].trim_matches('`').split([' ', '{', '(']).next().unwrap_or_default().to_string()
        })
        .collect();
    let there = show(
        "local t = {} for name in next, tokamak.cache do t[#t + 1] = 'tokamak.cache.' .. name end \
            return show(table.concat(t, ' '))",
    );
    let there: BTreeSet<String> = there.trim_matches('"').split(' ').map(str::to_string).collect();
    assert_eq!(listed, there);
}

#[test]
fn calls_are_listed() {
    let listed: BTreeSet<String> = table(&page("lua-calls.md"), "call")
        .iter()
        .map(|row| row[0].trim_matches('`').split('(').next().unwrap_or_default().to_string())
        .collect();
    let there = show(
        "local t = {} for name, value in next, tokamak do
             if name == 'shared' or name == 'cache' then -- have their own parts of the guide
             elseif type(value) ~= 'table' then t[#t + 1] = 'tokamak.' .. name
             else for inner in next, value do t[#t + 1] = 'tokamak.' .. name .. '.' .. inner end end
         end return show(table.concat(t, ' '))",
    );
    let there: BTreeSet<String> = there.trim_matches('"').split(' ').map(str::to_string).collect();
    assert_eq!(listed, there);
}

#[test]
fn examples_run() {
    let examples = ["lua.md", "lua-calls.md"].map(|name| run_examples(&page(name)));
    assert!(examples[0] >= 1 && examples[1] >= 3, "{examples:?} examples");
}

/// Runs what a page has; how many there are.
fn run_examples(page: &str) -> usize {
    let mut parts = page.split("```");
    let mut count = 0;
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let Some((first, script)) = block.split_once('\n') else { continue };
        if first.split(' ').next() == Some("lua") {
            count += 1;
            let site = Site::new(Limits::default(), &[("test.lua", script)]);
            let mut memory = request();
            memory.attributes.insert("physical.doc-root", b"/nonexistent".to_vec());
            memory.attributes.insert("request.server-addr", b"127.0.0.1".to_vec());
            memory.attributes.insert("request.server-port", b"80".to_vec());
            let (outcome, memory) = site.ask_at(Stage::Physical, "test.lua", memory);
            assert!(!matches!(outcome, Outcome::Failed(_)), "{script}\n{:?}", memory.log);
        }
    }
    count
}
