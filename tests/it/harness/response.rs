//! What came back: status, header fields in order, body, and when each piece of it arrived.

use std::fmt;
use std::time::{Duration, Instant};

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Head {
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// Status code.
    pub status: u16,
    /// Reason phrase; may be empty.
    pub reason: String,
    /// Header fields, in order, names as sent.
    pub headers: Vec<(String, String)>,
}

/// How the end of the body was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body can follow (HEAD, 204, 304).
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The end of the connection.
    Close,
}

/// A whole response.
#[derive(Clone)]
pub struct Response {
    /// The final head.
    pub head: Head,
    /// Interim heads (100, 103) that came before it.
    pub interim: Vec<Head>,
    /// How the end of the body was marked.
    pub framing: Framing,
    /// The body, decoded.
    pub body: Vec<u8>,
    /// Trailer lines of a chunked body.
    pub trailers: Vec<String>,
    /// When the head had been read.
    pub started: Instant,
    /// When the body had been read.
    pub ended: Instant,
    /// For each piece of the body that was read: when, and the body's length by then.
    arrivals: Vec<(Instant, usize)>,
}

impl Head {
    /// Reads a head up to and including its empty line.
    pub fn parse(bytes: &[u8]) -> Option<Head> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let mut status_line = lines.next()?.splitn(3, ' ');
        let version = status_line.next().filter(|version| version.starts_with("HTTP/1."))?;
        let status = status_line.next()?.parse().ok()?;
        let reason = status_line.next().unwrap_or_default();
        let headers = lines
            .take_while(|line| !line.is_empty())
            .map(|line| {
                line.split_once(':').map(|(name, value)| (name.into(), value.trim().into()))
            })
            .collect::<Option<_>>()?;
        Some(Head { version: version.into(), status, reason: reason.into(), headers })
    }

    /// The value of the first field with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        fields.find(|(has, _)| has.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The values of all fields with this name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter(move |(has, _)| has.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl Response {
    /// A response whose body is still to come.
    pub fn new(head: Head, interim: Vec<Head>, method: &str, started: Instant) -> Response {
        let framing = framing(&head, method);
        let (body, trailers, arrivals) = (Vec::new(), Vec::new(), Vec::new());
        Response { head, interim, framing, body, trailers, started, ended: started, arrivals }
    }

    /// Notes a piece of the body.
    pub fn arrived(&mut self, piece: &[u8]) {
        self.body.extend_from_slice(piece);
        self.arrivals.push((Instant::now(), self.body.len()));
    }

    /// Status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The value of the first header field with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {self}"))
    }

    /// How long before the end of the body the first `length` bytes of it had arrived.
    pub fn ahead(&self, length: usize) -> Duration {
        let arrival = self.arrivals.iter().find(|(_, so_far)| *so_far >= length);
        arrival.map(|(when, _)| self.ended.duration_since(*when)).unwrap_or_default()
    }

    /// This response, if it has the status; the test fails otherwise.
    #[track_caller]
    pub fn expect(self, status: u16) -> Response {
        assert_eq!(self.status(), status, "in {self}");
        self
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} {}", self.head.version, self.head.status, self.head.reason)?;
        for (name, value) in &self.head.headers {
            writeln!(f, "{name}: {value}")?;
        }
        let text = self.text();
        let cut: String = text.chars().take(1500).collect();
        write!(f, "\n{cut}{}", if cut.len() < text.len() { "…" } else { "" })
    }
}

fn framing(head: &Head, method: &str) -> Framing {
    if method == "HEAD" || matches!(head.status, 100..=199 | 204 | 304) {
        return Framing::None;
    }
    if head.all("transfer-encoding").any(|value| value.eq_ignore_ascii_case("chunked")) {
        return Framing::Chunked;
    }
    match head.header("content-length").and_then(|length| length.parse().ok()) {
        Some(length) => Framing::Length(length),
        None => Framing::Close,
    }
}
