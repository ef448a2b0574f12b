//! The targets of redirects and rewrites, with what a pattern's groups found.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};
use tokamak_config::{Piece, Template};

use crate::route::REDIRECT_PATH;

/// The characters that are encoded in a parameter of a query: all that could end it, and the plus
/// sign, which means a space there.
const PARAMETER: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b':')
    .remove(b'@');

/// The value of `Location`. `query`: that of the request.
pub(super) fn location(to: &Template, groups: &[&str], query: Option<&str>) -> String {
    let mut url = String::new();
    append(&mut url, &to.path, groups, Some(REDIRECT_PATH));
    // `//evil.example` would be another host.
    let slashes = url.len() - url.trim_start_matches('/').len();
    url.drain(..slashes.saturating_sub(1));
    let query = joined(to, groups, query);
    if !query.is_empty() {
        url.push('?');
        url.push_str(&query);
    }
    url
}

/// The path, decoded but perhaps not clean, and the query that are served instead.
pub(super) fn rewritten(to: &Template, groups: &[&str], query: Option<&str>) -> (Vec<u8>, String) {
    let mut path = String::new();
    append(&mut path, &to.path, groups, None);
    (path.into_bytes(), joined(to, groups, query))
}

/// The template's query and that of the request, which is left out if the template ends with `?`.
fn joined(to: &Template, groups: &[&str], query: Option<&str>) -> String {
    let mut joined = String::new();
    append(&mut joined, to.query.as_deref().unwrap_or_default(), groups, Some(PARAMETER));
    let is_dropped = to.text().ends_with('?');
    if let Some(query) = query.filter(|query| !is_dropped && !query.is_empty()) {
        if !joined.is_empty() {
            joined.push('&');
        }
        joined.extend(percent_encode(query.as_bytes(), CONTROLS));
    }
    joined
}

fn append(
    text: &mut String,
    pieces: &[Piece],
    groups: &[&str],
    encoded: Option<&'static AsciiSet>,
) {
    for piece in pieces {
        match (piece, encoded) {
            (Piece::Text(plain), _) => text.push_str(plain),
            (Piece::Group(group), encoded) => {
                let found = groups.get(*group).copied().unwrap_or_default();
                match encoded {
                    Some(set) => text.extend(percent_encode(found.as_bytes(), set)),
                    None => text.push_str(found),
                }
            }
        }
    }
}
