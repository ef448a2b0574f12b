//! Header fields that the operator sets: which names and values there are.

use std::collections::BTreeMap;

use crate::model::Secret;

/// Whether a text may be the name of a header field.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_token)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a text may be the value of a header field.
pub(super) fn is_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || (b' '..0x7f).contains(&byte))
}

/// What is wrong with the fields of requests that the server makes, of which it sets the `reserved`
/// ones itself. The values are not shown.
pub(super) fn wrong(fields: &BTreeMap<String, Secret>, reserved: &[&str]) -> Option<String> {
    fields.iter().find_map(|(name, value)| {
        if !is_name(name) {
            Some(format!("`{}` is no name of a header field", name.escape_debug()))
        } else if reserved.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            Some(format!("`{name}` is set by the server; leave it out"))
        } else if !is_value(value.reveal()) {
            Some(format!("the value of `{name}` has characters that no header field may have"))
        } else {
            None
        }
    })
}
