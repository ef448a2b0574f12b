//! The fields that follow a body (RFC 9110 section 6.5), as workers and applications write them.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Fields that frame a message, or that must be known before its body (RFC 9110 section 6.5.1). For
/// scripts, the extension refuses the same.
const OF_THE_HEAD: [&str; 25] = [
    "age",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expires",
    "host",
    "keep-alive",
    "location",
    "max-forwards",
    "proxy-connection",
    "retry-after",
    "set-cookie",
    "status",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
];

/// Whether a field of this name may not follow a body.
pub fn belongs_in_the_head(name: &str) -> bool {
    OF_THE_HEAD.binary_search(&name).is_ok()
}

/// Reads the lines of an application behind a connection, which may write anything. Fields that
/// belong in the head are left out. `None`: nothing is left.
pub fn of_application(lines: &[u8]) -> Option<HeaderMap> {
    let mut fields = parse(lines);
    for name in OF_THE_HEAD {
        fields.remove(name);
    }
    (!fields.is_empty()).then_some(fields)
}

/// Reads lines `name: value CR LF`. What is no field is left out: PHP's side refuses it, so only a
/// worker that is spoiled sends it.
pub fn parse(lines: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            fields.append(name, value);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_fields() {
        let fields = parse(b"grpc-status: 0\r\nX-Sum:  a: b \r\nx-sum: c\r\nEmpty: \r\n");
        let mut found: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        found.sort();
        let wanted: [(&str, &[u8]); 4] =
            [("empty", b""), ("grpc-status", b"0"), ("x-sum", b"a: b"), ("x-sum", b"c")];
        assert_eq!(found, wanted);
    }

    #[test]
    fn fields_of_the_head_do_not_follow_a_body() {
        let fields = of_application(b"Content-Length: 5\r\nset-cookie: a=b\r\nX-Sum: 7\r\n");
        let fields = fields.expect("one is left");
        assert_eq!((fields.len(), &fields["x-sum"]), (1, &HeaderValue::from_static("7")));
        assert!(of_application(b"Host: a\r\n").is_none() && of_application(b"").is_none());
        assert!(
            OF_THE_HEAD.is_sorted() && OF_THE_HEAD.iter().all(|name| belongs_in_the_head(name))
        );
    }

    #[test]
    fn what_is_no_field_is_left_out() {
        let lines = b"no colon\r\n: nameless\r\na b: c\r\nX: a\0b\r\nX: ok";
        let fields = parse(lines);
        assert_eq!((fields.len(), &fields["x"]), (1, &HeaderValue::from_static("ok")));
        assert!(parse(b"").is_empty() && parse(b"\r\n\n:\n").is_empty());
    }
}
