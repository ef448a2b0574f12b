//! Writes requests for applications that speak HTTP, and reads the heads of their responses.
//!
//! The application sees the request as the client made it: the same target, where the server found
//! the same path in it, and the same fields. Not passed on are the fields of the client's
//! connection, and what the client says of itself in fields that only proxies may write.

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use percent_encoding::{percent_decode, percent_encode};
use tokamak_config::{self as config, Forwarded, HttpProxy};
use tokamak_upstream::body::Body;
use tokamak_upstream::remote::{self, Expected};

use super::head::Head;
use super::request_head::{RequestHead, put_all, put_line};
use crate::backend::response_head::{
    Decimal, connection_names, drop_connection_fields, put_header, reason_phrase,
};
use crate::backend::{Arrival, BackendRequest};
use crate::header_list::has_word;
use crate::response::trailers;
use crate::route::{REDIRECT_PATH, Script};
use crate::websocket;

/// The fields by which proxies describe their clients: nobody else's are passed on.
const OF_PROXIES: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
];

/// The request for an application. Its body has been read, or is live.
pub fn request(
    call: &BackendRequest<'_>,
    proxy: &HttpProxy,
    largest_head: usize,
    keep: bool,
    body: Body,
) -> remote::Call {
    let BackendRequest { arrival: Arrival { caller, .. }, request, script, .. } = *call;
    let (method, headers) = (request.method(), request.headers());
    let own_host = headers.get(header::HOST).map_or(&b""[..], HeaderValue::as_bytes);
    let host = match &proxy.host {
        Some(host) => host.as_bytes(),
        // A request of HTTP/1.0 may name none.
        None if own_host.is_empty() => caller.addresses().text().local.as_bytes(),
        None => own_host,
    };
    let target = |out: &mut Vec<u8>| put_target(out, request.uri(), script);
    let mut head = RequestHead::new(proxy, method.as_str(), host, target);
    let named = connection_names(headers);
    for (name, value) in headers {
        let text = name.as_str();
        if !is_of_connection(text) && !is_of_proxies(text) && !named.contains(name) {
            head.put_unless_changed(text, value.as_bytes());
        }
    }
    if headers.get_all(header::TE).iter().any(|value| has_word(value, b"trailers")) {
        head.put("te", b"trailers");
    }
    let has_body = call.live.is_some() || body.left() > 0;
    let websocket = !proxy.http2 && websocket::is_asked(caller, request) && !has_body;
    if websocket {
        head.put("upgrade", b"websocket");
    }
    put_forwarded(&mut head, &caller.addresses().text().peer, caller.scheme(), own_host);
    let length = call.live.map_or(Some(body.left()), |live| live.length());
    // In HTTP/1.1 a request without a length has no body (RFC 9112 section 6.3). Some applications
    // refuse a POST that does not say so itself.
    let is_usual = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    match length {
        Some(0) if !is_usual && !headers.contains_key(header::CONTENT_LENGTH) => {}
        Some(length) => head.put("content-length", Decimal::default().text(length)),
        None if proxy.http2 => {}
        None => head.put("transfer-encoding", b"chunked"),
    }
    let connection = match (websocket, keep) {
        (true, _) => Some("upgrade"),
        (false, false) => Some("close"),
        (false, true) => None,
    };
    let expected = Expected { is_head: method == Method::HEAD, largest_head, websocket };
    called(head, connection, expected, call.is_repeatable, body).with_live(call.live.cloned())
}

/// A check of an address: what a client on this machine would send for the path.
pub fn check(
    check: &config::Check,
    proxy: &HttpProxy,
    largest_head: usize,
    keep: bool,
) -> remote::Call {
    let host = proxy.host.as_deref().unwrap_or("localhost").as_bytes();
    let target = |out: &mut Vec<u8>| out.extend_from_slice(check.path.as_bytes());
    let mut head = RequestHead::new(proxy, "GET", host, target);
    head.put("user-agent", concat!("Tokamak/", env!("CARGO_PKG_VERSION")).as_bytes());
    let connection = if keep { None } else { Some("close") };
    let expected = Expected { is_head: false, largest_head, websocket: false };
    called(head, connection, expected, true, Body::Empty)
}

/// The request with this head, in the protocol of the application.
fn called(
    head: RequestHead<'_>,
    connection: Option<&str>,
    expected: Expected,
    is_repeatable: bool,
    body: Body,
) -> remote::Call {
    let is_http2 = head.is_http2();
    let head = head.finish(connection);
    match is_http2 {
        true => remote::Call::http2(head, expected, is_repeatable, body),
        false => remote::Call::http(head, expected, is_repeatable, body),
    }
}

/// Reads the head of a response.
///
/// # Errors
/// Fails with the reason if it cannot be passed on.
pub fn head(head: &remote::Head) -> Result<Head, &'static str> {
    let status = StatusCode::from_u16(head.status)
        .map_err(|_| "the application sent a status that is not a number of three digits")?;
    let mut headers = HeaderMap::with_capacity(16);
    let mut is_chunked = false;
    for (name, value) in head.pairs() {
        is_chunked |= name == b"transfer-encoding";
        let is_trailer = name == b"trailer";
        let name = HeaderName::from_bytes(name)
            .map_err(|_| "the application sent an invalid header name")?;
        let value = HeaderValue::from_bytes(value)
            .map_err(|_| "the application sent a header value with control characters")?;
        if is_trailer {
            // What it names goes to the client, too.
            headers.append(name, value);
        } else {
            put_header(&mut headers, name, value);
        }
    }
    // Others might believe the length (RFC 9112 section 6.3); nginx refuses it, too.
    if is_chunked && headers.contains_key(header::CONTENT_LENGTH) {
        return Err("the application sent both a length and a transfer encoding");
    }
    drop_connection_fields(&mut headers);
    let reason = reason_phrase(status, head.reason.as_bytes());
    Ok(Head { status, reason, headers })
}

/// The fields that follow a request's body, as lines for the application. What only a head may have
/// is left out, and so is what only proxies may write.
pub fn request_trailers(fields: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in fields {
        let text = name.as_str();
        if !is_of_connection(text) && !is_of_proxies(text) && !trailers::belongs_in_the_head(text) {
            put_line(&mut lines, text, value.as_bytes());
        }
    }
    lines
}

/// Writes path and query. The client's own text is sent if it says what the server has read in it;
/// else rules, routes and the application would judge different paths.
fn put_target(head: &mut Vec<u8>, uri: &Uri, script: &Script) {
    let found = script.path();
    let own = uri.path().as_bytes();
    let path = match percent_decode(own).eq(found.iter().copied()) {
        true => Cow::Borrowed(own),
        false => Cow::Owned(percent_encode(&found, REDIRECT_PATH).to_string().into_bytes()),
    };
    match script.upstream_path() {
        Some(prefix) => {
            let rest = match path.strip_prefix(&script.script_name[..]) {
                Some(rest) => Cow::Borrowed(rest),
                // The client has percent-encoded letters of the route's path, so that its own text
                // does not begin with that.
                None => percent_encode(script.path_info(), REDIRECT_PATH)
                    .to_string()
                    .into_bytes()
                    .into(),
            };
            let whole = [prefix.trim_end_matches('/').as_bytes(), &rest].concat();
            head.extend_from_slice(if whole.is_empty() { b"/" } else { &whole });
        }
        None => head.extend_from_slice(&path),
    }
    // A rule's path without a query has an empty one.
    let query =
        script.query().map_or(uri.query(), |query| Some(query).filter(|_| !query.is_empty()));
    if let Some(query) = query {
        put_all(head, &[b"?", query.as_bytes()]);
    }
}

/// Says for whom the request is made.
fn put_forwarded(head: &mut RequestHead<'_>, client: &str, scheme: &str, host: &[u8]) {
    match head.forwarded() {
        Forwarded::None => {}
        Forwarded::Fields => {
            head.put_unless_changed("x-forwarded-for", client.as_bytes());
            head.put_unless_changed("x-forwarded-proto", scheme.as_bytes());
            head.put_unless_changed("x-forwarded-host", host);
            head.put_unless_changed("x-real-ip", client.as_bytes());
        }
        Forwarded::Standard => {
            // An IPv6 address has colons, so it is quoted (RFC 7239 section 6).
            let client = match client.contains(':') {
                true => format!("\"[{client}]\""),
                false => client.to_owned(),
            };
            let mut value = format!("for={client};proto={scheme}").into_bytes();
            if !host.is_empty() {
                put_all(&mut value, &[b";host=\"", host, b"\""]);
            }
            head.put_unless_changed("forwarded", &value);
        }
    }
}

/// Whether a field is of the client's connection (RFC 9110 section 7.6.1), or says how its body was
/// framed, which has been read.
fn is_of_connection(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "content-length"
            | "expect"
            | "host"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Whether only proxies may write a field. Applications that read fields as CGI variables do not
/// tell a hyphen from an underscore.
fn is_of_proxies(name: &str) -> bool {
    let is_one = |one: &&str| {
        let matches = |(a, b): (u8, u8)| a == b || (a == b'_' && b == b'-');
        one.len() == name.len() && name.bytes().zip(one.bytes()).all(matches)
    };
    // Nearly all others begin with other letters.
    name.starts_with(['f', 'x']) && OF_PROXIES.iter().any(is_one)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn target(uri: &'static str, script: &Script) -> String {
        let mut head = Vec::new();
        put_target(&mut head, &Uri::from_static(uri), script);
        String::from_utf8(head).unwrap()
    }

    fn script(name: &str) -> Script {
        Script::named(Path::new("").into(), name.as_bytes())
    }

    #[test]
    fn the_target_is_what_the_client_sent_where_both_read_the_same() {
        for (uri, found, expected) in [
            ("/a/b?x=1&y", "/a/b", "/a/b?x=1&y"),
            ("/a%2Fb", "/a/b", "/a%2Fb"),
            ("/%61%20b", "/a b", "/%61%20b"),
            ("/x/../a", "/a", "/a"),
            ("/x/%2e%2e/a%20b?q", "/a b", "/a%20b?q"),
            ("//a", "/a", "/a"),
            ("/old", "/new?", "/new%3F"),
            ("/", "/", "/"),
        ] {
            assert_eq!(target(uri, &script(found)), expected, "{uri}");
        }
    }

    #[test]
    fn the_path_of_a_route_is_replaced() {
        for (uri, name, info, prefix, expected) in [
            ("/api/v1/x?y", "/api", "/v1/x", "/", "/v1/x?y"),
            ("/api", "/api", "", "/", "/"),
            ("/api/a%2Fb", "/api", "/a/b", "/base/", "/base/a%2Fb"),
            ("/%61pi/a%2Fb", "/api", "/a/b", "/base", "/base/a/b"),
            ("/x/../api/y", "/api", "/y", "/", "/y"),
        ] {
            let mut script = script(name).with_path_info(info.as_bytes());
            script.set_upstream_path(prefix.into());
            assert_eq!(target(uri, &script), expected, "{uri}");
        }
    }

    #[test]
    fn fields_of_proxies_have_hyphens_or_underscores() {
        for name in OF_PROXIES {
            assert!(is_of_proxies(name) && is_of_proxies(&name.replace('-', "_")), "{name}");
        }
        for name in ["x-forwarded", "x-real-ips", "forward", "x-forwarded-forx", "accept"] {
            assert!(!is_of_proxies(name), "{name}");
        }
    }
}
