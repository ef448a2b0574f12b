//! Upstreams, and the routes that lead to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::pool::or;
use super::{Reader, header_fields, number};
use crate::model::{
    Address, Caching, CertificateFiles, Check, Compression, Endpoint, Filter, Health, HttpProxy,
    Mode, Multiplex, Protocol, ProtocolName, Route, Scheme, Scripts, Split, Upstream,
    UpstreamTimeouts, UpstreamTls,
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

/// The same over HTTP, where few servers have a process for each connection. A tenth would let
/// requests wait that an event loop could take; ten times more would be memory and ports of a
/// service that is too slow for its clients.
const HTTP_CONNECTIONS: usize = 256;

/// Fields of requests that only the server writes.
const OF_THE_SERVER: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

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
        let scheme = scheme(values);
        let connections = match &spawn {
            Some(spawn) if spawn.shared => spawn.processes,
            Some(_) => 1,
            None if scheme != Scheme::FastCgi && !speaks_http2(values) => HTTP_CONNECTIONS,
            None => CONNECTIONS,
        };
        Upstream {
            name,
            addresses: self.addresses(values, scheme),
            protocol: self.protocol(values, scheme),
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
            multiplex: match (&values.multiplex.value, &values.connections.value) {
                _ if scheme != Scheme::FastCgi => Multiplex::Never,
                (Auto::Is(true), _) => Multiplex::First,
                (Auto::Word, Auto::Word) => Multiplex::WhenKept,
                // A number of connections is how many requests it is to have at once.
                (Auto::Is(false), _) | (Auto::Word, Auto::Is(_)) => Multiplex::Never,
            },
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

    /// What an application speaks.
    fn protocol(&mut self, values: &option::Upstream, scheme: Scheme) -> Protocol {
        let option::Upstream {
            multiplex,
            params,
            check_params,
            host,
            headers,
            forwarded,
            request_buffering,
            ..
        } = values;
        let of_fastcgi = [
            ("multiplex", multiplex.value == Auto::Is(true), multiplex.origin),
            ("params", !params.value.is_empty(), params.origin),
            ("check_params", !check_params.value.is_empty(), check_params.origin),
        ];
        let of_http = [
            ("host", host.value.is_some(), host.origin),
            ("headers", !headers.value.is_empty(), headers.origin),
            ("forwarded", forwarded.value != Default::default(), forwarded.origin),
            ("request_buffering", !request_buffering.value, request_buffering.origin),
        ];
        let (others, problem) = match scheme {
            Scheme::Http | Scheme::Https => (
                &of_fastcgi[..],
                "is for FastCGI, and the application speaks HTTP; remove this key",
            ),
            Scheme::FastCgi => {
                (&of_http[..], "is for HTTP, and the application speaks FastCGI; remove this key")
            }
        };
        for (key, _, origin) in others.iter().filter(|(_, is_set, _)| *is_set) {
            self.report("upstream", key, *origin, problem.into());
        }
        let tls = self.upstream_tls(values, scheme);
        if scheme == Scheme::FastCgi {
            return Protocol::FastCgi;
        }
        let has_host = headers.value.keys().any(|name| name.eq_ignore_ascii_case("host"));
        let own_key = has_host.then(|| "`Host` has a key of its own; set `host`".to_owned());
        if let Some(problem) =
            own_key.or_else(|| header_fields::wrong(&headers.value, &OF_THE_SERVER))
        {
            self.report("upstream", "headers", headers.origin, problem);
        }
        let host = host.value.as_ref().map(|Text(host)| host.clone());
        if let Some(host) = host.as_ref().filter(|host| !is_host(host)) {
            let problem =
                format!("`{}` is no host; write it as in \"app.example\"", host.escape_debug());
            self.report("upstream", "host", values.host.origin, problem);
        }
        let headers = headers.value.iter();
        let headers =
            headers.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        Protocol::Http(HttpProxy {
            http2: speaks_http2(values),
            host,
            headers,
            forwarded: forwarded.value,
            request_buffering: request_buffering.value,
            tls,
        })
    }

    /// How TLS is spoken with an application, if it is.
    fn upstream_tls(&mut self, values: &option::Upstream, scheme: Scheme) -> Option<UpstreamTls> {
        let option::Upstream { tls_ca, tls_name, tls_certificate, tls_key, .. } = values;
        let all = [
            ("tls_ca", tls_ca.value.is_some(), tls_ca.origin),
            ("tls_name", tls_name.value.is_some(), tls_name.origin),
            ("tls_certificate", tls_certificate.value.is_some(), tls_certificate.origin),
            ("tls_key", tls_key.value.is_some(), tls_key.origin),
        ];
        if scheme != Scheme::Https {
            for (key, _, origin) in all.into_iter().filter(|(_, is_set, _)| *is_set) {
                let problem = "is for addresses with `https://`; remove this key".into();
                self.report("upstream", key, origin, problem);
            }
            return None;
        }
        if !values.spawn.value.is_empty() {
            let problem = "what `spawn` starts is asked without TLS; write \"http\"";
            self.report("upstream", "protocol", values.protocol.origin, problem.into());
        }
        if tls_key.value.is_some() && tls_certificate.value.is_none() {
            let problem = "needs its certificate; set `tls_certificate`, or remove this key";
            self.report("upstream", "tls_key", tls_key.origin, problem.into());
        }
        let name = tls_name.value.as_ref().map(|Text(name)| name.clone());
        let has_service = |address: &Address| matches!(address.endpoint, Endpoint::Srv(_));
        if name.is_none() && values.address.value.iter().any(has_service) {
            let problem = "a service's hosts are what the name server says, so that says nothing \
                of whom to believe; set `tls_name`";
            self.report("upstream", "address", values.address.origin, problem.into());
        }
        let mut file = |key: &str, given: &Given<Option<PathBuf>>| {
            let path = given.value.as_ref()?;
            Some(self.existing("upstream", key, path, given.origin))
        };
        let ca = file("tls_ca", tls_ca);
        let certificate = file("tls_certificate", tls_certificate);
        let key = file("tls_key", tls_key);
        let certificate = certificate.map(|certificate| CertificateFiles {
            key: key.unwrap_or_else(|| certificate.clone()),
            certificate,
        });
        Some(UpstreamTls { ca, name, certificate })
    }

    fn addresses(&mut self, values: &option::Upstream, scheme: Scheme) -> Vec<Address> {
        let origin = values.address.origin;
        let mut addresses: Vec<Address> = Vec::new();
        for Address { endpoint, weight, scheme: own } in &values.address.value {
            // One without a scheme may be of either, if `protocol` says so.
            let is_other = match values.protocol.value {
                Auto::Word => *own != scheme,
                Auto::Is(_) => *own != Scheme::FastCgi && *own != scheme,
            };
            if is_other {
                let problem = format!(
                    "`{endpoint}` is of another protocol than the others; make it an [[upstream]] \
                        of its own"
                );
                self.report("upstream", "address", origin, problem);
            }
            if scheme == Scheme::Https && matches!(endpoint, Endpoint::Unix(_)) {
                let problem =
                    format!("`{endpoint}` is asked without TLS; write it as http+{endpoint}");
                self.report("upstream", "address", origin, problem);
            }
            let endpoint = match endpoint {
                Endpoint::Unix(path) => Endpoint::Unix(self.absolute(path, origin)),
                Endpoint::Tcp(_) | Endpoint::Srv(_) => endpoint.clone(),
            };
            if addresses.iter().any(|other| other.endpoint == endpoint) {
                let problem =
                    format!("`{endpoint}` is there twice; for a greater share give it a `weight`");
                self.report("upstream", "address", origin, problem);
            }
            addresses.push(Address { scheme, endpoint, weight: *weight });
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

    /// The routes of a site whose own authorizer is this. `whole`: the application of HTTP that
    /// answers what they leave.
    pub(super) fn routes(
        &mut self,
        site: &RawSite,
        authorizer: Option<usize>,
        whole: Option<usize>,
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
            let index = self.optional_upstream(
                "site.route",
                "upstream",
                upstream.value.as_ref(),
                upstream.origin,
            );
            let route = Route {
                path: clean.to_owned(),
                upstream: index,
                upstream_path: self.upstream_path(&table.values, index),
                authorizer: self.fastcgi_upstream("site.route", "authorizer", own, guard.origin),
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
        if let Some(upstream) =
            whole.filter(|_| routes.iter().all(|(route, _)| !route.path.is_empty()))
        {
            let route = Route {
                path: String::new(),
                upstream: Some(upstream),
                upstream_path: None,
                authorizer,
                filter: None,
                split: Split::Path,
                script: None,
                files: site.site.files.value,
                lua: lua.clone(),
                cache: cache.clone(),
                compression: compression.clone(),
                server_timing: site.site.server_timing.value,
            };
            routes.push((route, true));
        }
        // The first that fits is then the longest.
        routes.sort_by_key(|(route, _)| std::cmp::Reverse(route.path.len()));
        inherit(routes, authorizer)
    }

    /// What stands in place of a route's path.
    fn upstream_path(&mut self, route: &option::Route, upstream: Option<usize>) -> Option<String> {
        let option::Route { upstream_path: given, .. } = route;
        let Text(path) = given.value.as_ref()?;
        let is_visible = |byte: u8| (b'!'..=b'~').contains(&byte) && !b"?#".contains(&byte);
        let problem = if !upstream.is_some_and(|index| self.speaks_http(index)) {
            "is for an `upstream` of HTTP; remove this key".into()
        } else if !path.starts_with('/') || !path.bytes().all(is_visible) {
            format!("`{}` must begin with `/`, and be encoded as in a URL", path.escape_debug())
        } else {
            return Some(path.clone());
        };
        self.report("site.route", "upstream_path", given.origin, problem);
        None
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
            self.fastcgi_upstream("site.route", "filter", filter.value.as_ref(), filter.origin)?;
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

    /// The same for a role that only FastCGI has.
    pub(super) fn fastcgi_upstream(
        &mut self,
        section: &str,
        option: &str,
        name: Option<&Text>,
        origin: Origin,
    ) -> Option<usize> {
        let found = self.optional_upstream(section, option, name, origin)?;
        if self.speaks_http(found) {
            let problem =
                "the application speaks HTTP, which has no such role; name one of FastCGI";
            self.report(section, option, origin, problem.into());
        }
        Some(found)
    }

    /// Whether the upstream of this index speaks HTTP.
    pub(super) fn speaks_http(&self, index: usize) -> bool {
        let named = self.raw.upstreams.iter().filter(|table| table.values.name.value.is_some());
        let mut schemes = named.map(|table| scheme(&table.values));
        schemes.nth(index).is_some_and(|scheme| scheme != Scheme::FastCgi)
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

/// What an application speaks: what is said of it, or what its first address says.
fn scheme(values: &option::Upstream) -> Scheme {
    let first = values.address.value.first().map(|address| address.scheme);
    match values.protocol.value {
        Auto::Is(ProtocolName::FastCgi) => Scheme::FastCgi,
        Auto::Is(ProtocolName::Https) => Scheme::Https,
        Auto::Is(ProtocolName::Http2) if first == Some(Scheme::Https) => Scheme::Https,
        Auto::Is(ProtocolName::Http | ProtocolName::Http2) => Scheme::Http,
        Auto::Word => first.unwrap_or(Scheme::FastCgi),
    }
}

/// Whether it speaks HTTP/2.
fn speaks_http2(values: &option::Upstream) -> bool {
    values.protocol.value == Auto::Is(ProtocolName::Http2)
}

/// Whether a text may be a `Host`.
fn is_host(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}
