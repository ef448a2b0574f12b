//! One request of an HTTP/3 connection, as the client that waits for its response.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Response, StatusCode};
use tokamak_upstream::Flow;

use super::gate::Gate;
use crate::client::{Addresses, Client};
use crate::failure::Failure;
use crate::http::multiplex::{ConnState, remove_connection_fields};

/// Interim responses that wait until they can be sent; further ones are left out, as they are
/// optional.
const INTERIM: usize = 16;

/// A request and the client that waits for its response.
pub struct Stream {
    connection: Arc<ConnState>,
    /// What stands at its stream.
    pub gate: Arc<Gate>,
    /// The number of the request on its connection, from 1.
    pub number: u32,
    interim: Mutex<Interim>,
}

/// Interim responses that are to be sent.
#[derive(Default)]
struct Interim {
    waiting: VecDeque<Response<()>>,
    task: Option<Waker>,
}

impl Stream {
    /// A request that begins. `number`: how many requests have come on the connection, with it.
    pub fn new(connection: Arc<ConnState>, gate: Arc<Gate>, number: u32) -> Arc<Stream> {
        Arc::new(Stream { connection, gate, number, interim: Mutex::default() })
    }

    /// Waits for the next interim response.
    pub fn poll_interim(&self, cx: &mut Context<'_>) -> Poll<Response<()>> {
        let interim = &mut *self.interim();
        match interim.waiting.pop_front() {
            Some(response) => Poll::Ready(response),
            None => {
                interim.task = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn interim(&self) -> MutexGuard<'_, Interim> {
        // A panic under the lock cannot leave half a change.
        self.interim.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client for Stream {
    fn addresses(&self) -> &Arc<Addresses> {
        &self.connection.addresses
    }

    fn scheme(&self) -> &'static str {
        self.connection.addresses.scheme()
    }

    fn requests(&self) -> u32 {
        self.number
    }

    fn flow(&self) -> Option<Flow> {
        Some(self.connection.flow)
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.gate.poll_stopped(cx)
    }

    fn takes_websocket(&self) -> bool {
        false
    }

    fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        let mut response = Response::new(());
        *response.status_mut() = status;
        *response.headers_mut() = headers.clone();
        remove_connection_fields(response.headers_mut());
        let interim = &mut *self.interim();
        if interim.waiting.len() < INTERIM {
            interim.waiting.push_back(response);
        }
        if let Some(task) = interim.task.take() {
            task.wake();
        }
    }

    // The library has ended the stream of a client that broke a rule.
    fn violation(&self) -> Option<Failure> {
        None
    }

    fn served(&self, now: u64) {
        self.connection.end(now);
    }

    fn take_received(&self) -> u64 {
        self.connection.take_received()
    }
}
