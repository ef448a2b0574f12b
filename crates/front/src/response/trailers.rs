//! The fields that follow a response's body (RFC 9110 section 6.5), as a worker writes them.

use http::header::{HeaderMap, HeaderName, HeaderValue};

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
    fn what_is_no_field_is_left_out() {
        let lines = b"no colon\r\n: nameless\r\na b: c\r\nX: a\0b\r\nX: ok";
        let fields = parse(lines);
        assert_eq!((fields.len(), &fields["x"]), (1, &HeaderValue::from_static("ok")));
        assert!(parse(b"").is_empty() && parse(b"\r\n\n:\n").is_empty());
    }
}
