//! The handling of a request, whatever protocol it came by: one pipeline, with the stages of
//! scripts as hooks between its phases.

pub mod body;
mod direct;
pub mod pipeline;
mod script;
mod span;
