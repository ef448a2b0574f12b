//! Who wants a request answered: a client on its connection, or this server itself on behalf of one
//! of its clients.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode};

use crate::cache::Refresh;
use crate::client::{Addresses, Client};
use crate::failure::Failure;

/// How many requests of the server's own may be made one for the other. A page made of pages made
/// of pages is a use, more is a loop: ten times more would only let a loop cost ten times as much.
const MOST_DEPTH: u8 = 8;

/// Who wants the answer.
#[derive(Clone)]
pub enum Caller {
    /// A client.
    Client(Arc<dyn Client>),
    /// The server itself.
    Server(Errand),
}

/// What a request of the server's own has of the one that it is made for.
#[derive(Clone)]
pub struct Errand {
    addresses: Arc<Addresses>,
    scheme: &'static str,
    /// How many such requests it is below a client's.
    depth: u8,
    /// The client, if it waits for this very answer: interim responses are for it.
    client: Option<Weak<dyn Client>>,
    /// The answer is for the content cache.
    refresh: Option<Arc<Refresh>>,
}

impl Caller {
    /// Where the client is, or the one for which the server asks.
    pub fn addresses(&self) -> &Addresses {
        match self {
            Caller::Client(client) => client.addresses(),
            Caller::Server(errand) => &errand.addresses,
        }
    }

    /// The scheme of the request's URL.
    pub fn scheme(&self) -> &'static str {
        match self {
            Caller::Client(client) => client.scheme(),
            Caller::Server(errand) => errand.scheme,
        }
    }

    /// The caller of a request that the server makes for this one. `None`: they are made for each
    /// other without end.
    pub fn errand(&self) -> Option<Caller> {
        let errand = self.as_errand();
        let depth = errand.depth + 1;
        let errand = Errand { depth, client: None, refresh: None, ..errand };
        (depth <= MOST_DEPTH).then_some(Caller::Server(errand))
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
            Caller::Client(client) => Errand {
                addresses: client.addresses().clone(),
                scheme: client.scheme(),
                depth: 0,
                client: Some(Arc::downgrade(client)),
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

    /// The client, if it is one.
    pub fn client(&self) -> Option<&Arc<dyn Client>> {
        match self {
            Caller::Client(client) => Some(client),
            Caller::Server(_) => None,
        }
    }

    /// Ready if the client has gone; see [`Client::poll_gone`]. The server itself stays.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.client().map_or(Poll::Pending, |client| client.poll_gone(cx))
    }

    /// What the client is told if it has broken a rule of its protocol.
    pub fn violation(&self) -> Option<Failure> {
        self.client()?.violation()
    }

    /// Sends an interim response, if there is a client to read it.
    pub fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        match self {
            Caller::Client(client) => client.send_interim(status, headers),
            Caller::Server(errand) => {
                if let Some(client) = errand.client.as_ref().and_then(Weak::upgrade) {
                    client.send_interim(status, headers);
                }
            }
        }
    }
}
