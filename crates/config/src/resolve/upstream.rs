//! Upstreams, and the routes that lead to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::pool::or;
use super::{Reader, number};
use crate::model::{
    Address, Caching, Check, Compression, Endpoint, Filter, Health, Mode, Route, Scripts, Upstream,
    UpstreamTimeouts,
};
use crate::option;
use crate::origin::{Given, Origin};
use crate::raw::RawSite;
use crate::value::{Auto, Count, Nothing, Text, did_you_mean};

/// Connections to an address whose number of processes we do not know. A pool of php-fpm usually
/// has 5 to 50 processes: with a tenth of it requests would queue here while processes are idle,
/// with ten times more they would fill the application's backlog, where no time limit of ours
/// holds.
const CONNECTIONS: usize = 16;

impl Reader<'_> {
    pub(super) fn upstreams(&mut self) -> Vec<Upstream> {
        let raw = self.raw;
        let mut upstreams: Vec<Upstream> = Vec::new();
        for table in &raw.upstreams {
            let option::Upstream { name: given, address, spawn, .. } = &table.values;
            let name = match &given.value {
                Some(Text(name)) => name.clone(),
                None => {
                    self.report(
                        "upstream",
                        "name",
                        table.origin,
                        "not set; sites name it by this".into(),
                    );
                    continue;
                }
            };
            if upstreams.iter().any(|other| other.name == name) {
                let problem = format!("`{name}` is there twice; give each its own name");
                self.report("upstream", "name", given.origin, problem);
            }
            if address.value.is_empty() && spawn.value.is_empty() {
                let problem = "not set; say where the application listens, or `spawn` it".into();
                self.report("upstream", "address", table.origin, problem);
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
            resolve: match values.resolve.value {
                Auto::Word => None,
                Auto::Is(interval) => Some(interval),
            },
            balance: values.balance.value,
            affinity: values.affinity.value.clone(),
            spill: values.spill.value,
            health: Health {
                failures: u32::try_from(values.failures.value.0).unwrap_or(u32::MAX),
                window: values.failure_window.value,
                pause: values.pause.value,
            },
            check: self.check(values),
            connections: or(&values.connections, connections),
            spawn,
            multiplex: values.multiplex.value,
            requests: values.requests.value.0,
            idle: values.idle.value,
            reuse: values.reuse.value,
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
            internal: self.internal("upstream", &values.internal),
        }
    }

    fn check(&mut self, values: &option::Upstream) -> Option<Check> {
        let small = |count: Count| u32::try_from(count.0).unwrap_or(u32::MAX);
        let Some(Text(path)) = &values.check.value else {
            if !values.check_params.value.is_empty() {
                let problem = "nothing is checked; set `check`, or remove this key";
                self.report("upstream", "check_params", values.check_params.origin, problem.into());
            }
            return None;
        };
        if !path.starts_with('/') {
            let problem = format!("`{path}` must begin with `/`, as in \"/ping\"");
            self.report("upstream", "check", values.check.origin, problem);
        }
        Some(Check {
            path: path.clone(),
            interval: values.check_interval.value,
            timeout: values.check_timeout.value,
            status: u16::try_from(values.check_status.value.0).unwrap_or_default(),
            rise: small(values.check_rise.value),
            fall: small(values.check_fall.value),
            params: values.check_params.value.clone(),
        })
    }

    fn addresses(&mut self, values: &option::Upstream) -> Vec<Address> {
        let origin = values.address.origin;
        let mut addresses: Vec<Address> = Vec::new();
        for Address { endpoint, weight } in &values.address.value {
            let endpoint = match endpoint {
                Endpoint::Unix(path) => Endpoint::Unix(self.absolute(path, origin)),
                Endpoint::Tcp(_) | Endpoint::Srv(_) => endpoint.clone(),
            };
            if addresses.iter().any(|other| other.endpoint == endpoint) {
                let problem =
                    format!("`{endpoint}` is there twice; for a greater share give it a `weight`");
                self.report("upstream", "address", origin, problem);
            }
            addresses.push(Address { endpoint, weight: *weight });
        }
        if values.spill.value && values.affinity.value.is_empty() {
            let problem =
                "nothing binds requests to an address; set `affinity`, or remove this key";
            self.report("upstream", "spill", values.spill.origin, problem.into());
        }
        addresses
    }

    /// Paths with a slash at both ends, so that one is never the beginning of a longer name.
    pub(super) fn internal(
        &mut self,
        section: &str,
        given: &Given<BTreeMap<String, String>>,
    ) -> BTreeMap<String, PathBuf> {
        let mut all = BTreeMap::new();
        for (path, directory) in &given.value {
            let directory = self.absolute(Path::new(directory), given.origin);
            if !path.starts_with('/') {
                let problem = format!("`{path}` must begin with `/`, as in \"/protected/\"");
                self.report(section, "internal", given.origin, problem);
            } else if !directory.is_dir() {
                let problem = format!(
                    "{} is not a directory; create it or correct the path",
                    directory.display()
                );
                self.report(section, "internal", given.origin, problem);
            }
            all.insert(format!("{}/", path.trim_end_matches('/')), directory);
        }
        all
    }

    /// The upstream of a site's scripts.
    pub(super) fn upstream(&mut self, site: &option::Site, mode: Mode) -> Option<usize> {
        let Text(name) = site.upstream.value.as_ref()?;
        if mode != Mode::Fastcgi {
            // A mode that is tried from outside leaves what the file says of another without
            // effect.
            if matches!(site.mode.origin, Origin::File(_)) {
                let problem =
                    "only fastcgi mode sends scripts to an upstream; remove `mode` or this key";
                self.report("site", "upstream", site.upstream.origin, problem.into());
            }
            return None;
        }
        self.named("site", "upstream", name, site.upstream.origin)
    }

    /// The routes of a site whose own authorizer is this.
    pub(super) fn routes(
        &mut self,
        site: &RawSite,
        authorizer: Option<usize>,
        lua: &Scripts,
        cache: &Caching,
        compression: &Compression,
    ) -> Vec<Route> {
        let mut routes: Vec<(Route, bool)> = Vec::new();
        for table in &site.routes {
            let option::Route { path, upstream, split, script, files, .. } = &table.values;
            let Some(Text(text)) = &path.value else {
                let problem = "not set; a route needs its `path`".into();
                self.report("site.route", "path", table.origin, problem);
                continue;
            };
            let clean = text.trim_end_matches('/');
            if !text.starts_with('/') || clean.contains("//") || clean.contains("/.") {
                let problem =
                    format!("`{text}` must begin with `/`, and have no empty or hidden part");
                self.report("site.route", "path", path.origin, problem);
            } else if routes.iter().any(|(route, _)| route.path == clean) {
                self.report("site.route", "path", path.origin, format!("`{text}` is there twice"));
            }
            let option::Route { authorizer: guard, filter, .. } = &table.values;
            let scripts = self.route_scripts(&table.values);
            let caching = super::cache::route(&table.values, cache);
            let compressing = self.route_compression(&table.values, compression);
            let is_plain = upstream.value.is_none()
                && filter.value.is_none()
                && caching == *cache
                && compressing == *compression;
            if is_plain && matches!(guard.value, Auto::Word) && scripts.all().next().is_none() {
                let problem =
                    "not set; a route needs an `upstream`, an `authorizer`, a `filter`, a script \
                        or its own `cache` or `compression`"
                        .into();
                self.report("site.route", "upstream", table.origin, problem);
            }
            let own = match &guard.value {
                Auto::Is(Nothing::Is(name)) => Some(name),
                Auto::Is(Nothing::Word) | Auto::Word => None,
            };
            let route = Route {
                path: clean.to_owned(),
                upstream: self.optional_upstream(
                    "site.route",
                    "upstream",
                    upstream.value.as_ref(),
                    upstream.origin,
                ),
                authorizer: self.optional_upstream("site.route", "authorizer", own, guard.origin),
                filter: self.filter(&table.values),
                split: split.value.clone(),
                script: self.optional_path(script),
                files: files.value,
                lua: scripts.or(lua),
                cache: caching,
                compression: compressing,
                server_timing: match table.values.server_timing.value {
                    Auto::Is(is_on) => is_on,
                    Auto::Word => site.site.server_timing.value,
                },
            };
            routes.push((route, matches!(guard.value, Auto::Word)));
        }
        // The first that fits is then the longest.
        routes.sort_by_key(|(route, _)| std::cmp::Reverse(route.path.len()));
        inherit(routes, authorizer)
    }

    fn route_scripts(&mut self, route: &option::Route) -> Scripts {
        Scripts {
            raw_url: self.scripts("site.route", "lua_raw_url", &route.lua_raw_url),
            physical: self.scripts("site.route", "lua_physical", &route.lua_physical),
            content: self.scripts("site.route", "lua_content", &route.lua_content),
            response: self.scripts("site.route", "lua_response", &route.lua_response),
            store: self.scripts("site.route", "lua_store", &route.lua_store),
        }
    }

    fn filter(&mut self, route: &option::Route) -> Option<Filter> {
        let option::Route { filter, filter_extensions: extensions, .. } = route;
        if filter.value.is_none() && !extensions.value.is_empty() {
            let problem =
                "says which files are filtered, but not by whom; set `filter`, or remove this"
                    .into();
            self.report("site.route", "filter_extensions", extensions.origin, problem);
        }
        for Text(extension) in &extensions.value {
            if extension.len() < 2 || !extension.starts_with('.') || extension.contains('/') {
                let problem = format!(
                    "`{extension}` is no extension; write it with its dot, as in \".html\""
                );
                self.report("site.route", "filter_extensions", extensions.origin, problem);
            }
        }
        let upstream =
            self.optional_upstream("site.route", "filter", filter.value.as_ref(), filter.origin)?;
        Some(Filter {
            upstream,
            extensions: extensions.value.iter().map(|text| text.0.clone()).collect(),
        })
    }

    /// The upstream that an option names, if it names one.
    pub(super) fn optional_upstream(
        &mut self,
        section: &str,
        option: &str,
        name: Option<&Text>,
        origin: Origin,
    ) -> Option<usize> {
        self.named(section, option, &name?.0, origin)
    }

    fn named(&mut self, section: &str, option: &str, name: &str, origin: Origin) -> Option<usize> {
        let names =
            |table: &crate::raw::Repeated<option::Upstream>| table.values.name.value.clone();
        let names: Vec<String> =
            self.raw.upstreams.iter().filter_map(names).map(|text| text.0).collect();
        let found = names.iter().position(|other| other == name);
        if found.is_none() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let problem =
                format!("there is no [[upstream]] `{name}`{}", did_you_mean(name, &names));
            self.report(section, option, origin, problem);
        }
        found
    }
}

/// Gives routes that say nothing of an authorizer that of the route around them, or the site's. The
/// longest route comes first; `true`: it says nothing.
fn inherit(routes: Vec<(Route, bool)>, site: Option<usize>) -> Vec<Route> {
    let is_around = |outer: &Route, inner: &Route| {
        inner.path.strip_prefix(outer.path.as_str()).is_some_and(|rest| rest.starts_with('/'))
    };
    let mut done: Vec<Route> = Vec::new();
    for (mut route, says_nothing) in routes.into_iter().rev() {
        if says_nothing {
            let around = done.iter().rev().find(|outer| is_around(outer, &route));
            route.authorizer = around.map_or(site, |outer| outer.authorizer);
        }
        done.push(route);
    }
    done.reverse();
    done
}
