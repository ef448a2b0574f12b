//! The client of applications that speak FastCGI or HTTP: connections that are kept and shared,
//! requests, responses.
//!
//! [`Upstream`] is one application with all its addresses, which may come and go; `balance` chooses
//! between them. Each has a pool that all event loops share. A request ([`Call`]) becomes an
//! [`Exchange`] on one connection, whose events are the response; what a slow client has not taken
//! yet waits in a [`Relay`], so that the connection is free again as soon as the application is
//! done.
//!
//! A request has a connection to itself (`exclusive`), but where the application says that it takes
//! several at once on one (in FastCGI): there it is a stream (`mux_stream`) of a shared connection
//! (`mux_connection`). In HTTP/2 all connections are shared (`http2`). What is written for a
//! request is in `request`, what the answer means in `decoder`; all else is the same for both
//! protocols.

mod attempts;
mod backlog;
mod balance;
mod checkup;
mod connection_set;
mod connector;
mod decoder;
mod error;
mod event;
mod exchange;
mod exclusive;
mod fair_semaphore;
mod follow;
mod http2;
mod keeping;
mod member;
mod members;
mod mux_connection;
mod mux_connections;
mod mux_stream;
mod names;
mod pool;
mod relay;
mod request;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod tunnel;
mod upstream;

pub use attempts::{Attempts, ResponseStart};
pub use balance::health::Rules;
pub use balance::{Balancing, Key};
pub use checkup::Checkup;
pub use error::UpstreamError;
pub use event::Event;
pub use exchange::Exchange;
pub use member::Address;
pub use names::{Name, Names, Source};
pub use relay::Relay;
pub use request::{Call, Expected};
pub use settings::{Bounds, Http2Bounds, LogSink, Multiplex, Settings};
pub use stream::Endpoint;
pub use tokamak_fastcgi::Role;
pub use tokamak_fastcgi::encode::Params;
pub use tokamak_http1::Head;
pub use tokamak_sys::control::{
    AddressAction, AddressChange, AddressState, AddressStatus, Connections,
};
pub use tunnel::Tunnel;
pub use upstream::Upstream;
