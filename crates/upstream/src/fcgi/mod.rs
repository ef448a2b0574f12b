//! The rim of FastCGI applications: connections that are kept and shared, requests to them,
//! responses from them.
//!
//! [`Upstream`] is one application with all its addresses, which may come and go; `balance` chooses
//! between them. Each has a pool that all event loops share. A request ([`Call`]) becomes an
//! [`Exchange`] on one connection, whose events are the response; what a slow client has not taken
//! yet waits in a [`Relay`], so that the connection is free again as soon as the application is
//! done.
//!
//! A request has a connection to itself (`alone`), but where the application says that it takes
//! several at once on one: there it is a strand of a trunk.

mod alone;
mod backlog;
mod balance;
mod call;
mod checkup;
mod exchange;
mod fault;
mod follow;
mod inquiry;
mod member;
mod names;
mod pool;
mod relay;
mod roster;
mod strand;
mod stream;
#[cfg(test)]
mod tests;
mod trunk;
mod trunks;
mod turns;
mod upstream;

pub use balance::health::Rules;
pub use balance::{Key, Policy};
pub use call::Call;
pub use checkup::Checkup;
pub use exchange::{Event, Exchange};
pub use fault::Fault;
pub use inquiry::{Answer, Inquiry};
pub use member::Address;
pub use names::{Name, Names, Source};
pub use relay::Relay;
pub use stream::Endpoint;
pub use tokamak_fastcgi::Role;
pub use tokamak_fastcgi::encode::Params;
pub use tokamak_sys::control::{Deed, Duty, Errand, Standing};
pub use upstream::{Bounds, Settings, Tell, Upstream};
