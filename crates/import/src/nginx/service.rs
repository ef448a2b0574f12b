//! Applications that `proxy_pass` leads to: their addresses, what they are told, how long they are
//! waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::directive::Directive;
use crate::model::{Site, Upstream};
use crate::service::{self, Known, Scheme, Told};
use crate::unit;

use super::block::Block;
use super::reader::Reader;

/// Settings that change neither a request nor an answer, or say what is done anyway.
const SILENT: &[&str] = &[
    "proxy_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_force_ranges",
    "proxy_headers_hash_bucket_size",
    "proxy_headers_hash_max_size",
    "proxy_http_version",
    "proxy_ignore_client_abort",
    "proxy_max_temp_file_size",
    "proxy_next_upstream",
    "proxy_next_upstream_timeout",
    "proxy_next_upstream_tries",
    "proxy_socket_keepalive",
    "proxy_temp_file_write_size",
    "proxy_temp_path",
];

/// Settings with the value that says what is done anyway.
const AS_HERE: &[(&str, &[&str])] = &[
    ("proxy_cache", &["off"]),
    ("proxy_intercept_errors", &["off"]),
    ("proxy_method", &["$request_method"]),
    ("proxy_pass_header", &["Server", "Date"]),
    ("proxy_pass_request_body", &["on"]),
    ("proxy_pass_request_headers", &["on"]),
    ("proxy_redirect", &["off", "default"]),
    ("proxy_store", &["off"]),
];

/// Times: the directive, and its keys of `[[upstream]]`.
const TIMEOUTS: &[(&str, &[&str])] = &[
    ("proxy_connect_timeout", &["connect_timeout"]),
    ("proxy_send_timeout", &["send_timeout"]),
    ("proxy_read_timeout", &["first_byte_timeout", "read_timeout"]),
];

/// Texts about TLS: the directive, and its key of `[[upstream]]`.
const TLS: &[(&str, &str)] = &[
    ("proxy_ssl_certificate", "tls_certificate"),
    ("proxy_ssl_certificate_key", "tls_key"),
    ("proxy_ssl_name", "tls_name"),
    ("proxy_ssl_trusted_certificate", "tls_ca"),
];

/// Where `proxy_pass` leads.
#[derive(Debug, PartialEq)]
pub(super) struct Target {
    pub scheme: Scheme,
    /// A host with a port if it says one, `unix:` and a path, or the name of an `upstream`.
    pub server: String,
    /// What it puts in place of the path of the location.
    pub path: Option<String>,
}

/// The blocks `upstream` of a configuration by their names.
pub(super) fn upstreams(directives: &[Directive]) -> BTreeMap<String, Vec<Directive>> {
    let mut found = BTreeMap::new();
    for directive in directives {
        if directive.name == "upstream" && directive.block.is_some() {
            found.insert(directive.arg(0).to_owned(), directive.inner().to_vec());
        }
        found.append(&mut upstreams(directive.inner()));
    }
    found
}

/// Reads the URL of `proxy_pass`.
pub(super) fn target(url: &str) -> Result<Target, &'static str> {
    if url.contains('$') {
        return Err("where it leads depends on variables");
    }
    let (scheme, rest) = service::split_scheme(url)?;
    let (server, path) = match rest.strip_prefix("unix:") {
        Some(socket) => {
            let (socket, path) = socket.split_once(':').unwrap_or((socket, ""));
            (format!("unix:{socket}"), path)
        }
        None => {
            let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (server.to_owned(), path)
        }
    };
    if !service::is_path(path) {
        return Err("its path is none that can stand in place of another one");
    }
    let path = Some(path.to_owned()).filter(|path| !path.is_empty());
    Ok(Target { scheme, server, path })
}

impl Reader<'_> {
    /// The upstream that a location asks, or why it cannot be asked.
    pub(super) fn service(
        &mut self,
        pass: &Directive,
        target: &Target,
        block: &Block,
        site: &Site,
    ) -> Result<Upstream, String> {
        let mut upstream = Upstream { place: pass.place.clone(), ..Upstream::default() };
        let group = self.upstreams.get(&target.server).cloned();
        let is_group = group.is_some();
        match group {
            Some(lines) => self.group(&lines, target.scheme, &mut upstream),
            None => {
                let own = service::address(target.scheme, &target.server);
                upstream.add(own.ok_or("it names no address")?, 1);
            }
        }
        if upstream.addresses.is_empty() {
            return Err("its `upstream` has no address that is translated".to_owned());
        }
        upstream.host = Some(service::host(target.scheme, &target.server));
        for line in &block.service_fields {
            self.service_field(line, &mut upstream, site);
        }
        let settings: BTreeMap<&str, &Directive> =
            block.service_settings.iter().map(|line| (&*line.name, line)).collect();
        for line in settings.values() {
            self.service_setting(line, &mut upstream)?;
        }
        if target.scheme == Scheme::Https {
            self.service_tls(pass, &settings, &mut upstream);
            if is_group {
                let name = || service::host(target.scheme, &target.server);
                upstream.tls.entry("tls_name").or_insert_with(name);
            }
        }
        Ok(upstream)
    }

    /// Whom a service over TLS has to be, and what it is shown.
    fn service_tls(
        &mut self,
        pass: &Directive,
        settings: &BTreeMap<&str, &Directive>,
        upstream: &mut Upstream,
    ) {
        if settings.get("proxy_ssl_verify").is_none_or(|line| line.arg(0) != "on") {
            self.notes.differs(&pass.place, &pass.line(), service::VERIFIED);
        }
        for (name, line) in settings {
            let key = TLS.iter().find(|(own, _)| own == name).map(|(_, key)| *key);
            let reason = match (key, line.arg(0)) {
                (_, value) if value.contains('$') => "it depends on the request",
                (Some(key), value) => {
                    let is_file = key != "tls_name";
                    let value = if is_file { self.path(value) } else { value.to_owned() };
                    upstream.tls.insert(key, value);
                    continue;
                }
                (None, _) if *name == "proxy_ssl_crl" => "no list of revoked certificates is read",
                (None, _) if *name == "proxy_ssl_password_file" => {
                    "the key of `tls_certificate` has to be without a password"
                }
                (None, _) => continue,
            };
            if name.starts_with("proxy_ssl_") {
                self.notes.left(&line.place, &line.line(), reason);
            }
        }
    }

    /// The lines of a block `upstream`.
    fn group(&mut self, lines: &[Directive], scheme: Scheme, upstream: &mut Upstream) {
        for line in lines {
            match &*line.name {
                "server" => self.server_of_group(line, scheme, upstream),
                "least_conn" => upstream.asks_least_busy = true,
                "ip_hash" => upstream.affinity = Some("client".to_owned()),
                // Connections are kept, and each process knows the state of all addresses.
                "keepalive" | "keepalive_requests" | "keepalive_time" | "keepalive_timeout"
                | "zone" | "resolver" | "resolver_timeout" => {}
                _ => {
                    let reason = "no such way to spread requests; see `balance` and `affinity`";
                    self.notes.left(&line.place, &line.line(), reason);
                }
            }
        }
    }

    fn server_of_group(&mut self, line: &Directive, scheme: Scheme, upstream: &mut Upstream) {
        let (place, text) = (&line.place, line.line());
        let flags = &line.args[1.min(line.args.len())..];
        if flags.iter().any(|flag| flag == "down") {
            return;
        }
        if flags.iter().any(|flag| flag == "backup") {
            let reason = "no address is kept for the time when others fail";
            self.notes.left(place, &text, reason);
            return;
        }
        let mut weight = 1;
        for flag in flags {
            match flag.split_once('=') {
                Some(("weight", own)) => weight = own.parse().unwrap_or(1),
                _ if flag == "resolve" => {}
                _ => {
                    let reason = format!("`{flag}` is left out; see `failures` and `connections`");
                    self.notes.left(place, &text, reason);
                }
            }
        }
        match service::address(scheme, line.arg(0)) {
            Some(own) => upstream.add(own, weight),
            None => self.notes.left(place, &text, "no address of a service"),
        }
    }

    /// `proxy_set_header`.
    fn service_field(&mut self, line: &Directive, upstream: &mut Upstream, site: &Site) {
        let name = line.arg(0);
        if name.eq_ignore_ascii_case("host") {
            return self.service_host(line, upstream, site);
        }
        let own = format!("$http_{}", name.to_ascii_lowercase().replace('-', "_"));
        let value = match line.arg(1) {
            "$remote_addr" => Told::Known(Known::Address),
            "$proxy_add_x_forwarded_for" => Told::Known(Known::Addresses),
            "$scheme" => Told::Known(Known::Scheme),
            "$host" | "$http_host" | "$host:$server_port" => Told::Known(Known::Host),
            value if value == own => Told::Same,
            value if value.contains('$') => Told::Other,
            value => Told::Text(value),
        };
        if let Some(reason) = upstream.tell(name, value) {
            self.notes.left(&line.place, &line.line(), reason);
        }
    }

    fn service_host(&mut self, line: &Directive, upstream: &mut Upstream, site: &Site) {
        upstream.host = match line.arg(1) {
            "$proxy_host" => return,
            "$host" | "$http_host" | "$host:$server_port" => None,
            "$server_name" if site.hosts.len() == 1 && !site.hosts[0].starts_with('*') => {
                Some(site.hosts[0].clone())
            }
            own if service::is_host(own) => Some(own.to_owned()),
            _ => {
                let reason = "no name of a host; the service is told what the client says";
                self.notes.left(&line.place, &line.line(), reason);
                None
            }
        };
    }

    /// Another directive that begins with `proxy_`.
    fn service_setting(&mut self, line: &Directive, upstream: &mut Upstream) -> Result<(), String> {
        let (name, value, place) = (&*line.name, line.arg(0), &line.place);
        let is_as_here = |(own, values): &(&str, &[&str])| *own == name && values.contains(&value);
        if let Some((_, keys)) = TIMEOUTS.iter().find(|(own, _)| *own == name) {
            let duration = unit::nginx_time(value).map(Duration::from_secs);
            if let Err(reason) = upstream.wait(keys, duration) {
                self.notes.left(place, &line.line(), reason);
            }
            return Ok(());
        }
        if name == "proxy_request_buffering" {
            upstream.gets_bodies_at_once = value == "off";
            return Ok(());
        }
        if SILENT.contains(&name)
            || AS_HERE.iter().any(is_as_here)
            || name == "proxy_hide_header"
            // Read apart; others say how TLS is spoken.
            || name.starts_with("proxy_ssl_")
            // Details of `proxy_cache`, whose own line has a note.
            || name.starts_with("proxy_cache_")
        {
            return Ok(());
        }
        let reason = match name {
            "proxy_cache" | "proxy_no_cache" => "see `cache = true`",
            "proxy_bind" => "the system chooses the address that requests come from",
            "proxy_intercept_errors" => "see `intercept_errors`, which is for all of a site",
            "proxy_redirect" => "where a service redirects to is passed on as it is",
            "proxy_cookie_domain" | "proxy_cookie_path" | "proxy_cookie_flags" => {
                "cookies of a service are passed on as they are"
            }
            "proxy_limit_rate" => "services are read as fast as they send",
            "proxy_ignore_headers" => "what such fields ask for is done",
            "proxy_pass_header" => "the server heeds this field, and does not pass it on",
            "proxy_store" | "proxy_store_access" => "no answer is written into a file",
            _ => return Err(format!("`{}` is not translated", line.line())),
        };
        self.notes.left(place, &line.line(), reason);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_a_server_and_perhaps_a_path() {
        use Scheme::{Http, Https};
        for (url, scheme, server, path) in [
            ("http://app", Http, "app", None),
            ("https://app/", Https, "app", Some("/")),
            ("http://127.0.0.1:3000/", Http, "127.0.0.1:3000", Some("/")),
            ("http://[::1]:3000/a/b/", Http, "[::1]:3000", Some("/a/b/")),
            ("http://unix:/run/a.sock", Http, "unix:/run/a.sock", None),
            ("http://unix:/run/a.sock:/a/", Http, "unix:/run/a.sock", Some("/a/")),
        ] {
            let (server, path) = (server.to_owned(), path.map(str::to_owned));
            assert_eq!(target(url), Ok(Target { scheme, server, path }), "{url}");
        }
        for url in ["http://$host", "app:80", "http://app/?a", "http://unix:/a:b"] {
            assert!(target(url).is_err(), "{url}");
        }
    }
}
