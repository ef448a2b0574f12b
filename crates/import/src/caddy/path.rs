//! Paths of Caddy's matchers: without regard to case, with `*`.

use crate::model::Scope;
use crate::{pattern, validity};

/// A path as the scope of a refusal: never for less.
pub(super) fn refused(path: &str) -> Scope {
    if is_all(path) {
        return Scope::default();
    }
    // Caddy compares a path that ends with a slash as it is; below it there may be its index file.
    let plain = path.trim_end_matches('*');
    if path.starts_with('/') && path.len() - plain.len() < 2 && validity::path(path).is_ok() {
        let is_plain = !plain.contains(['%', '{', '?', '[', '\\']);
        match is_plain {
            true if plain.len() > 1 && plain.ends_with('/') => {
                return Scope::path(format!("{plain}*"));
            }
            true if plain.len() > 1 => return Scope::path(path),
            _ => {}
        }
    }
    match expression(path) {
        Some(expression) => Scope::pattern(pattern::refusing(&format!("(?i){expression}"))),
        None => Scope::default(),
    }
}

/// Whether it is every path.
pub(super) fn is_all(path: &str) -> bool {
    matches!(path, "*" | "/*")
}

/// An expression for all of these paths, if each of them is known.
pub(super) fn any(paths: &[String]) -> Option<String> {
    let parts: Option<Vec<String>> = paths.iter().map(|path| expression(path)).collect();
    Some(format!("(?i){}", parts?.join("|")))
}

/// Whether all of them end with a name, so that no folder is meant.
pub(super) fn are_names(paths: &[String]) -> bool {
    paths.iter().all(|path| !path.ends_with(['*', '/']))
}

/// Whether all of them end with an extension that is none of a script's.
pub(super) fn are_files(paths: &[String]) -> bool {
    let is_file = |path: &String| {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is_plain = extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_plain && !extension.is_empty() && !extension.to_ascii_lowercase().starts_with("ph")
    };
    paths.iter().all(is_file)
}

/// A path as an expression. With `*` at one or both of its ends, all else is compared as it is;
/// otherwise `*` and `?` are anything but a slash.
fn expression(path: &str) -> Option<String> {
    // What is percent-encoded is compared in another way, and a placeholder may be anything.
    if path.is_empty() || path.contains(['%', '{']) {
        return None;
    }
    let stars = path.matches('*').count();
    let (begins, ends) = (path.starts_with('*'), path.ends_with('*'));
    let inner = path.trim_matches('*');
    let is_plain = match stars {
        0 => !path.contains(['?', '[', '\\']),
        1 => begins || ends,
        2 => begins && ends,
        _ => false,
    };
    if is_plain {
        let (begin, end) = (if begins { "" } else { "^" }, if ends { "" } else { "$" });
        return Some(format!("{begin}{}{end}", regex_lite::escape(inner)));
    }
    let mut glob = "^".to_owned();
    let mut rest = path.chars();
    while let Some(char) = rest.next() {
        match char {
            '*' => glob.push_str("[^/]*"),
            '?' => glob.push_str("[^/]"),
            '\\' => glob.push_str(&regex_lite::escape(rest.next()?.encode_utf8(&mut [0; 4]))),
            '[' => return None,
            other => glob.push_str(&regex_lite::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    Some(glob + "$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_for_all_that_caddy_means() {
        for (path, expected) in [
            ("/a", Scope::path("/a")),
            ("/a/", Scope::path("/a/*")),
            ("/a/*", Scope::path("/a/*")),
            ("/a*", Scope::path("/a*")),
            ("*.php", Scope::pattern("(?i)\\.php(?:/|$)")),
            ("*/x/*", Scope::pattern("(?i)/x/")),
            ("/a/*/b", Scope::pattern("(?i)^/a/[^/]*/b(?:/|$)")),
            ("/a?c", Scope::pattern("(?i)^/a[^/]c(?:/|$)")),
            ("/(a|b)\\.*", Scope::pattern("(?i)^/\\(a\\|b\\)\\\\\\.")),
            ("/a[bc]/*/d", Scope::default()),
            ("/*", Scope::default()),
            ("/a%2fb", Scope::default()),
            ("{x}", Scope::default()),
            ("/", Scope::pattern("(?i)^/(?:/|$)")),
        ] {
            assert_eq!(refused(path), expected, "{path}");
        }
    }
}
