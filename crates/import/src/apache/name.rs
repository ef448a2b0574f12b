//! Names of files by an expression, as expressions of paths: Apache looks at the last part alone.

use crate::pattern;

use super::value;

/// Paths with names that an expression finds.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Names {
    /// What is found in them. It may be found in more paths, of which nothing answers.
    pub found: String,
    /// What is not.
    pub but: Vec<String>,
    /// Whether these are names without a dot alone.
    pub is_dotless: bool,
    /// What of a path may be such a name if it is missing and more follows, where that is not
    /// refused by the rest.
    pub before: Option<String>,
}

/// Names of a pattern of the shell.
pub(super) fn of_shell(text: &str) -> Names {
    Names { found: format!("/{}(?:/|$)", value::of_shell(text)), ..Names::default() }
}

/// Names in which an expression is found, by its alternatives if one of them looks ahead; nothing
/// if rules cannot say it.
pub(super) fn of_expression(expression: &str) -> Option<Vec<Names>> {
    if !expression.contains("(?!") || pattern::translate(expression, false).is_ok() {
        return Some(vec![without_dot(expression).or_else(|| of_one(expression))?]);
    }
    let (flags, rest) = match expression.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", expression),
    };
    let alternatives = pattern::alternatives(rest).into_iter().map(|one| {
        let Some((own, others)) = pattern::without_lookahead_at_once(one) else {
            let one = format!("{flags}{one}");
            return without_dot(&one).or_else(|| of_one(&one));
        };
        let (own, others) = (format!("{flags}{own}"), whole(&format!("{flags}{others}"))?);
        let mut names = match without_dot(&own) {
            Some(names) => names,
            None => {
                let own = whole(&own)?;
                let before = Some(own.replace("\\z", "/"));
                Names { found: any_of(&[own]), before, ..Names::default() }
            }
        };
        // Behind the name of a script other names follow.
        let end = if names.is_dotless { "\\z" } else { "(?:/[^.]*)?\\z" };
        names.but.push(match others.ends_with("\\z") {
            true => format!("(?:{})", others.replace("\\z", end)),
            false => format!("(?:{others})[^/]*{end}"),
        });
        Some(names)
    });
    alternatives.collect()
}

/// What finds an expression in the last name of a path.
fn whole(expression: &str) -> Option<String> {
    Some(exact(&pattern::translate(expression, false).ok()?)?.join("|"))
}

/// Names without a dot, if an expression is for some of these and for no scripts. No script has
/// such a name, so what goes on behind it is another file.
fn without_dot(expression: &str) -> Option<Names> {
    let own = whole(expression).filter(|own| own.ends_with("\\z"))?;
    let is_in = |path: &str| pattern::is_in(&own, path);
    let is_dotless = is_in("/a") && !is_in("/a.php");
    let before = Some(own.replace("\\z", "/"));
    is_dotless.then(|| Names { found: format!("(?:{own})"), but: Vec::new(), is_dotless, before })
}

/// Names in which an expression is found that looks at most behind.
fn of_one(expression: &str) -> Option<Names> {
    let (expression, besides) = match pattern::without_lookbehind(expression) {
        Some((rest, texts)) => (rest, texts),
        None => (expression.to_owned(), Vec::new()),
    };
    let but: Vec<String> =
        besides.into_iter().map(|name| format!("/{}\\z", regex_lite::escape(&name))).collect();
    let translated = pattern::translate(&expression, false).ok()?;
    let exact = exact(&translated).filter(|_| translated.contains("[^"));
    let found = match exact.as_deref().map(any_of) {
        // `[^.]` would also find what goes on over slashes.
        Some(own) if !["/a", "/index"].iter().any(|name| pattern::is_in(&own, name)) => own,
        // The start of a name is behind a slash of the path.
        _ => value::with_start(&translated, "/")?,
    };
    let before = (!but.is_empty()).then(|| found.replace("(?:/|$)", "/").replace('$', "/"));
    Some(Names { found, but, is_dotless: false, before })
}

/// Paths of files with names of a pattern of the shell, and of nothing that follows them.
pub(super) fn exactly(text: &str) -> String {
    format!("/{}$", value::of_shell(text))
}

/// Paths of files with names in which an expression is found, and of nothing that follows them;
/// nothing if rules cannot say it.
pub(super) fn exactly_found(expression: &str) -> Option<String> {
    let own = exact(&pattern::translate(expression, false).ok()?)?;
    Some(format!("(?:{})[^/]*$", own.join("|")))
}

/// Paths of files with such names, in folders without a dot: a name before them may be that of a
/// file, behind which nothing is opened.
pub(super) fn in_plain_folders(names: &str) -> String {
    format!("^(?:/[^./]+)*(?:{names})")
}

/// The same as [`exactly_found`] for [`in_plain_folders`].
pub(super) fn names_found(expression: &str) -> Option<String> {
    let own = exact(&pattern::translate(expression, false).ok()?)?;
    let own = own.iter().map(|one| {
        let start = if one.starts_with('/') { "" } else { "/[^/]*" };
        // What goes on behind the name of a script is for the script.
        match one.strip_suffix("\\.php\\z") {
            Some(name) => format!("{start}{name}\\.php(?:/.*)?$"),
            None => format!("{start}{one}[^/]*$"),
        }
    });
    Some(own.collect::<Vec<_>>().join("|"))
}

/// What finds alternatives in a part of a path: the file's name may be any of them.
fn any_of(exact: &[String]) -> String {
    let own = exact.join("|").replace("\\z", "(?:/|$)");
    format!("(?:{own})[^/]*(?:/|$)")
}

/// The alternatives of an expression, none of which goes on over a slash; nothing if one might.
fn exact(expression: &str) -> Option<Vec<String>> {
    let (flags, expression) = match expression.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", expression),
    };
    let own = within_names(expression)?;
    let alternatives = pattern::alternatives(&own).into_iter().map(|one| {
        let one = value::with_start(one, "/")?;
        Some(match (flags, one.strip_prefix('/')) {
            ("", _) => one,
            (flags, Some(rest)) => format!("/(?:{flags}{rest})"),
            (flags, None) => format!("(?:{flags}{one})"),
        })
    });
    alternatives.collect()
}

/// An expression whose dots and classes are no slashes.
fn within_names(expression: &str) -> Option<String> {
    let mut own = String::new();
    let mut rest = expression.chars();
    while let Some(char) = rest.next() {
        match char {
            '\\' => {
                let next = rest.next()?;
                if next.is_ascii_alphanumeric() && !"dwsbz".contains(next) {
                    return None;
                }
                own.extend(['\\', next]);
            }
            '[' => own.push_str(&class(&mut rest)?),
            '.' => own.push_str("[^/]"),
            '$' => own.push_str("\\z"),
            '/' => return None,
            char => own.push(char),
        }
    }
    Some(own)
}

/// The rest of a class, without slashes.
fn class(rest: &mut std::str::Chars<'_>) -> Option<String> {
    let mut own = String::from("[");
    let mut text = String::new();
    let mut before = None;
    loop {
        let char = rest.next()?;
        match char {
            ']' if !matches!(&*text, "" | "^") => break,
            '[' | '/' => return None,
            '\\' => {
                let next = rest.next()?;
                if next.is_ascii_alphanumeric() && !"dws".contains(next) {
                    return None;
                }
                text.extend(['\\', next]);
                before = None;
                continue;
            }
            // What lies between other signs may be a slash.
            '-' if !before.is_none_or(|it: char| it.is_ascii_alphanumeric()) => return None,
            char => text.push(char),
        }
        before = Some(char);
    }
    own.push_str(&text);
    own.push_str(if text.starts_with('^') { "/]" } else { "]" });
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_opened_are_no_folders() {
        let is_in = |own: &str, path: &str| pattern::is_in(own, path);
        for (own, opened, closed) in [
            (exactly("*.txt"), &["/a/b.txt", "/.txt"][..], &["/a.txt/b", "/a.txt/", "/a.txt2"][..]),
            (
                exactly_found(r"\.(css|js)").unwrap(),
                &["/a/b.css", "/b.js2"],
                &["/a.css/b", "/a.css/", "/a"],
            ),
            (exactly_found(r"^a.$|b$").unwrap(), &["/x/ab", "/xb"], &["/a/", "/a/c", "/xa."]),
        ] {
            assert_eq!(opened.iter().find(|path| !is_in(&own, path)), None, "{own}");
            assert_eq!(closed.iter().find(|path| is_in(&own, path)), None, "{own}");
        }
        assert_eq!(exactly_found(r"^(?!a).*\.php$"), None);
    }

    #[test]
    fn names_are_the_last_part_of_a_path() {
        for (expression, found, not_found) in [
            (r"^[^.]+\.(sql|txt)$", &["/a.txt", "/x.y/a.sql", "/a/x.txt/b"][..], &["/a.b.txt"][..]),
            (r"^([^.]+|.*\.yml)$", &["/a", "/css/b.yml"], &["/a.css"]),
            (r"(?i)(\.ini|(?<!robots)\.txt)", &["/a.TXT", "/b.ini"], &["/robots.txt", "/a.php"]),
        ] {
            let names = of_expression(expression).unwrap().remove(0);
            let is_for = |path: &&&str| {
                pattern::is_in(&names.found, path)
                    && !names.but.iter().any(|own| pattern::is_in(own, path))
            };
            assert_eq!(found.iter().filter(is_for).count(), found.len(), "{names:?}");
            assert_eq!(not_found.iter().find(is_for), None, "{names:?}");
        }
    }
}
