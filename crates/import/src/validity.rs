//! What `tokamak check` would refuse, found before it is written.

use std::net::IpAddr;

use crate::model::{Action, Headers, Rule};
use crate::pattern;

/// Header fields that only the server sets.
const OF_THE_SERVER: [&str; 8] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// An address or a network, as rules have them.
pub(crate) fn network(text: &str) -> Option<String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    match bits {
        None => Some(address.to_string()),
        Some(bits) => {
            let bits = bits.parse::<u8>().ok().filter(|bits| *bits <= most)?;
            Some(format!("{address}/{bits}"))
        }
    }
}

/// The name of a host, or `*.` and one, in lower case.
pub(crate) fn host(name: &str) -> Option<String> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let plain = name.strip_prefix("*.").unwrap_or(&name);
    let is_name = !plain.is_empty()
        && !plain.starts_with('.')
        && !plain.contains("..")
        && plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_name.then_some(name)
}

/// Why a header field cannot be set by a rule.
pub(crate) fn field(name: &str, value: &str) -> Result<(), &'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("this is no name of a header");
    }
    if OF_THE_SERVER.contains(&&*name.to_ascii_lowercase()) {
        return Err("the server alone sets this header");
    }
    match value.bytes().all(|byte| byte == b'\t' || (b' '..0x7f).contains(&byte)) {
        true => Ok(()),
        false => Err("the value is not one line of ASCII"),
    }
}

/// Why a rule cannot be written.
pub(crate) fn rule(rule: &Rule) -> Result<(), &'static str> {
    if let Some(own) = &rule.scope.path {
        path(own)?;
    }
    for own in rule.scripts.iter().chain(&rule.except) {
        path(own)?;
    }
    let pattern = rule.scope.pattern.as_deref();
    match &rule.action {
        Some(Action::Redirect { to, status }) => {
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return Err("a redirect has 301, 302, 303, 307 or 308");
            }
            let rest = ["http://", "https://"].iter().find_map(|scheme| to.strip_prefix(scheme));
            let is_url = rest.is_some_and(|rest| {
                rest.find('/').is_some_and(|at| at > 0 && !rest[..at].contains('$'))
            });
            let is_path = to.starts_with('/') && !to.starts_with("//");
            if !(is_url || is_path) || !is_visible(to) {
                return Err("a redirect leads to a path, or to a URL with a fixed host");
            }
            if !pattern::has_groups(pattern, to) {
                return Err("the target names a group that the expression has not");
            }
        }
        Some(Action::Rewrite(to)) => {
            let query = to.split_once('?').map_or("", |(_, query)| query);
            if !to.starts_with('/') || !is_visible(query) || to.chars().any(char::is_control) {
                return Err("what is served instead is a path");
            }
            if !pattern::has_groups(pattern, to) {
                return Err("the target names a group that the expression has not");
            }
        }
        Some(Action::Refuse { .. } | Action::Login(_)) | None => {}
    }
    headers(&rule.headers)
}

fn headers(headers: &Headers) -> Result<(), &'static str> {
    let mut fields = headers.set.iter().chain(&headers.add);
    fields.try_for_each(|(name, value)| field(name, value))?;
    headers.remove.iter().try_for_each(|name| field(name, ""))?;
    field("x", headers.cache_control.as_deref().unwrap_or_default())
}

/// Why a text is no path of a rule.
pub(crate) fn path(text: &str) -> Result<(), &'static str> {
    let path = text.strip_suffix('*').unwrap_or(text);
    let is_plain = path.starts_with('/')
        && !path.contains("//")
        && !path.contains(['*', '\0'])
        && path.split('/').all(|part| part != "." && part != "..");
    if is_plain { Ok(()) } else { Err("no plain path") }
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}
