//! QUIC on one UDP port for many event loops, and for the fronts of several generations.
//!
//! The kernel gives each packet to whoever reads the port next. The connection id in a packet says
//! who serves it ([`Route`]): an event loop that has read a packet of another one hands it over,
//! within the process or, for a front that is draining, to the other process ([`Exchange`]). So a
//! connection lives through a reload, and through a change of its client's address.

mod destination;
mod endpoint;
mod exchange;
mod id;
mod packet;
mod socket;

pub use destination::destination;
pub use endpoint::{ASK_EVERY, Limits, endpoint, server_config};
pub use exchange::{Exchange, Inbox};
pub use id::{Route, Secret};
pub use packet::Packet;
pub use quinn;
pub use socket::RoutedSocket;
