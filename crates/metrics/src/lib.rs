//! Metrics: the table of all of them, what was counted, and the text for who scrapes it.
//!
//! [`Row`] declares each metric once. Who counts adds [`Samples`] of rows; [`Format::write`] makes
//! the text. The supervisor's samples reach the front as lines of [`Samples::to_lines`].

mod cache;
mod exemplar;
mod histogram;
#[cfg(test)]
mod reference;
mod row;
mod samples;
mod text;

pub use cache::CacheFigures;
pub use exemplar::{Exemplar, Exemplars};
pub use histogram::{BOUNDS, Counter, Histogram, Reading};
pub use row::{Kind, Row};
pub use samples::{Malformed, Samples, Value};
pub use text::Format;
