//! The whole way: text, variables and flags in, a [`Server`] or every error out.

mod client_limits;
