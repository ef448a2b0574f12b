//! The collector: one request to it, and what its answer means.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokamak_config::{self as config, Secret};
use tokamak_outbound::http::{Client, HttpError, Limits, Request, Response};
use tokamak_trace::otlp::{Rejection, rejection};

/// Bytes of a collector's answer. They say nearly nothing; one that sends without end is left.
const LONGEST_ANSWER: usize = 64 << 10;

/// Where spans go.
pub struct Collector {
    client: Arc<Client>,
    url: String,
    headers: BTreeMap<String, Secret>,
    timeout: Duration,
}

/// What came of an export.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The collector has it, save what it has rejected.
    Taken(Option<Rejection>),
    /// It has not, for this reason, and will not.
    Refused(String),
    /// It has not, for this reason; it may later, and perhaps says after which time.
    Later(String, Option<Duration>),
}

impl Collector {
    /// That of the configuration.
    pub fn new(export: &config::TraceExport) -> Collector {
        Collector {
            client: Arc::default(),
            url: export.url.clone(),
            headers: export.headers.clone(),
            timeout: export.timeout,
        }
    }

    /// Sends it spans.
    pub async fn export(&self, body: &[u8]) -> Outcome {
        let limits = Limits { time: self.timeout, body: LONGEST_ANSWER };
        let request = match self.request(body) {
            Ok(request) => request,
            Err(error) => return Outcome::Refused(error.to_string()),
        };
        match self.client.send(request, limits).await {
            Ok(response) => judge(&response),
            Err(error @ (HttpError::Large(_) | HttpError::Url(_) | HttpError::Field(_))) => {
                Outcome::Refused(error.to_string())
            }
            Err(error) => Outcome::Later(error.to_string(), None),
        }
    }

    /// Closes a connection that has not been used for a while.
    pub fn tidy(&self) {
        self.client.tidy();
    }

    fn request<'a>(&'a self, body: &'a [u8]) -> Result<Request<'a>, HttpError> {
        let mut request = Request::new(b"POST", self.url.as_bytes(), None)?;
        request.field(b"content-type", b"application/x-protobuf")?;
        request.field(b"user-agent", concat!("tokamak/", env!("CARGO_PKG_VERSION")).as_bytes())?;
        for (name, value) in &self.headers {
            request.field(name.as_bytes(), value.reveal().as_bytes())?;
        }
        request.body(body);
        Ok(request)
    }
}

/// What an answer means, by the specification of OTLP.
fn judge(response: &Response) -> Outcome {
    let reason = || format!("the collector answered {}", response.status);
    match response.status {
        200..=299 => Outcome::Taken(rejection(&response.body)),
        429 | 502..=504 => Outcome::Later(reason(), retry_after(&response.fields)),
        _ => Outcome::Refused(reason()),
    }
}

/// The seconds of `Retry-After`. Its other form, a date, is for caches.
fn retry_after(fields: &[u8]) -> Option<Duration> {
    let mut lines = fields.split(|byte| *byte == b'\n');
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        if name == b"retry-after" {
            return str::from_utf8(value).ok()?.trim().parse().ok().map(Duration::from_secs);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, fields: &str) -> Response {
        Response { status, fields: fields.into(), body: Vec::new() }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for status in [200, 202, 204] {
            assert_eq!(judge(&response(status, "")), Outcome::Taken(None), "{status}");
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            assert!(matches!(judge(&response(status, "")), Outcome::Refused(_)), "{status}");
        }
        for status in [429, 502, 503, 504] {
            assert!(matches!(judge(&response(status, "")), Outcome::Later(_, None)), "{status}");
        }
    }

    #[test]
    fn a_time_is_taken_in_seconds() {
        for (fields, expected) in [
            ("server\nx\nretry-after\n7\n", Some(7)),
            ("retry-after\nFri, 20 Nov 2026 12:00:00 GMT\n", None),
            ("retry-after\n-1\n", None),
            ("x\nretry-after\n", None),
        ] {
            let found = retry_after(fields.as_bytes());
            assert_eq!(found, expected.map(Duration::from_secs), "{fields:?}");
        }
    }
}
