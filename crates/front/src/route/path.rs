//! Decodes and checks the path of a request target.

/// Why a path cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is malformed, or it leaves the root.
    Malformed,
    /// It is, or lies in, a hidden file or directory.
    Hidden,
}

/// Extensions under which PHP source lives.
const SOURCE: [&[u8]; 10] =
    [b"php", b"phar", b"phtml", b"phps", b"php3", b"php4", b"php5", b"php6", b"php7", b"php8"];

/// Extensions of source that other scripts include. As a part within a name they are common in
/// files that are no source (`button.module.css`), so that only the last one counts.
const INCLUDED: [&[u8]; 3] = [b"inc", b"module", b"pht"];

/// Endings of backup copies.
const BACKUPS: [&[u8]; 6] = [b"bak", b"dist", b"old", b"orig", b"save", b"swp"];

/// The decoded path, with `.`, `..` and double slashes resolved. It starts with a slash, and ends
/// with one exactly if a directory was asked for.
///
/// Decoding comes first and happens once, so `%2e%2e%2f` is as powerless as `../`, and `%252e` is a
/// name.
pub(super) fn resolved(encoded: &[u8]) -> Result<Vec<u8>, Unusable> {
    resolved_plain(decode(encoded)?)
}

/// As [`resolved`], for a path that is decoded already.
pub(super) fn resolved_plain(mut path: Vec<u8>) -> Result<Vec<u8>, Unusable> {
    if path.first() != Some(&b'/') {
        return Err(Unusable::Malformed);
    }
    if has_segment_with(&path, |first| matches!(first, b'/' | b'.')) {
        resolve(&mut path)?;
    }
    Ok(path)
}

fn decode(encoded: &[u8]) -> Result<Vec<u8>, Unusable> {
    let mut path = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let (&[high, low], after) =
            rest[at + 1..].split_first_chunk().ok_or(Unusable::Malformed)?;
        let digit = |byte| char::from(byte).to_digit(16).ok_or(Unusable::Malformed);
        path.extend_from_slice(&rest[..at]);
        path.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = after;
    }
    path.extend_from_slice(rest);
    if path.iter().any(u8::is_ascii_control) { Err(Unusable::Malformed) } else { Ok(path) }
}

/// Whether an encoded path has a segment `..`, decoded as a whole: `%2F` ends a segment, too.
pub(super) fn climbs(encoded: &[u8]) -> bool {
    decode(encoded).is_ok_and(|path| path.split(|byte| *byte == b'/').any(|part| part == b".."))
}

/// Removes empty and dot segments in place; the result is never longer than what was read.
fn resolve(path: &mut Vec<u8>) -> Result<(), Unusable> {
    let mut done = 0;
    let mut from = 0;
    // Invariant: path[..done] is resolved and empty or without a slash at its end; path[from] is a
    // slash.
    loop {
        let start = from + 1;
        let end = memchr::memchr(b'/', &path[start..]).map_or(path.len(), |at| start + at);
        let last = end == path.len();
        match &path[start..end] {
            b"" | b"." => {}
            b".." => {
                done = memchr::memrchr(b'/', &path[..done]).ok_or(Unusable::Malformed)?;
            }
            _ => {
                path.copy_within(from..end, done);
                done += end - from;
                if last {
                    path.truncate(done);
                    return Ok(());
                }
            }
        }
        if last {
            path.truncate(done);
            path.push(b'/');
            return Ok(());
        }
        from = end;
    }
}

/// Hidden names hold data that is not for visitors (`.git`, `.env`), except the one that RFC 8615
/// reserves for them (`.well-known`).
pub(super) fn refuse_hidden(path: &[u8]) -> Result<(), Unusable> {
    let visible = match path.strip_prefix(b"/.well-known") {
        Some(rest) if rest.is_empty() || rest[0] == b'/' => rest,
        _ => path,
    };
    if has_segment_with(visible, |first| first == b'.') { Err(Unusable::Hidden) } else { Ok(()) }
}

/// Whether a slash is followed by such a byte. Paths are short, so this simple search is faster
/// than setting up one for two bytes.
fn has_segment_with(path: &[u8], is_it: impl Fn(u8) -> bool) -> bool {
    path.windows(2).any(|pair| pair[0] == b'/' && is_it(pair[1]))
}

/// The ends of all prefixes of `path` that could name a script: segments that end in `.php`.
pub(super) fn script_ends(path: &[u8]) -> impl Iterator<Item = usize> {
    extension_ends(path, b".php")
}

/// The ends of all prefixes of `path` whose last segment ends in `extension`, byte by byte.
pub(super) fn extension_ends<'a>(
    path: &'a [u8],
    extension: &'a [u8],
) -> impl Iterator<Item = usize> {
    let ends = memchr::memchr_iter(b'/', path).chain(std::iter::once(path.len()));
    ends.filter(|&end| path[..end].ends_with(extension))
}

/// Whether a file of this name could hold PHP source: `x.php` and `x.inc`, and also backup copies
/// of them (`x.php~`, `x.php.bak`, `x.php_old`, `x.PHP.2026-11-20`, `x.inc.orig`).
pub(super) fn is_source(path: &[u8]) -> bool {
    let name = &path[memchr::memrchr(b'/', path).map_or(0, |at| at + 1)..];
    let is_one_of = |all: &[&[u8]], part: &[u8]| {
        let end = part.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(part.len());
        all.iter().any(|one| part[..end].eq_ignore_ascii_case(one))
    };
    let mut has_included = false;
    for part in name.split(|&byte| byte == b'.').skip(1) {
        if is_one_of(&SOURCE, part) {
            return true;
        }
        has_included |= is_one_of(&INCLUDED, part);
    }
    if !has_included {
        return false;
    }
    let dots = name.iter().filter(|byte| **byte == b'.').count();
    let mut parts = name.rsplit(|&byte| byte == b'.').take(dots);
    parts.find(|part| !is_one_of(&BACKUPS, part)).is_some_and(|part| is_one_of(&INCLUDED, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(encoded: &str) -> Result<String, Unusable> {
        let path = resolved(encoded.as_bytes())?;
        refuse_hidden(&path).map(|()| String::from_utf8(path).unwrap())
    }

    #[test]
    fn paths_are_cleaned() {
        for (encoded, path) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("//a///b//", "/a/b/"),
            ("/./a/./b/.", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/b/../../c", "/c"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/%2e%2E/b", "/b"),
            ("/a%2Fb", "/a/b"),
            ("/a%2f%2e%2e%2fb", "/b"),
            ("/%61%20%C3%A9", "/a é"),
            ("/%252e%252e/", "/%2e%2e/"),
            ("/a+b", "/a+b"),
            ("/a..b/c..", "/a..b/c.."),
            ("/.well-known/acme/x", "/.well-known/acme/x"),
            ("/.well-known", "/.well-known"),
            ("/x/../.well-known/a", "/.well-known/a"),
        ] {
            assert_eq!(cleaned(encoded), Ok(path.to_owned()), "{encoded}");
        }
    }

    #[test]
    fn unusable_paths_are_errors_with_a_reason() {
        use Unusable::*;
        for (encoded, why) in [
            ("", Malformed),
            ("a", Malformed),
            ("*", Malformed),
            ("/..", Malformed),
            ("/../a", Malformed),
            ("/a/../../b", Malformed),
            ("/%2e%2e/a", Malformed),
            ("/a%00b", Malformed),
            ("/a%0ab", Malformed),
            ("/a%7f", Malformed),
            ("/a%", Malformed),
            ("/a%4", Malformed),
            ("/a%zz", Malformed),
            ("/a%+1", Malformed),
            ("/.git/config", Hidden),
            ("/.env", Hidden),
            ("/a/.b/c", Hidden),
            ("/...", Hidden),
            ("/a/..c", Hidden),
            ("/%2egit", Hidden),
            ("/a%2f.git", Hidden),
            ("/.well-known/.git", Hidden),
            ("/.well-knownx", Hidden),
            ("/a/.well-known/b", Hidden),
        ] {
            assert_eq!(cleaned(encoded), Err(why), "{encoded}");
        }
    }

    #[test]
    fn source_is_known_by_its_name() {
        for name in [
            "/x.php",
            "/x.PHP",
            "/x.pHp5",
            "/x.phtml",
            "/x.phar",
            "/x.phps",
            "/x.php.",
            "/x.php~",
            "/x.php.bak",
            "/x.php.orig",
            "/x.php.swp",
            "/x.php_old",
            "/x.php-1",
            "/x.php.txt",
            "/a/.x.php.swp",
            "/x.php,v",
            "/x.inc",
            "/x.INC",
            "/x.module",
            "/x.pht",
            "/x.inc~",
            "/x.inc.bak",
            "/x.class.inc.orig",
        ] {
            assert!(is_source(name.as_bytes()), "{name}");
        }
        for name in [
            "/php",
            "/x.phpx",
            "/x.html",
            "/a.php/x.css",
            "/x.graphphp",
            "/phpinfo.css",
            "/x.php9",
            "/inc",
            "/button.module.css",
            "/jquery.inc.js",
            "/x.bak",
            "/include",
        ] {
            assert!(!is_source(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn script_ends_are_whole_segments() {
        let ends = |path: &str| script_ends(path.as_bytes()).collect::<Vec<_>>();
        assert_eq!(ends("/x.php"), [6]);
        assert_eq!(ends("/x.php/y.php/z"), [6, 12]);
        assert!(ends("/x.phpy/z.PHP").is_empty());
    }
}
