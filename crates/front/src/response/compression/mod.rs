//! Compresses responses for clients that accept it.
//!
//! [`SiteCompression`] says what is configured, [`Negotiated`] what a request allows, and
//! [`Negotiated::apply`] changes a response as both allow. It is the last step before the head is
//! sent: scripts, the content cache and subrequests see bodies that are not compressed.
//!
//! A small body is compressed at once. A large one, or one that is still coming, is compressed
//! while it is sent ([`stream`]), the larger part of the work on other threads.

pub mod accept;
mod encoder;
mod policy;
mod stored;
mod stream;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{
    ACCEPT_RANGES, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, COOKIE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, RANGE, VARY,
};
use http::{Method, Request, Response, StatusCode, Version};
use tokamak_config::Coding;
use tokamak_cost::{Ledger, Phase};

use super::Source;
use crate::header_list::has_word;

pub use policy::{Policy, SiteCompression};
pub use stored::{KeepEncoded, Stored};
pub use stream::Compressed;

/// Largest body that is compressed at once, on the event loop: it takes about a millisecond, in
/// which no other request moves on. With ten times more, that would be felt; with a tenth, ordinary
/// pages would make a detour over another thread, which costs more than their compression.
const AT_ONCE: usize = 64 * 1024;

/// The `Vary` of a response that might have been compressed.
const OWN_VARY: &str = "Accept-Encoding";

/// Header fields by which a browser says whose request it is (W3C Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_USER: HeaderName = HeaderName::from_static("sec-fetch-user");

/// Header fields about the bytes of a body as the application has sent them. They would be wrong
/// for other bytes.
const DIGESTS: [HeaderName; 5] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("signature"),
];

/// Bytes of bodies before and after compression, by [`Coding`], as all threads count them.
static BYTES: [[AtomicU64; 2]; Coding::ALL.len()] =
    [const { [const { AtomicU64::new(0) }; 2] }; Coding::ALL.len()];

/// How many bytes of bodies were compressed with a coding, and how many they became.
pub fn counted(coding: Coding) -> [u64; 2] {
    BYTES[coding as usize].each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
}

/// Counts bytes that were compressed.
pub fn count(coding: Coding, before: usize, after: usize) {
    for (counter, bytes) in BYTES[coding as usize].iter().zip([before, after]) {
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What a request allows.
pub struct Negotiated {
    policy: Arc<Policy>,
    /// The coding that the client prefers of those that are configured.
    coding: Option<Coding>,
    is_head: bool,
    /// Whether the client names a weak entity tag that it has the response of.
    names_weak_tag: bool,
}

impl Negotiated {
    /// What this request allows, where this policy holds.
    pub fn of<B>(policy: &Arc<Policy>, request: &Request<B>) -> Negotiated {
        let headers = request.headers();
        let mut negotiated = Negotiated {
            policy: policy.clone(),
            coding: None,
            is_head: request.method() == Method::HEAD,
            names_weak_tag: false,
        };
        // Without a coding of ours the client has no response of ours with a weak tag, either.
        let Some(coding) = accept::choose(headers, &policy.codings) else { return negotiated };
        if is_possible(policy, request) {
            negotiated.coding = Some(coding);
        }
        negotiated.names_weak_tag = headers
            .get(IF_NONE_MATCH)
            .is_some_and(|tags| tags.as_bytes().windows(3).any(|bytes| bytes == b"W/\""));
        negotiated
    }

    /// Compresses the response if everything allows it. Books the time for that.
    pub fn apply(self, response: &mut Response<Source>, ledger: &mut Ledger) {
        if response.status() == StatusCode::NOT_MODIFIED {
            return self.apply_to_not_modified(response.headers_mut());
        }
        // Most responses of applications are small, and that is seen without their header fields.
        if !self.is_large(response) {
            return;
        }
        let said = Said::of(response.headers());
        // Nothing would change; so it is with files for most programs.
        if said.varies && self.coding.is_none() {
            return;
        }
        if !self.is_compressible(response.status(), &said) {
            return;
        }
        if !said.varies {
            add_vary(response.headers_mut());
        }
        let Some(coding) = self.coding else { return };
        if DIGESTS.iter().any(|name| response.headers().contains_key(name)) {
            return;
        }
        // A HEAD has the fields of the GET (RFC 9110 section 9.3.2). The length after compression
        // is not known without the body, so it has none, as in nginx.
        if self.is_head {
            return set_coding(response.headers_mut(), coding);
        }
        let source = std::mem::replace(response.body_mut(), Source::Empty);
        let (source, is_done) = encode(source, coding);
        *response.body_mut() = source;
        if is_done {
            set_coding(response.headers_mut(), coding);
            ledger.mark(Phase::Compress);
        }
    }

    /// A 304 has the fields that the whole response would have had (RFC 9110 section 15.4.5).
    fn apply_to_not_modified(self, headers: &mut HeaderMap) {
        let varies = headers.get_all(VARY).iter().any(names_accept_encoding);
        if !headers.contains_key(ETAG) || (self.coding.is_none() && varies) {
            return;
        }
        if !varies {
            add_vary(headers);
        }
        if self.names_weak_tag {
            weaken_tag(headers);
        }
    }

    /// Whether the body is large enough to be compressed, or may become so.
    fn is_large(&self, response: &Response<Source>) -> bool {
        let length =
            if self.is_head { announced(response.headers()) } else { response.body().left() };
        length.is_none_or(|length| length >= self.policy.smallest)
    }

    /// Whether a response of this kind may be compressed for a client that accepts it.
    fn is_compressible(&self, status: StatusCode, said: &Said<'_>) -> bool {
        let is_whole = !matches!(
            status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::PARTIAL_CONTENT
        );
        is_whole
            && said.kind.is_some_and(|kind| self.policy.types.fits(kind.as_bytes()))
            && !said.is_encoded
            && !said.is_part
            && !said.forbids_transforming
    }
}

/// Whether a client is to get a stream of this media type in gzip.
pub fn takes_gzip<B>(policy: &Policy, request: &Request<B>, kind: &[u8]) -> bool {
    policy.codings.contains(&Coding::Gzip)
        && policy.types.fits(kind)
        && accept::choose(request.headers(), &[Coding::Gzip]).is_some()
        && is_possible(policy, request)
}

/// Whether a request allows its response to be compressed, if its client takes that.
fn is_possible<B>(policy: &Policy, request: &Request<B>) -> bool {
    let headers = request.headers();
    // A part of a compressed body would be useless without the parts before. And a client of
    // HTTP/1.0 could not see that a body without a length is cut off.
    let is_possible = !headers.contains_key(RANGE) && request.version() >= Version::HTTP_11;
    is_possible && (policy.cross_site || !is_guarded(headers))
}

/// What the head of a response says that matters here.
#[derive(Default)]
struct Said<'a> {
    /// The media type.
    kind: Option<&'a HeaderValue>,
    is_encoded: bool,
    is_part: bool,
    forbids_transforming: bool,
    /// Whether it says that the response depends on `Accept-Encoding`.
    varies: bool,
}

impl Said<'_> {
    /// Reads a head. It is done for most files and pages, and one pass costs less than a search for
    /// each field.
    fn of(headers: &HeaderMap) -> Said<'_> {
        let mut said = Said::default();
        for (name, value) in headers {
            if name == CONTENT_TYPE {
                said.kind.get_or_insert(value);
            } else if name == VARY {
                said.varies |= names_accept_encoding(value);
            } else if name == CACHE_CONTROL {
                said.forbids_transforming |= has_word(value, b"no-transform");
            } else if name == CONTENT_ENCODING {
                said.is_encoded = true;
            } else if name == CONTENT_RANGE {
                said.is_part = true;
            }
        }
        said
    }
}

/// Whether a page of another site may have made the request to learn something from the length of
/// the response (BREACH): with cookies or credentials, and not because the user clicked. Such an
/// attack needs thousands of requests.
fn is_guarded(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site")
        && !headers.contains_key(SEC_FETCH_USER)
        && (headers.contains_key(COOKIE) || headers.contains_key(AUTHORIZATION))
}

/// The length in a head without a body.
fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether a `Vary` says that the response depends on `Accept-Encoding`.
fn names_accept_encoding(vary: &HeaderValue) -> bool {
    // Mostly this server has written it.
    vary == OWN_VARY || has_word(vary, b"accept-encoding") || has_word(vary, b"*")
}

/// Says that the response depends on `Accept-Encoding`.
fn add_vary(headers: &mut HeaderMap) {
    headers.append(VARY, HeaderValue::from_static(OWN_VARY));
}

/// Says that the body has a coding: what was true of the bytes before it is taken out.
fn set_coding(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    headers.remove(CONTENT_LENGTH);
    headers.remove(ACCEPT_RANGES);
    weaken_tag(headers);
}

/// Makes the entity tag weak, as nginx does: the bytes are others than those that the application
/// has named so, but they mean the same.
fn weaken_tag(headers: &mut HeaderMap) {
    let Some(tag) = headers.get(ETAG) else { return };
    if tag.as_bytes().starts_with(b"\"")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        headers.insert(ETAG, weak);
    }
}

/// Compresses a body, at once or while it is sent. `false`: it is better sent as it is.
fn encode(source: Source, coding: Coding) -> (Source, bool) {
    match source {
        Source::Whole(bytes) if bytes.len() <= AT_ONCE => match encoder::whole(coding, &bytes) {
            Some(encoded) => (Source::Whole(encoded), true),
            None => (Source::Whole(bytes), false),
        },
        Source::Stored(stored) => stored.encode(coding),
        source => Compressed::begin(source, coding, None),
    }
}
