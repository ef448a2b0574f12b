//! WebSockets (RFC 6455) that an application speaks with a client: which requests ask for one, and
//! the connection behind the answer.

pub mod frames;

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Version};
use sha1::{Digest, Sha1};
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
        && matches!(request.version(), Version::HTTP_11 | Version::HTTP_2)
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

/// Whether the answer of an application is for the request with this key (RFC 6455 section 4.2.2):
/// one that is not comes from something that does not speak WebSocket.
pub fn accepts(answer: &HeaderMap, request: &HeaderMap) -> bool {
    const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let Some(key) = request.get(header::SEC_WEBSOCKET_KEY) else { return true };
    let digest = Sha1::new().chain_update(key.as_bytes()).chain_update(GUID).finalize();
    let said = answer.get(header::SEC_WEBSOCKET_ACCEPT);
    said.is_some_and(|said| said.as_bytes() == STANDARD.encode(digest).as_bytes())
}

fn lists(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &HeaderValue> {
    headers.get_all(name).iter()
}
