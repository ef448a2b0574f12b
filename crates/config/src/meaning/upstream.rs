//! Upstreams, and the routes that lead to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Reader, number, or};
use crate::high::{Address, Endpoint, Health, Mode, Route, Upstream, UpstreamTimeouts};
use crate::low::{Given, LowSite, Origin};
use crate::option;
use crate::value::{Text, did_you_mean};

/// Connections to an address of which we know nothing. Chosen arbitrarily.
const CONNECTIONS: usize = 16;

impl Reader<'_> {
    pub(super) fn upstreams(&mut self) -> Vec<Upstream> {
        let low = self.low;
        let mut upstreams: Vec<Upstream> = Vec::new();
        for table in &low.upstreams {
            let option::Upstream { name: given, address, spawn, .. } = &table.values;
            let name = match &given.value {
                Some(Text(name)) => name.clone(),
                None => {
                    self.complain("upstream", "name", table.origin, "not set; sites name it by this".into());
                    continue;
                }
            };
            if upstreams.iter().any(|other| other.name == name) {
                let problem = format!("`{name}` is there twice; give each its own name");
                self.complain("upstream", "name", given.origin, problem);
            }
            if address.value.is_empty() && spawn.value.is_empty() {
                let problem = "not set; say where the application listens, or `spawn` it".into();
                self.complain("upstream", "address", table.origin, problem);
            }
            let upstream = self.upstream_of(&table.values, name, table.origin);
            upstreams.push(upstream);
        }
        upstreams
    }

    fn upstream_of(&mut self, values: &option::Upstream, name: String, table: Origin) -> Upstream {
        let spawn = self.spawn(values, table);
        let connections = match &spawn {
            Some(spawn) if spawn.shared => spawn.processes,
            Some(_) => 1,
            None => CONNECTIONS,
        };
        Upstream {
            name,
            addresses: self.addresses(values),
            balance: values.balance.value,
            affinity: values.affinity.value.clone(),
            spill: values.spill.value,
            health: Health {
                failures: u32::try_from(values.failures.value.0).unwrap_or(u32::MAX),
                window: values.failure_window.value,
                pause: values.pause.value,
            },
            connections: or(&values.connections, connections),
            spawn,
            requests: values.requests.value.0,
            idle: values.idle.value,
            queue: number(values.queue.value.0),
            timeouts: UpstreamTimeouts {
                queue: values.queue_timeout.value,
                connect: values.connect_timeout.value,
                send: values.send_timeout.value,
                first_byte: values.first_byte_timeout.value,
                read: values.read_timeout.value,
            },
            head: number(values.head.value.0),
            params: values.params.value.clone(),
            internal: self.internal(&values.internal),
        }
    }

    fn addresses(&mut self, values: &option::Upstream) -> Vec<Address> {
        let origin = values.address.origin;
        let mut addresses: Vec<Address> = Vec::new();
        for Address { endpoint, weight } in &values.address.value {
            let endpoint = match endpoint {
                Endpoint::Unix(path) => Endpoint::Unix(self.absolute(path, origin)),
                Endpoint::Tcp(_) => endpoint.clone(),
            };
            if addresses.iter().any(|other| other.endpoint == endpoint) {
                let problem = format!("`{endpoint}` is there twice; for a greater share give it a `weight`");
                self.complain("upstream", "address", origin, problem);
            }
            addresses.push(Address { endpoint, weight: *weight });
        }
        if values.spill.value && values.affinity.value.is_empty() {
            let problem = "nothing binds requests to an address; set `affinity`, or remove this key";
            self.complain("upstream", "spill", values.spill.origin, problem.into());
        }
        addresses
    }

    /// Paths with a slash at both ends, so that one is never the beginning of a longer name.
    fn internal(&mut self, given: &Given<BTreeMap<String, String>>) -> BTreeMap<String, PathBuf> {
        let mut all = BTreeMap::new();
        for (path, directory) in &given.value {
            let directory = self.absolute(Path::new(directory), given.origin);
            if !path.starts_with('/') {
                let problem = format!("`{path}` must begin with `/`, as in \"/protected/\"");
                self.complain("upstream", "internal", given.origin, problem);
            } else if !directory.is_dir() {
                let problem =
                    format!("{} is not a directory; create it or correct the path", directory.display());
                self.complain("upstream", "internal", given.origin, problem);
            }
            all.insert(format!("{}/", path.trim_end_matches('/')), directory);
        }
        all
    }

    /// The upstream of a site's scripts.
    pub(super) fn upstream(&mut self, site: &option::Site, mode: Mode) -> Option<usize> {
        let Text(name) = site.upstream.value.as_ref()?;
        if mode != Mode::Fastcgi {
            // A mode that is tried from outside leaves what the file says of another without effect.
            if matches!(site.mode.origin, Origin::File(_)) {
                let problem = "only fastcgi mode sends scripts to an upstream; remove `mode` or this key";
                self.complain("site", "upstream", site.upstream.origin, problem.into());
            }
            return None;
        }
        self.named("site", name, site.upstream.origin)
    }

    pub(super) fn routes(&mut self, site: &LowSite) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for table in &site.routes {
            let option::Route { path, upstream, split, script, files } = &table.values;
            let not_set = |name: &str| format!("not set; a route needs its `{name}`");
            let (Some(Text(text)), Some(Text(name))) = (&path.value, &upstream.value) else {
                let missing = if path.value.is_none() { "path" } else { "upstream" };
                self.complain("site.route", missing, table.origin, not_set(missing));
                continue;
            };
            let clean = text.trim_end_matches('/');
            if !text.starts_with('/') || clean.contains("//") || clean.contains("/.") {
                let problem = format!("`{text}` must begin with `/`, and have no empty or hidden part");
                self.complain("site.route", "path", path.origin, problem);
            } else if routes.iter().any(|route| route.path == clean) {
                self.complain("site.route", "path", path.origin, format!("`{text}` is there twice"));
            }
            let Some(upstream) = self.named("site.route", name, upstream.origin) else { continue };
            routes.push(Route {
                path: clean.to_owned(),
                upstream,
                split: split.value.clone(),
                script: self.optional_path(script),
                files: files.value,
            });
        }
        // The first that fits is then the longest.
        routes.sort_by_key(|route| std::cmp::Reverse(route.path.len()));
        routes
    }

    fn named(&mut self, section: &str, name: &str, origin: Origin) -> Option<usize> {
        let names = |table: &crate::low::Repeated<option::Upstream>| table.values.name.value.clone();
        let names: Vec<String> = self.low.upstreams.iter().filter_map(names).map(|text| text.0).collect();
        let found = names.iter().position(|other| other == name);
        if found.is_none() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let problem = format!("there is no [[upstream]] `{name}`{}", did_you_mean(name, &names));
            self.complain(section, "upstream", origin, problem);
        }
        found
    }
}
