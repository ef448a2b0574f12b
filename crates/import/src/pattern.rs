//! Regular expressions of other servers (PCRE, RE2) as those of `pattern` in a rule, or a reason
//! why they are none.

use regex_lite::{Regex, escape};

/// What the expressions of a rule do not have.
const UNKNOWN: [&str; 9] = ["(?=", "(?<=", "(?<!", "(?>", "(?|", "(?#", "\\K", "++", "*+"];

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

/// `(?!text)` behind the start of an expression, as two expressions: one that has to be found, and
/// one that must not.
pub(crate) fn without_lookahead_at_once(expression: &str) -> Option<(String, String)> {
    let (before, rest) = expression.split_once("(?!")?;
    let close = closing(rest)?;
    let (text, after) = (&rest[..close], &rest[close + 1..]);
    let is_one = |text: &str| alternatives(text).len() == 1;
    let (start, plain) = before.strip_suffix('(').map_or(("", before), |it| ("(", it));
    let is_start = matches!(plain, "^" | "^/" | "^/?" | "^\\/");
    // The group may have other alternatives, which begin otherwise.
    let is_whole = match start {
        "" => is_one(after),
        _ => closing(after).is_some_and(|end| is_one(&after[..end]) && is_one(&after[end + 1..])),
    };
    if is_start && is_whole && !text.is_empty() {
        return Some((format!("{before}{after}"), format!("{plain}(?:{text})")));
    }
    // There is one last dot.
    let is_last = before.ends_with("\\.") && ENDS_WITHOUT_DOT.contains(&after) && is_one(before);
    let is_dotless = !text.contains(['.', '[', '\\', '^']) && !text.is_empty();
    (is_last && is_dotless)
        .then(|| (format!("{before}{after}"), format!("{before}(?:{text})[^.]*$")))
}

/// What finds the rest of a text if no dot is in it.
const ENDS_WITHOUT_DOT: [&str; 6] =
    ["[^.]*$", "[^.]+$", "[^\\.]*$", "[^\\.]+$", "[^.]+?$", "[^\\.]+?$"];

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

/// The alternatives of an expression outside of its groups.
pub(crate) fn alternatives(expression: &str) -> Vec<&str> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0);
    let (mut is_escaped, mut in_class) = (false, false);
    for (at, char) in expression.char_indices() {
        match char {
            _ if is_escaped => {}
            // A bracket at the start of a class is one of its characters.
            ']' if in_class => in_class = expression[..at].ends_with(['[', '^']),
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth == 0 => {
                found.push(&expression[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    found.push(&expression[start..]);
    found
}

/// The texts with one of which all begins that an expression finds. One of them is empty if nothing
/// is known of that.
pub(crate) fn begins(expression: &str) -> Vec<String> {
    let (start, rest) = literal(expression);
    let group = rest.strip_prefix("(?:").or_else(|| rest.strip_prefix('('));
    let Some((group, after)) = group.and_then(|group| group.split_once(')')) else {
        return vec![start];
    };
    let alternatives: Vec<_> = group.split('|').map(literal).collect();
    let is_known = alternatives.iter().all(|(_, rest)| rest.is_empty());
    match is_known && !after.starts_with(['?', '*', '{']) {
        true => alternatives.iter().map(|(one, _)| format!("{start}{one}")).collect(),
        false => vec![start],
    }
}

/// The extensions with one of which all ends that an expression finds, in lower case and without
/// their dot; nothing if that is not known.
pub(crate) fn extensions(expression: &str) -> Option<Vec<String>> {
    let [only] = &alternatives(expression)[..] else { return None };
    let end = only.strip_suffix('$')?;
    let (_, last) = end.rsplit_once("\\.")?;
    let group = last.strip_suffix(')').and_then(|group| group.strip_prefix('('));
    let group = group.map(|group| group.strip_prefix("?:").unwrap_or(group));
    let mut found = Vec::new();
    for one in group.unwrap_or(last).split('|') {
        let one = one.to_ascii_lowercase();
        // `jpe?g` is both.
        let (long, short) = match one.split_once('?') {
            Some((before, after)) => {
                let mut short = before.to_owned();
                short.pop()?;
                (format!("{before}{after}"), Some(short + after))
            }
            None => (one, None),
        };
        found.extend([long].into_iter().chain(short));
    }
    let is_plain =
        |one: &String| !one.is_empty() && one.bytes().all(|it| it.is_ascii_alphanumeric());
    found.iter().all(is_plain).then_some(found)
}

/// The plain text that an expression begins with, and what follows.
fn literal(expression: &str) -> (String, &str) {
    let (mut text, mut rest) = (String::new(), expression);
    loop {
        let plain = rest.strip_prefix('\\').unwrap_or(rest);
        let is_escaped = plain.len() < rest.len();
        let Some(char) = plain.chars().next() else { return (text, rest) };
        let is_plain = match is_escaped {
            true => char.is_ascii_punctuation(),
            false => char.is_ascii_alphanumeric() || "/-_~ ".contains(char),
        };
        let after = &plain[char.len_utf8()..];
        if !is_plain || after.starts_with(['?', '*', '{']) {
            return (text, rest);
        }
        text.push(char);
        rest = after;
    }
}

/// Writes `(?!text)` at an end of the expression, or before `.*`, without the lookahead: the
/// alternatives of all texts that do not begin so.
fn without_lookahead(expression: &str) -> Result<String, String> {
    let Some((before, rest)) = expression.split_once("(?!") else { return Ok(expression.into()) };
    let problem = || "a lookahead is translated only at the end, as in `/\\.(?!well-known)`".into();
    let close = closing(rest).ok_or_else(problem)?;
    let (text, after) = (rest[..close].replace("\\-", "-"), &rest[close + 1..]);
    // Another text has to follow.
    let (is_some, after) = if after == "." { (true, "") } else { (false, after) };
    // What has to follow the text so that it counts: a slash or the end.
    let bounds = ["(/|$)", "(?:/|$)", "($|/)", "(?:$|/)", "(?:/.*)?$", "(/.*)?$"];
    let bounded = bounds.iter().find_map(|bound| text.strip_suffix(bound));
    let longer = ["/.+$", "/.+", "/."].iter().find_map(|more| text.strip_suffix(more));
    let longer = longer.map(|text| format!("{text}/"));
    let text = longer.as_deref().or(bounded).unwrap_or(&text);
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte));
    if text.is_empty() || !is_plain || !ends_there(after) {
        return Err(problem());
    }
    // Depth first from the last character, so that each step wraps the one after it.
    // What follows a script's name does not end it, as it would for `$` of a refusal.
    let last = if longer.is_some() { "\\z" } else { "" };
    let mut complement = if bounded.is_some() { "[^/]" } else { last }.to_owned();
    for char in text.chars().rev() {
        complement = match complement.is_empty() {
            true => format!("(?:\\z|[^{char}])"),
            false => format!("(?:\\z|[^{char}]|{char}{complement})"),
        };
    }
    if is_some && let Some(rest) = complement.strip_prefix("(?:\\z|") {
        complement = format!("(?:{rest}");
    }
    let after = without_lookahead(after)?;
    Ok(format!("{before}{complement}{after}"))
}

/// The expression without what it only looks at, ahead or behind: it is found in more texts.
pub(crate) fn without_assertions(expression: &str) -> Option<String> {
    const ASSERTIONS: [&str; 4] = ["(?!", "(?=", "(?<!", "(?<="];
    let mut rest = expression.to_owned();
    while let Some((at, start)) =
        ASSERTIONS.iter().find_map(|start| Some((rest.find(start)?, *start)))
    {
        let inner = &rest[at + start.len()..];
        let after = &inner[closing(inner)? + 1..];
        if rest[..at].ends_with('\\') || after.starts_with(['?', '*', '+', '{']) {
            return None;
        }
        rest = format!("{}{after}", &rest[..at]);
    }
    (rest != expression && !rest.is_empty()).then_some(rest)
}

/// Two expressions for one that begins with plain text and says what does not follow it: the second
/// one must not be found.
pub(crate) fn split_assertion(expression: &str) -> Option<(String, String)> {
    let (start, rest) = expression.strip_prefix('^')?.split_once("(?!")?;
    let close = closing(rest)?;
    let is_plain = start.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_-".contains(&byte));
    let (inner, after) = (&rest[..close], &rest[close + 1..]);
    let is_fixed = is_plain && !after.starts_with(['?', '*', '+', '{']);
    is_fixed.then(|| (format!("^{start}{after}"), format!("^{start}(?:{inner})")))
}

/// Where the group ends in which a text begins.
pub(crate) fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut is_escaped) = (0, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => {}
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    None
}

/// Whether nothing that is found has to stand behind a place in an expression: then it does not
/// matter how much before it was looked at.
fn ends_there(rest: &str) -> bool {
    let rest = rest.strip_prefix(".*").unwrap_or(rest);
    let rest = rest.strip_prefix('$').unwrap_or(rest);
    match rest.as_bytes().first() {
        None => true,
        Some(b')') => ends_there(&rest[1..]),
        // The other alternatives of its group, or of the whole.
        Some(b'|') => closing(rest).is_none_or(|close| ends_there(&rest[close + 1..])),
        Some(_) => false,
    }
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
    fn what_is_only_looked_at_can_be_left_out() {
        for (expression, expected) in [
            (r"/up/.*(?<!\.pdf)$", Some("/up/.*$")),
            (r"/(a|(?<!b/)c(?!\w+))", Some("/(a|c)")),
            (r"(?!a)?b", None),
            (r"a", None),
        ] {
            assert_eq!(without_assertions(expression).as_deref(), expected, "{expression}");
        }
        let split = split_assertion(r"^/(?!index|a/.+)x").unwrap();
        assert_eq!(split, ("^/x".to_owned(), "^/(?:index|a/.+)".to_owned()));
        assert_eq!(split_assertion(r"^/.*(?!index)"), None);
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
    fn the_extensions_of_an_expression_are_known_or_not() {
        for (expression, expected) in [
            (r"\.php$", Some(&["php"][..])),
            (r"(?i)^/a/.*\.(CSS|jpe?g)$", Some(&["css", "jpeg", "jpg"])),
            (r"\.(?:a|b)$", Some(&["a", "b"])),
            (r"\.php", None),
            (r"\.(php|b.)$", None),
            (r"\.a$|^/b", None),
            (r"\.(a|b)?$", None),
            (r"^/a$", None),
            (r"\.?$", None),
            (r"(x|\.a)$", None),
        ] {
            let found = extensions(expression);
            let found: Option<Vec<&str>> =
                found.as_ref().map(|own| own.iter().map(String::as_str).collect());
            assert_eq!(found.as_deref(), expected, "{expression}");
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
    fn a_lookahead_at_a_known_place_is_another_expression() {
        for (expression, expected) in [
            (r"^(?!a|b/)(x+)$", Some((r"^(x+)$", "^(?:a|b/)"))),
            (r"^/((?!public/).*)$", Some((r"^/(.*)$", "^/(?:public/)"))),
            (r"^((?!a)b|c)$", None),
            (r"^(?!a)b|c", None),
            (r"/(?!a)b", None),
            (r"x|\.(?!css)[^.]*$", None),
            (r"\.(?!css|js)[^.]*$", Some((r"\.[^.]*$", r"\.(?:css|js)[^.]*$"))),
            (
                r"/a/.+\.(?!(html?|js)$)[^\.]+?$",
                Some((r"/a/.+\.[^\.]+?$", r"/a/.+\.(?:(html?|js)$)[^.]*$")),
            ),
            (r"\.(?!a\.b)[^.]*$", None),
            (r"\.(?!css).*$", None),
        ] {
            let found = without_lookahead_at_once(expression);
            let found = found.as_ref().map(|(one, other)| (&**one, &**other));
            assert_eq!(found, expected, "{expression}");
        }
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
