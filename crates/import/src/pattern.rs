//! Regular expressions of other servers (PCRE, RE2) as those of `pattern` in a rule, or a reason
//! why they are none.

mod lookaround;
mod syntax;

use regex_lite::{Regex, escape};

pub(crate) use lookaround::{split_assertion, without_assertions, without_lookahead_at_once};
pub(crate) use syntax::{alternatives, begins, closing, extensions, literal};

use lookaround::without_lookahead;

/// What the expressions of a rule do not have.
const UNKNOWN: [&str; 9] = ["(?=", "(?<=", "(?<!", "(?>", "(?|", "(?#", "\\K", "++", "*+"];

/// Paths with more behind a script's name.
pub(crate) const BEHIND: &str = "\\.php/";

/// Expressions that are found in all paths.
pub(crate) const ANY: [&str; 7] = ["^", ".*", "^.*$", "^(.*)$", "^/", "^/(.*)$", "^(.*)"];

/// The same expression for a rule.
///
/// # Errors
/// Fails with a reason if a rule cannot say it, or would mean something else by it.
pub(crate) fn translate(expression: &str, ignores_case: bool) -> Result<String, String> {
    if expression.is_empty() {
        return Err("an empty expression".into());
    }
    let expression = without_lookahead(&expression.replace("\\/", "/").replace("\\ ", " "))?;
    let expression = with_plain_braces(&expression);
    if let Some(unknown) = UNKNOWN.iter().find(|unknown| expression.contains(**unknown)) {
        return Err(format!("`{unknown}` is not in the expressions of rules"));
    }
    if !expression.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return Err("only ASCII is translated in expressions".into());
    }
    if has_unusual_class(&expression) {
        return Err("a class with `[`, `&&`, `--` or `~~` means something else in rules".into());
    }
    let expression = match ignores_case {
        true => format!("(?i){expression}"),
        false => expression,
    };
    match Regex::new(&expression) {
        Ok(_) => Ok(expression),
        Err(error) => Err(format!("no expression of rules: {}", error.to_string().trim())),
    }
}

/// An expression for exactly this path.
pub(crate) fn exact(path: &str) -> String {
    format!("^{}$", escape(path))
}

/// The expression of a refusal, also for what follows the name of a script: `\.php$` would not be
/// found in `/a.php/b`, which runs `/a.php`.
pub(crate) fn refusing(expression: &str) -> String {
    let mut wide = String::new();
    let (mut is_escaped, mut in_class) = (false, false);
    for (at, char) in expression.char_indices() {
        match char {
            _ if is_escaped => {}
            '[' => in_class = true,
            ']' => in_class = false,
            // It is for these already.
            '$' if wide.ends_with("/|") || expression[at..].starts_with("$|/") => {}
            // What must not be followed by a slash.
            '$' if expression[at..].starts_with("$|[^/]") => {}
            // Before a slash it would end in each folder.
            '$' if goes_on(&expression[..at]) => {}
            '$' if !in_class => {
                wide.push_str("(?:/|$)");
                continue;
            }
            _ => {}
        }
        is_escaped = char == '\\' && !is_escaped;
        wide.push(char);
    }
    wide
}

/// Whether an expression ends with a repeated class that slashes are in, too: `[^.]+`.
fn goes_on(expression: &str) -> bool {
    let expression = expression.trim_end_matches([')', '?']);
    let class = expression.strip_suffix(['+', '*']).and_then(|it| it.strip_suffix(']'));
    let class = class.and_then(|it| it.rsplit_once('[')).and_then(|(_, it)| it.strip_prefix('^'));
    class.is_some_and(|class| !class.is_empty() && !class.contains(['/', '[', ']']))
}

/// `(?<!text)more`, without it, and the only whole texts for which that makes a difference.
pub(crate) fn without_lookbehind(expression: &str) -> Option<(String, Vec<String>)> {
    let (before, rest) = expression.split_once("(?<!")?;
    let (text, after) = rest.split_once(')')?;
    let (more, _) = literal(after);
    let is_plain = text
        .split('|')
        .all(|one| !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    // Where the rest is found without this part, it makes no difference.
    let behind = after.len() - literal(after).1.len();
    let other = translate(&format!("{before}\\x00{}", &after[behind..]), false).ok()?;
    let wholes: Vec<String> = text.split('|').map(|one| format!("{one}{more}")).collect();
    let is_known = is_plain && !wholes.iter().any(|whole| is_in(&other, whole));
    is_known.then(|| (format!("{before}{after}"), wholes))
}

/// Whether an expression is found in a path; `false` for an invalid expression.
pub(crate) fn is_in(expression: &str, path: &str) -> bool {
    Regex::new(expression).is_ok_and(|regex| regex.is_match(path))
}

/// How many groups an expression has.
pub(crate) fn groups(expression: &str) -> usize {
    Regex::new(expression).map_or(0, |regex| regex.captures_len() - 1)
}

/// Whether a target names only groups that the expression has.
pub(crate) fn has_groups(expression: Option<&str>, target: &str) -> bool {
    let groups = expression.map_or(0, groups);
    let mut rest = target.chars();
    while let Some(char) = rest.next() {
        if char != '$' {
            continue;
        }
        match rest.next().and_then(|next| next.to_digit(10)) {
            Some(group) if group as usize <= groups => {}
            _ => return false,
        }
    }
    true
}

/// An expression in which braces that are no numbers of repetitions stand for themselves.
fn with_plain_braces(expression: &str) -> String {
    let is_count = |text: &str| {
        let count = text.split_once('}').map(|(count, _)| count).unwrap_or_default();
        count.starts_with(|first: char| first.is_ascii_digit())
            && count.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
    };
    let mut plain = String::new();
    let (mut is_escaped, mut in_class, mut in_count) = (false, false, false);
    for (at, char) in expression.char_indices() {
        match char {
            _ if is_escaped => {}
            '[' => in_class = true,
            ']' => in_class = false,
            '{' if !in_class && is_count(&expression[at + 1..]) => in_count = true,
            '}' if in_count => in_count = false,
            '{' | '}' if !in_class => plain.push('\\'),
            _ => {}
        }
        plain.push(char);
        is_escaped = char == '\\' && !is_escaped;
    }
    plain
}

fn has_unusual_class(expression: &str) -> bool {
    let bytes = expression.as_bytes();
    let (mut at, mut in_class) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' if in_class && bytes.get(at + 1) != Some(&b':') => return true,
            b'[' => in_class = true,
            // A bracket at the start of a class is one of its characters.
            b']' if in_class && matches!(bytes[at - 1], b'[' | b'^') => {}
            b']' => in_class = false,
            b'&' | b'~' | b'-' if in_class && bytes.get(at + 1) == Some(&bytes[at]) => return true,
            _ => {}
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_the_same_or_are_refused() {
        for (given, expected) in [
            (r"\.php$", Ok(r"\.php$")),
            (r"^\/a\/b", Ok("^/a/b")),
            (r"a(?=b)", Err(())),
            (r"(a)\1", Err(())),
            (r"[[:alpha:]]", Ok("[[:alpha:]]")),
            (r"[a&&b]", Err(())),
            (r"a++", Err(())),
        ] {
            assert_eq!(
                translate(given, false).map_err(|_| ()).as_deref(),
                expected.as_ref().map(|it| *it).map_err(|_| &()),
                "{given}"
            );
        }
        assert_eq!(translate("a", true).as_deref(), Ok("(?i)a"));
        assert_eq!(translate("{{|a{2,}|{%", false).as_deref(), Ok(r"\{\{|a{2,}|\{%"));
    }

    #[test]
    fn a_lookahead_ends_where_its_alternative_does() {
        for (expression, found, not_found) in [
            (
                r"(^\.|/\.)(?!well-known(/|$))",
                &["/.git", "/.well", "/.well-known-x", "/.wel/x", "/.well-known/.git"][..],
                &["/.well-known", "/.well-known/a", "/a.b"][..],
            ),
            (
                r"/\.(?!well-known/.+$)",
                &["/.git", "/.well-known", "/.well-known/"],
                &["/.well-known/a", "/a"],
            ),
            (
                r"/(\.(?!well-known)|composer\.(json|lock)$)",
                &["/.git", "/a/composer.lock", "/.w"],
                &["/.well-known", "/composer.lock/a", "/a"],
            ),
            (
                r"^/(\.(?!well-known).*|Root|web\.config)$|~$",
                &["/.git", "/.", "/Root", "/x~"],
                &["/.well-known/a", "/Roots", "/a/.git"],
            ),
        ] {
            let pattern = translate(expression, false).unwrap();
            for path in found {
                assert!(is_in(&pattern, path), "{path} {pattern}");
            }
            for path in not_found {
                assert!(!is_in(&pattern, path), "{path} {pattern}");
            }
        }
        assert!(translate(r"^/(?!a)b", false).is_err());
        assert!(translate(r"/(\.(?!a)|b)c$", false).is_err());
    }

    #[test]
    fn a_lookahead_becomes_alternatives() {
        let pattern = translate(r"/\.(?!well-known).*", false).unwrap();
        for (path, is_found) in [
            ("/.git", true),
            ("/.w", true),
            ("/.well", true),
            ("/.", true),
            ("/a/.env", true),
            ("/.well-known", false),
            ("/.well-known/a", false),
            ("/a.b", false),
        ] {
            assert_eq!(is_in(&pattern, path), is_found, "{path} {pattern}");
        }
    }

    #[test]
    fn a_refusal_also_holds_before_path_info() {
        let pattern = refusing(r"^/uploads/.*\.php$");
        assert!(is_in(&pattern, "/uploads/a.php/b"));
        assert!(!is_in(&pattern, "/uploads/a.phpx"));
        assert_eq!(refusing(r"\.php(/|$)"), r"\.php(/|$)");
        assert_eq!(refusing(r"\$a[$]"), r"\$a[$]");
        let pattern = refusing(r"\.php$|\.bak$");
        assert!(is_in(&pattern, "/a.php/b"), "{pattern}");
        assert_eq!(refusing(r"a($|/)"), r"a($|/)");
        let pattern = refusing(&translate(r"/\.(?!well-known\/)", false).unwrap());
        assert!(is_in(&pattern, "/.git/a") && is_in(&pattern, "/.well-known"), "{pattern}");
        assert!(!is_in(&pattern, "/.well-known/a"), "{pattern}");
        assert_eq!(refusing(r"^/(\.?[^\.]+)$"), r"^/(\.?[^\.]+)$");
        assert_eq!(refusing(r"^/[^/]+$"), r"^/[^/]+(?:/|$)");
    }

    #[test]
    fn a_lookbehind_makes_a_difference_for_whole_texts() {
        for (expression, expected) in [
            (r"((\.ini|(?<!robots)\.txt))", Some((r"((\.ini|\.txt))", "robots.txt"))),
            (r"s|(?<!robots)\.txt", None),
            (r"(?<!a|b)\.txt", Some((r"\.txt", "a.txt b.txt"))),
        ] {
            let found = without_lookbehind(expression);
            let found = found.map(|(one, others)| (one, others.join(" ")));
            let found = found.as_ref().map(|(one, others)| (&**one, &**others));
            assert_eq!(found, expected, "{expression}");
        }
    }
}
