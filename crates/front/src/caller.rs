//! Who wants a request answered: a client on its connection, or this server itself for one of its
//! clients.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use crate::cache::Refresh;
use crate::connection::{Addresses, Link};
use crate::screen::Violation;

/// How many requests of the server's own may be made one for the other. Chosen arbitrarily: a page
/// made of pages made of pages is a use, more is a loop.
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
    /// The client, if it waits for this very answer: interim responses are for it.
    client: Weak<Link>,
    /// The answer is for the content cache.
    refresh: Option<Arc<Refresh>>,
}

impl Caller {
    /// Where the client is, or the one for which the server asks.
    pub fn addresses(&self) -> &Addresses {
        match self {
            Caller::Client(link) => &link.addresses,
            Caller::Server(errand) => &errand.addresses,
        }
    }

    /// The caller of a request that the server makes for this one. `None`: they are made for each
    /// other without end.
    pub fn errand(&self) -> Option<Caller> {
        let Errand { addresses, depth, .. } = self.as_errand();
        let errand = Errand { addresses, depth: depth + 1, client: Weak::new(), refresh: None };
        (depth < MOST_DEPTH).then_some(Caller::Server(errand))
    }

    /// The caller of a request that fetches for the content cache what this one has found stale.
    pub fn refreshing(&self, refresh: Refresh) -> Option<Caller> {
        let refresh = Some(Arc::new(refresh));
        match self.errand()? {
            Caller::Server(errand) => Some(Caller::Server(Errand { refresh, ..errand })),
            Caller::Client(_) => None,
        }
    }

    /// The same caller for a request that goes on when the client has left, whose connection it
    /// does not keep open.
    pub fn detached(&self) -> Caller {
        Caller::Server(self.as_errand())
    }

    fn as_errand(&self) -> Errand {
        match self {
            Caller::Client(link) => Errand {
                addresses: link.addresses.clone(),
                depth: 0,
                client: Arc::downgrade(link),
                refresh: None,
            },
            Caller::Server(errand) => errand.clone(),
        }
    }

    /// What the content cache wants, if the request is made for it.
    pub fn refresh(&self) -> Option<&Refresh> {
        match self {
            Caller::Client(_) => None,
            Caller::Server(errand) => errand.refresh.as_deref(),
        }
    }

    /// The client's connection, if it is a client.
    pub fn link(&self) -> Option<&Arc<Link>> {
        match self {
            Caller::Client(link) => Some(link),
            Caller::Server(_) => None,
        }
    }

    /// Whether it has gone while its answer has to wait; see [`Link::poll_gone`]. The server itself
    /// stays.
    pub fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        self.link().map_or(Poll::Pending, |link| link.poll_gone(context))
    }

    /// The rule of HTTP that the client broke, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.link()?.violation()
    }

    /// Sends an interim response, if there is somebody to read it.
    pub fn send_interim(&self, bytes: &[u8]) {
        match self {
            Caller::Client(link) => link.send_interim(bytes),
            Caller::Server(errand) => {
                if let Some(link) = errand.client.upgrade() {
                    link.send_interim(bytes);
                }
            }
        }
    }
}
