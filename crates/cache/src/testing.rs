//! What the tests of several modules need.

use http::header::{HeaderMap, HeaderName};

/// Header fields from lines such as `Age: 5`.
pub fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    headers
}
