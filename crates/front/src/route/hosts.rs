//! Maps host names, and the paths of mounted sites, to sites.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use http::header::HOST;
use http::{HeaderMap, Request, Uri};
use tokamak_config as config;

/// The host names of all sites, for each listening socket.
pub struct Hosts {
    /// Those of all sites, if none of them names addresses.
    all: Names,
    /// Else those of the sites on each listening socket.
    of_listeners: Vec<Names>,
}

/// The host names of the sites that are served on one listening socket.
struct Names {
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
    /// The host names of the sites of a server.
    pub fn new(server: &config::Server) -> Hosts {
        let sites = || server.sites.iter().enumerate();
        let listeners = server.listen.iter().chain(&server.listen_tls);
        let of_listener = |address| {
            let (own, general) = (
                move |site: &config::Site| site.listen.contains(address),
                |site: &config::Site| site.listen.is_empty(),
            );
            // Of two sites with the same name, the one that names the address answers there.
            let own = sites().filter(move |(_, site)| own(site));
            Names::new(own.chain(sites().filter(move |(_, site)| general(site))))
        };
        let are_several = server.sites.iter().any(|site| !site.listen.is_empty());
        let of_listeners = if are_several { listeners.map(of_listener).collect() } else { vec![] };
        Hosts { all: Names::new(sites()), of_listeners }
    }

    /// The site of a URL on a listening socket: one that is mounted at its path, or that of its
    /// host name.
    pub fn find(&self, listener: usize, host: &str, uri: &Uri) -> usize {
        self.of_listeners.get(listener).unwrap_or(&self.all).find(host, uri)
    }
}

impl Names {
    /// The host names of these sites, which have their indexes in the configuration. Of two with
    /// the same name, the first one counts.
    fn new<'a>(sites: impl Iterator<Item = (usize, &'a config::Site)>) -> Names {
        let mut names = Names { exact: HashMap::new(), below: vec![], first: 0, mounts: vec![] };
        let mut first = None;
        for (index, site) in sites {
            if !site.path.is_empty() {
                let (path, own) = (site.path.clone(), site.hosts.clone());
                names.mounts.push(Mount { path, hosts: own, site_index: index });
                continue;
            }
            first = first.or(Some(index));
            for name in &site.hosts {
                match name.strip_prefix('*') {
                    Some(suffix) => names.below.push((suffix.to_owned(), index)),
                    None => {
                        names.exact.entry(name.clone()).or_insert(index);
                    }
                }
            }
        }
        names.first = first.unwrap_or_default();
        names.below.sort_by_key(|(suffix, _)| Reverse(suffix.len()));
        names.mounts.sort_by_key(|mount| (Reverse(mount.path.len()), mount.hosts.is_empty()));
        names
    }

    fn find(&self, host: &str, uri: &Uri) -> usize {
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
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn hosts_find_their_site() {
        let hosts = Names {
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
    fn each_socket_has_its_sites() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "").unwrap();
        let request = config::Request {
            path: None,
            config: None,
            flags: Vec::new(),
            environment: Vec::new(),
            directory: folder.path().to_owned(),
        };
        let mut server = request.load().unwrap();
        let [public, inner] = [80, 81].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let site = |hosts: &[&str], path: &str, listen: &[SocketAddr]| config::Site {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            path: path.to_owned(),
            listen: listen.to_vec(),
            ..server.sites[0].clone()
        };
        let sites = vec![
            site(&["a"], "", &[]),
            site(&["*.b"], "", &[]),
            site(&["a"], "", &[inner]),
            site(&[], "/pma", &[inner]),
            site(&["x.b"], "", &[public]),
        ];
        server = config::Server { listen: vec![public], listen_tls: vec![inner], sites, ..server };
        let hosts = Hosts::new(&server);
        for (listener, host, path, index) in [
            (0, "a", "/", 0),
            (0, "c", "/", 4),
            (0, "x.b", "/pma", 4),
            (0, "y.b", "/", 1),
            (1, "a", "/", 2),
            (1, "c", "/", 2),
            (1, "x.b", "/", 1),
            (1, "x.b", "/pma", 3),
        ] {
            assert_eq!(hosts.find(listener, host, &path.parse().unwrap()), index, "{host} {path}");
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
