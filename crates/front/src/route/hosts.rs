//! Maps host names, and the paths of mounted sites, to sites.

use std::borrow::Cow;
use std::cmp::Reverse;
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
    /// The site of unknown names.
    first: usize,
    /// The longest path first, and those with host names before those without.
    mounts: Vec<Mount>,
}

/// A site that is mounted in others.
#[derive(Debug)]
struct Mount {
    path: String,
    /// Empty: in all sites.
    hosts: Vec<String>,
    site_index: usize,
}

impl Hosts {
    /// The host names of these sites.
    pub fn new(sites: &[Arc<config::Site>]) -> Hosts {
        let first = sites.iter().position(|site| site.path.is_empty()).unwrap_or_default();
        let mut hosts =
            Hosts { exact: HashMap::new(), below: Vec::new(), first, mounts: Vec::new() };
        for (index, site) in sites.iter().enumerate() {
            if !site.path.is_empty() {
                let (path, own) = (site.path.clone(), site.hosts.clone());
                hosts.mounts.push(Mount { path, hosts: own, site_index: index });
                continue;
            }
            for name in &site.hosts {
                match name.strip_prefix('*') {
                    Some(suffix) => hosts.below.push((suffix.to_owned(), index)),
                    None => {
                        hosts.exact.entry(name.clone()).or_insert(index);
                    }
                }
            }
        }
        hosts.below.sort_by_key(|(suffix, _)| Reverse(suffix.len()));
        hosts.mounts.sort_by_key(|mount| (Reverse(mount.path.len()), mount.hosts.is_empty()));
        hosts
    }

    /// The site of a URL: one that is mounted at its path, or that of its host name.
    pub fn find(&self, host: &str, uri: &Uri) -> usize {
        if self.mounts.is_empty() {
            return self.find_host(host);
        }
        let path = super::clean(uri.path().as_bytes()).unwrap_or_default();
        let name = name(host);
        let is_of = |own: &String| match own.strip_prefix('*') {
            Some(suffix) => name.len() > suffix.len() && name.ends_with(suffix),
            None => *own == name,
        };
        let mut mounts = self.mounts.iter();
        let mounted = mounts.find(|mount| {
            super::is_below(&path, &mount.path)
                && (mount.hosts.is_empty() || mount.hosts.iter().any(is_of))
        });
        mounted.map_or_else(|| self.find_host(host), |mount| mount.site_index)
    }

    /// The site of a host name; the first one for an unknown name.
    fn find_host(&self, host: &str) -> usize {
        if self.exact.is_empty() && self.below.is_empty() {
            return self.first;
        }
        let name = name(host);
        if let Some(index) = self.exact.get(&*name) {
            return *index;
        }
        let below = self
            .below
            .iter()
            .find(|(suffix, _)| name.len() > suffix.len() && name.ends_with(suffix));
        below.map_or(self.first, |(_, index)| *index)
    }
}

/// A host without its port, in lower case.
fn name(host: &str) -> Cow<'_, str> {
    let name = strip_port(host).trim_end_matches('.');
    // Browsers send names in lower case.
    let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
    if is_lower { Cow::from(name) } else { name.to_ascii_lowercase().into() }
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
            first: 0,
            mounts: vec![
                Mount { path: "/pma".to_owned(), hosts: vec!["*.b.org".to_owned()], site_index: 4 },
                Mount { path: "/pma".to_owned(), hosts: Vec::new(), site_index: 5 },
            ],
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
            assert_eq!(hosts.find(host, &Uri::from_static("/x")), index, "{host}");
        }
        for (host, path, index) in [
            ("x.b.org", "/pma", 4),
            ("X.B.org:80", "/%70ma/a", 4),
            ("a.org", "//x/../pma/", 5),
            ("", "/pma/a", 5),
            ("a.org", "/pmax", 1),
            ("a.org", "/PMA", 1),
            ("a.org", "/%00pma", 1),
        ] {
            assert_eq!(hosts.find(host, &path.parse().unwrap()), index, "{host} {path}");
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
