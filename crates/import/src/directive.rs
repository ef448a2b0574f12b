//! One directive of a configuration, in any of the languages.

use crate::source::Place;

/// A name with arguments, and perhaps a block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Directive {
    pub place: Place,
    pub name: String,
    pub args: Vec<String>,
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    /// The directive as one line, for notes.
    pub(crate) fn line(&self) -> String {
        let words: Vec<&str> =
            std::iter::once(&self.name).chain(&self.args).map(String::as_str).collect();
        words.join(" ")
    }

    /// One of its arguments, or nothing.
    pub(crate) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The directives of its block.
    pub(crate) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}
