//! CONTRIBUTING's four walks: each file and each module of tests that they name is there, and what
//! they say of metrics holds. Reads files; starts nothing.

use std::fs;

use crate::layers::root;

/// The section with the walks.
fn walks() -> String {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("the file");
    let (_, from) = text.split_once("\n## Four walks\n").expect("the section");
    from.split_once("\n## ").expect("a section behind it").0.to_owned()
}

/// What stands between backticks in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn what_the_walks_name_is_there() {
    let walks = walks();
    let folders = ["crates/", "docs/", "fuzz/", "tests/"];
    let is_path = |name: &&str| folders.iter().any(|folder| name.starts_with(folder));
    let paths: Vec<&str> = quoted(&walks).filter(is_path).collect();
    let missing: Vec<&&str> = paths.iter().filter(|path| !root().join(path).exists()).collect();
    assert!(paths.len() > 15 && missing.is_empty(), "{missing:?} of {paths:?}");
    let modules: Vec<&str> = quoted(&walks)
        .filter_map(|name| name.strip_prefix("it "))
        .map(|name| name.trim_end_matches("::"))
        .collect();
    let is_there = |module: &&&str| {
        let path = root().join("tests/it").join(module.replace("::", "/"));
        path.is_dir() || path.with_extension("rs").is_file()
    };
    let missing: Vec<&&str> = modules.iter().filter(|module| !is_there(module)).collect();
    assert!(modules.len() > 4 && missing.is_empty(), "{missing:?} of {modules:?}");
}

/// All source files below a folder, as one text.
fn source(folder: &str) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(root().join(folder)).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            text.push_str(&source(path.to_str().expect("a name")));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).expect("a source file"));
        }
    }
    text
}

#[test]
fn every_metric_is_filled() {
    let rows = fs::read_to_string(root().join("crates/metrics/src/row.rs")).expect("the rows");
    let (_, table) = rows.split_once("\nrows! {").expect("the table");
    let (table, _) = table.split_once("\n}").expect("its end");
    let kinds = [" Counter \"", " Gauge \"", " Histogram \""];
    let names: Vec<&str> = table
        .lines()
        .filter_map(|line| kinds.iter().find_map(|kind| Some(line.split_once(kind)?.0.trim())))
        .collect();
    let users = source("crates/front/src") + &source("crates/supervisor/src");
    let is_filled = |name: &&&str| {
        users
            .split(&format!("Row::{name}")[..])
            .skip(1)
            .any(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
    };
    let empty: Vec<&&str> = names.iter().filter(|name| !is_filled(name)).collect();
    assert!(names.len() > 30 && empty.is_empty(), "{empty:?} of {names:?}");
}

/// A row of the table that restores something without a name that sees it may be taken out, or may
/// stop working, and no test fails.
#[test]
fn what_sealed_mode_puts_back_is_seen_by_a_test() {
    let rows = fs::read_to_string(root().join("crates/php/c/sealed/channels.c")).expect("the rows");
    let (_, table) = rows.split_once("} channels[] = {").expect("the table");
    let (table, _) = table.split_once("\n};").expect("its end");
    let mut canaries = String::new();
    for entry in fs::read_dir(root().join("tests/canary/channels")).expect("the folder") {
        let path = entry.expect("an entry").path();
        canaries.push_str(&fs::read_to_string(path).expect("channels"));
    }
    let is_there = |name: &str| match name.strip_prefix('\'') {
        Some(_) => canaries.contains(&format!("    {name} => ")),
        None => ["tests/it", "crates/php/tests/it"].iter().any(|folder| {
            let module = root().join(folder).join(name);
            module.is_dir() || module.with_extension("rs").is_file()
        }),
    };
    let mut seen = 0;
    let (mut before, mut rows) = (0, 0);
    for (at, _) in table.match_indices("    {.") {
        let row = table[at..].split('}').next().unwrap_or_default();
        let comment = &table[before..at];
        before = at;
        if !row.contains(".restore") && !row.contains(".refusal") {
            continue;
        }
        rows += 1;
        let (_, names) = comment.split_once("Seen by: ").unwrap_or_else(|| panic!("{row}"));
        let names = names.split(" */").next().unwrap_or_default();
        let missing: Vec<&str> = split_names(names).filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "{missing:?} of {row}");
        seen += split_names(names).count();
    }
    assert!(rows >= 5 && seen >= rows, "{seen} names of {rows} rows");
}

/// Names between commas, but for commas between apostrophes.
fn split_names(names: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    names
        .split(move |letter| {
            is_quoted ^= letter == '\'';
            letter == ',' && !is_quoted
        })
        .map(str::trim)
}
