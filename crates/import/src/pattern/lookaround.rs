//! What an expression only looks at, ahead or behind: rules do not have that, so it is said
//! otherwise.

use super::syntax::{alternatives, closing};

/// Writes `(?!text)` at an end of the expression, or before `.*`, without the lookahead: the
/// alternatives of all texts that do not begin so.
pub(super) fn without_lookahead(expression: &str) -> Result<String, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
