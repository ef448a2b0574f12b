//! A client that a proxy stands for.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode};
use tokamak_upstream::Flow;

use crate::client::{Addresses, Client};
use crate::failure::Failure;

/// The client of one request that came through a proxy: the proxy's connection, with the client's
/// addresses and scheme.
pub struct Proxied {
    /// The proxy.
    pub client: Arc<dyn Client>,
    /// The addresses of the client and of the server that it asked.
    pub addresses: Arc<Addresses>,
    /// The scheme that it used.
    pub scheme: &'static str,
}

impl Client for Proxied {
    fn addresses(&self) -> &Arc<Addresses> {
        &self.addresses
    }

    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn requests(&self) -> u32 {
        self.client.requests()
    }

    // The proxy's connection is shared by its clients.
    fn flow(&self) -> Option<Flow> {
        None
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.client.poll_gone(cx)
    }

    fn takes_websocket(&self) -> bool {
        self.client.takes_websocket()
    }

    fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        self.client.send_interim(status, headers);
    }

    fn violation(&self) -> Option<Failure> {
        self.client.violation()
    }

    fn served(&self, now: u64) {
        self.client.served(now);
    }

    fn take_received(&self) -> u64 {
        self.client.take_received()
    }
}
