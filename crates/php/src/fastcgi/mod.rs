//! Requests that came over FastCGI: what their parameters mean, as php-fpm understands them.

mod environment;
mod resolve;

pub use environment::{Environment, Span};
pub use resolve::{Kind, Rules, resolve};
