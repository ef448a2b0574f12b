//! The handling of a request, whatever protocol it came by: one pipeline, with the stages of
//! scripts as hooks between its phases.

pub mod account;
pub mod body;
mod direct;
mod error_page;
mod hub;
mod listing;
mod login;
mod phases;
pub mod pipeline;
pub mod respond;
mod script;
mod span;
