//! The answer of an authorizer (FastCGI specification §6.3). Status 200 lets the request pass, and
//! headers that begin with `Variable-` become variables of the request. Any other answer is sent to
//! the client as the response.

use bytes::Bytes;
use http::Response;
use http::header::HeaderMap;
use tokamak_upstream::remote::Event;

use super::{Begun, broken};
use crate::backend::BackendError;
use crate::backend::cgi::Variables;
use crate::response::Source;

/// The decision about a request.
pub enum Authorization {
    /// The request may be served, with these variables.
    Allowed(Variables),
    /// The request is answered with this response.
    Refused(Response<Source>),
}

/// Reads a response with status 200 to its end and gives its variables. The body is ignored, but it
/// must be complete: an authorizer that dies in the middle has not allowed the request.
pub(super) async fn allowed(begun: Begun, most: usize) -> Result<Variables, BackendError> {
    let Begun { head, pieces, fault, mut exchange, mut complaints, .. } = begun;
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    let mut length: usize = pieces.iter().map(Bytes::len).sum();
    while length <= most {
        match exchange.next().await? {
            Event::Output(bytes) => length += bytes.len(),
            Event::Complaint(bytes) => complaints.receive(&bytes),
            Event::End(_) => return Ok(variables(&head.headers)),
            // The decoder gives heads before the body.
            Event::Interim(_) | Event::Head(_) => {}
        }
    }
    Err(broken("the authorizer sent a body that is too long"))
}

/// The variables. Their names are upper-cased, with underscores, as in CGI, because header names
/// are case-insensitive.
fn variables(headers: &HeaderMap) -> Variables {
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix("variable-")?, value)))
        .map(|(name, value)| (name.replace('-', "_").to_ascii_uppercase(), value.clone()))
        .filter(|(name, _)| !name.is_empty() && plain(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{HeaderName, HeaderValue};

    #[test]
    fn only_variables_are_passed_on() {
        let headers = [
            ("Content-Type", "text/plain"),
            ("Variable-AUTH_METHOD", "database lookup"),
            ("Variable-remote-user", "ada"),
            ("Variable-", "nameless"),
            ("Variable-A.B", "no name of a variable"),
            ("X-Variable-Y", "something else"),
        ];
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value))
            })
            .collect();
        let mut found = variables(&headers);
        found.sort();
        let found: Vec<_> =
            found.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(found, [("AUTH_METHOD", "database lookup"), ("REMOTE_USER", "ada")]);
    }
}
