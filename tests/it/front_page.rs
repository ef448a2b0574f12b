//! The page about the front names modules, types and functions: each of them exists. Reads source
//! files; starts nothing.

use std::fs;
use std::path::PathBuf;

use crate::layers::root;

/// The page.
const PAGE: &str = "docs/internals/front.md";

/// The paths in a text: words that `::` joins.
fn paths(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = text.split(|letter| !is_part(letter)).map(|word| word.trim_matches(':'));
    words.filter(|word| word.contains("::")).collect()
}

/// The file of a module below the crate's root.
fn file(module: &[&str]) -> Option<PathBuf> {
    let base = root().join("crates/front/src").join(module.iter().collect::<PathBuf>());
    [base.with_extension("rs"), base.join("mod.rs")].into_iter().find(|path| path.is_file())
}

/// Whether a source text declares something of this name, or takes it over from a module below.
fn declares(text: &str, name: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "type", "mod", "const"];
    let is_name = |rest: &str| {
        rest.strip_prefix(name).is_some_and(|rest| {
            !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')
        })
    };
    let declared = kinds.iter().any(|kind| {
        let start = format!("{kind} ");
        text.match_indices(&start).any(|(at, _)| is_name(&text[at + start.len()..]))
    });
    let taken_over = text.lines().filter(|line| line.starts_with("pub use ")).any(|line| {
        line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .any(|word| word == name)
    });
    declared || taken_over
}

/// What of a path does not exist.
fn missing(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split("::").collect();
    let modules = (1..=parts.len()).rev().find_map(|count| Some((count, file(&parts[..count])?)));
    let Some((count, file)) = modules else { return Some(parts[0].to_owned()) };
    let text = fs::read_to_string(file).expect("a source file");
    parts[count..].iter().find(|name| !declares(&text, name)).map(|name| (*name).to_owned())
}

#[test]
fn every_name_on_the_page_exists() {
    let page = fs::read_to_string(root().join(PAGE)).expect("the page");
    let paths = paths(&page);
    assert!(paths.len() > 30, "the page names what it is about: {paths:?}");
    let wrong: Vec<String> = paths
        .iter()
        .filter_map(|path| Some(format!("{path}: there is no `{}`", missing(path)?)))
        .collect();
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn other_pages_name_modules_that_exist() {
    let pages = fs::read_dir(root().join("docs/internals")).expect("the pages");
    let mut wrong = Vec::new();
    for page in pages.map(|entry| entry.expect("a page").path()) {
        let text = fs::read_to_string(&page).expect("a page");
        let about_us = paths(&text).into_iter().filter_map(|path| path.strip_prefix("front::"));
        for path in about_us {
            if let Some(name) = missing(path) {
                wrong.push(format!("{}: front::{path}: there is no `{name}`", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_that_does_not_exist_is_found() {
    assert_eq!(missing("request::pipeline::serve"), None);
    assert_eq!(missing("event_loop::EventLoop::hand_over"), None);
    assert_eq!(missing("request::pipeline::serves").as_deref(), Some("serves"));
    assert_eq!(missing("nothing::here").as_deref(), Some("nothing"));
}
