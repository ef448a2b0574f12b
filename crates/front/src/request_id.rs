//! The name of a request in `X-Request-Id`, by which a balancer, this server and applications speak
//! of the same request.

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request};
use tokamak_trace::TraceId;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest name that is taken over. Balancers make names of 16 to 64 characters. Ten times more
/// would let each line of the access log grow by as much.
const LONGEST: usize = 128;

/// The name of a request, if requests get names. It is an extension of the request, since scripts
/// may change the header.
#[derive(Clone, Debug)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// Names a request, in place of what its header says. `takes_over`: the header's name is kept,
    /// if there is exactly one, of at most 128 letters, digits and `-_.:=+/@`.
    pub fn put<B>(request: &mut Request<B>, takes_over: bool) {
        let mut values = request.headers().get_all(X_REQUEST_ID).iter();
        let given = match (values.next(), values.next()) {
            (Some(value), None) if takes_over && is_name(value.as_bytes()) => Some(value.clone()),
            _ => None,
        };
        let name = given.unwrap_or_else(|| {
            HeaderValue::from_bytes(&TraceId::random().digits())
                .unwrap_or_else(|_| unreachable!("digits are a value"))
        });
        request.headers_mut().insert(X_REQUEST_ID, name.clone());
        request.extensions_mut().insert(RequestId(name));
    }

    /// Adds the name to the response, unless the application has named it.
    pub fn add_header(self, headers: &mut HeaderMap) {
        headers.entry(X_REQUEST_ID).or_insert(self.0);
    }

    /// The name of a request; empty if requests get none.
    pub fn of(extensions: &Extensions) -> &[u8] {
        extensions.get::<RequestId>().map_or(b"", |RequestId(name)| name.as_bytes())
    }
}

fn is_name(text: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:=+/@".contains(byte);
    (1..=LONGEST).contains(&text.len()) && text.iter().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name that a request gets that comes with these.
    fn put(given: &[&str], takes_over: bool) -> String {
        let mut request = Request::new(());
        for value in given {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request.headers_mut().append(X_REQUEST_ID, value);
        }
        RequestId::put(&mut request, takes_over);
        let name = RequestId::of(request.extensions());
        assert_eq!(request.headers().get_all(X_REQUEST_ID).iter().count(), 1);
        assert_eq!(request.headers()[X_REQUEST_ID].as_bytes(), name);
        String::from_utf8(name.to_vec()).unwrap()
    }

    #[test]
    fn a_good_name_of_a_trusted_proxy_is_taken_over() {
        for name in ["a", "Root=1-67891233-abcdef012345678912345678", &"x".repeat(128)] {
            assert_eq!(put(&[name], true), name);
            assert_ne!(put(&[name], false), name);
        }
    }

    #[test]
    fn all_others_are_replaced_by_a_new_one() {
        let long = "x".repeat(129);
        for given in [&[][..], &[""], &["a", "a"], &["a b"], &["\"a\""], &["é"], &[&long]] {
            let name = put(given, true);
            assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert_ne!(name, put(given, true), "each request has a name of its own");
        }
    }
}
