//! WebSockets (RFC 6455) that an application speaks with a client: which requests ask for one, and
//! the connection behind the answer.

pub mod frames;

use std::sync::{Arc, Mutex, PoisonError};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Version};
use tokamak_upstream::remote::Tunnel;

use crate::caller::Caller;
use crate::header_list::has_word;

/// The connection to an application that has agreed to speak WebSocket. It is an extension of the
/// response with status 101, from which the client's connection takes it.
#[derive(Clone)]
pub struct Upgraded(Arc<Mutex<Option<Tunnel>>>);

impl Upgraded {
    /// Holds a connection until it is taken.
    pub fn new(tunnel: Tunnel) -> Upgraded {
        Upgraded(Arc::new(Mutex::new(Some(tunnel))))
    }

    /// The connection, once.
    pub fn take(&self) -> Option<Tunnel> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whether a request asks for a WebSocket, and its client can be given one.
pub fn is_asked<B>(caller: &Caller, request: &Request<B>) -> bool {
    // Nearly no request has the field.
    request.headers().contains_key(header::UPGRADE)
        && request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && caller.client().is_some_and(|client| client.takes_websocket())
        && lists(request.headers(), header::CONNECTION).any(|list| has_word(list, b"upgrade"))
        && is_alone(request.headers())
}

/// Whether the only protocol that is asked for is WebSocket. What an application makes of a list is
/// not known before it answers.
fn is_alone(headers: &HeaderMap) -> bool {
    let mut all = lists(headers, header::UPGRADE);
    let only = all.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    only && all.next().is_none()
}

fn lists(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &HeaderValue> {
    headers.get_all(name).iter()
}
