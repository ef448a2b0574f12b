//! Traces.

use super::{Reader, header_fields};
use crate::model::{Trace, TraceExport, TraceMode};
use crate::option;

/// Where collectors take traces, unless a URL says otherwise.
const PATH: &str = "/v1/traces";

/// Header fields that the export sets itself, or that would break the framing of its requests.
const RESERVED: [&str; 9] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn trace(raw: &option::Trace) -> Trace {
    Trace {
        context: raw.context.value,
        sample: raw.sample.value.0,
        timing_secret: raw.timing_secret.value.clone(),
        export: None,
    }
}

impl Default for Trace {
    fn default() -> Trace {
        trace(&option::Section::defaults())
    }
}

impl Reader<'_> {
    /// What is done for traces.
    pub(super) fn trace(&mut self) -> Trace {
        let raw = &self.raw.trace;
        self.check_length("trace", "timing_secret", &raw.timing_secret);
        Trace { export: self.export(raw), ..trace(raw) }
    }

    fn export(&mut self, raw: &option::Trace) -> Option<Box<TraceExport>> {
        let (url, headers) = (&raw.export, &raw.export_headers);
        let Some(given) = &url.value else {
            if !headers.value.is_empty() {
                let problem = "are for `export`, which is not set".into();
                self.report("trace", "export_headers", headers.origin, problem);
            }
            return None;
        };
        if raw.context.value == TraceMode::Off {
            let problem = "there are no traces to export: set `context` to \"begin\", or to \
                           \"continue\" behind a proxy of your own";
            self.report("trace", "export", url.origin, problem.into());
        }
        if let Some(problem) = header_fields::wrong(&headers.value, &RESERVED) {
            self.report("trace", "export_headers", headers.origin, problem);
        }
        match collector(&given.0) {
            Ok(url) => Some(Box::new(TraceExport {
                url,
                headers: headers.value.clone(),
                rate: u32::try_from(raw.export_rate.value.0).unwrap_or(u32::MAX),
                timeout: raw.export_timeout.value,
            })),
            Err(problem) => {
                self.report("trace", "export", url.origin, problem);
                None
            }
        }
    }
}

/// A collector's URL, with its path.
fn collector(url: &str) -> Result<String, String> {
    const EXAMPLE: &str = "write it as in \"http://127.0.0.1:4318\"";
    let scheme = ["http://", "https://"].into_iter().find(|scheme| url.starts_with(scheme));
    let Some(rest) = scheme.and_then(|scheme| url.strip_prefix(scheme)) else {
        return Err(format!("is no URL of a collector; {EXAMPLE}"));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        // Not shown: it may be a password.
        return Err("has a user's name; send it with `export_headers`".into());
    }
    let is_good = |byte: u8| byte.is_ascii_graphic() && !b"\"<>`#".contains(&byte);
    if !is_authority(authority) || !path.bytes().all(is_good) {
        return Err(format!("is no URL of a collector; {EXAMPLE}"));
    }
    Ok(if matches!(path, "" | "/") {
        url.trim_end_matches('/').to_owned() + PATH
    } else {
        url.into()
    })
}

/// Whether this is a host, perhaps with a port.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            ("x", rest.strip_prefix(':').or_else(|| rest.is_empty().then_some("0")))
        }
        None => text.split_once(':').map_or((text, Some("0")), |(host, port)| (host, Some(port))),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_number =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    !host.is_empty() && host.bytes().all(is_name) && port.is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Secret;

    #[test]
    fn a_collector_is_a_url() {
        for (given, expected) in [
            ("http://127.0.0.1:4318", Some("http://127.0.0.1:4318/v1/traces")),
            ("http://127.0.0.1:4318/", Some("http://127.0.0.1:4318/v1/traces")),
            ("https://a.example/otlp?team=b", Some("https://a.example/otlp?team=b")),
            ("http://[::1]:4318", Some("http://[::1]:4318/v1/traces")),
            ("http://[::1]/x", Some("http://[::1]/x")),
            ("127.0.0.1:4318", None),
            ("grpc://a.example", None),
            ("http://", None),
            ("http://:80", None),
            ("http://a:99999", None),
            ("http://a:+1", None),
            ("http://a:", None),
            ("http://[a]", None),
            ("http://[::1]x", None),
            ("http://a b", None),
            ("http://a/b c", None),
            ("http://a/#b", None),
            ("http://user:password@a", None),
        ] {
            assert_eq!(collector(given).ok().as_deref(), expected, "{given}");
        }
        assert!(!collector("http://user:password@a").unwrap_err().contains("password"));
    }

    #[test]
    fn header_fields_are_those_of_http() {
        for (name, value, is_good) in [
            ("Authorization", "Bearer abc", true),
            ("X-Scope", "", true),
            ("Content-Type", "a", false),
            ("a b", "c", false),
            ("a", "b\r\nc: d", false),
            ("a", "\u{e9}", false),
        ] {
            let headers = BTreeMap::from([(name.to_owned(), Secret::new(value))]);
            let wrong = header_fields::wrong(&headers, &RESERVED);
            assert_eq!(wrong.is_none(), is_good, "{name}: {wrong:?}");
        }
    }
}
