//! Any bytes as `Accept-Encoding`: never a panic, and a coding is chosen only if it is offered.

#![no_main]

use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use tokamak_config::Coding;
use tokamak_front::accept_encoding::{Weights, choose};

fuzz_target!(|lines: Vec<&[u8]>| {
    let mut headers = HeaderMap::new();
    for line in lines {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(ACCEPT_ENCODING, value);
        }
    }
    let accepted: Vec<Coding> = Weights::read(&headers).preferred(Coding::ALL).collect();
    // `None` may also mean that the client prefers the body as it is.
    if let Some(coding) = choose(&headers, &Coding::ALL) {
        assert_eq!(accepted.first(), Some(&coding));
    }
    assert_eq!(choose(&headers, &[]), None);
});
