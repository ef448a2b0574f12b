//! Responses: where their bytes come from, what holds for all of them, and what is done when one is
//! complete.

pub mod compression;
pub mod edits;
pub mod files;
mod guard;
pub mod headers;
pub mod https;
pub mod length;
pub mod listing;
pub mod pages;
mod series;
mod source;
mod tee;
pub mod trailers;

pub use guard::{Reply, RequestGuard};
pub use series::{Pieces, Series};
pub use source::{Broken, Source};
pub use tee::{Budget, TeeWriter, tee};
