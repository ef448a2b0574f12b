//! Requests to other services over HTTP/1.1, in the clear or over TLS, whose connections are kept for the next one.

mod chunks;
mod connection;
mod fault;
mod pool;
mod request;
mod response;
mod stream;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Method;

pub use fault::Fault;
pub use request::{Request, is_reserved};
pub use response::{Decoder, Response};

use crate::names::Names;
use connection::Connection;
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
    /// Makes a request, and waits for all of its response.
    ///
    /// # Errors
    /// There is no whole response within the limits.
    pub async fn send(&self, request: Request, limits: Limits) -> Result<Response, Fault> {
        let exchange = tokio::time::timeout(limits.time, self.exchange(&request, limits.body));
        exchange.await.unwrap_or(Err(Fault::Time(limits.time)))
    }

    /// Closes connections that have not been used for a while.
    pub fn tidy(&self) {
        self.pool().tidy(Instant::now());
    }

    async fn exchange(&self, request: &Request, most: usize) -> Result<Response, Fault> {
        let message = request.message();
        let kept = self.pool().take(&request.peer);
        if let Some(connection) = kept {
            match self.exchange_over(connection, request, &message, most).await {
                // A peer may close a connection while a request is on its way to it. A second time would be no accident.
                Err(fault) if fault.may_repeat(&request.method) => {}
                result => return result,
            }
        }
        // Boxed: most calls find a connection, and need none of its room.
        let connection = Box::pin(Connection::open(&self.names, &request.peer)).await?;
        self.exchange_over(connection, request, &message, most).await
    }

    async fn exchange_over(
        &self,
        mut connection: Connection,
        request: &Request,
        message: &[u8],
        most: usize,
    ) -> Result<Response, Fault> {
        let decoder = Decoder::new(request.method == Method::HEAD, most);
        let response = connection.exchange(message, decoder).await?;
        if connection.is_clean() {
            self.pool().put(&request.peer, connection);
        }
        Ok(response)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        // One thread uses a client; the lock makes it shareable.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
