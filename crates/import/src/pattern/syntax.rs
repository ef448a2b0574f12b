//! The parts of a regular expression, as far as its text shows them.

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
pub(crate) fn literal(expression: &str) -> (String, &str) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
