//! The caller of a request: a client on its connection, or this server itself, which makes
//! subrequests on behalf of its clients.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode};
use tokamak_upstream::Flow;

use crate::cache::Refresh;
use crate::client::{Addresses, Client};
use crate::failure::Failure;

/// How deeply subrequests may nest. A page made of pages made of pages is legitimate; deeper
/// nesting is probably a loop. Ten times more would let such a loop cost ten times as much.
const MOST_DEPTH: u8 = 8;

/// The caller of a request.
#[derive(Clone)]
pub enum Caller {
    /// A client waits for the response.
    Client {
        /// The client.
        client: Arc<dyn Client>,
        /// Whether it gets interim responses.
        takes_interim: bool,
    },
    /// The server itself makes the request.
    Server(Subrequest),
}

/// A subrequest: what it takes over from the request that it is made for.
#[derive(Clone)]
pub struct Subrequest {
    addresses: Arc<Addresses>,
    scheme: &'static str,
    /// How deeply it is nested; 1 for a subrequest of a client's request.
    depth: u8,
    /// The flow of the client's requests.
    flow: Option<Flow>,
    /// The client, if it waits for this very answer and gets interim responses.
    client: Option<Weak<dyn Client>>,
    /// Set if the answer is for the content cache.
    refresh: Option<Arc<Refresh>>,
}

impl Caller {
    /// The addresses of the client, also of the one on whose behalf the server asks.
    pub fn addresses(&self) -> &Addresses {
        match self {
            Caller::Client { client, .. } => client.addresses(),
            Caller::Server(subrequest) => &subrequest.addresses,
        }
    }

    /// The scheme of the request's URL.
    pub fn scheme(&self) -> &'static str {
        match self {
            Caller::Client { client, .. } => client.scheme(),
            Caller::Server(subrequest) => subrequest.scheme,
        }
    }

    /// The flow of the client's requests, for which applications take turns; also that of a client
    /// on whose behalf the server asks.
    pub fn flow(&self) -> Option<Flow> {
        match self {
            Caller::Client { client, .. } => client.flow(),
            Caller::Server(subrequest) => subrequest.flow,
        }
    }

    /// The caller of a subrequest of this request. `None`: subrequests are nested too deeply.
    pub fn subrequest(&self) -> Option<Caller> {
        let subrequest = self.as_subrequest();
        let depth = subrequest.depth + 1;
        let subrequest = Subrequest { depth, client: None, refresh: None, ..subrequest };
        (depth <= MOST_DEPTH).then_some(Caller::Server(subrequest))
    }

    /// The caller of a subrequest that refreshes a stale entry of the content cache.
    pub fn refreshing(&self, refresh: Refresh) -> Option<Caller> {
        let refresh = Some(Arc::new(refresh));
        match self.subrequest()? {
            Caller::Server(subrequest) => {
                Some(Caller::Server(Subrequest { refresh, ..subrequest }))
            }
            Caller::Client { .. } => None,
        }
    }

    /// The same caller for a request that goes on after the client has left. It does not keep the
    /// client's connection open.
    pub fn detached(&self) -> Caller {
        Caller::Server(self.as_subrequest())
    }

    fn as_subrequest(&self) -> Subrequest {
        match self {
            Caller::Client { client, takes_interim } => Subrequest {
                addresses: client.addresses().clone(),
                scheme: client.scheme(),
                depth: 0,
                flow: client.flow(),
                client: takes_interim.then(|| Arc::downgrade(client)),
                refresh: None,
            },
            Caller::Server(subrequest) => subrequest.clone(),
        }
    }

    /// The refresh that the request is made for, if it is made for the content cache.
    pub fn refresh(&self) -> Option<&Refresh> {
        match self {
            Caller::Client { .. } => None,
            Caller::Server(subrequest) => subrequest.refresh.as_deref(),
        }
    }

    /// The client, if the caller is one.
    pub fn client(&self) -> Option<&Arc<dyn Client>> {
        match self {
            Caller::Client { client, .. } => Some(client),
            Caller::Server(_) => None,
        }
    }

    /// Ready if the client has gone; see [`Client::poll_gone`]. Never ready for the server itself.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.client().map_or(Poll::Pending, |client| client.poll_gone(cx))
    }

    /// The failure for a client that has broken a rule of its protocol.
    pub fn violation(&self) -> Option<Failure> {
        self.client()?.violation()
    }

    /// Sends an interim response, if there is a client that takes it.
    pub fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        match self {
            Caller::Client { client, takes_interim: true } => client.send_interim(status, headers),
            Caller::Client { .. } => {}
            Caller::Server(subrequest) => {
                if let Some(client) = subrequest.client.as_ref().and_then(Weak::upgrade) {
                    client.send_interim(status, headers);
                }
            }
        }
    }
}
