//! Finds compressed files beside the requested one: `style.css.br` for `style.css`.

use std::path::PathBuf;

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

use super::{Found, Opened, open};

/// Codings and the names of their files, best first.
const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

/// The best representation that the client accepts. A compressed file that is older than the plain
/// one is out of date, and is ignored.
pub(super) fn choose(found: Found, request: &HeaderMap) -> (Found, Option<&'static str>) {
    for (coding, suffix) in wanted(request) {
        let mut path = found.path.clone().into_os_string();
        path.push(suffix);
        if let Ok(Opened::Regular(compressed)) = open(&PathBuf::from(path))
            && compressed.modified >= found.modified
        {
            return (compressed, Some(coding));
        }
    }
    (found, None)
}

/// The codings that a client accepts, in its order of preference; equal ones in our order.
fn wanted(request: &HeaderMap) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut weights = [None; CODINGS.len()];
    let mut others = 0;
    let values = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for item in values.flat_map(|list| list.split(',')) {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next().unwrap_or("");
        let weight = parts.next().map_or(Some(1000), weight).unwrap_or(0);
        if name == "*" {
            others = weight;
        }
        let name = if name.eq_ignore_ascii_case("x-gzip") { "gzip" } else { name };
        if let Some(at) = CODINGS.iter().position(|(coding, _)| coding.eq_ignore_ascii_case(name)) {
            weights[at] = Some(weight);
        }
    }
    let mut order = [0, 1, 2].map(|at| (weights[at].unwrap_or(others), CODINGS[at]));
    // Stable, so equal weights keep our order.
    order.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    order.into_iter().filter(|(weight, _)| *weight > 0).map(|(_, coding)| coding)
}

/// Thousandths of a `q=` parameter.
fn weight(parameter: &str) -> Option<u16> {
    let (name, value) = parameter.split_once('=')?;
    if !name.eq_ignore_ascii_case("q") {
        return None;
    }
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_say_what_they_take() {
        for (value, expected) in [
            ("", ""),
            ("identity", ""),
            ("gzip", "gzip"),
            ("GZIP", "gzip"),
            ("x-gzip", "gzip"),
            ("gzip, deflate, br, zstd", "br zstd gzip"),
            ("gzip;q=1.0, br;q=0.5", "gzip br"),
            ("gzip ; q=0.8 , zstd;q=0.801", "zstd gzip"),
            ("br;q=0, gzip", "gzip"),
            ("br;q=0.000, gzip;q=0.001", "gzip"),
            ("*", "br zstd gzip"),
            ("*;q=0.5, gzip", "gzip br zstd"),
            ("br;q=0, *", "zstd gzip"),
            ("*;q=0, gzip", "gzip"),
            ("br;q=2, gzip;q=1.001, zstd;q=x", ""),
            ("br;x=1", ""),
            (",,gzip,", "gzip"),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, value.parse().unwrap())]);
            let found: Vec<_> = wanted(&headers).map(|(coding, _)| coding).collect();
            assert_eq!(found.join(" "), expected, "{value}");
        }
        assert_eq!(wanted(&HeaderMap::new()).count(), 0);
    }
}
