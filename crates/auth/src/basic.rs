//! What a client sends in `Authorization: Basic`.

use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Longest field that is decoded. Names and passwords of people are far shorter; one of 64 kB would
/// only cost time.
const LONGEST: usize = 4096;

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name, as the client sent it: UTF-8 if it heeds `charset="UTF-8"` (RFC 7617).
    pub name: Vec<u8>,
    /// The password, likewise.
    pub password: Vec<u8>,
}

// Written by hand, so that no password gets into a log.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?}, …)", self.name.escape_ascii().to_string())
    }
}

impl Login {
    /// The login in a field value; `None` if there is none in it. Control characters may be in
    /// neither part (RFC 7617 section 2).
    pub fn read(field: &[u8]) -> Option<Login> {
        let (scheme, encoded) = field.split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") || field.len() > LONGEST {
            return None;
        }
        let mut name = BASE64.decode(encoded.trim_ascii()).ok()?;
        let colon = name.iter().position(|byte| *byte == b':')?;
        let password = name.split_off(colon).split_off(1);
        let is_clean = |text: &[u8]| !text.iter().any(u8::is_ascii_control);
        (is_clean(&name) && is_clean(&password)).then_some(Login { name, password })
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_a_complete_login_is_read() {
        for (field, expected) in [
            ("Basic YTpi", Some(("a", "b"))),
            ("bAsIc  YTpi ", Some(("a", "b"))),
            ("Basic YTpiOmM=", Some(("a", "b:c"))),
            ("Basic YTpiOmM", Some(("a", "b:c"))),
            ("Basic Og==", Some(("", ""))),
            ("Basic w7w6w6Q=", Some(("ü", "ä"))),
            ("Basic YWI=", None),
            ("Basic YTpi=", None),
            ("Basic YTp!", None),
            ("Basic YToA", None),
            ("Basic YQo6Yg==", None),
            ("Basic", None),
            ("Basic ", None),
            ("Bearer YTpi", None),
            ("", None),
        ] {
            let login = Login::read(field.as_bytes());
            let expected = expected
                .map(|(name, password)| Login { name: name.into(), password: password.into() });
            assert_eq!(login, expected, "{field}");
        }
        let long = format!("Basic {}", STANDARD.encode(format!("a:{}", "x".repeat(8000))));
        assert_eq!(Login::read(long.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read(name in "[^:\\p{Cc}]{0,20}", password in "\\PC{0,20}") {
            let field = format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
            let login = Login::read(field.as_bytes()).unwrap();
            prop_assert_eq!((login.name, login.password), (name.into(), password.into()));
        }
    }
}
