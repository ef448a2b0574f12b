//! Under which names and addresses each site is found. No two sites may claim the same.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{Reader, site};
use crate::option;
use crate::raw::RawSite;
use crate::value::Text;

/// What the sites have claimed.
#[derive(Default)]
pub(super) struct Names {
    /// Host and path, with the address on which they are the site's; without one, on those that no
    /// other site with them names.
    claimed: BTreeSet<(Option<SocketAddr>, String)>,
    /// The names of sites in logs.
    shown: BTreeSet<String>,
}

impl Names {
    /// Claims a host and path for a site. Fails with what is taken.
    fn claim(&mut self, site: &option::Site, name: &str) -> Result<(), String> {
        let listen = &site.listen.value;
        if listen.is_empty() {
            let is_free = self.claimed.insert((None, name.to_owned()));
            return if is_free { Ok(()) } else { Err(String::new()) };
        }
        for address in listen {
            if !self.claimed.insert((Some(*address), name.to_owned())) {
                return Err(format!(" on {address}"));
            }
        }
        Ok(())
    }

    /// The name of a site in logs.
    pub(super) fn of_site(&mut self, hosts: &[String], site: &option::Site) -> String {
        let (path, address) = (site::path(site), site.listen.value.first());
        let name = match (hosts.first(), address) {
            (Some(host), _) => format!("{host}{path}"),
            (None, Some(address)) => format!("{address}{path}"),
            (None, None) if path.is_empty() => "default".into(),
            (None, None) => path.clone(),
        };
        if self.shown.insert(name.clone()) {
            return name;
        }
        match address {
            Some(address) => format!("{name}@{address}"),
            None => name,
        }
    }
}

impl Reader<'_> {
    /// The addresses on which a site is served.
    pub(super) fn site_listeners(&mut self, raw: &RawSite) -> Vec<SocketAddr> {
        let (top, given) = (&self.raw.top, &raw.site.listen);
        for (at, address) in given.value.iter().enumerate() {
            let is_known =
                [&top.listen, &top.listen_tls].iter().any(|all| all.value.contains(address));
            let problem = if !is_known {
                format!(
                    "{address} is not among the addresses of `listen` and `listen_tls` at the top \
                        of the file; add it there"
                )
            } else if given.value[..at].contains(address) {
                format!("{address} is there twice; remove one")
            } else {
                continue;
            };
            self.report("site", "listen", given.origin, problem);
        }
        given.value.clone()
    }

    /// Reports the addresses on which no site is served.
    pub(super) fn unserved<'a>(&mut self, own: impl Iterator<Item = &'a RawSite> + Clone) {
        if own.clone().any(|site| site.site.listen.value.is_empty()) {
            return;
        }
        let top = &self.raw.top;
        for (name, given) in [("listen", &top.listen), ("listen_tls", &top.listen_tls)] {
            for address in &given.value {
                let serves = |site: &RawSite| site.site.listen.value.contains(address);
                if own.clone().next().is_some() && !own.clone().any(serves) {
                    let problem = format!(
                        "all sites name the addresses on which they are served, and none names \
                            {address}; add it to `listen` of a site, or remove it here"
                    );
                    self.report("", name, given.origin, problem);
                }
            }
        }
    }

    /// The host names of a site. `has_others`: whether several sites name no address, so that only
    /// host names tell them apart.
    pub(super) fn hosts(
        &mut self,
        raw: &RawSite,
        has_others: bool,
        names: &mut Names,
    ) -> Vec<String> {
        let (given, path) = (&raw.site.host, site::path(&raw.site));
        if given.value.is_empty() {
            self.nameless(raw, &path, has_others, names);
        }
        let mut hosts = Vec::new();
        for Text(host) in &given.value {
            let host = host.to_ascii_lowercase();
            let name = host.strip_prefix("*.").unwrap_or(&host);
            let plain = !name.is_empty()
                && !name.starts_with('.')
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte));
            let port = !name.starts_with('[') && name.contains(':');
            if !plain || port {
                let problem =
                    format!("`{host}` is not a host name; write it without scheme, port and path");
                self.report("site", "host", given.origin, problem);
            } else if let Err(place) = names.claim(&raw.site, &format!("{host}{path}")) {
                let problem = format!("`{host}` is there twice{place}; a name has one site");
                self.report("site", "host", given.origin, problem);
            } else {
                hosts.push(host);
            }
        }
        hosts
    }

    /// Checks that a site without host names can be told from all others.
    fn nameless(&mut self, raw: &RawSite, path: &str, has_others: bool, names: &mut Names) {
        let claimed = names.claim(&raw.site, path);
        match claimed {
            Err(place) if !path.is_empty() => {
                let problem = format!("`{path}` is there twice{place}; a path has one site");
                self.report("site", "path", raw.site.path.origin, problem);
            }
            Err(place) if !raw.site.listen.value.is_empty() => {
                let problem =
                    format!("not set, nor in another site{place}; one of them needs host names");
                self.report("site", "host", raw.origin, problem);
            }
            _ if path.is_empty() && has_others && raw.site.listen.value.is_empty() => {
                let problem = "not set; with several sites each needs its host names".into();
                self.report("site", "host", raw.origin, problem);
            }
            _ => {}
        }
    }
}
