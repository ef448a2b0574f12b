//! What is wrong with a configuration: all of it, each fault with its place.

use std::fmt;
use std::path::PathBuf;

/// Where a faulty setting was typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// The command line: a flag such as `--workers`, or `PATH`.
    Flag(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A file, with the line counted from 1 when the fault has one.
    File(PathBuf, Option<usize>),
    /// Nowhere: a default that cannot work here.
    Default,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Flag(name) => write!(f, "command line {name}"),
            Location::Environment(name) => write!(f, "environment {name}"),
            Location::File(path, Some(line)) => write!(f, "{}:{line}", path.display()),
            Location::File(path, None) => write!(f, "{}", path.display()),
            Location::Default => write!(f, "defaults"),
        }
    }
}

/// One fault: where, in which setting, what is wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Error {
    /// Where it was typed.
    pub location: Location,
    /// The setting, as `section.name`; empty when the fault is the file itself.
    pub key: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.location, self.problem)
        } else {
            write!(f, "{}: {}: {}", self.location, self.key, self.problem)
        }
    }
}

/// Every fault of a configuration, in the order of the file. Never empty where it is an `Err`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(Vec<Error>);

impl Errors {
    /// The faults, flags first, then environment, then the file from top to bottom.
    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.0.iter()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn add(
        &mut self,
        location: Location,
        key: impl Into<String>,
        problem: impl Into<String>,
    ) {
        self.0.push(Error { location, key: key.into(), problem: problem.into() });
    }

    /// `value` if nothing was wrong, else all that was.
    pub(crate) fn unless_any<T>(mut self, value: Option<T>) -> Result<T, Errors> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => {
                self.0.sort();
                self.0.dedup();
                Err(self)
            }
        }
    }

    pub(crate) fn one(location: Location, problem: impl Into<String>) -> Errors {
        Errors(vec![Error { location, key: String::new(), problem: problem.into() }])
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, error) in self.0.iter().enumerate() {
            if nth > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
