//! A request as a test writes it down, and the exact bytes that go over the wire.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A request; build it with [`get`], [`post`] or [`Request::new`].
#[derive(Clone, Debug)]
pub struct Request {
    /// Method, as sent.
    pub method: String,
    /// Target of the request line, as sent.
    pub target: String,
    /// Header fields in order; `Host: localhost` is added unless one is given.
    pub headers: Vec<(String, String)>,
    /// Body; `Content-Length` is added when there is one.
    pub body: Vec<u8>,
    chunk: Option<usize>,
}

/// A GET request.
pub fn get(target: &str) -> Request {
    Request::new("GET", target)
}

/// A POST request with a body of this type.
pub fn post(target: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", target).header("Content-Type", content_type).body(body)
}

/// A POST request as an HTML form sends it.
pub fn form(target: &str, fields: &str) -> Request {
    post(target, "application/x-www-form-urlencoded", fields)
}

impl Request {
    /// A request without headers or body.
    pub fn new(method: &str, target: &str) -> Request {
        Request {
            method: method.into(),
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
            chunk: None,
        }
    }

    /// Adds a header field.
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// Sends the body in chunks of this many bytes instead of with a length.
    pub fn chunked(mut self, size: usize) -> Request {
        self.chunk = Some(size);
        self
    }

    /// Adds HTTP basic authentication.
    pub fn basic_auth(self, user_colon_password: &str) -> Request {
        let value = format!("Basic {}", STANDARD.encode(user_colon_password));
        self.header("Authorization", &value)
    }

    /// The head alone, as sent.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let given =
            |field: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(field));
        if !given("host") {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.chunk.is_some() {
            head.push_str("Transfer-Encoding: chunked\r\n");
        } else if (!self.body.is_empty() || self.method == "POST") && !given("content-length") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Head and body, as sent.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        match self.chunk {
            None => bytes.extend_from_slice(&self.body),
            Some(size) => {
                for chunk in self.body.chunks(size) {
                    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        bytes
    }
}

/// A `multipart/form-data` body, part by part.
#[derive(Default)]
pub struct Multipart {
    body: Vec<u8>,
}

const BOUNDARY: &str = "----tokamak-test-boundary";

impl Multipart {
    /// Adds a plain field.
    pub fn field(mut self, name: &str, value: &str) -> Multipart {
        self.part(&format!("name=\"{name}\""), None, value.as_bytes());
        self
    }

    /// Adds a file.
    pub fn file(
        mut self,
        name: &str,
        filename: &str,
        content_type: &str,
        content: &[u8],
    ) -> Multipart {
        self.part(
            &format!("name=\"{name}\"; filename=\"{filename}\""),
            Some(content_type),
            content,
        );
        self
    }

    fn part(&mut self, disposition: &str, content_type: Option<&str>, content: &[u8]) {
        let kind = content_type.map(|kind| format!("Content-Type: {kind}\r\n")).unwrap_or_default();
        let head =
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n{kind}\r\n");
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(content);
        self.body.extend_from_slice(b"\r\n");
    }

    /// The POST request that carries the parts.
    pub fn post(mut self, target: &str) -> Request {
        self.body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        post(target, &format!("multipart/form-data; boundary={BOUNDARY}"), self.body)
    }
}
