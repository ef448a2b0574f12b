//! Requests to certificate authorities, by the HTTP client of `tokamak_outbound`.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tokamak_outbound::http::{self as outbound, Limits};

use crate::plan::LONGEST_LIMIT;

/// The limits of one response of an authority. A certificate with its chain has about 6 KiB.
const LIMITS: Limits = Limits { time: Duration::from_secs(30), body: 1 << 20 };

/// A client for one authority.
#[derive(Clone, Default)]
pub struct Client {
    inner: Arc<outbound::Client>,
    last: Arc<Mutex<Last>>,
}

/// Status and `Retry-After` of the last response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Last {
    /// The status; 0 if there was no answer.
    pub status: u16,
    /// How long to leave the authority alone (`Retry-After`).
    pub retry_after: Option<Duration>,
}

impl Client {
    /// Status and `Retry-After` of the last response.
    pub fn last(&self) -> Last {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_last(&self, last: Last) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    async fn send(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        self.set_last(Last::default());
        let other = |error: Box<dyn std::error::Error + Send + Sync>| Error::Other(error);
        let (parts, body) = request.into_parts();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        let url = parts.uri.to_string();
        let method = parts.method.as_str().as_bytes();
        let mut outgoing = outbound::Request::new(method, url.as_bytes(), None)
            .map_err(|error| other(error.into()))?;
        for (name, value) in &parts.headers {
            outgoing
                .field(name.as_str().as_bytes(), value.as_bytes())
                .map_err(|error| other(error.into()))?;
        }
        outgoing.body(&body);
        let answer =
            self.inner.send(outgoing, LIMITS).await.map_err(|error| other(error.into()))?;
        let response = response(answer);
        self.set_last(Last {
            status: response.status().as_u16(),
            retry_after: response.headers().get(header::RETRY_AFTER).and_then(wait),
        });
        Ok(BytesResponse::from(response))
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().send(request))
    }
}

fn response(answer: outbound::Response) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut lines = answer.fields.split(|byte| *byte == b'\n');
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        if let Ok(name) = HeaderName::from_bytes(name)
            && let Ok(value) = HeaderValue::from_bytes(value)
        {
            // The library adds this time to the clock, and would panic if the sum is too large.
            let value = if name == header::RETRY_AFTER {
                let Some(wait) = wait(&value) else { continue };
                HeaderValue::from(wait.as_secs_f64().ceil() as u64)
            } else {
                value
            };
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// The time of a `Retry-After`, which is in seconds or a date; at most [`LONGEST_LIMIT`].
fn wait(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            date.duration_since(SystemTime::now()).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_after_is_cut_at_the_longest_limit() {
        let retry_after = |value: &str| {
            let fields = format!("retry-after\n{value}\nx\ny\n").into_bytes();
            let answer = outbound::Response { status: 429, fields, body: Vec::new() };
            let response = response(answer);
            assert_eq!(response.headers()["x"], "y");
            let header = response.headers().get(header::RETRY_AFTER);
            header.map(|value| value.to_str().unwrap().to_owned())
        };
        let day = LONGEST_LIMIT.as_secs().to_string();
        assert_eq!(retry_after("7"), Some("7".into()));
        assert_eq!(retry_after(&u64::MAX.to_string()), Some(day.clone()));
        assert_eq!(retry_after("Fri, 31 Dec 9999 23:59:59 GMT"), Some(day));
        assert_eq!(retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), Some("0".into()));
        assert_eq!(retry_after("soon"), None);
    }
}
