//! Why there is no certificate, for people and for the plan.

use std::fmt;

use crate::plan::Cause;

/// Most characters of what an authority says that come into the log.
const LONGEST: usize = 500;

/// Why there is no certificate.
#[derive(Clone, Debug)]
pub struct Error {
    /// What follows from it.
    pub cause: Cause,
    /// In words.
    text: String,
}

impl Error {
    /// Something of this machine does not work.
    pub fn here(text: impl fmt::Display) -> Error {
        Error::new(Cause::Unavailable, text)
    }

    /// With this cause, in these words. They may be an authority's: there is only so much of them.
    pub fn new(cause: Cause, text: impl fmt::Display) -> Error {
        let text: String = text.to_string().chars().take(LONGEST).collect();
        Error { cause, text }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
