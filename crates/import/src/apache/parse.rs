//! The language of Apache: one directive a line, sections in angle brackets.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::alias;
use crate::directive::Directive;
use crate::source::{Disk, Place, Unreadable, text};

/// Sections within sections. Real ones have five.
const DEEPEST: usize = 32;

/// Most files that are included, together: more are a circle, or no configuration of a site.
const MOST_FILES: usize = 2000;

/// The name of a directive in place of an include that cannot be read.
pub(super) const MISSING: &str = "include of a missing file";

/// The name of a directive in place of an optional include of files that are not there.
pub(super) const UNMATCHED: &str = "include without a file";

/// The name of a directive in place of what is for servers without a module.
pub(super) const WITHOUT_MODULE: &str = "part for servers without a module";

/// Modules of each Apache 2.4: nothing is for servers without them.
const IN_EACH_APACHE: &[&str] = &["mod_authz_core.c", "authz_core_module"];

/// Reads the directives of one text, without includes. Names are in lower case.
pub(super) fn parse(text: &str, file: &Path) -> Result<Vec<Directive>, Unreadable> {
    let file: Arc<str> = file.to_string_lossy().into();
    let place = |line| Place { file: file.clone(), line };
    let fail =
        |line, problem: &str| Err(Unreadable { place: place(line), problem: problem.to_owned() });
    let mut open: Vec<Directive> = Vec::new();
    let mut done: Vec<Directive> = Vec::new();
    for (number, line) in joined(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("</") {
            let name = name.trim_end_matches('>').trim().to_ascii_lowercase();
            let Some(section) = open.pop().filter(|section| section.name == name) else {
                return fail(number, &format!("`</{name}>` is not expected here"));
            };
            match open.last_mut() {
                Some(outer) => outer.block.get_or_insert_default().push(section),
                None => done.push(section),
            }
            continue;
        }
        let section = line.strip_prefix('<');
        if section.is_some() && !line.ends_with('>') {
            return fail(number, "a section ends with `>`");
        }
        let content = section.map_or(line, |line| line.trim_end_matches('>'));
        let mut words = words(content);
        if words.is_empty() {
            return fail(number, "a section has no name");
        }
        let name = words.remove(0).to_ascii_lowercase();
        let block = section.is_some().then(Vec::new);
        let directive = Directive { place: place(number), name, args: words, block };
        let directive = alias::simplified(directive);
        let depth = open.len();
        match (section, open.last_mut()) {
            (Some(_), _) if depth >= DEEPEST => {
                return fail(number, "too many sections in each other");
            }
            (Some(_), _) => open.push(directive),
            (None, Some(outer)) => outer.block.get_or_insert_default().push(directive),
            (None, None) => done.push(directive),
        }
    }
    match open.pop() {
        Some(section) => fail(section.place.line, "the section is not closed"),
        None => Ok(done),
    }
}

/// Lines, with those that end with a backslash joined to the next; each with its first number.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        let (own, next) = match line.strip_suffix('\\') {
            Some(own) => (own, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, before)) => before.push_str(own),
            None => lines.push((number + 1, own.to_owned())),
        }
        goes_on = next;
    }
    lines
}

/// The words of a line. A quote at the start of a word ends at the next one; in it, a backslash
/// escapes a quote.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let is_rewrite = line.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("rewrite"));
    let mut rest = line.chars().peekable();
    loop {
        while rest.next_if(|char| char.is_whitespace()).is_some() {}
        let Some(&first) = rest.peek() else { return words };
        let mut word = String::new();
        if matches!(first, '"' | '\'') {
            rest.next();
            while let Some(char) = rest.next() {
                match char {
                    '\\' if rest.peek().is_some_and(|next| *next == first || *next == '\\') => {
                        let next = rest.next().unwrap_or('\\');
                        // Other backslashes belong to expressions.
                        word.extend((next == '\\').then_some('\\').into_iter().chain([next]));
                    }
                    char if char == first => break,
                    char => word.push(char),
                }
            }
        } else {
            while let Some(char) = rest.next_if(|char| !char.is_whitespace()) {
                word.push(char);
                // Of a rewrite, `\ ` is a space of its expression.
                if char == '\\' && is_rewrite {
                    word.extend(rest.next());
                }
            }
        }
        words.push(word);
    }
}

/// Reads a file with all that it includes. Relative names start from `prefix`.
pub(super) fn load(
    file: &Path,
    prefix: &Path,
    disk: &dyn Disk,
) -> Result<Vec<Directive>, Unreadable> {
    let directives = parse(&text(disk, file)?, file)?;
    Includes { prefix, disk, files: 0, defined: BTreeSet::new() }.expand(directives, 0)
}

struct Includes<'a> {
    prefix: &'a Path,
    disk: &'a dyn Disk,
    files: usize,
    /// Names that `Define` has.
    defined: BTreeSet<String>,
}

impl Includes<'_> {
    fn expand(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
    ) -> Result<Vec<Directive>, Unreadable> {
        let mut all = Vec::new();
        for mut directive in directives {
            let inner = directive.block.take();
            match (&*directive.name, inner) {
                ("include" | "includeoptional", None) => {
                    all.extend(self.include(&directive, depth)?);
                }
                // PHP's module has another name in each of its versions; here PHP is there.
                ("ifmodule", Some(inner)) => {
                    let name = directive.arg(0).trim_start_matches('!').to_ascii_lowercase();
                    let is_old_php = matches!(
                        &*name,
                        "mod_php5.c" | "mod_php7.c" | "php5_module" | "php7_module"
                    );
                    if directive.arg(0).starts_with('!') {
                        if !inner.is_empty() && !IN_EACH_APACHE.contains(&&*name) {
                            let name = WITHOUT_MODULE.to_owned();
                            all.push(Directive { name, ..directive });
                        }
                        continue;
                    }
                    let inner = self.expand(inner, depth)?;
                    all.extend(if is_old_php { without_settings(inner) } else { inner });
                }
                // Apache is 2.4, and `Define` says which names are defined.
                ("ifversion", Some(inner)) => match is_of_version(&directive.args) {
                    Some(true) => all.extend(self.expand(inner, depth)?),
                    Some(false) => {}
                    None => {
                        directive.block = Some(self.expand(inner, depth)?);
                        all.push(directive);
                    }
                },
                ("ifdefine", Some(inner)) if !directive.arg(0).is_empty() => {
                    let name = directive.arg(0);
                    let is_negated = name.starts_with('!');
                    let is_defined = self.defined.contains(name.trim_start_matches('!'));
                    if is_defined != is_negated {
                        all.extend(self.expand(inner, depth)?);
                    }
                }
                ("define", None) => {
                    self.defined.insert(directive.arg(0).to_owned());
                    all.push(directive);
                }
                (_, Some(inner)) => {
                    directive.block = Some(self.expand(inner, depth)?);
                    all.push(directive);
                }
                (_, None) => all.push(directive),
            }
        }
        Ok(all)
    }

    fn include(
        &mut self,
        directive: &Directive,
        depth: usize,
    ) -> Result<Vec<Directive>, Unreadable> {
        let pattern = self.prefix.join(directive.arg(0));
        let name = pattern.to_string_lossy();
        let is_pattern = name.contains(['*', '?', '[']);
        let there = self.disk.glob(&name);
        let files: Vec<PathBuf> = if is_pattern { there.clone() } else { vec![pattern.clone()] };
        let mut all = Vec::new();
        if there.is_empty() && (is_pattern || directive.name == "includeoptional") {
            // Apache does not start without the files of an `Include`.
            let is_optional = directive.name == "includeoptional";
            let name = if is_optional { UNMATCHED } else { MISSING };
            return Ok(vec![Directive { name: name.to_owned(), ..directive.clone() }]);
        }
        for file in files {
            self.files += 1;
            if depth > DEEPEST || self.files > MOST_FILES {
                let problem = "too many includes; a file may include itself".to_owned();
                return Err(Unreadable { place: directive.place.clone(), problem });
            }
            match text(self.disk, &file) {
                Ok(text) => {
                    let directives = parse(&text, &file)?;
                    all.extend(self.expand(directives, depth + 1)?);
                }
                // It is there and cannot be read, or it has to be there. What is in it might
                // refuse, which cannot be known.
                Err(_) => all.push(Directive { name: MISSING.to_owned(), ..directive.clone() }),
            }
        }
        Ok(all)
    }
}

/// The version of Apache whose configurations are read: 2.4, in its latest release.
const VERSION: [u32; 3] = [2, 4, u32::MAX];

/// Whether `<IfVersion>` holds; `None` if that is not known.
fn is_of_version(args: &[String]) -> Option<bool> {
    let (operator, text) = match args {
        [text] => ("=", text),
        [operator, text] => (operator.as_str(), text),
        _ => return None,
    };
    let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    let parts = parts.filter(|parts| parts.len() <= VERSION.len())?;
    // What is not said of a version counts as 0, but for `=`, which compares what is said.
    let mut whole = [0; 3];
    whole[..parts.len()].copy_from_slice(&parts);
    let (operator, is_negated) = match operator.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (operator, false),
    };
    let holds = match operator {
        "=" | "==" => VERSION[..parts.len()] == parts[..],
        ">" => VERSION > whole,
        ">=" => VERSION >= whole,
        "<" => VERSION < whole,
        "<=" => VERSION <= whole,
        _ => return None,
    };
    Some(holds != is_negated)
}

/// What stands in a section for an old PHP, without the settings that the section for the present
/// one repeats: its refusals hold, and so does what keeps scripts from running or opening files.
fn without_settings(directives: Vec<Directive>) -> Vec<Directive> {
    let kept = directives.into_iter().filter(|it| match &*it.name {
        "php_value" | "php_flag" => {
            let name = it.arg(0).to_ascii_lowercase();
            matches!(&*name, "engine" | "open_basedir" | "auto_prepend_file")
        }
        _ => true,
    });
    kept.map(|it| Directive { block: it.block.map(without_settings), ..it }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Directive>, String> {
        parse(text, Path::new("a.conf")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_whole_language_is_read() {
        let text = "# no\nServerName \"a b\" c\\\n  d\n<Directory \"/x y\">\n  Require all denied\n\
            </Directory>\nRewriteRule ^a\\.php$ \"b\\\"c\"\n";
        let directives = read(text).unwrap();
        assert_eq!(directives[0].args, ["a b", "c", "d"]);
        assert_eq!(directives[0].place.line, 2);
        assert_eq!((&*directives[1].name, directives[1].arg(0)), ("directory", "/x y"));
        assert_eq!(directives[1].inner()[0].args, ["all", "denied"]);
        assert_eq!(directives[2].args, ["^a\\.php$", "b\"c"]);
        assert_eq!(directives[2].place.line, 7);
        let spaces = read("RewriteCond %{A} ^B\\ /c [NC]\nName a\\ b").unwrap();
        assert_eq!(spaces[0].args, ["%{A}", "^B\\ /c", "[NC]"]);
        assert_eq!(spaces[1].args, ["a\\", "b"]);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, problem) in [
            ("<A>\n", "a.conf:1: the section is not closed"),
            ("\n</A>", "a.conf:2: `</a>` is not expected here"),
            ("<A\n", "a.conf:1: a section ends with `>`"),
            ("<>", "a.conf:1: a section has no name"),
        ] {
            assert_eq!(read(text).unwrap_err(), problem, "{text}");
        }
        assert!(read(&"<A>\n".repeat(10_000)).unwrap_err().contains("too many"));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[ -~\n<>/\"'\\\\]{0,200}") {
            let _ = read(&text);
        }

        #[test]
        fn quoted_words_are_read_again(words in proptest::collection::vec("[ -!#-\\[\\]-~]{1,8}", 1..5)) {
            let line: String = words.iter().map(|word| format!(" \"{word}\"")).collect();
            let directives = read(&format!("Name{line}")).unwrap();
            prop_assert_eq!(&directives[0].args, &words);
        }
    }
}
