//! Maps host names to sites.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderMap, Request, Uri};
use tokamak_config as config;

/// The host names of all sites.
pub struct Hosts {
    exact: HashMap<String, usize>,
    /// Suffixes with their dot, longest first.
    below: Vec<(String, usize)>,
}

impl Hosts {
    /// The host names of these sites.
    pub fn new(sites: &[Arc<config::Site>]) -> Hosts {
        let mut hosts = Hosts { exact: HashMap::new(), below: Vec::new() };
        for (index, site) in sites.iter().enumerate() {
            for name in &site.hosts {
                match name.strip_prefix('*') {
                    Some(suffix) => hosts.below.push((suffix.to_owned(), index)),
                    None => {
                        hosts.exact.entry(name.clone()).or_insert(index);
                    }
                }
            }
        }
        hosts.below.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        hosts
    }

    /// The site of a host name; the first one for an unknown name.
    pub fn find(&self, host: &str) -> usize {
        if self.exact.is_empty() && self.below.is_empty() {
            return 0;
        }
        let name = strip_port(host).trim_end_matches('.');
        // Browsers send names in lower case.
        let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
        let name = if is_lower { Cow::from(name) } else { name.to_ascii_lowercase().into() };
        if let Some(index) = self.exact.get(&*name) {
            return *index;
        }
        let below = self
            .below
            .iter()
            .find(|(suffix, _)| name.len() > suffix.len() && name.ends_with(suffix));
        below.map_or(0, |(_, index)| *index)
    }
}

/// The host of a request: from its target, or else from its `Host` header.
pub fn host<B>(request: &Request<B>) -> Option<&str> {
    host_of(request.uri(), request.headers())
}

/// As [`host`], from the parts of a request.
pub fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(|authority| authority.as_str());
    authority.or_else(|| headers.get(HOST)?.to_str().ok())
}

/// Removes the port from a `Host`. IPv6 addresses keep their brackets.
pub fn strip_port(host: &str) -> &str {
    let name = host.trim_end_matches(|c: char| c.is_ascii_digit());
    name.strip_suffix(':').filter(|name| !name.is_empty()).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_find_their_site() {
        let hosts = Hosts {
            exact: [("a.org".to_owned(), 1), ("x.b.org".to_owned(), 2)].into(),
            below: vec![(".b.org".to_owned(), 3)],
        };
        for (host, index) in [
            ("a.org", 1),
            ("A.ORG:8080", 1),
            ("a.org.", 1),
            ("x.b.org", 2),
            ("y.b.org", 3),
            ("b.org", 0),
            ("", 0),
            ("[::1]:80", 0),
        ] {
            assert_eq!(hosts.find(host), index, "{host}");
        }
    }

    #[test]
    fn ports_are_stripped() {
        for (host, name) in [
            ("a:80", "a"),
            ("a", "a"),
            ("[::1]:8080", "[::1]"),
            ("[::1]", "[::1]"),
            (":80", ":80"),
            ("a:b:", "a:b"),
            ("a80", "a80"),
        ] {
            assert_eq!(strip_port(host), name);
        }
    }
}
