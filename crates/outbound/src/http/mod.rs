//! Requests to other services over HTTP/1.1, in the clear or over TLS, whose connections are kept
//! for the next one.

mod connection;
mod error;
mod pool;
mod request;
mod response;
mod sending;
mod stream;
mod url;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use error::HttpError;
pub use request::{Request, is_reserved};
pub use response::{Decoder, Response};
pub use sending::Sending;
pub use stream::system_authorities;

use crate::names::Names;
use pool::Pool;

/// The HTTP client of one event loop.
#[derive(Default)]
pub struct Client {
    names: Names,
    pool: Mutex<Pool>,
}

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for all of it.
    pub time: Duration,
    /// Bytes of the response's body.
    pub body: usize,
}

impl Client {
    /// Makes a request.
    pub fn send(self: &Arc<Self>, request: Request<'_>, limits: Limits) -> Sending {
        Sending::new(self.clone(), request, limits)
    }

    /// Closes connections that have not been used for a while.
    pub fn tidy(&self) {
        self.pool().tidy(Instant::now());
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        // One thread uses a client; the lock makes it shareable.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
