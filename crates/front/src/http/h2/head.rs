//! Reads the head of a request.
//!
//! The library has refused what HTTP/2 itself forbids: pseudo-header fields that are missing,
//! doubled or out of place, fields of connections, names and values with bytes that may not stand
//! in them, and a body whose length differs from its `Content-Length`. It ends such a stream, and
//! the client gets no page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderMap, Request, Version};
use tokamak_config::Limits;
use tokamak_nghttp2::Head;

use crate::http::h1::screen::Violation;
use crate::http::multiplex::{Pseudo, shape};

/// Whether the response to this request has no body, whatever its head says.
pub fn is_head(head: &Head) -> bool {
    head.fields().any(|(name, value)| name == b":method" && value == "HEAD")
}

/// The request that an extended CONNECT (RFC 8441) stands for: the one by which a client of
/// HTTP/1.1 asks for a WebSocket. The application needs a key; that its answer is for this one is
/// checked where it comes.
fn as_of_http_1(pseudo: &mut Pseudo, headers: &mut HeaderMap) {
    let random = [tokamak_tls::random(), tokamak_tls::random()].map(u64::to_ne_bytes);
    let key = HeaderValue::try_from(STANDARD.encode(random.as_flattened()));
    pseudo.method = Bytes::from_static(b"GET");
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.extend(key.ok().map(|key| (SEC_WEBSOCKET_KEY, key)));
}

/// Whether the head asks for a WebSocket.
pub fn asks_for_websocket(head: &Head) -> bool {
    let says = |wanted: &[u8], value: &[u8]| {
        head.fields().any(|(name, said)| name == wanted && said.eq_ignore_ascii_case(value))
    };
    says(b":protocol", b"websocket") && says(b":method", b"CONNECT")
}

/// Makes a request of its head. Returns the length of its body, too, if the client says it.
///
/// # Errors
/// Fails with the first rule that the head breaks.
pub fn request(limits: &Limits, head: &Head) -> Result<(Request<()>, Option<u64>), Violation> {
    let mut pseudo = Pseudo::default();
    let mut headers = HeaderMap::with_capacity(head.len());
    for (name, value) in head.fields() {
        match name {
            b":method" => pseudo.method = value,
            b":scheme" => pseudo.scheme = value,
            b":authority" => pseudo.authority = Some(value),
            b":path" => pseudo.path = value,
            // Of another protocol than WebSocket: CONNECT is refused.
            b":protocol" => {}
            _ => {
                let name = HeaderName::from_bytes(name).map_err(|_| Violation::BadFieldName)?;
                let value = HeaderValue::from_maybe_shared(value);
                headers.append(name, value.map_err(|_| Violation::ControlByte)?);
            }
        }
    }
    if asks_for_websocket(head) {
        as_of_http_1(&mut pseudo, &mut headers);
    }
    shape(limits, pseudo, headers, Version::HTTP_2, head.is_cut)
}

#[cfg(test)]
mod tests {
    use http::header::{COOKIE, HOST};
    use proptest::prelude::*;

    use super::*;
    use crate::http::h1::screen::rules;

    const LIMITS: Limits = Limits {
        head: 1000,
        headers: 10,
        body: 100,
        buffer: 1 << 20,
        spool: 0,
        send_rate: 0,
        connections: 10,
        client: tokamak_config::ClientLimits::NONE,
    };

    fn head(method: &str, url: &str, fields: &[(&str, &str)]) -> Head {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let at = rest.find(['/', '?', '*']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let mut all = vec![(":method", method), (":scheme", scheme), (":path", path)];
        if !authority.is_empty() {
            all.push((":authority", authority));
        }
        all.extend_from_slice(fields);
        all.into_iter().collect()
    }

    fn checked(method: &str, url: &str, fields: &[(&str, &str)]) -> Result<Request<()>, Violation> {
        request(&LIMITS, &head(method, url, fields)).map(|(request, _)| request)
    }

    #[test]
    fn a_request_looks_like_one_of_http_1() {
        let cookies = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")];
        let request = checked("GET", "https://a.example:8443/b?c=d", &cookies).unwrap();
        assert_eq!(request.uri(), "/b?c=d");
        assert_eq!(request.headers()[HOST], "a.example:8443");
        assert_eq!(request.headers()[COOKIE], "a=1; b=2; c=3");
        assert_eq!(request.headers().get_all(COOKIE).iter().count(), 1);
        let request = checked("OPTIONS", "*", &[("host", "a.example")]).unwrap();
        assert_eq!(request.uri(), "*");
    }

    /// Method, target and fields of a request, and the rule that it breaks.
    type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Violation);

    #[test]
    fn the_rules_of_http_1_hold() {
        use Violation::*;
        let long = "a".repeat(995);
        let table: &[Row] = &[
            ("TRACE", "http://a/", &[], MethodRefused),
            ("GET", "http://a/", &[("host", "b")], OtherHost),
            ("GET", "http://a/", &[("host", "a"), ("host", "a")], TwoHosts),
            ("GET", "/", &[], NoHost),
            ("GET", "/", &[("host", "a b")], BadHost),
            ("GET", "http://user@a/", &[], BadHost),
            ("GET", "ftp://a/", &[], BadTarget),
            ("GET", "*", &[("host", "a")], BadTarget),
            ("GET", &format!("http://a/{long}"), &[], TargetTooLong),
            ("GET", "http://a/", &[("x", &long)], HeadTooLarge),
            ("GET", "http://a/", &[("x", "y"); 11], TooManyFields),
            ("POST", "http://a/", &[("content-length", "+1")], BadLength),
            ("POST", "http://a/", &[("content-length", "1"), ("content-length", "1")], TwoLengths),
        ];
        for (method, uri, fields, expected) in table {
            let verdict = checked(method, uri, fields).map(drop);
            assert_eq!(verdict, Err(*expected), "{method} {uri} {fields:?}");
        }
        let many: Vec<_> = (0..11).map(|_| ("cookie", "a=b")).collect();
        assert!(checked("GET", "http://a/", &many).is_ok(), "cookies count as one field");
    }

    /// The same as over HTTP/1: see `rules::target`.
    #[test]
    fn targets_are_those_of_http_1() {
        for (path, expected) in [
            ("/a?q={\"a\":1}", Some("/a?q={%22a%22:1}")),
            ("/`?`<b>", Some("/%60?`%3Cb%3E")),
            ("/\u{e4}|^\\[]", Some("/\u{e4}|^\\[]")),
            ("/a#b", None),
            ("/a?b#c", None),
            ("/a b", None),
            ("/a\u{7f}", None),
            ("http://a/", None),
            ("a", None),
            ("", None),
        ] {
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), ("host", "a")];
            let request = request(&LIMITS, &fields.into_iter().collect());
            let target = request.ok().map(|(request, _)| request.uri().to_string());
            assert_eq!(target.as_deref(), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn what_passes_has_one_host_and_a_path(
            path in "(/[!-~]{0,20})|[!-~]{0,10}",
            authority in "[!-~]{0,12}",
            hosts in prop::collection::vec("[ -~]{0,12}", 0..3),
        ) {
            let mut fields = vec![(":method", "GET"), (":scheme", "http"), (":path", &*path)];
            if !authority.is_empty() {
                fields.push((":authority", &*authority));
            }
            fields.extend(hosts.iter().map(|host| ("host", &**host)));
            if let Ok((request, _)) = request(&LIMITS, &fields.into_iter().collect()) {
                prop_assert_eq!(request.headers().get_all(HOST).iter().count(), 1);
                prop_assert!(rules::host(request.headers()[HOST].as_bytes()).is_ok());
                prop_assert!(request.uri().scheme().is_none());
                prop_assert!(request.uri().path().starts_with('/'));
            }
        }
    }
}
