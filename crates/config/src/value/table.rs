//! Tables whose names are the operator's own.

use std::collections::BTreeMap;

use super::{Bounds, Kind, Size, Value, ValueError, wrong};
use crate::literal::{KeyValue, Literal};

/// Reads each entry of a table, and gathers what is wrong with any.
fn read_entries<T>(
    literal: &Literal,
    what: &str,
    read: impl Fn(&KeyValue) -> Result<T, String>,
) -> Result<BTreeMap<String, T>, Vec<ValueError>> {
    let entries = match literal {
        Literal::Word(word) if word.is_empty() => return Ok(BTreeMap::new()),
        Literal::Table(entries) => entries,
        other => {
            return wrong(format!("must be a table of names and {what}, not {}", other.noun()));
        }
    };
    let mut values = BTreeMap::new();
    let mut complaints = Vec::new();
    for entry in entries {
        match read(entry) {
            Ok(value) => drop(values.insert(entry.name.clone(), value)),
            Err(problem) => {
                complaints
                    .push(ValueError { inside: Some((entry.name.clone(), entry.offset)), problem });
            }
        }
    }
    if complaints.is_empty() { Ok(values) } else { Err(complaints) }
}

pub(super) fn show<'a>(
    entries: impl Iterator<Item = (&'a String, toml_edit::Value)>,
) -> Option<String> {
    let table: toml_edit::InlineTable =
        entries.map(|(name, value)| (name.as_str(), value)).collect();
    Some(table.to_string())
}

/// Reads names and values that processes get as texts.
pub(super) fn read_pairs(literal: &Literal) -> Result<BTreeMap<String, String>, Vec<ValueError>> {
    read_entries(literal, "values", |entry| {
        let value = match &entry.value {
            Literal::Text(text) => text.clone(),
            Literal::Integer(number) => number.to_string(),
            Literal::Float(number) => number.to_string(),
            // As `php.ini` reads `On` and `Off`.
            Literal::Boolean(flag) => u8::from(*flag).to_string(),
            other => {
                return Err(format!("must be a text, a number or a boolean, not {}", other.sort()));
            }
        };
        if entry.name.is_empty() || entry.name.contains(['=', '\0', '\n', '\r']) {
            return Err("the name must not be empty nor contain `=`, line breaks or NUL".into());
        }
        if value.contains('\0') {
            return Err("the value must not contain NUL".into());
        }
        Ok(value)
    })
}

impl Value for BTreeMap<String, String> {
    const KIND: Kind = Kind::Pairs;

    fn read(literal: &Literal, _: &Bounds) -> Result<BTreeMap<String, String>, Vec<ValueError>> {
        read_pairs(literal)
    }

    fn toml(&self) -> Option<String> {
        show(self.iter().map(|(name, value)| (name, value.into())))
    }
}

impl Value for BTreeMap<String, Size> {
    const KIND: Kind = Kind::Sizes;

    fn read(literal: &Literal, bounds: &Bounds) -> Result<BTreeMap<String, Size>, Vec<ValueError>> {
        read_entries(literal, "sizes", |entry| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if !entry.name.bytes().all(is_part)
                || !entry.name.starts_with(|first: char| !first.is_ascii_digit())
            {
                return Err("the name must be one of Lua: letters, digits and `_`".into());
            }
            Size::read(&entry.value, bounds).map_err(|complaints| {
                complaints
                    .into_iter()
                    .map(|complaint| complaint.problem)
                    .collect::<Vec<_>>()
                    .join("; ")
            })
        })
    }

    fn toml(&self) -> Option<String> {
        show(self.iter().map(|(name, size)| (name, crate::unit::show_size(size.0).into())))
    }
}
