//! Finds the key that binds a request to one address of its application.

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, Request};
use tokamak_config::Affinity;
use tokamak_upstream::remote::Key;

use crate::log;

/// The variable in which an authorizer names the user. It is more reliable than what the client
/// sends.
const USER: &str = "REMOTE_USER";

/// The key of the first of `wanted` that the request has; `variables` are a script's or an
/// authorizer's, `client` is the client's IP address.
pub fn key<B>(
    wanted: &[Affinity],
    request: &Request<B>,
    variables: &[(String, HeaderValue)],
    client: &str,
) -> Option<Key> {
    wanted.iter().find_map(|affinity| find(affinity, request, variables, client))
}

/// The key that `affinity` finds. An empty value does not count: it identifies no client.
fn find<B>(
    affinity: &Affinity,
    request: &Request<B>,
    variables: &[(String, HeaderValue)],
    client: &str,
) -> Option<Key> {
    let (headers, uri) = (request.headers(), request.uri());
    let text = match affinity {
        Affinity::Cookie(name) => cookie(headers, name),
        Affinity::Header(name) => headers.get(name).map(|value| value.as_bytes()),
        Affinity::Query(name) => argument(uri.query()?, name),
        Affinity::Segment(number) => uri
            .path()
            .split('/')
            .filter(|segment| !segment.is_empty())
            .nth(number - 1)
            .map(str::as_bytes),
        Affinity::Prefix(pattern) => pattern.find(uri.path()).map(str::as_bytes),
        Affinity::Variable(name) => variable(variables, name),
        Affinity::User => match variable(variables, USER) {
            None => {
                let user = log::user(headers.get(AUTHORIZATION)?.as_bytes())?;
                return (!user.is_empty()).then(|| Key::of(&user));
            }
            known => known,
        },
        Affinity::Client => Some(client.as_bytes()),
    };
    text.filter(|text| !text.is_empty()).map(Key::of)
}

/// The value of a variable that a script or an authorizer has set.
fn variable<'a>(variables: &'a [(String, HeaderValue)], name: &str) -> Option<&'a [u8]> {
    variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_bytes())
}

/// The value of a cookie (RFC 6265 section 4.2).
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let all = headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    pairs(all).find_map(|(found, value)| (found == name.as_bytes()).then_some(value))
}

/// The value of a query argument, still percent-encoded.
fn argument<'a>(query: &'a str, name: &str) -> Option<&'a [u8]> {
    let all = query.as_bytes().split(|byte| *byte == b'&');
    pairs(all).find_map(|(found, value)| (found == name.as_bytes()).then_some(value))
}

fn pairs<'a>(texts: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    texts.filter_map(|text| {
        let equals = memchr::memchr(b'=', text)?;
        Some((text[..equals].trim_ascii(), text[equals + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use tokamak_config::Pattern;

    use super::*;

    fn request() -> Request<()> {
        Request::get("/shop/users/12/cart?id=7&empty=&id=8&flag")
            .header("Cookie", "theme=dark; session=abc=")
            .header("Cookie", "late=1")
            .header("X-User", "ada")
            .header("Authorization", "Basic dXNlcjpwYXNz")
            .body(())
            .unwrap()
    }

    fn is(affinity: Affinity, expected: Option<&str>) {
        let found = key(std::slice::from_ref(&affinity), &request(), &[], "192.0.2.1");
        assert_eq!(found, expected.map(|text| Key::of(text.as_bytes())), "{affinity:?}");
    }

    #[test]
    fn keys_are_found_in_all_parts_of_a_request() {
        let pattern = |text| Affinity::Prefix(Pattern::new(text).unwrap());
        for (affinity, expected) in [
            (Affinity::Cookie("session".into()), Some("abc=")),
            (Affinity::Cookie("late".into()), Some("1")),
            (Affinity::Cookie("Session".into()), None),
            (Affinity::Header("x-user".into()), Some("ada")),
            (Affinity::Header("x-other".into()), None),
            (Affinity::Query("id".into()), Some("7")),
            (Affinity::Query("empty".into()), None),
            (Affinity::Query("flag".into()), None),
            (Affinity::Segment(1), Some("shop")),
            (Affinity::Segment(4), Some("cart")),
            (Affinity::Segment(5), None),
            (pattern("/[a-z]+/users/[0-9]+"), Some("/shop/users/12")),
            (pattern("users"), None),
            (pattern("/nowhere|/shop"), Some("/shop")),
            (Affinity::User, Some("user")),
            (Affinity::Client, Some("192.0.2.1")),
        ] {
            is(affinity, expected);
        }
    }

    #[test]
    fn the_first_that_is_there_counts() {
        let wanted =
            [Affinity::Cookie("none".into()), Affinity::Query("id".into()), Affinity::Client];
        assert_eq!(key(&wanted, &request(), &[], "192.0.2.1"), Some(Key::of(b"7")));
        assert_eq!(key(&wanted[..1], &request(), &[], "192.0.2.1"), None);
    }

    #[test]
    fn variables_are_a_key_and_know_the_user_best() {
        let variables = [("REMOTE_USER".to_owned(), HeaderValue::from_static("ada"))];
        for affinity in [Affinity::User, Affinity::Variable("REMOTE_USER".into())] {
            assert_eq!(
                key(&[affinity], &request(), &variables, "192.0.2.1"),
                Some(Key::of(b"ada"))
            );
        }
        assert_eq!(
            key(&[Affinity::Variable("OTHER".into())], &request(), &variables, "192.0.2.1"),
            None
        );
    }
}
