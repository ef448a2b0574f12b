//! `Options Indexes`: whether Apache lists folders without an index file.

use crate::directive::Directive;
use crate::model::{Action, Rule, Scope, Site};
use crate::pattern;

use super::area::HIDDEN;

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

/// Where the name of an index file is refused, Apache does not list the folder either, even if
/// there is no such file.
pub(super) fn refuse_unlisted(site: &mut Site) {
    let is_listing =
        site.index_listing || site.rules.iter().any(|it| it.index_listing == Some(true));
    if !is_listing {
        return;
    }
    let usual = ["index.html".to_owned()];
    let index = site.index.as_deref().unwrap_or(&usual);
    let is_guard = |rule: &&Rule| {
        let refuses = match &rule.action {
            Some(Action::Refuse { .. } | Action::Login(_)) => true,
            // So is refused what is missing: Apache asks for each index file before it lists.
            Some(Action::Rewrite(target)) => target == HIDDEN,
            _ => false,
        };
        refuses && rule.conditions.is_empty()
    };
    let unlisted: Vec<Rule> = site
        .rules
        .iter()
        .filter(is_guard)
        .filter_map(|rule| {
            let folders = unlisted(rule.scope.pattern.as_deref()?, index)?;
            let pattern = Some(folders).filter(|folders| !folders.is_empty());
            let scope = Scope { pattern, ..rule.scope.clone() };
            Some(Rule::at(&rule.place, scope).list(false))
        })
        .collect();
    site.rules.extend(unlisted);
}

/// An expression for the folders in which another one finds an index file, if there are any; an
/// empty one for all folders.
fn unlisted(expression: &str, index: &[String]) -> Option<String> {
    let finds = |folder: &str| {
        let folder = folder.trim_end_matches('/');
        let mut files = index.iter().map(|name| format!("{folder}/{name}"));
        files.any(|path| pattern::is_in(expression, &path))
    };
    let Some(anchored) = expression.strip_prefix('^') else {
        return finds("").then(String::new);
    };
    // A folder that is itself refused has no list.
    let is_unlisted = |folder: &&String| finds(folder) && !pattern::is_in(expression, folder);
    let begins = pattern::begins(anchored);
    let begins: Vec<_> =
        begins.iter().filter(is_unlisted).map(|it| regex_lite::escape(it)).collect();
    (!begins.is_empty()).then(|| format!("^(?:{})", begins.join("|")))
}
