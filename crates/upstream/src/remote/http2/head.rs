//! Heads and trailers of HTTP/2 in the forms that those of HTTP/1.1 have.

use tokamak_http1 as http1;
use tokamak_nghttp2::Head;

/// The head of a response. `None`: the status is no number.
pub(super) fn response(head: &Head) -> Option<http1::Head> {
    let mut status = None;
    // Names and values, and a line feed behind each.
    let mut fields = Vec::with_capacity(head.size() + 2 * head.len());
    for (name, value) in head.fields() {
        if name == b":status" {
            status = http1::number(&value).and_then(|number| u16::try_from(number).ok());
            continue;
        }
        for part in [name, &value] {
            fields.extend_from_slice(part);
            fields.push(b'\n');
        }
    }
    Some(http1::Head { status: status?, reason: String::new(), fields })
}

/// The fields behind a body: lines `name: value CR LF`.
pub(super) fn trailers(fields: &Head) -> Vec<u8> {
    let mut lines = Vec::with_capacity(fields.size() + 4 * fields.len());
    for (name, value) in fields.fields() {
        for part in [name, b": ", &value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}

/// The names and values in such lines.
pub(super) fn fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_the_form_of_http_1() {
        let head: Head = [(":status", "404"), ("a", "b"), ("c", "")].into_iter().collect();
        let head = response(&head).expect("it has a status");
        let pairs: Vec<_> = head.pairs().collect();
        assert_eq!(head.status, 404);
        assert_eq!(pairs, [(&b"a"[..], &b"b"[..]), (b"c", b"")]);
        assert!(response(&[(":status", "4o4")].into_iter().collect()).is_none());
    }

    #[test]
    fn trailers_are_lines_and_back() {
        let trailers = trailers(&[("grpc-status", "0"), ("x", "a: b")].into_iter().collect());
        assert_eq!(trailers, b"grpc-status: 0\r\nx: a: b\r\n");
        let found: Vec<_> = fields(&trailers).collect();
        assert_eq!(found, [(&b"grpc-status"[..], &b"0"[..]), (b"x", b"a: b")]);
    }
}
