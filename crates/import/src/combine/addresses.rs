//! On which addresses sites are served, and which of them answers for unknown names there.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Listen, Site};
use crate::note::Notes;

/// The port of an address that stands for all of this machine.
fn port_of_all(address: &str) -> Option<&str> {
    address.strip_prefix("[::]:").or_else(|| address.strip_prefix(':'))
}

/// Writes what is one socket in one way, whichever site names it, leaves out what cannot be opened
/// beside others, and notes which site answers for unknown names on each.
pub(super) fn unify(sites: &mut Vec<Site>, notes: &mut Notes) {
    let all = sites.iter().flat_map(|site| &site.listen);
    let mut sockets: BTreeMap<String, Listen> = BTreeMap::new();
    for listen in all {
        // `[::]` has the addresses of IPv4, too.
        let port = port_of_all(&listen.address);
        let key = port.map_or_else(|| listen.address.clone(), |port| format!(":{port}"));
        let socket = sockets.entry(key).or_insert_with(|| listen.clone());
        socket.tls |= listen.tls;
        socket.proxy_protocol |= listen.proxy_protocol;
        if listen.address.starts_with("[::]:") {
            socket.address.clone_from(&listen.address);
        }
    }
    let of = |address: &str| match port_of_all(address) {
        Some(port) => sockets.get(&format!(":{port}")),
        None => sockets.get(address),
    };
    sites.retain_mut(|site| {
        let is_bound = !site.listen.is_empty();
        let mut own: Vec<Listen> = Vec::new();
        for listen in std::mem::take(&mut site.listen) {
            let port = listen.address.rsplit(':').next().unwrap_or_default();
            if port_of_all(&listen.address).is_none() && sockets.contains_key(&format!(":{port}")) {
                let reason = "another site listens on this port of all addresses, and one of \
                    them cannot be told from the others; the site is not served there";
                notes.refused(&site.place, &listen.address, reason);
                continue;
            }
            let socket = of(&listen.address).unwrap_or(&listen);
            if !own.contains(socket) {
                own.push(socket.clone());
            }
        }
        site.listen = own;
        for address in &mut site.default_on {
            if let Some(socket) = of(address) {
                address.clone_from(&socket.address);
            }
        }
        is_bound != site.listen.is_empty()
    });
    let said: BTreeSet<String> = sites.iter().flat_map(|site| site.default_on.clone()).collect();
    let mut known = said;
    for site in sites {
        for Listen { address, .. } in &site.listen {
            // Without a word of any site, it is the first one of the file.
            if known.insert(address.clone()) {
                site.default_on.push(address.clone());
            }
        }
    }
}

/// Puts first what answers for unknown names: on each address that is the first site that names it.
pub(super) fn order(sites: &mut Vec<Site>, notes: &mut Notes) {
    let mut firsts: BTreeMap<String, usize> = BTreeMap::new();
    for (at, site) in sites.iter().enumerate() {
        for Listen { address, .. } in &site.listen {
            if site.default_on.contains(address) {
                firsts.entry(address.clone()).or_insert(at);
            }
        }
    }
    let mut left: Vec<(usize, Site)> = std::mem::take(sites).into_iter().enumerate().collect();
    while !left.is_empty() {
        let waits = |own: usize, address: &str| {
            let first = firsts.get(address).copied();
            first.is_some_and(|first| first != own && left.iter().any(|(at, _)| *at == first))
        };
        let is_next =
            |(at, site): &(usize, Site)| site.listen.iter().all(|it| !waits(*at, &it.address));
        let next = left.iter().position(is_next);
        let mut closed = BTreeSet::new();
        if next.is_none() {
            let own = left[0].1.listen.iter().map(|listen| listen.address.clone());
            closed.extend(own.filter(|address| waits(left[0].0, address)));
        }
        let (_, mut site) = left.remove(next.unwrap_or_default());
        for address in closed {
            let reason = "it would answer for unknown names there in place of another site, so \
                it is not served there";
            notes.refused(&site.place, &address, reason);
            site.listen.retain(|listen| listen.address != address);
        }
        sites.push(site);
    }
}

/// Whether it makes a difference on which address a site is asked for.
pub(super) fn differ(sites: &[Site]) -> bool {
    let of = |site: &Site| site.listen.iter().cloned().collect::<BTreeSet<Listen>>();
    let is_unnamed = sites.len() > 1 && sites.iter().any(|site| site.hosts.is_empty());
    is_unnamed || sites.iter().any(|site| of(site) != of(&sites[0]))
}
