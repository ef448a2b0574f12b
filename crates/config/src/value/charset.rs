//! The name of a charset, as in `"utf-8"`.

use super::{Bounds, Kind, Value, ValueError, quote, text_of, wrong};
use crate::literal::Literal;

/// A name of a charset. It stands in a header field, so it has only what such names are made of
/// (RFC 2978 section 2.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Charset(pub String);

impl Value for Charset {
    const KIND: Kind = Kind::Text;

    fn read(literal: &Literal, _: &Bounds) -> Result<Charset, Vec<ValueError>> {
        let name = text_of(literal, "the name of a charset")?;
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte);
        if !name.bytes().all(is_good) {
            return wrong(format!("`{name}` is no name of a charset; a good one is \"utf-8\""));
        }
        Ok(Charset(name.to_owned()))
    }

    fn toml(&self) -> Option<String> {
        quote(&self.0)
    }
}
