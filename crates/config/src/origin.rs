//! Values with the place that they come from, so that a message can name it.

/// Where a value came from; the line is counted from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// The table of options.
    Default,
    /// The file.
    File(usize),
    /// This environment variable.
    Environment(&'static str),
    /// This flag.
    Flag(&'static str),
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}
