//! The protocols of clients. Nothing outside of this folder knows their versions or sockets: it
//! sees a request, and the [`Client`](crate::client::Client) that waits for the response.

pub mod h1;
pub mod h2;
pub mod h3;
pub mod multiplex;
pub mod proxy_protocol;
pub mod transport;
mod tunnel;
