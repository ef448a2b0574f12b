//! What is left of an expression behind the text that a path begins with: its derivative by that
//! text.

use std::collections::BTreeSet;

use regex_lite::Regex;

use crate::pattern::alternatives;

/// Most that is left at once: with ten times as much, expressions of strangers that repeat what
/// repeats would take minutes.
const MOST: usize = 24;

/// Longest expression of it, for the same reason.
const LONGEST: usize = 2000;

/// The expressions one of which is found in the rest of a path that begins with `text` if this one
/// is found in the whole path. Its own beginning may lie in that rest, too. An empty one is found
/// in all; none is found in nothing. `None` if that is not known.
pub(crate) fn behind(expression: &str, text: &str) -> Option<BTreeSet<String>> {
    let (flag, plain) = match expression.strip_prefix("(?i)") {
        Some(plain) => ("(?i)", plain),
        None => ("", expression),
    };
    let plain = within_paths(plain);
    Regex::new(&plain).ok()?;
    for own in alternatives(&plain) {
        if is_done(own.strip_prefix('^').unwrap_or(own))? {
            return Some(BTreeSet::from([String::new()]));
        }
    }
    let mut left: BTreeSet<String> = BTreeSet::new();
    for (at, char) in text.char_indices() {
        let mut next = BTreeSet::new();
        for own in alternatives(&plain) {
            match own.strip_prefix('^') {
                Some(_) if at > 0 => {}
                anchored => step(anchored.unwrap_or(own), char, flag, &mut next)?,
            }
        }
        for own in &left {
            step(own, char, flag, &mut next)?;
        }
        if next.len() > MOST || next.iter().any(|own| own.len() > LONGEST) {
            return None;
        }
        if next.iter().any(|own| is_done(own) == Some(true)) {
            return Some(BTreeSet::from([String::new()]));
        }
        left = next;
    }
    let mut unanchored = alternatives(&plain);
    unanchored.retain(|own| !own.starts_with('^'));
    left.retain(|own| !unanchored.contains(&&**own));
    // What follows begins with a slash.
    for own in left.clone() {
        let mut next = BTreeSet::new();
        step(&own, '/', flag, &mut next)?;
        if next.is_empty() {
            left.remove(&own);
        }
    }
    let left = left.iter().map(|own| format!("{flag}^{own}"));
    Some(left.chain(unanchored.iter().map(|own| format!("{flag}{own}"))).collect())
}

/// The same for paths, all of which begin with a slash.
pub(crate) fn within_paths(expression: &str) -> String {
    expression.replace("(?:^|/)", "/").replace("(^|/)", "/")
}

/// Adds what is left of one alternative behind a character.
fn step(own: &str, char: char, flag: &str, left: &mut BTreeSet<String>) -> Option<()> {
    let Some(Piece { atom, least, more, rest }) = piece(own)? else { return Some(()) };
    let mut first = BTreeSet::new();
    match group(atom) {
        Some(inner) => {
            for one in alternatives(inner) {
                step(one, char, flag, &mut first)?;
            }
        }
        None if atom == "$" => {}
        None if atom == "^" => return None,
        None => {
            if Regex::new(&format!("{flag}^{atom}$")).ok()?.is_match(char.encode_utf8(&mut [0; 4]))
            {
                first.insert(String::new());
            }
        }
    }
    for first in first {
        let first = if alternatives(&first).len() > 1 { format!("(?:{first})") } else { first };
        left.insert(format!("{first}{more}{rest}"));
    }
    if least == 0 || is_done(atom)? {
        step(rest, char, flag, left)?;
    }
    Some(())
}

/// Whether one alternative is found without another character.
fn is_done(own: &str) -> Option<bool> {
    let Some(Piece { atom, least, rest, .. }) = piece(own)? else { return Some(true) };
    let is_optional = least == 0
        || match group(atom) {
            Some(inner) => {
                let inner: Option<Vec<bool>> =
                    alternatives(inner).into_iter().map(is_done).collect();
                inner?.contains(&true)
            }
            None => false,
        };
    Some(is_optional && is_done(rest)?)
}

/// The first part of an alternative.
struct Piece<'a> {
    atom: &'a str,
    /// How often it has to be there.
    least: usize,
    /// What it may be once more.
    more: String,
    rest: &'a str,
}

fn piece(own: &str) -> Option<Option<Piece<'_>>> {
    let Some(first) = own.chars().next() else { return Some(None) };
    let end = match first {
        '\\' => {
            let next = own[1..].chars().next()?;
            // Others are more than one character, or none.
            let is_one = next.is_ascii_punctuation() || "dDwWsS".contains(next);
            is_one.then_some(1 + next.len_utf8())?
        }
        '[' | '(' => closed(own)?,
        _ => first.len_utf8(),
    };
    let (atom, rest) = own.split_at(end);
    let is_plain = ["(?:", "(?<", "(?P<"].iter().any(|start| atom.starts_with(start));
    if atom.starts_with("(?") && !is_plain {
        return None;
    }
    let (least, more, rest) = match rest.chars().next() {
        Some('?') => (0, String::new(), &rest[1..]),
        Some('*') => (0, format!("{atom}*"), &rest[1..]),
        Some('+') => (1, format!("{atom}*"), &rest[1..]),
        Some('{') => {
            let (count, rest) = rest[1..].split_once('}')?;
            let (least, most) = count.split_once(',').unwrap_or((count, count));
            let least: usize = least.parse().ok()?;
            let fewer = least.saturating_sub(1);
            let more = match most {
                "0" => return None,
                "1" => String::new(),
                "" => format!("{atom}{{{fewer},}}"),
                most => format!("{atom}{{{fewer},{}}}", most.parse::<usize>().ok()? - 1),
            };
            (least, more, rest)
        }
        _ => (1, String::new(), rest),
    };
    // A lazy repetition finds the same.
    let is_repeated = least != 1 || !more.is_empty();
    let rest = if is_repeated { rest.strip_prefix('?').unwrap_or(rest) } else { rest };
    Some(Some(Piece { atom, least, more, rest }))
}

/// Where a class or a group ends that a text begins with.
fn closed(own: &str) -> Option<usize> {
    let (mut depth, mut class, mut is_escaped) = (0_usize, None, false);
    for (at, char) in own.char_indices() {
        match (char, class) {
            _ if is_escaped => {}
            // A bracket at the start of a class is one of its characters.
            (']', Some(start)) if at > start + 1 && &own[start + 1..at] != "^" => class = None,
            (_, Some(_)) => {}
            ('[', None) => class = Some(at),
            ('(', None) => depth += 1,
            (')', None) => depth -= 1,
            _ => {}
        }
        is_escaped = char == '\\' && !is_escaped;
        if depth == 0 && class.is_none() && !is_escaped {
            return Some(at + char.len_utf8());
        }
    }
    None
}

/// What stands in a group.
fn group(atom: &str) -> Option<&str> {
    let inner = atom.strip_prefix('(')?.strip_suffix(')')?;
    match inner.strip_prefix("?:") {
        Some(inner) => Some(inner),
        None => {
            Some(inner.split_once('>').filter(|_| inner.starts_with('?')).map_or(inner, |it| it.1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_found_behind_a_text_as_the_whole_is_with_it() {
        let expressions = [
            r"^/(?:\.git|vendor|vstats/x)",
            r"/(system|LICENSE|readme.html)",
            r"^.+\.php(?:/|$)",
            r"(?i)\.(css|js)$",
            r"^/a*b?/[^/]+/c{2,3}$",
            r"stats/(a|b)+",
            r"(^|/)\.",
            r"s/?$|^/v.*x",
            r"^/(?:README|LICENSE[^.]*)(?:\.txt)*(?:/|$)",
            r"^/([^.]+)/?(?:/|$)",
            r"[/s]$",
            r"^/$",
            r"^/VSTATS/?",
            r"^(.*?)/x",
            r"^/(v(s|t)*)+a",
            r"/vstats",
            r"^/v{1}stats/(?P<own>x)",
            r"^/(v|a){1,2}/",
            r"^/?",
            r"x*",
        ];
        let rests = [
            "/",
            "/x",
            "/a.php",
            "/a.php/b",
            "/a.css",
            "/a/ccc",
            "/vendor",
            "/.git/a",
            "/system",
            "/LICENSE.txt",
            "/readme-html",
            "/b",
            "/x/y.TXT",
            "/ab",
            "/a",
        ];
        for expression in expressions {
            for text in ["/vstats", "/a/s", "/vv", "/s"] {
                let left =
                    behind(expression, text).unwrap_or_else(|| panic!("{expression} {text}"));
                for rest in rests {
                    let whole = Regex::new(expression).unwrap().is_match(&format!("{text}{rest}"));
                    let own = left.iter().any(|own| Regex::new(own).unwrap().is_match(rest));
                    assert_eq!(own, whole, "{expression} in {text}{rest}: {left:?}");
                }
            }
        }
    }

    #[test]
    fn undecidable_conditions_are_unknown() {
        for expression in [r"\bvs", r"(^/v|x)y", r"(a*)*(", r"\x41", r"(?i:v)s", r"^/v{0}"] {
            assert_eq!(behind(expression, "/vstats"), None, "{expression}");
        }
    }
}
