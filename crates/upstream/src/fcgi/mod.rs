//! The rim of FastCGI applications: connections that are kept and shared, requests to them, responses from them.
//!
//! [`Upstream`] is one application with all its addresses; each address has a pool that all event loops
//! share. A request ([`Call`]) becomes an [`Exchange`] on one connection, whose events are the response; what a slow client
//! has not taken yet waits in a [`Relay`], so that the connection is free again as soon as the application is done.
//!
//! A request has a connection to itself: applications that take several at once on one are rare, and say so only when asked
//! (FCGI_MPXS_CONNS).

mod call;
mod exchange;
mod fault;
mod pool;
mod relay;
mod stream;
#[cfg(test)]
mod tests;
mod upstream;

pub use call::Call;
pub use exchange::{Event, Exchange};
pub use fault::Fault;
pub use relay::Relay;
pub use stream::Endpoint;
pub use tokamak_fastcgi::encode::Params;
pub use upstream::{Answer, Bounds, Upstream};
