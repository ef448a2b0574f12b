//! The way of a request, whatever protocol it came by: one pipeline, and the stages of scripts as
//! hooks between its phases.

pub mod body;
pub mod pipeline;
mod script;
