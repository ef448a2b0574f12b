//! Variables that `set` gives one value, and what `if` asks of one file: both are replaced while a
//! configuration is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::directive::Directive;

use super::reader::Reader;
use super::{condition, groups};

/// Variables that stand for the same in each place where they are named.
const STABLE: [&str; 4] =
    ["$fastcgi_script_name", "$fastcgi_path_info", "$document_root", "$realpath_root"];

/// The values of variables.
pub(super) type Values = BTreeMap<String, String>;

impl Reader<'_> {
    /// The directives of a block with the values of its variables in their places.
    pub(super) fn substituted(
        &mut self,
        directives: &[Directive],
        known: &Values,
    ) -> Vec<Directive> {
        let mut values = known.clone();
        let mut kept = Vec::new();
        self.substitute(directives, &elsewhere(directives), &mut values, &mut kept);
        for directive in &mut kept {
            directive.args.iter_mut().for_each(|arg| *arg = replaced(arg, &values));
            if let Some(inner) = &directive.block {
                directive.block = Some(match &*directive.name {
                    "location" => {
                        let inner = self.substituted(inner, &values);
                        groups::by_own_variables(&directive.args, inner)
                    }
                    _ => inner.iter().map(|inner| replaced_in(inner, &values)).collect(),
                });
            }
        }
        kept
    }

    fn substitute(
        &mut self,
        directives: &[Directive],
        elsewhere: &BTreeSet<String>,
        values: &mut Values,
        kept: &mut Vec<Directive>,
    ) {
        let root = directives.iter().find(|it| it.name == "root");
        for directive in directives {
            let (name, value) = (directive.arg(0), replaced(directive.arg(1), values));
            let is_stable = !value.contains('$') || STABLE.contains(&&*value);
            if directive.name == "set" && is_stable && !elsewhere.contains(name) {
                values.insert(name.to_owned(), value);
                continue;
            }
            if directive.name != "if" {
                kept.push(directive.clone());
                continue;
            }
            let root = root.map(|root| self.path(&replaced(root.arg(0), values)));
            let known = constantly(directive, values);
            match known.or_else(|| self.asked(directive, root.as_deref(), values)) {
                Some(true) => self.substitute(directive.inner(), elsewhere, values, kept),
                Some(false) => {}
                None => kept.push(directive.clone()),
            }
        }
    }

    /// Whether the condition of an `if` holds, if it asks of one file.
    fn asked(&mut self, step: &Directive, root: Option<&str>, values: &Values) -> Option<bool> {
        let (test, file) = one_file(step)?;
        let mut file = replaced(&file, values);
        if let Some(root) = root {
            file = file.replacen("$document_root", root, 1);
        }
        if !file.starts_with('/') || file.contains(['$', '*', '?', '[']) {
            return None;
        }
        let is_there = !self.disk.glob(&file).is_empty();
        let is_file = self.disk.is_file(Path::new(&file));
        let holds = match test.trim_start_matches('!') {
            "-f" => is_file,
            "-d" => is_there && !is_file,
            _ => is_there,
        };
        let line = format!("if {}", step.args.join(" "));
        let reason = "this was asked now, and is not for each request";
        self.notes.differs(&step.place, &line, reason);
        Some(holds != test.starts_with('!'))
    }
}

/// Whether the condition of an `if` holds, if it compares a variable that has one value, and does
/// nothing but say how long files may be kept.
fn constantly(step: &Directive, values: &Values) -> Option<bool> {
    let words = condition::words(step);
    let (name, rest) = words.split_first()?;
    let is_plain = step.inner().iter().all(|it| it.name == "expires");
    let value = values.get(*name).filter(|_| is_plain && !rest.is_empty())?;
    condition::holds(&words, value)
}

/// What an `if` asks of a file, and its name.
fn one_file(step: &Directive) -> Option<(&str, String)> {
    let words: Vec<&str> = step.args.iter().map(|arg| arg.trim_matches(['(', ')', ' '])).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let [test, file] = words[..] else { return None };
    matches!(test, "-f" | "-d" | "-e" | "!-f" | "!-d" | "!-e").then(|| (test, file.to_owned()))
}

/// The variables that are set twice, or within inner blocks, unless these only ask of one file.
fn elsewhere(directives: &[Directive]) -> BTreeSet<String> {
    let (mut found, mut once) = (BTreeSet::new(), BTreeSet::new());
    for set in directives.iter().filter(|it| it.name == "set") {
        if !once.insert(set.arg(0)) {
            found.insert(set.arg(0).to_owned());
        }
    }
    for directive in directives.iter().filter(|it| it.block.is_some()) {
        let asks = directive.name == "if"
            && one_file(directive).is_some_and(|(_, file)| {
                !file.contains('$')
                    || file.strip_prefix("$document_root").is_some_and(|it| !it.contains('$'))
            });
        if !asks {
            found.append(&mut sets(directive.inner()));
        }
    }
    found
}

/// All variables that are set in a block.
fn sets(directives: &[Directive]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for directive in directives {
        if directive.name == "set" {
            found.insert(directive.arg(0).to_owned());
        }
        found.append(&mut sets(directive.inner()));
    }
    found
}

fn replaced_in(directive: &Directive, values: &Values) -> Directive {
    let args = directive.args.iter().map(|arg| replaced(arg, values)).collect();
    let block = directive.block.as_ref();
    let block = block.map(|block| block.iter().map(|it| replaced_in(it, values)).collect());
    Directive { args, block, ..directive.clone() }
}

/// The name of a variable, which may be in braces, and what follows it: of a text behind a `$`.
pub(super) fn split_name(text: &str) -> (&str, &str) {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let braced = text.strip_prefix('{').and_then(|inner| inner.split_once('}'));
    let end = text.find(|char| !is_name(char)).unwrap_or(text.len());
    braced.unwrap_or(text.split_at(end))
}

/// A text with the values of the variables that are known.
pub(super) fn replaced(text: &str, values: &Values) -> String {
    let (mut whole, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        whole.push_str(before);
        let (name, behind) = split_name(after);
        match values.get(&format!("${name}")) {
            Some(value) => {
                whole.push_str(value);
                rest = behind;
            }
            None => {
                whole.push('$');
                rest = after;
            }
        }
    }
    whole + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_by_their_whole_names() {
        let values = Values::from([("$root".to_owned(), "/srv".to_owned())]);
        for (text, expected) in [
            ("$root/a", "/srv/a"),
            ("${root}s", "/srvs"),
            ("$roots", "$roots"),
            ("a$", "a$"),
            ("$uri$root", "$uri/srv"),
        ] {
            assert_eq!(replaced(text, &values), expected);
        }
    }
}
