//! Shapes of access log lines: a name, or a pattern.

use std::sync::Arc;

use super::choice::did_you_mean;
use super::{Bounds, Kind, Value, ValueError, quote, text_of, wrong};
use crate::literal::Literal;
use crate::model::{LogFormat, LogPattern};

/// Names and what they mean.
const NAMED: [(&str, LogFormat); 3] =
    [("combined", LogFormat::Combined), ("vhost", LogFormat::Vhost), ("json", LogFormat::Json)];

impl Value for LogFormat {
    const KIND: Kind = Kind::LogFormat;

    fn read(literal: &Literal, _: &Bounds) -> Result<LogFormat, Vec<ValueError>> {
        let text = text_of(literal, "the name of a format, or a pattern")?;
        if let Some((_, format)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(format.clone());
        }
        if !text.contains('$') {
            let near = did_you_mean(text, &NAMED.map(|(name, _)| name));
            return wrong(format!(
                "`{text}` is unknown; use combined, vhost or json, or a pattern with variables \
                 such as $remote_addr{near}"
            ));
        }
        LogPattern::read(text).map(|it| LogFormat::Pattern(Arc::new(it))).or_else(wrong)
    }

    fn toml(&self) -> Option<String> {
        if let LogFormat::Pattern(pattern) = self {
            return quote(&pattern.text);
        }
        let name = NAMED.iter().find(|(_, format)| format == self).map(|(name, _)| *name)?;
        quote(name)
    }
}
