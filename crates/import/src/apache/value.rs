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
