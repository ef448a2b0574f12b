//! Values that are not shown: neither in what `tokamak check --print` writes nor in an error.

use std::collections::BTreeMap;

use super::table::{read_pairs, show};
use super::{Bounds, Kind, Value, ValueError, text_of, wrong};
use crate::literal::Literal;
use crate::model::Secret;

impl Value for Secret {
    const KIND: Kind = Kind::Secret;

    fn read(literal: &Literal, _: &Bounds) -> Result<Secret, Vec<ValueError>> {
        match literal {
            Literal::Word(_) | Literal::Text(_) => text_of(literal, "a text").map(Secret::new),
            other => wrong(format!("must be a text in quotes, not {}", other.noun())),
        }
    }

    fn toml(&self) -> Option<String> {
        None
    }

    fn hidden(&self) -> Vec<String> {
        vec![String::new()]
    }
}

/// A secret, or a key of several lines (PEM).
#[derive(Clone, Debug, PartialEq)]
pub struct KeyText(pub Secret);

impl Value for KeyText {
    const KIND: Kind = Kind::Secret;

    fn read(literal: &Literal, bounds: &Bounds) -> Result<KeyText, Vec<ValueError>> {
        let (Literal::Word(text) | Literal::Text(text)) = literal else {
            return Secret::read(literal, bounds).map(KeyText);
        };
        // A line end of its own is allowed; what else a text may be is the same.
        Secret::read(&Literal::Text(text.replace(['\r', '\n'], " ")), bounds)?;
        Ok(KeyText(Secret::new(text.trim())))
    }

    fn toml(&self) -> Option<String> {
        None
    }

    fn hidden(&self) -> Vec<String> {
        self.0.hidden()
    }
}

/// Only their owner knows which of the values are secrets, so none is shown.
impl Value for BTreeMap<String, Secret> {
    const KIND: Kind = Kind::Secrets;

    fn read(literal: &Literal, _: &Bounds) -> Result<BTreeMap<String, Secret>, Vec<ValueError>> {
        let pairs = read_pairs(literal)?;
        Ok(pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }

    fn toml(&self) -> Option<String> {
        if self.is_empty() { show(std::iter::empty()) } else { None }
    }

    fn hidden(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }
}

/// Settings of PHP. Most are shown: an operator looks for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings(pub BTreeMap<String, String>);

impl Value for Settings {
    const KIND: Kind = Kind::Pairs;

    fn read(literal: &Literal, _: &Bounds) -> Result<Settings, Vec<ValueError>> {
        read_pairs(literal).map(Settings)
    }

    fn toml(&self) -> Option<String> {
        let shown = self.0.iter().filter(|(name, _)| !is_secret_setting(name));
        show(shown.map(|(name, value)| (name, value.into())))
    }

    fn hidden(&self) -> Vec<String> {
        self.0.keys().filter(|name| is_secret_setting(name)).cloned().collect()
    }
}

/// What the names of PHP's settings have in them that are secrets: `mysqli.default_pw`,
/// `newrelic.license`, `blackfire.server_token`. A name too many costs an operator a look into the
/// file; one too few shows a secret.
const SIGNS: &[&str] = &["auth", "credential", "key", "licen", "pass", "pw", "secret", "token"];

/// A session handler's server, with its password.
const WITH_PASSWORD: &str = "session.save_path";

/// Whether a setting of PHP is not to be shown.
fn is_secret_setting(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == WITH_PASSWORD || SIGNS.iter().any(|sign| name.contains(sign))
}
