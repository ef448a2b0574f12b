//! The handling of a request, whatever protocol it came by: one pipeline, with the stages of
//! scripts as hooks between its phases.

mod account;
pub mod body;
mod direct;
mod error_page;
mod listing;
mod login;
pub mod pipeline;
mod script;
mod span;
