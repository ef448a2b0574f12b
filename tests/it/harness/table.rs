//! Behaviours as tables: a name, a request, and what must come back.

use super::request::Request;
use super::response::Response;
use super::server::Server;
use super::setup::Kind;

/// One behaviour: a request and what must come back.
pub struct Row {
    name: &'static str,
    request: Request,
    expected: Vec<Expected>,
    only: Option<&'static [Kind]>,
}

/// One thing that must hold of a response.
pub enum Expected {
    /// The status code.
    Status(u16),
    /// The whole body.
    Body(String),
    /// A part of the body.
    Contains(String),
    /// All values of the header fields with this name, in order.
    Header(&'static str, Vec<String>),
    /// The value at this JSON pointer of the body.
    Json(&'static str, serde_json::Value),
}

/// A row whose response must have status 200.
pub fn row(name: &'static str, request: Request) -> Row {
    Row { name, request, expected: vec![Expected::Status(200)], only: None }
}

impl Row {
    /// Another status than 200.
    pub fn status(mut self, status: u16) -> Row {
        self.expected[0] = Expected::Status(status);
        self
    }

    /// The whole body.
    pub fn body(self, body: impl Into<String>) -> Row {
        self.and(Expected::Body(body.into()))
    }

    /// A part of the body.
    pub fn contains(self, text: impl Into<String>) -> Row {
        self.and(Expected::Contains(text.into()))
    }

    /// The one header field with this name.
    pub fn header(self, name: &'static str, value: &str) -> Row {
        self.headers(name, &[value])
    }

    /// All header fields with this name, in order; none for an empty list.
    pub fn headers(self, name: &'static str, values: &[&str]) -> Row {
        self.and(Expected::Header(name, values.iter().map(|value| value.to_string()).collect()))
    }

    /// The value at a JSON pointer of the body (null when it is absent).
    pub fn json(self, pointer: &'static str, value: impl Into<serde_json::Value>) -> Row {
        self.and(Expected::Json(pointer, value.into()))
    }

    /// Holds for these servers only.
    pub fn only(mut self, kinds: &'static [Kind]) -> Row {
        self.only = Some(kinds);
        self
    }

    fn and(mut self, expected: Expected) -> Row {
        self.expected.push(expected);
        self
    }
}

/// The modes of Tokamak: for what php-fpm does not have, or does worse.
pub const TOKAMAK: &[Kind] = &[Kind::Classic, Kind::Worker, Kind::Async, Kind::Sealed];

/// Sends every row's request and fails with all that came back wrong.
pub fn check(server: &Server, rows: Vec<Row>) {
    check_by(server.kind, &rows, |request| {
        let mut connection = server.connect();
        connection.try_send(request.bytes()).map_err(|error| error.to_string())?;
        connection.try_response(&request.method).map_err(|failure| failure.to_string())
    });
}

/// As [`check`], with another way to send a request.
pub fn check_by(kind: Kind, rows: &[Row], send: impl Fn(&Request) -> Result<Response, String>) {
    let mut wrong = Vec::new();
    for row in rows.iter().filter(|row| row.only.is_none_or(|kinds| kinds.contains(&kind))) {
        match send(&row.request) {
            Err(failure) => wrong.push(format!("{}: no response: {failure}", row.name)),
            Ok(response) => {
                let failed: Vec<String> =
                    row.expected.iter().filter_map(|expected| expected.fails(&response)).collect();
                if !failed.is_empty() {
                    wrong.push(format!("{}: {}\n{response}\n", row.name, failed.join("; ")));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{kind:?}: {} of {} rows are wrong\n\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}

impl Expected {
    /// What is wrong with a response, if anything.
    fn fails(&self, response: &Response) -> Option<String> {
        let text = response.text();
        let (holds, expected) = match self {
            Expected::Status(status) => (response.status() == *status, format!("status {status}")),
            Expected::Body(body) => (text == *body, format!("body {body:?}")),
            Expected::Contains(part) => (text.contains(part), format!("a body with {part:?}")),
            Expected::Header(name, values) => {
                let has: Vec<&str> = response.head.all(name).collect();
                (has == *values, format!("{name}: {values:?}"))
            }
            Expected::Json(pointer, value) => {
                let body: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
                let has = body.pointer(pointer).cloned().unwrap_or_default();
                (has == *value, format!("{pointer} = {value}, not {has}"))
            }
        };
        (!holds).then(|| format!("expected {expected}"))
    }
}
