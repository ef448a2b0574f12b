use std::future::poll_fn;
use std::io::Read;

use bytes::Bytes;
use proptest::prelude::*;
use tokamak_config::Compression;

use super::encoder::{Encoder, Then};
use super::*;

/// What a client makes of an encoded body. The end may be missing: a client reads on.
fn decode(coding: &str, encoded: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let result = match coding {
        "zstd" => zstd::stream::read::Decoder::new(encoded).unwrap().read_to_end(&mut body),
        "br" => brotli::Decompressor::new(encoded, 4096).read_to_end(&mut body),
        "gzip" => flate2::read::GzDecoder::new(encoded).read_to_end(&mut body),
        other => panic!("{other} is no coding"),
    };
    drop(result);
    body
}

/// A text that becomes smaller.
fn page(length: usize) -> Bytes {
    let line = |number: usize| format!("<p>line {number} of {}</p>\n", number * 7919 % 1000);
    let mut text: String = (0..length / 20 + 1).map(line).collect();
    text.truncate(length);
    text.into()
}

fn request(lines: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::new(());
    for (name, value) in lines {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    request
}

fn policy() -> Arc<Policy> {
    Policy::new(&Compression::default()).unwrap()
}

fn response(body: Source, lines: &[(&str, &str)]) -> Response<Source> {
    let mut response = Response::new(body);
    *response.headers_mut() = request(lines).headers().clone();
    response.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("text/html"));
    response
}

fn apply(request: &Request<()>, mut response: Response<Source>) -> Response<Source> {
    Negotiated::of(&policy(), request).apply(&mut response, &mut Ledger::unread(0));
    response
}

fn field<'a>(response: &'a Response<Source>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn a_page_is_compressed_as_the_client_likes() {
    for (accepted, expected) in [
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, deflate, br", "br"),
        ("gzip", "gzip"),
        ("zstd;q=0.5, gzip", "gzip"),
        ("deflate", ""),
        ("*;q=0", ""),
    ] {
        let request = request(&[("Accept-Encoding", accepted)]);
        let lines = [("ETag", "\"a\""), ("Content-Length", "60000"), ("Accept-Ranges", "bytes")];
        let body = page(60_000);
        let response = apply(&request, response(Source::Whole(body.clone()), &lines));
        assert_eq!(field(&response, "Content-Encoding"), expected, "{accepted}");
        assert_eq!(field(&response, "Vary"), "Accept-Encoding", "{accepted}");
        let is_encoded = !expected.is_empty();
        assert_eq!(field(&response, "ETag"), if is_encoded { "W/\"a\"" } else { "\"a\"" });
        assert_eq!(response.headers().contains_key(CONTENT_LENGTH), !is_encoded);
        assert_eq!(response.headers().contains_key(ACCEPT_RANGES), !is_encoded);
        let sent = response.body().whole().unwrap();
        if is_encoded {
            assert!(sent.len() < body.len() / 3, "{accepted}: {}", sent.len());
            assert_eq!(decode(expected, &sent), body, "{accepted}");
        } else {
            assert_eq!(sent, body);
        }
    }
}

#[test]
fn what_should_stay_as_it_is_does() {
    let accepts = ("Accept-Encoding", "gzip, br, zstd");
    let cross = ("Sec-Fetch-Site", "cross-site");
    for (why, asked, status, said, length, varies) in [
        ("small", &[][..], 200, &[][..], 511, false),
        ("another type", &[], 200, &[("Content-Type", "image/png")], 9000, false),
        ("encoded already", &[], 200, &[("Content-Encoding", "br")], 9000, false),
        ("no-transform", &[], 200, &[("Cache-Control", "public, No-Transform")], 9000, false),
        ("a part", &[], 206, &[("Content-Range", "bytes 0-8999/9999")], 9000, false),
        ("no content", &[], 204, &[], 0, false),
        ("a digest", &[], 200, &[("Content-Digest", "sha-256=:x:")], 9000, true),
        ("another digest", &[], 200, &[("Repr-Digest", "sha-256=:x:")], 9000, true),
        ("a range is wanted", &[("Range", "bytes=0-9")], 200, &[], 9000, true),
        ("BREACH", &[cross, ("Cookie", "a=b")], 200, &[], 9000, true),
        ("BREACH", &[cross, ("Authorization", "Basic x")], 200, &[], 9000, true),
    ] {
        let request = request(&[&[accepts], asked].concat());
        let mut response = response(Source::Whole(page(length)), said);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let encoding = field(&response, "Content-Encoding").to_owned();
        let response = apply(&request, response);
        assert_eq!(field(&response, "Content-Encoding"), encoding, "{why}");
        assert_eq!(response.body().whole().unwrap(), page(length), "{why}");
        assert_eq!(field(&response, "Vary") == "Accept-Encoding", varies, "{why}");
    }
    for asked in [&[cross][..], &[cross, ("Cookie", "a=b"), ("Sec-Fetch-User", "?1")]] {
        let request = request(&[&[accepts], asked].concat());
        let response = apply(&request, response(Source::Whole(page(9000)), &[]));
        assert_eq!(field(&response, "Content-Encoding"), "zstd", "{asked:?}");
    }
    let mut old = request(&[accepts]);
    *old.version_mut() = Version::HTTP_10;
    assert_eq!(field(&apply(&old, response(Source::Whole(page(9000)), &[])), "ETag"), "");
}

#[test]
fn noise_is_sent_as_it_is() {
    let mut state = 1u64;
    let noise: Bytes = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(2000)
    .collect();
    for coding in ["gzip", "br", "zstd"] {
        let request = request(&[("Accept-Encoding", coding)]);
        let response = apply(&request, response(Source::Whole(noise.clone()), &[]));
        assert_eq!(field(&response, "Content-Encoding"), "", "{coding}");
        assert_eq!(response.body().whole().unwrap(), noise, "{coding}");
    }
}

#[test]
fn a_head_has_the_fields_of_the_get() {
    for length in [Some("9000"), Some("100"), None] {
        let mut request = request(&[("Accept-Encoding", "gzip")]);
        let mut lines = vec![("ETag", "\"a\""), ("Accept-Ranges", "bytes")];
        lines.extend(length.map(|length| ("Content-Length", length)));
        let size = length.map_or(9000, |length| length.parse().unwrap());
        let get = apply(&request, response(Source::Whole(vec![b'a'; size].into()), &lines));
        *request.method_mut() = Method::HEAD;
        let head = apply(&request, response(Source::Empty, &lines));
        for name in ["Content-Encoding", "Vary", "ETag", "Accept-Ranges"] {
            assert_eq!(field(&head, name), field(&get, name), "{name} {length:?}");
        }
        let left = length.filter(|_| size < 512).unwrap_or_default();
        assert_eq!(field(&head, "Content-Length"), left, "{length:?}");
    }
}

#[test]
fn a_304_has_the_tag_that_the_client_knows() {
    for (known, expected) in [("W/\"a\"", "W/\"a\""), ("\"a\"", "\"a\"")] {
        let request = request(&[("Accept-Encoding", "gzip"), ("If-None-Match", known)]);
        let mut response = response(Source::Empty, &[("ETag", "\"a\"")]);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        let response = apply(&request, response);
        assert_eq!(field(&response, "ETag"), expected);
        assert_eq!(field(&response, "Vary"), "Accept-Encoding");
    }
}

#[test]
fn vary_is_said_once() {
    for vary in ["accept-encoding", "Cookie, Accept-Encoding", "*"] {
        let response = apply(&request(&[]), response(Source::Whole(page(9000)), &[("Vary", vary)]));
        let all: Vec<_> = response.headers().get_all(VARY).iter().collect();
        assert_eq!(all, [vary], "{vary}");
    }
}

/// All bytes of a body.
async fn read(mut source: Source) -> Vec<u8> {
    let mut all = Vec::new();
    let mut ledger = Ledger::unread(0);
    while let Some(piece) = poll_fn(|cx| source.poll_piece(&mut ledger, cx)).await {
        all.extend_from_slice(&piece.expect("nothing breaks off"));
    }
    all
}

#[tokio::test]
async fn large_bodies_are_compressed_beside_the_loop() {
    for coding in ["gzip", "br", "zstd"] {
        let body = page(3_000_000);
        let request = request(&[("Accept-Encoding", coding)]);
        let response = apply(&request, response(Source::Whole(body.clone()), &[]));
        assert_eq!(field(&response, "Content-Encoding"), coding);
        assert!(matches!(response.body(), Source::Compressed(_)));
        let encoded = read(response.into_body()).await;
        assert!(encoded.len() < body.len() / 3, "{coding}: {}", encoded.len());
        assert!(decode(coding, &encoded) == body, "{coding}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_pieces_and_flushes_become_the_same_bytes(
        coding in prop::sample::select(Coding::ALL.to_vec()),
        pieces in prop::collection::vec(
            (prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 0..300), 1usize..200, any::<bool>()),
            0..12,
        ),
    ) {
        let mut encoder = Encoder::new(coding).unwrap();
        let (mut encoded, mut body) = (Vec::new(), Vec::new());
        for (piece, times, flushes) in pieces {
            let piece = piece.repeat(times);
            body.extend_from_slice(&piece);
            let then = if flushes { Then::Flush } else { Then::GoOn };
            encoded.extend_from_slice(&encoder.push(&piece, then).unwrap());
            if flushes {
                prop_assert!(decode(coding.name(), &encoded) == body);
            }
        }
        encoded.extend_from_slice(&encoder.push(&[], Then::Finish).unwrap());
        prop_assert!(decode(coding.name(), &encoded) == body);
        if let Some(encoded) = encoder::whole(coding, &body) {
            prop_assert!(encoded.len() < body.len());
            prop_assert!(decode(coding.name(), &encoded) == body);
        }
    }
}
