//! The event loops: how they accept connections, and how many of them serve.

pub mod accept;
pub mod balancer;
