//! Header fields that scripts write: what they may be, and which ones are the server's own.

use crate::host::{HttpContext, Side};

/// Fields that frame a message, or that are the other side's to send: assignments to them are
/// ignored.
fn is_refused(side: Side, name: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    is("content-length")
        || is("connection")
        || is("transfer-encoding")
        // A script that copies all fields of a response would send the application a cookie that
        // no client sent.
        || side == Side::Request && is("set-cookie")
}

/// Whether a name is a token of HTTP.
fn is_token(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_part)
}

/// The values in what a script assigned. Several values of one field are written as the lines that
/// they become: `one\r\nName: two`. Anything else that holds a line's end, or another control
/// character, is nothing.
fn values<'a>(name: &[u8], text: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"\r\n") {
        all.push(&rest[..at]);
        let (next, after) = rest[at + 2..].split_at_checked(name.len())?;
        rest = next.eq_ignore_ascii_case(name).then(|| after.strip_prefix(b":")).flatten()?;
        rest = rest.trim_ascii_start();
    }
    all.push(rest);
    all.iter().all(|value| is_clean(value)).then_some(all)
}

/// Whether there are no control characters in a value.
fn is_clean(value: &[u8]) -> bool {
    value.iter().all(|&byte| byte == b'\t' || byte >= 0x20 && byte != 0x7f)
}

/// Does what an assignment to a header field means.
///
/// # Errors
/// Fails if the value is invalid; it is ignored then.
pub fn assign(
    http: &mut dyn HttpContext,
    side: Side,
    name: &[u8],
    text: &[u8],
) -> Result<(), String> {
    let is_host = side == Side::Request && name.eq_ignore_ascii_case(b"host");
    if is_refused(side, name) || is_host && text.is_empty() {
        return Ok(());
    }
    let whose = if side == Side::Request { "request" } else { "response" };
    if !is_token(name) {
        let name = name.escape_ascii();
        return Err(format!("invalid char in {whose} header field name: ({name})"));
    }
    if text.is_empty() {
        http.set_field(side, name, None);
        return Ok(());
    }
    if is_clean(text) {
        http.set_field(side, name, Some(text));
        return Ok(());
    }
    let Some(values) = values(name, text) else {
        let name = name.escape_ascii();
        return Err(format!("invalid char in {whose} header field value for {name}"));
    };
    http.set_field(side, name, Some(values[0]));
    for value in &values[1..] {
        http.add_field(side, name, value);
    }
    Ok(())
}

/// The value that a script reads: several are joined as they would have to be written.
pub fn joined(http: &dyn HttpContext, side: Side, name: &[u8]) -> Option<Vec<u8>> {
    let mut all: Option<Vec<u8>> = None;
    http.values(side, name, &mut |value| match &mut all {
        None => all = Some(value.to_vec()),
        Some(all) => {
            match side {
                Side::Request if name.eq_ignore_ascii_case(b"cookie") => {
                    all.extend_from_slice(b"; ")
                }
                Side::Request => all.extend_from_slice(b", "),
                Side::Response => {
                    all.extend_from_slice(b"\r\n");
                    all.extend_from_slice(name);
                    all.extend_from_slice(b": ");
                }
            }
            all.extend_from_slice(value);
        }
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_values_are_split_and_a_smuggled_line_is_refused() {
        assert_eq!(values(b"X", b"1"), Some(vec![&b"1"[..]]));
        assert_eq!(values(b"X-A", b"1\r\nx-a: 2\r\nX-A:3"), Some(vec![&b"1"[..], b"2", b"3"]));
        for bad in [
            &b"1\r\nX-B: 2"[..],
            b"1\r\n",
            b"1\n",
            b"1\r",
            b"1\r\n 2",
            b"1\r\nX-A 2",
            b"\0",
            b"1\r\n\r\n<p>",
        ] {
            assert_eq!(values(b"X-A", bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn names_are_tokens() {
        assert!(is_token(b"X-Powered_By!"));
        for bad in [&b""[..], b"X A", b"X:", b"X\r\nY", b"\xe9"] {
            assert!(!is_token(bad), "{}", bad.escape_ascii());
        }
    }
}
