//! Durations and shell patterns as Apache writes them.

use regex_lite::escape;

/// Seconds of Apache's `access plus 1 month 2 days`, and of its short form `A2592000`.
pub(super) fn apache_time(text: &str) -> Option<u64> {
    if let Some(seconds) = text.strip_prefix('A') {
        return seconds.parse().ok();
    }
    let mut words = text.split_whitespace();
    if !matches!(words.next()?, "access" | "now") {
        return None;
    }
    let mut seconds = 0u64;
    let mut words = words.filter(|word| *word != "plus");
    while let Some(number) = words.next() {
        let unit = match words.next()?.trim_end_matches('s') {
            "year" => 365 * 86_400,
            "month" => 30 * 86_400,
            "week" => 7 * 86_400,
            "day" => 86_400,
            "hour" => 3600,
            "minute" => 60,
            "second" => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
    }
    Some(seconds)
}

/// A shell pattern as an expression without anchors. `*` does not cross slashes.
pub(super) fn of_shell(pattern: &str) -> String {
    let mut expression = String::new();
    for char in pattern.chars() {
        match char {
            '*' => expression.push_str("[^/]*"),
            '?' => expression.push_str("[^/]"),
            other => expression.push_str(&escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    expression
}

/// An expression with this in place of each `^` that stands for the start of what is searched,
/// which never begins with a slash. `None` if something else says where it starts.
pub(super) fn with_start(expression: &str, start: &str) -> Option<String> {
    let mut whole = String::new();
    let (mut is_escaped, mut in_class) = (false, false);
    let mut rest = expression.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            'A' | 'G' if is_escaped => return None,
            _ if is_escaped => {}
            // A bracket at the start of a class is one of its characters, and so is `^`.
            '[' if !in_class => {
                in_class = true;
                whole.push(char);
                whole.extend(rest.next_if_eq(&'^'));
                whole.extend(rest.next_if_eq(&']'));
                continue;
            }
            '[' if rest.peek() == Some(&':') => {
                // `[:alpha:]` ends with a bracket that does not end the class.
                whole.push(char);
                whole.extend(rest.by_ref().take_while(|char| *char != ']'));
                whole.push(']');
                continue;
            }
            ']' => in_class = false,
            '^' if !in_class => {
                whole.push_str(start);
                if rest.peek().is_some_and(|next| "*+?{".contains(*next)) {
                    return None;
                }
                let mut behind = rest.clone();
                if behind.next() == Some('/') && behind.next() == Some('?') {
                    rest = behind;
                }
                continue;
            }
            _ => {}
        }
        is_escaped = char == '\\' && !is_escaped;
        whole.push(char);
    }
    Some(whole)
}

/// The status that a redirect names.
pub(super) fn redirect_status(word: &str) -> Option<u16> {
    match word {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_is_replaced() {
        for (expression, expected) in [
            ("^a|^b", Some("^/x/a|^/x/b")),
            ("^(a)|(^b)", Some("^/x/(a)|(^/x/b)")),
            ("(^|/)a", Some("(^/x/|/)a")),
            (r"^[^.]+\^[]^][[:^alpha:]^]", Some(r"^/x/[^.]+\^[]^][[:^alpha:]^]")),
            (r"[^]a]^", Some(r"[^]a]^/x/")),
            (r"\\^", Some(r"\\^/x/")),
            ("^/?a[^/?]", Some("^/x/a[^/?]")),
            ("a", Some("a")),
            ("^?a", None),
            (r"\Aa", None),
        ] {
            assert_eq!(with_start(expression, "^/x/").as_deref(), expected, "{expression}");
        }
    }

    #[test]
    fn durations_are_known() {
        for (text, expected) in [
            ("access plus 1 month", Some(2_592_000)),
            ("access 1 year", Some(31_536_000)),
            ("now plus 1 week 2 days", Some(777_600)),
            ("A60", Some(60)),
            ("modification plus 1 day", None),
        ] {
            assert_eq!(apache_time(text), expected, "{text}");
        }
    }
}
