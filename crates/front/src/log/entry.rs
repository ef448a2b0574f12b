//! What the access log keeps of a request until the response is complete.

use http::{HeaderName, Request, Version, header};
use tokamak_trace::TraceContext;

use super::AccessEntry;
use crate::client::protocol;
use crate::request_id::RequestId;

/// The data of a request for its line of the access log.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Status of the response.
    pub status: u16,
    version: Version,
    scheme: &'static str,
    /// The port that the client has connected to.
    port: u16,
    trace: Option<TraceContext>,
    /// All texts one after the other: one allocation instead of ten. Fields that only a pattern
    /// names follow at the end, each behind its length.
    text: Vec<u8>,
    ends: [usize; 10],
}

/// What a log entry has besides the head of its request.
#[derive(Clone, Copy)]
pub struct EntryContext<'a> {
    /// The client's address.
    pub peer: &'a str,
    /// The scheme of the client's connection.
    pub scheme: &'static str,
    /// The port that the client has connected to.
    pub port: u16,
    /// The site, if its name is to be in the line.
    pub site: Option<&'a str>,
    /// The host that the request names.
    pub host: Option<&'a str>,
    /// The route of the request, if it has one.
    pub route: Option<&'a str>,
    /// The trace of the request.
    pub trace: Option<TraceContext>,
    /// The header fields that a pattern of the log names.
    pub fields: &'a [HeaderName],
}

impl LogEntry {
    /// Copies what the line needs. The caller sets the status later.
    pub fn new<B>(request: &Request<B>, about: &EntryContext<'_>) -> LogEntry {
        let EntryContext { peer, scheme, port, site, host, route, trace, fields } = *about;
        let header = |name: HeaderName| header_of(request, &name);
        let user = user(header(header::AUTHORIZATION)).unwrap_or_default();
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let texts: [&[u8]; 10] = [
            peer.as_bytes(),
            &user,
            host.unwrap_or("").as_bytes(),
            request.method().as_str().as_bytes(),
            target.as_bytes(),
            header(header::REFERER),
            header(header::USER_AGENT),
            route.unwrap_or("").as_bytes(),
            site.unwrap_or("").as_bytes(),
            RequestId::of(request.extensions()),
        ];
        let mut text = Vec::with_capacity(texts.iter().map(|text| text.len()).sum());
        let ends = texts.map(|part| {
            text.extend_from_slice(part);
            text.len()
        });
        for name in fields {
            // No head is as long as that.
            let value = header_of(request, name);
            text.extend_from_slice(&(value.len() as u32).to_ne_bytes());
            text.extend_from_slice(value);
        }
        LogEntry { status: 0, version: request.version(), scheme, port, trace, text, ends }
    }

    /// The line, once it is known how many bytes of the body were sent.
    pub fn line(&self, bytes: u64) -> AccessEntry<'_> {
        let mut from = 0;
        let [client, user, host, method, target, referer, agent, route, site, request_id] =
            self.ends.map(|end| {
                let part = &self.text[from..end];
                from = end;
                part
            });
        let protocol = protocol(self.version);
        AccessEntry {
            client,
            user,
            site,
            host,
            method,
            target,
            route,
            request_id,
            protocol,
            scheme: self.scheme,
            port: self.port,
            status: self.status,
            bytes,
            referer,
            agent,
            trace: self.trace,
            fields: &self.text[from..],
        }
    }
}

fn header_of<'a, B>(request: &'a Request<B>, name: &HeaderName) -> &'a [u8] {
    request.headers().get(name).map_or(&b""[..], |value| value.as_bytes())
}

/// The name in `Authorization: Basic`; the password never gets further than here.
pub fn user(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, credentials) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let (mut name, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for &byte in credentials.trim_ascii() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            match (bits >> count) as u8 {
                b':' => return Some(name),
                byte => name.push(byte),
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_the_request() {
        let request = Request::get("http://h/a?b")
            .version(Version::HTTP_10)
            .header("Authorization", "Basic dXNlcjpwYXNz")
            .header("User-Agent", "agent")
            .body(())
            .unwrap();
        let about = EntryContext {
            peer: "192.0.2.1",
            scheme: "http",
            port: 80,
            site: Some("s"),
            host: Some("h"),
            route: Some("/a"),
            trace: None,
            fields: &[header::USER_AGENT, header::DATE],
        };
        let mut entry = LogEntry::new(&request, &about);
        entry.status = 404;
        let line = entry.line(7);
        let [client, route] = [line.client, line.route];
        let texts = [client, line.user, line.host, line.method, line.target, line.referer, route];
        assert_eq!(texts, [&b"192.0.2.1"[..], b"user", b"h", b"GET", b"/a?b", b"", b"/a"]);
        assert_eq!((line.agent, line.site), (&b"agent"[..], &b"s"[..]));
        let sizes = [5_u32, 0].map(u32::to_ne_bytes);
        assert_eq!(line.fields, [&sizes[0][..], b"agent", &sizes[1]].concat());
        assert_eq!((line.status, line.bytes, line.protocol), (404, 7, "HTTP/1.0"));
    }

    #[test]
    fn only_a_whole_name_is_a_name() {
        for (value, name) in [
            ("Basic YTpi", Some("a")),
            ("basic YTpi", Some("a")),
            ("Basic OmI=", Some("")),
            ("Basic w7w6eA==", Some("ü")),
            ("Basic YWI=", None),
            ("Basic !", None),
            ("Bearer YTpi", None),
            ("", None),
        ] {
            assert_eq!(user(value.as_bytes()).as_deref(), name.map(str::as_bytes), "{value}");
        }
    }
}
