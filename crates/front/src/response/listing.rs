//! The page that lists a folder. Strangers may have chosen the names in it, so none of them becomes
//! markup, or a link to anything but itself.

use std::fmt::Write;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sha2::{Digest, Sha256};

use super::pages::escape;

const STYLE: &str = ":root{color-scheme:light dark}body{font-family:sans-serif}\
    th,td{padding:.1em 1em;text-align:left}td+td{text-align:right;white-space:nowrap}";

/// The browser runs nothing and fetches nothing for the page, whatever a name would make it do.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        STANDARD.encode(Sha256::digest(STYLE))
    );
    // A hash in Base64 and what stands above are allowed in a header.
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// All that is not encoded in a name within a link. A colon is encoded, so that no name is taken
/// for a scheme.
const OF_NAMES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const OF_PATHS: &AsciiSet = &OF_NAMES.remove(b'/');

/// What the largest number of seconds means that is still written: the end of the year 9999.
const LAST: u64 = 253_402_300_799;

/// One line of the list. Folders come first, then the names count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Whether it is no folder.
    pub is_file: bool,
    /// Its name.
    pub name: Vec<u8>,
    /// Its length in bytes.
    pub len: u64,
    /// When it was last changed, in seconds of Unix time.
    pub modified: i64,
}

/// Names of a folder that its page does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub count: usize,
    /// Whether there may be more, because the folder was not read to its end.
    pub has_more: bool,
}

/// The folder that a page is about.
#[derive(Clone, Copy, Debug)]
pub struct Folder<'a> {
    /// Its path as clients see it, with a slash at its end.
    pub path: &'a [u8],
    /// Whether there is a folder around it in the site.
    pub has_parent: bool,
    /// Whether the client asked for it by another path, to which links cannot be relative.
    pub is_elsewhere: bool,
}

/// The header fields of the page.
pub fn headers() -> HeaderMap {
    HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // What is listed depends on who asks, and the next file must show up immediately.
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ])
}

/// The page.
pub fn page(folder: Folder<'_>, entries: &[Entry], left_out: LeftOut) -> String {
    let mut title = String::from("Index of ");
    escape(&String::from_utf8_lossy(folder.path), &mut title);
    // Links that are relative stay right behind a proxy that has put the site elsewhere.
    let base = match folder.is_elsewhere {
        true => percent_encode(folder.path, OF_PATHS).to_string(),
        false => "./".to_owned(),
    };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
            <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
            <style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n<table>\n\
            <tr><th>Name</th><th>Size</th><th>Changed (UTC)</th></tr>\n"
    );
    if folder.has_parent {
        let _ = writeln!(page, "<tr><td><a href=\"{base}../\">../</a></td><td></td><td></td></tr>");
    }
    for entry in entries {
        let slash = if entry.is_file { "" } else { "/" };
        let link = percent_encode(&entry.name, OF_NAMES);
        let _ = write!(page, "<tr><td><a href=\"{base}{link}{slash}\">");
        escape(&String::from_utf8_lossy(&entry.name), &mut page);
        let size = if entry.is_file { size(entry.len) } else { String::new() };
        let changed = date(entry.modified);
        let _ = writeln!(page, "{slash}</a></td><td>{size}</td><td>{changed}</td></tr>");
    }
    page.push_str("</table>\n");
    if left_out.count > 0 {
        let at_least = if left_out.has_more { "At least " } else { "" };
        let _ = writeln!(page, "<p>{at_least}{} more are not listed.</p>", left_out.count);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn size(len: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut size = len as f64;
    let mut unit = "B";
    for larger in units {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    if unit == "B" { format!("{len} B") } else { format!("{size:.1} {unit}") }
}

fn date(seconds: i64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or(0).min(LAST);
    let (year, month, day) = tokamak_cost::date(seconds / 86_400);
    let minutes = seconds % 86_400 / 60;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &[u8], len: u64) -> Entry {
        Entry { is_file: true, name: name.to_vec(), len, modified: 1_795_176_061 }
    }

    fn listing(path: &str, entries: &[Entry]) -> String {
        let folder = Folder { path: path.as_bytes(), has_parent: true, is_elsewhere: false };
        page(folder, entries, LeftOut::default())
    }

    #[test]
    fn no_name_is_markup_or_leads_elsewhere() {
        for (name, link, text) in [
            (&b"a b.txt"[..], "./a%20b.txt", "a b.txt"),
            (b"<script>alert(1)</script>", "./%3Cscript%3E", "&lt;script&gt;alert(1)&lt;/"),
            (b"\"onclick='x'&amp;", "./%22onclick%3D%27x%27%26amp%3B", "&quot;onclick=&#39;x&#39;"),
            (b"javascript:alert(1)", "./javascript%3Aalert%281%29", "javascript:alert(1)"),
            (b"what?#%41", "./what%3F%23%2541", "what?#%41"),
            (b"a\nb\x7f", "./a%0Ab%7F", "a\u{fffd}b\u{fffd}"),
            (b"\xff\xc3\xa4", "./%FF%C3%A4", "\u{fffd}\u{e4}"),
            (b"\\\\evil.example", "./%5C%5Cevil.example", "\\\\evil.example"),
        ] {
            let page = listing("/", &[file(name, 1)]);
            assert!(page.contains(&format!("<a href=\"{link}")), "{link}: {page}");
            assert!(page.contains(&format!("\">{text}")), "{text}: {page}");
            assert!(!page.contains("<script") && !page.contains("onclick='"), "{page}");
        }
        let page = listing("/<b>\"&/", &[]);
        assert_eq!(page.matches("Index of /&lt;b&gt;&quot;&amp;/").count(), 2, "{page}");
    }

    #[test]
    fn links_are_relative_unless_the_client_asked_for_another_path() {
        let at = |is_elsewhere, has_parent| {
            let folder = Folder { path: b"/m/a b/", has_parent, is_elsewhere };
            page(folder, &[file(b"c", 1)], LeftOut::default())
        };
        assert!(
            at(false, true).contains("<a href=\"./../\">") && at(false, true).contains("./c\"")
        );
        assert!(at(true, true).contains("<a href=\"/m/a%20b/c\">"));
        assert!(at(true, true).contains("<a href=\"/m/a%20b/../\">"));
        assert!(!at(false, false).contains("../"));
    }

    #[test]
    fn sizes_and_times_are_written() {
        for (len, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_500_000, "1.4 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(len), expected);
        }
        for (seconds, expected) in [
            (-1, "1970-01-01 00:00"),
            (951_782_459, "2000-02-29 00:00"),
            (1_795_176_061, "2026-11-20 12:01"),
            (i64::MAX, "9999-12-31 23:59"),
        ] {
            assert_eq!(date(seconds), expected);
        }
        let folder = Entry { is_file: false, ..file(b"d", 4096) };
        let row = "<a href=\"./d/\">d/</a></td><td></td><td>2026-11-20 12:01</td>";
        assert!(listing("/", &[folder]).contains(row));
    }

    #[test]
    fn a_list_says_how_many_entries_it_left_out() {
        let folder = Folder { path: b"/", has_parent: false, is_elsewhere: false };
        for (count, has_more, expected) in [
            (0, false, None),
            (7, false, Some("<p>7 more are not listed.</p>")),
            (9, true, Some("<p>At least 9 more are not listed.</p>")),
        ] {
            let page = page(folder, &[], LeftOut { count, has_more });
            assert_eq!(page.contains("not listed"), expected.is_some());
            assert!(page.contains(expected.unwrap_or_default()), "{page}");
        }
    }
}
