//! The codings with which responses are compressed: `true`, `false` or a list.

use super::{Bounds, Choice, Kind, Value, ValueError, wrong};
use crate::literal::Literal;
use crate::model::Coding;

/// The codings, the preferred one first; none: nothing is compressed.
#[derive(Clone, Debug, PartialEq)]
pub struct Codings(pub Vec<Coding>);

impl Choice for Coding {
    const NAMES: &'static [&'static str] = &["zstd", "br", "gzip"];
    const ALL: &'static [Coding] = &Coding::ALL;
}

impl Value for Codings {
    const KIND: Kind = Kind::SwitchOr(&<Vec<Coding> as Value>::KIND);

    fn read(literal: &Literal, bounds: &Bounds) -> Result<Codings, Vec<ValueError>> {
        if let Ok(is_on) = bool::read(literal, bounds) {
            return Ok(Codings(if is_on { Coding::ALL.to_vec() } else { Vec::new() }));
        }
        let codings = Vec::<Coding>::read(literal, bounds).map_err(|mut errors| {
            errors.iter_mut().for_each(|error| error.problem.push_str(" (or true or false)"));
            errors
        })?;
        for (nth, coding) in codings.iter().enumerate() {
            if codings[..nth].contains(coding) {
                return wrong(format!("`{}` is there twice", coding.name()));
            }
        }
        Ok(Codings(codings))
    }

    fn toml(&self) -> Option<String> {
        match &self.0[..] {
            [] => false.toml(),
            all if *all == Coding::ALL => true.toml(),
            _ => self.0.toml(),
        }
    }
}
