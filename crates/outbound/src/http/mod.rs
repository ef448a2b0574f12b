//! Requests to other services over HTTP/1.1, in the clear or over TLS, whose connections are kept for the next one.

mod connection;
mod fault;
mod pool;
mod stream;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Uri};
use http_body_util::Full;

pub use fault::Fault;

use crate::names::Names;
use connection::Connection;
use pool::Pool;
use stream::Peer;

/// Fields by which a caller could break the framing of its request, or ask for what this client does not do.
const RESERVED: &[HeaderName] = &[
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whether a header field is not for a request's maker to say.
pub fn is_reserved(name: &HeaderName) -> bool {
    RESERVED.contains(name)
}

/// The HTTP client of one event loop.
#[derive(Default)]
pub struct Client {
    names: Names,
    pool: Mutex<Pool>,
}

/// A request that can be made.
pub struct Request {
    peer: Peer,
    method: Method,
    target: Uri,
    fields: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

/// What a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for all of it.
    pub time: Duration,
    /// Bytes of the response's body.
    pub body: usize,
}

/// A response, all of which is here.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The header fields.
    pub fields: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request without header fields and body.
    ///
    /// # Errors
    /// The method or the address is none that can be asked.
    pub fn new(method: &[u8], url: &[u8], socket: Option<PathBuf>) -> Result<Request, Fault> {
        let method = Method::from_bytes(method).ok().filter(|method| method != Method::CONNECT);
        let method = method.ok_or(Fault::Method)?;
        let url = Uri::try_from(url).map_err(|_| Fault::Url("it is malformed"))?;
        let parts = url.into_parts();
        let authority = parts.authority.ok_or(Fault::Url("it has no host"))?;
        // What is before the @ may look like a host, and has misled people before.
        if authority.as_str().contains('@') {
            return Err(Fault::Url("it has a user's name"));
        }
        let tls = match parts.scheme.as_ref().map(http::uri::Scheme::as_str) {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(Fault::Url("it begins with neither http:// nor https://")),
        };
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Fault::Url("it is malformed"))?;
        let fields = vec![(header::HOST, host)];
        let target = parts.path_and_query.unwrap_or(PathAndQuery::from_static("/"));
        let peer = Peer { tls, host: authority.host().to_ascii_lowercase(), port, socket };
        Ok(Request { peer, method, target: target.into(), fields, body: Bytes::new() })
    }

    /// Adds a header field.
    ///
    /// # Errors
    /// It cannot be sent, or is not for the caller to say.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        let bad = || Fault::Field(String::from_utf8_lossy(name).into_owned());
        let name = HeaderName::from_bytes(name).map_err(|_| bad())?;
        let value = HeaderValue::from_bytes(value).map_err(|_| bad())?;
        if is_reserved(&name) {
            return Err(bad());
        }
        if name == header::HOST {
            self.fields.retain(|(own, _)| *own != name);
        }
        self.fields.push((name, value));
        Ok(())
    }

    /// Gives it a body.
    pub fn body(&mut self, body: Vec<u8>) {
        self.body = body.into();
    }

    fn message(&self) -> http::Request<Full<Bytes>> {
        let mut message = http::Request::new(Full::new(self.body.clone()));
        *message.method_mut() = self.method.clone();
        *message.uri_mut() = self.target.clone();
        for (name, value) in &self.fields {
            message.headers_mut().append(name, value.clone());
        }
        message
    }
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
        let kept = self.pool().take(&request.peer);
        if let Some(connection) = kept {
            match self.exchange_over(connection, request, most).await {
                // A peer may close a connection while a request is on its way to it. A second time would be no accident.
                Err(fault) if fault.may_repeat(&request.method) => {}
                result => return result,
            }
        }
        let connection = Connection::open(&self.names, &request.peer).await?;
        self.exchange_over(connection, request, most).await
    }

    async fn exchange_over(
        &self,
        mut connection: Box<Connection>,
        request: &Request,
        most: usize,
    ) -> Result<Response, Fault> {
        let response = connection.exchange(request.message(), most).await?;
        if connection.is_reusable() {
            self.pool().put(&request.peer, connection);
        }
        Ok(response)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        // One thread uses a client; the lock makes it shareable.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
