//! Requests as bytes.

use std::path::PathBuf;

use http::header::{self, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Uri};

use super::fault::Fault;
use super::stream::Peer;

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

/// A request that can be made.
pub struct Request {
    pub(super) peer: Peer,
    pub(super) method: Method,
    authority: Authority,
    target: PathAndQuery,
    /// What the caller wants as `Host` in place of the authority.
    host: Option<HeaderValue>,
    /// The other header fields, as they are sent.
    fields: Vec<u8>,
    body: Vec<u8>,
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
        let target = parts.path_and_query.unwrap_or(PathAndQuery::from_static("/"));
        let peer = Peer { port, tls, host: authority.host().to_ascii_lowercase(), socket };
        Ok(Request { peer, method, authority, target, host: None, fields: Vec::new(), body: Vec::new() })
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
            self.host = Some(value);
        } else {
            line(&mut self.fields, name.as_str(), value.as_bytes());
        }
        Ok(())
    }

    /// Gives it a body.
    pub fn body(&mut self, body: Vec<u8>) {
        self.body = body;
    }

    /// All of it in one piece, which costs the kernel less than a list of pieces.
    pub(super) fn message(&self) -> Vec<u8> {
        let (method, authority) = (self.method.as_str(), self.authority.as_str());
        let target = self.target.as_str();
        // What is between them has room in the rest.
        let size = method.len() + target.len() + authority.len() + self.fields.len() + self.body.len() + 80;
        let mut message = Vec::with_capacity(size);
        message.extend_from_slice(method.as_bytes());
        // A query may follow right behind the host.
        message.extend_from_slice(if target.starts_with('/') { b" " } else { b" /" });
        message.extend_from_slice(target.as_bytes());
        message.extend_from_slice(b" HTTP/1.1\r\n");
        let host = self.host.as_ref().map_or(authority.as_bytes(), HeaderValue::as_bytes);
        line(&mut message, "host", host);
        message.extend_from_slice(&self.fields);
        if !self.body.is_empty() {
            line(&mut message, "content-length", self.body.len().to_string().as_bytes());
        }
        message.extend_from_slice(b"\r\n");
        message.extend_from_slice(&self.body);
        message
    }
}

fn line(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}
