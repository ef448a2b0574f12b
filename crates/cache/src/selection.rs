//! Which requests for a URL a stored response is for: those whose fields are as the `Vary` of the
//! response wants them (RFC 9111 section 4.1), and that say the same of their origin.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, VARY};

use crate::codec::{Reader, Writer};

/// Most names in `Vary`, and most bytes of their values in one request; a response that depends on
/// more is not stored. Real pages have one to four names. Ten times more would let one client fill
/// the cache with keys of 40 KiB; ten times fewer would not hold one long cookie.
const MOST_NAMES: usize = 16;
const MOST_BYTES: usize = 4096;

/// Fields by which proxies, and clients that pretend to be some, say under which name, scheme or
/// path a request came to them. Applications put them into links and decide by them, mostly without
/// a word in `Vary`; so they are as good as a part of the URL, and no client gets a response that
/// such a field of another client has shaped.
const ORIGIN: [&str; 14] = [
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-forwarded-protocol",
    "x-forwarded-ssl",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-server",
    "x-forwarded-path",
    "x-host",
    "x-original-url",
    "x-rewrite-url",
    "x-original-host",
];

/// Fields by which a request pretends to have another method: its response is for no other request.
const METHOD: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Whether a request pretends to have another method.
pub fn overrides_method(headers: &HeaderMap) -> bool {
    uncommon(headers).any(|name| METHOD.contains(&name.as_str()))
}

/// Names that are not in every request: those above begin like this.
fn uncommon(headers: &HeaderMap) -> impl Iterator<Item = &HeaderName> {
    headers.keys().filter(|name| name.as_str().starts_with("x-") || name.as_str() == "forwarded")
}

/// The value of a field.
type Value = Box<[u8]>;

/// The fields that a response was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Names of `Vary`, each with its value in the request.
    named: Box<[(HeaderName, Option<Value>)]>,
    /// The request's fields of its origin.
    origin: Box<[(HeaderName, Value)]>,
}

impl Selection {
    /// What a response with these fields was made for. `None`: it is for this one request alone.
    pub fn of(request: &HeaderMap, response: &HeaderMap) -> Option<Selection> {
        let mut names = Vec::new();
        for value in response.get_all(VARY) {
            for name in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                if name.is_empty() {
                    continue;
                }
                // `*` is no name of a field.
                let name = HeaderName::from_bytes(name).ok().filter(|name| name != "*")?;
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        if names.len() > MOST_NAMES {
            return None;
        }
        let named = names.into_iter().map(|name| {
            let value = value(request, &name);
            (name, value)
        });
        let origin = origin(request).map(|(name, value)| (name.clone(), value.into()));
        let selection = Selection { named: named.collect(), origin: origin.collect() };
        (selection.cost() <= MOST_BYTES).then_some(selection)
    }

    /// Whether it is for this request.
    pub fn fits(&self, request: &HeaderMap) -> bool {
        let mut own = self.origin.iter();
        for (name, value) in origin(request) {
            if !own.next().is_some_and(|(own, is)| own == name && **is == *value) {
                return false;
            }
        }
        own.next().is_none()
            && self.named.iter().all(|(name, value)| is(request, name, value.as_deref()))
    }

    /// Whether it is for every request.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.origin.is_empty()
    }

    /// The value of a `Vary` that names the same fields.
    pub fn vary(&self) -> Vec<u8> {
        let names: Vec<&[u8]> =
            self.named.iter().map(|(name, _)| name.as_str().as_bytes()).collect();
        names.join(&b","[..])
    }

    /// It as bytes; equal ones have the same.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.number(self.named.len() as u64);
        for (name, value) in &self.named {
            out.bytes(name.as_str().as_bytes());
            out.number(value.is_some().into());
            out.bytes(value.as_deref().unwrap_or_default());
        }
        out.number(self.origin.len() as u64);
        for (name, value) in &self.origin {
            out.bytes(name.as_str().as_bytes());
            out.bytes(value);
        }
        out.0
    }

    /// What these bytes are, if they are one.
    pub(crate) fn from_bytes(bytes: Bytes) -> Option<Selection> {
        let mut input = Reader(bytes);
        let mut named = Vec::new();
        for _ in 0..input.count()? {
            let name = HeaderName::from_bytes(&input.bytes()?).ok()?;
            let is_there = input.number()? == 1;
            let value = input.bytes()?;
            named.push((name, is_there.then(|| value[..].into())));
        }
        let mut origin: Vec<(HeaderName, Value)> = Vec::new();
        for _ in 0..input.count()? {
            let name = HeaderName::from_bytes(&input.bytes()?).ok()?;
            origin.push((name, input.bytes()?[..].into()));
        }
        let selection = Selection { named: named.into(), origin: origin.into() };
        (input.0.is_empty() && selection.cost() <= MOST_BYTES).then_some(selection)
    }

    /// Bytes of memory that it takes, roughly.
    pub fn cost(&self) -> usize {
        let named = self
            .named
            .iter()
            .map(|(name, value)| name.as_str().len() + value.as_ref().map_or(0, |v| v.len()));
        let origin = self.origin.iter().map(|(name, value)| name.as_str().len() + value.len());
        named.chain(origin).sum()
    }
}

fn origin(request: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &[u8])> {
    let names = uncommon(request).filter(|name| ORIGIN.contains(&name.as_str()));
    names.flat_map(|name| request.get_all(name).iter().map(move |value| (name, value.as_bytes())))
}

/// All values of a field as one.
fn value(request: &HeaderMap, name: &HeaderName) -> Option<Value> {
    let all: Vec<&[u8]> = request.get_all(name).iter().map(|value| value.as_bytes()).collect();
    (!all.is_empty()).then(|| all.join(&b", "[..]).into())
}

fn is(request: &HeaderMap, name: &HeaderName, wanted: Option<&[u8]>) -> bool {
    let mut values = request.get_all(name).iter();
    match (values.next(), values.next(), wanted) {
        (None, ..) => wanted.is_none(),
        (Some(one), None, wanted) => wanted == Some(one.as_bytes()),
        (Some(_), Some(_), wanted) => value(request, name).as_deref() == wanted,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::headers;

    #[test]
    fn vary_selects() {
        let vary = ["Vary: Accept-Encoding, accept-language", "Vary: Accept-Encoding"];
        let request = headers(&["Accept-Encoding: gzip", "Accept-Encoding: br"]);
        let selection = Selection::of(&request, &headers(&vary)).unwrap();
        for (lines, fits) in [
            (&["Accept-Encoding: gzip", "Accept-Encoding: br"][..], true),
            (&["Accept-Encoding: gzip, br"], true),
            (&["Accept-Encoding: gzip, br", "Cookie: a=b"], true),
            (&["Accept-Encoding: gzip"], false),
            (&["Accept-Encoding: gzip, br", "Accept-Language: de"], false),
            (&[], false),
        ] {
            assert_eq!(selection.fits(&headers(lines)), fits, "{lines:?}");
        }
    }

    #[test]
    fn responses_with_too_broad_vary_are_private() {
        let none = HeaderMap::new();
        assert!(Selection::of(&none, &headers(&["Vary: *"])).is_none());
        assert!(Selection::of(&none, &headers(&["Vary: a, *"])).is_none());
        assert!(Selection::of(&none, &headers(&["Vary: a b"])).is_none());
        let many: Vec<String> = (0..=MOST_NAMES).map(|number| format!("a{number}")).collect();
        assert!(Selection::of(&none, &headers(&[&format!("Vary: {}", many.join(","))])).is_none());
        assert!(
            Selection::of(&none, &headers(&[&format!("Vary: {}", many[1..].join(","))])).is_some()
        );
        let long = headers(&[&format!("a: {}", "x".repeat(MOST_BYTES))]);
        assert!(Selection::of(&long, &headers(&["Vary: a"])).is_none());
    }

    #[test]
    fn fields_of_the_origin_are_a_part_of_the_url() {
        let plain = headers(&["Accept: a", "X-Requested-With: b"]);
        for name in ORIGIN {
            let pretending = headers(&["Accept: a", &format!("{name}: evil.example")]);
            let other = headers(&[&format!("{name}: other.example")]);
            let selection = Selection::of(&pretending, &HeaderMap::new()).unwrap();
            assert!(
                selection.fits(&pretending) && !selection.fits(&plain) && !selection.fits(&other),
                "{name}"
            );
            let selection = Selection::of(&plain, &HeaderMap::new()).unwrap();
            assert!(selection.fits(&plain) && !selection.fits(&pretending), "{name}");
        }
        assert!(
            overrides_method(&headers(&["X-HTTP-Method-Override: DELETE"]))
                && !overrides_method(&plain)
        );
    }

    proptest! {
        #[test]
        fn a_response_is_for_its_own_request(
            names in proptest::collection::vec("[a-c]|x-host|forwarded", 0..6),
            values in proptest::collection::vec("[xy, ]{0,3}", 6),
            vary in proptest::collection::vec("[a-d]", 0..4),
        ) {
            let mut request = HeaderMap::new();
            for (name, value) in names.iter().zip(&values) {
                request.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
            let response = headers(&[&format!("Vary: {}", vary.join(", "))]);
            prop_assert!(Selection::of(&request, &response).unwrap().fits(&request));
        }
    }
}
