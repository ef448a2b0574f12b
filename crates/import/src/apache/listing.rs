//! `Options Indexes`: whether Apache lists folders without an index file.

use crate::directive::Directive;

/// Directives of how a list looks.
pub(super) const LOOKS: &[&str] = &[
    "addalt",
    "addaltbyencoding",
    "addaltbytype",
    "adddescription",
    "addicon",
    "addiconbyencoding",
    "addiconbytype",
    "defaulticon",
    "headername",
    "indexheadinsert",
    "indexoptions",
    "indexorderdefault",
    "indexstylesheet",
    "readmename",
];

/// What the notes say of these.
pub(super) const LOOK: &str = "lists of folders have names, sizes and times, and no other looks";

/// What the notes say of names that are not listed.
pub(super) const IGNORED: &str = "lists of folders leave out names that begin with a dot, and what \
    rules refuse; others are listed";

/// What the directives of a section say, if they say it.
pub(super) fn lists(directives: &[Directive]) -> Option<bool> {
    let mut lists = None;
    for options in directives.iter().filter(|it| it.name == "options") {
        let words = options.args.iter().map(|word| word.to_ascii_lowercase());
        // Without a sign, they replace all that were there before.
        if words.clone().any(|word| !word.starts_with(['+', '-'])) {
            lists = Some(false);
        }
        for word in words {
            match &*word {
                "indexes" | "+indexes" | "all" | "+all" => lists = Some(true),
                "-indexes" | "-all" | "none" => lists = Some(false),
                _ => {}
            }
        }
    }
    lists
}

/// What folders around each other say of the innermost one.
pub(super) fn of_folders(mut folders: Vec<(String, &[Directive])>) -> Option<bool> {
    folders.sort_by_key(|(folder, _)| folder.len());
    folders.iter().filter_map(|(_, directives)| lists(directives)).next_back()
}
