//! Load that does not wait for answers, and the most that a server bears of it. Without it the
//! capacity of a site would be found by its visitors.
//!
//! Visitors do not wait for each other: when a server becomes slow, they go on arriving. A load
//! generator that sends its next request when the last one is answered becomes slow together with
//! the server, and does not see the requests that would have waited (coordinated omission). So
//! here requests are sent at times that are fixed before, and a response time counts from the
//! moment at which its request was to be sent.
//!
//! [`leaks`] asks one request at a time, and looks at the server's memory after each.
//!
//! [`arrivals`], [`search`], [`judge`] and [`ends`] decide, from numbers alone; [`client`] and
//! [`watch`] meet the network and `/proc`.

mod alarm;
pub mod answers;
pub mod arrivals;
pub mod capacity;
pub mod client;
mod connection;
pub mod ends;
mod html;
pub mod judge;
pub mod leaks;
mod plot;
pub mod print;
pub mod search;
pub mod target;
pub mod tls;
pub mod tokamak;
pub mod trial;
pub mod watch;
mod words;

pub use html::page;
