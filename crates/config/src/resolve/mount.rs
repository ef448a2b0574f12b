//! What a mounted site takes over from the sites around it, unless it sets that itself: how its
//! clients reach the host is a matter of the host.

use super::Reader;
use super::site::split_port;
use crate::model::Site;
use crate::origin::Origin;
use crate::raw::RawSite;

impl Reader<'_> {
    /// Completes the mounted sites among `sites`, which are those of the file, in its order.
    pub(super) fn inherit(&mut self, sites: &mut [Site]) {
        let (raw, all) = (self.raw, sites.to_vec());
        for (site, raw) in sites.iter_mut().zip(&raw.sites) {
            if site.path.is_empty() {
                continue;
            }
            let around = around(site, &all);
            if raw.site.https_redirect.origin == Origin::Default {
                let redirects = around.iter().map(|site| site.tls.redirect);
                self.take_over(raw, "https_redirect", redirects, &mut site.tls.redirect);
            }
            if raw.site.https_port.origin == Origin::Default {
                let ports = around.iter().map(|site| site.tls.port);
                self.take_over(raw, "https_port", ports, &mut site.tls.port);
            }
            let hsts = [raw.site.hsts_subdomains.origin, raw.site.hsts_preload.origin];
            // They are one header field.
            if hsts == [Origin::Default; 2] && raw.site.hsts.origin == Origin::Default {
                let hsts = around.iter().map(|site| site.tls.hsts);
                self.take_over(raw, "hsts", hsts, &mut site.tls.hsts);
            }
            if raw.site.access_log.origin == Origin::Default {
                let logs = around.iter().map(|site| site.access_log.clone());
                self.take_over(raw, "access_log", logs, &mut site.access_log);
            }
            if site.canonical_host.is_none() {
                let host = same(around.iter().map(|site| &site.canonical_host)).cloned().flatten();
                // Where the site is not mounted, a client would not find it.
                site.canonical_host =
                    host.filter(|host| is_one_of(split_port(host).0, &site.hosts));
            }
        }
    }

    /// Takes over what all sites around have. If they differ, the file has to say it.
    fn take_over<T: PartialEq>(
        &mut self,
        raw: &RawSite,
        name: &str,
        around: impl Iterator<Item = T> + Clone,
        value: &mut T,
    ) {
        if let Some(common) = same(around.clone()) {
            *value = common;
        } else if around.count() > 0 {
            let problem = "not set, and the sites in which this one is mounted differ in it; set \
                it here, or mount a site in each, with its `host`";
            self.report("site", name, raw.origin, problem.into());
        }
    }
}

/// The value that all have; `None` if they differ, or if there is none.
fn same<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The sites in which a site is mounted.
pub(crate) fn around<'a>(mounted: &Site, sites: &'a [Site]) -> Vec<&'a Site> {
    let own =
        || sites.iter().filter(|site| site.path.is_empty() && share_an_address(site, mounted));
    if mounted.hosts.is_empty() {
        return own().collect();
    }
    let mut around: Vec<&Site> = Vec::new();
    for host in &mounted.hosts {
        // The site that answers for the name, as requests find it: the longest name comes first,
        // and the first site answers for unknown names.
        let fit = |site: &&'a Site| {
            let fitting = site.hosts.iter().filter(|own| covers(own, host));
            fitting.map(|own| (own == host, own.len())).max()
        };
        let best =
            own().filter(|site| fit(site).is_some()).max_by_key(fit).or_else(|| own().next());
        // And those for which names below `*.host` are left.
        let below = own().filter(|site| site.hosts.iter().any(|own| covers(host, own)));
        around.extend(best.into_iter().chain(below));
    }
    around
}

/// Whether there is an address on which both sites are served.
fn share_an_address(one: &Site, other: &Site) -> bool {
    one.listen.is_empty()
        || other.listen.is_empty()
        || one.listen.iter().any(|address| other.listen.contains(address))
}

/// Whether a name of a site stands for this host; `*.a.test` for all below it.
fn covers(own: &str, host: &str) -> bool {
    match own.strip_prefix('*') {
        Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        None => own == host,
    }
}

/// Whether a site with these names, which may be none, answers for the host.
pub(super) fn is_one_of(host: &str, hosts: &[String]) -> bool {
    hosts.is_empty() || hosts.iter().any(|own| covers(own, host))
}
