//! The head of a request for an application of HTTP, in either form: lines as HTTP/1.1 has them, or
//! the fields of HTTP/2 as [`tokamak_upstream::remote::Call::http2`] takes them.

use tokamak_config::{Forwarded, HttpProxy};

/// Room for the head of most requests.
const ROOM: usize = 1024;

/// A head that is being written.
pub struct RequestHead<'a> {
    bytes: Vec<u8>,
    proxy: &'a HttpProxy,
}

impl<'a> RequestHead<'a> {
    /// Begins a head; `target` writes what is asked for.
    pub fn new(
        proxy: &'a HttpProxy,
        method: &str,
        host: &[u8],
        target: impl FnOnce(&mut Vec<u8>),
    ) -> RequestHead<'a> {
        let mut bytes = Vec::with_capacity(ROOM);
        if proxy.http2 {
            let scheme = if proxy.tls.is_some() { "https" } else { "http" };
            put_all(&mut bytes, &[b":method\n", method.as_bytes()]);
            put_all(&mut bytes, &[b"\n:scheme\n", scheme.as_bytes()]);
            put_all(&mut bytes, &[b"\n:authority\n", host, b"\n:path\n"]);
            target(&mut bytes);
            bytes.push(b'\n');
        } else {
            put_all(&mut bytes, &[method.as_bytes(), b" "]);
            target(&mut bytes);
            put_all(&mut bytes, &[b" HTTP/1.1\r\nhost: ", host, b"\r\n"]);
        }
        RequestHead { bytes, proxy }
    }

    /// Whether it is one of HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.proxy.http2
    }

    /// How the application learns of the client.
    pub fn forwarded(&self) -> Forwarded {
        self.proxy.forwarded
    }

    /// Writes a field, whose name is in small letters.
    pub fn put(&mut self, name: &str, value: &[u8]) {
        match self.proxy.http2 {
            true => put_all(&mut self.bytes, &[name.as_bytes(), b"\n", value, b"\n"]),
            false => put_line(&mut self.bytes, name, value),
        }
    }

    /// Writes a field, unless the operator has set or removed it.
    pub fn put_unless_changed(&mut self, name: &str, value: &[u8]) {
        if self.proxy.headers.is_empty() || !self.proxy.headers.contains_key(name) {
            self.put(name, value);
        }
    }

    /// Ends the head with the operator's fields. `connection`: what is to become of the connection,
    /// in HTTP/1.1.
    pub fn finish(mut self, connection: Option<&str>) -> Vec<u8> {
        let proxy = self.proxy;
        for (name, value) in &proxy.headers {
            let value = value.reveal();
            if !value.is_empty() {
                self.put(name, value.as_bytes());
            }
        }
        if !proxy.http2 {
            if let Some(connection) = connection {
                self.put("connection", connection.as_bytes());
            }
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.bytes
    }
}

/// Writes a field as HTTP/1.1 has it.
pub fn put_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    put_all(out, &[name.as_bytes(), b": ", value, b"\r\n"]);
}

/// Writes one behind the other.
pub fn put_all(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}
