//! Who wants a request answered: a client on its connection, or this server itself for one of its clients.

use std::sync::Arc;

use crate::connection::{Addresses, Link};
use crate::screen::Violation;

/// How many requests of the server's own may be made one for the other. Chosen arbitrarily: a page made of pages made of pages is
/// a use, more is a loop.
const MOST_DEPTH: u8 = 8;

/// Who wants the answer.
#[derive(Clone)]
pub enum Caller {
    /// A client.
    Client(Arc<Link>),
    /// The server itself.
    Server(Errand),
}

/// What a request of the server's own has of the one that it is made for.
#[derive(Clone)]
pub struct Errand {
    addresses: Arc<Addresses>,
    /// How many such requests it is below a client's.
    depth: u8,
}

impl Caller {
    /// Where the client is, or the one for which the server asks.
    pub fn addresses(&self) -> &Addresses {
        match self {
            Caller::Client(link) => &link.addresses,
            Caller::Server(errand) => &errand.addresses,
        }
    }

    /// The caller of a request that the server makes for this one. `None`: they are made for each other without end.
    pub fn errand(&self) -> Option<Caller> {
        let (addresses, depth) = match self {
            Caller::Client(link) => (link.addresses.clone(), 0),
            Caller::Server(errand) => (errand.addresses.clone(), errand.depth),
        };
        (depth < MOST_DEPTH).then(|| Caller::Server(Errand { addresses, depth: depth + 1 }))
    }

    /// The client's connection, if it is a client.
    pub fn link(&self) -> Option<&Arc<Link>> {
        match self {
            Caller::Client(link) => Some(link),
            Caller::Server(_) => None,
        }
    }

    /// The rule of HTTP that the client broke, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.link()?.violation()
    }

    /// Sends an interim response, if there is somebody to read it.
    pub fn send_interim(&self, bytes: &[u8]) {
        if let Some(link) = self.link() {
            link.send_interim(bytes);
        }
    }
}
