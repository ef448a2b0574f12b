//! Services that `reverse_proxy` leads to: their addresses, what they are told, how long they are
//! waited for.

use crate::directive::Directive;
use crate::model::Upstream;
use crate::service::{self, Known, Scheme, Told};
use crate::unit;

use super::Reader;

/// Most addresses of a range of ports: more are no service that anybody wrote down.
const MOST_PORTS: u16 = 64;

/// Settings that change neither a request nor an answer, or say what is done anyway.
const SILENT: &[&str] = &[
    "buffer_requests",
    "buffer_responses",
    "flush_interval",
    "lb_retries",
    "lb_retry_match",
    "lb_try_duration",
    "lb_try_interval",
    "max_buffer_size",
    "request_buffers",
    "response_buffers",
    "stream_buffer_size",
    "stream_close_delay",
    "stream_timeout",
    "verbose_logs",
];

/// The same of `transport http`.
const SILENT_TRANSPORT: &[&str] = &[
    "compression",
    "dial_fallback_delay",
    "expect_continue_timeout",
    "keepalive",
    "keepalive_idle_conns",
    "keepalive_idle_conns_per_host",
    "keepalive_interval",
    "max_idle_conns_per_host",
    "read_buffer",
    "write_buffer",
];

/// Settings that have no counterpart here; the note on each says what a user can set in its place.
const LEFT: &[(&str, &str)] = &[
    ("fail_duration", "see `failures` and `pause`"),
    ("max_fails", "see `failures` and `pause`"),
    ("unhealthy_latency", "see `failures` and `pause`"),
    ("unhealthy_request_count", "see `connections`"),
    ("unhealthy_status", "see `failures` and `pause`"),
    ("health_body", "an answer to a check has a status alone"),
    ("health_follow_redirects", "an answer to a check has a status alone"),
    ("health_headers", "a check has no fields of its own"),
    ("health_method", "a check asks by GET"),
    ("health_port", "a check asks the address itself"),
    ("health_upstream", "a check asks the address itself"),
    ("trusted_proxies", "see `trusted_proxies`"),
];

impl Reader<'_> {
    /// The upstream of a `reverse_proxy`, with the server that gives it its name, or why it cannot
    /// be asked.
    pub(super) fn upstream(
        &mut self,
        directive: &Directive,
        args: &[String],
    ) -> Result<(Upstream, String), String> {
        let mut upstream = Upstream { place: directive.place.clone(), ..Upstream::default() };
        let (mut scheme, mut servers) = (Scheme::Http, Vec::new());
        let to = directive.inner().iter().filter(|it| it.name == "to");
        for text in args.iter().chain(to.flat_map(|it| &it.args)) {
            let (own, dialled) = dialled(text)?;
            if own == Scheme::Https {
                scheme = own;
            }
            servers.extend(dialled);
        }
        for line in directive.inner() {
            match &*line.name {
                "dynamic" => servers.push(looked_up(line)?),
                "transport" => self.transport(line, &mut scheme, &mut upstream)?,
                "header_up" => {}
                _ => self.setting(line, &mut upstream)?,
            }
        }
        for server in &servers {
            let own = service::address(scheme, server);
            upstream.add(own.ok_or_else(|| format!("`{server}` is no address"))?, 1);
        }
        let first = servers.first().cloned().ok_or("it names no address")?;
        for line in directive.inner().iter().filter(|it| it.name == "header_up") {
            self.field(line, &line.args, &servers, &mut upstream);
        }
        self.complete_checks(&mut upstream);
        Ok((upstream, first))
    }

    /// What Caddy does where nothing is said of checks.
    fn complete_checks(&mut self, upstream: &mut Upstream) {
        if upstream.check.is_none() {
            upstream.timeouts.retain(|key, _| !key.starts_with("check_"));
            upstream.numbers.retain(|key, _| !key.starts_with("check_"));
            return;
        }
        for (key, number) in [("check_rise", 1), ("check_fall", 1)] {
            upstream.numbers.entry(key).or_insert(number);
        }
        for (key, seconds) in [("check_interval", 30), ("check_timeout", 5)] {
            upstream.timeouts.entry(key).or_insert(std::time::Duration::from_secs(seconds));
        }
    }

    /// A directive within `reverse_proxy`.
    fn setting(&mut self, line: &Directive, upstream: &mut Upstream) -> Result<(), String> {
        let value = line.arg(0);
        let number = value.parse::<u32>().ok();
        let mut set = |key: &'static str, range: std::ops::RangeInclusive<u32>| {
            let number = number.filter(|it| range.contains(it));
            upstream.numbers.extend(number.map(|number| (key, number)));
            number.is_some()
        };
        let reason = match &*line.name {
            // These have been read already, or concern answers.
            "to" | "header_down" | "method" | "rewrite" => return Ok(()),
            name if SILENT.contains(&name) => return Ok(()),
            "lb_policy" => match self.policy(line, upstream) {
                true => return Ok(()),
                false => "no such way to spread requests; see `balance` and `affinity`",
            },
            "health_uri" | "health_path" => {
                let is_path = value.starts_with('/') && !value.contains(['?', '{']);
                upstream.check = Some(value.to_owned()).filter(|_| is_path);
                match is_path {
                    true => return Ok(()),
                    false => "a check asks for a path; see `check`",
                }
            }
            "health_interval" | "health_timeout" => {
                let key = match &*line.name {
                    "health_interval" => "check_interval",
                    _ => "check_timeout",
                };
                match upstream.wait(&[key], unit::go_time(value)) {
                    Ok(()) => return Ok(()),
                    Err(_) => "no duration of a check; see `check_interval`",
                }
            }
            "health_status" => match set("check_status", 200..=599) {
                true => return Ok(()),
                false if value.eq_ignore_ascii_case("2xx") => return Ok(()),
                false => "one status is a good answer to a check; see `check_status`",
            },
            "health_passes" if set("check_rise", 1..=100) => return Ok(()),
            "health_fails" if set("check_fall", 1..=100) => return Ok(()),
            name => match LEFT.iter().find(|(own, _)| *own == name) {
                Some((_, reason)) => reason,
                None => return Err(format!("`{}` is not translated", line.line())),
            },
        };
        self.notes.left(&line.place, &line.line(), reason);
        Ok(())
    }

    /// How requests are spread; whether that is translated.
    fn policy(&mut self, line: &Directive, upstream: &mut Upstream) -> bool {
        let value = line.arg(1);
        let is_name = |text: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            !text.is_empty() && text.bytes().all(is_letter)
        };
        match line.arg(0) {
            "random" | "round_robin" => {}
            "least_conn" | "random_choose" => upstream.asks_least_busy = true,
            "ip_hash" | "client_ip_hash" => upstream.affinity = Some("client".to_owned()),
            "header" if is_name(value) => upstream.affinity = Some(format!("header:{value}")),
            "query" if is_name(value) => upstream.affinity = Some(format!("query:{value}")),
            _ => return false,
        }
        true
    }

    /// `transport http`.
    fn transport(
        &mut self,
        line: &Directive,
        scheme: &mut Scheme,
        upstream: &mut Upstream,
    ) -> Result<(), String> {
        if line.arg(0) != "http" {
            return Err(format!("`{}` is not translated; see `php_fastcgi`", line.line()));
        }
        for own in line.inner() {
            let value = own.arg(0);
            let key = match &*own.name {
                name if SILENT_TRANSPORT.contains(&name) => continue,
                name if name.starts_with("tls") => {
                    *scheme = Scheme::Https;
                    self.service_tls(own, upstream)?;
                    continue;
                }
                "versions" if own.args.iter().all(|it| it == "1.1") => continue,
                "versions" => {
                    return Err(service::split_scheme("h2c://").map_or_else(str::to_owned, |_| {
                        format!("`{}` is not translated", own.line())
                    }));
                }
                "dial_timeout" => "connect_timeout",
                "response_header_timeout" => "first_byte_timeout",
                "read_timeout" => "read_timeout",
                "write_timeout" => "send_timeout",
                "max_conns_per_host" => {
                    match value.parse::<u32>().ok().filter(|it| (1..=10_000).contains(it)) {
                        Some(most) => drop(upstream.numbers.insert("connections", most)),
                        None => self.notes.left(&own.place, &own.line(), "see `connections`"),
                    }
                    continue;
                }
                "local_address" | "max_response_header" | "resolvers" => {
                    let reason = match &*own.name {
                        "local_address" => "the system chooses the address that requests come from",
                        "resolvers" => "see `resolver`",
                        _ => "see `head` of [[upstream]]",
                    };
                    self.notes.left(&own.place, &own.line(), reason);
                    continue;
                }
                _ => return Err(format!("`{}` is not translated", own.line())),
            };
            if let Err(reason) = upstream.wait(&[key], unit::go_time(value)) {
                self.notes.left(&own.place, &own.line(), reason);
            }
        }
        Ok(())
    }

    /// A line of `transport http` about TLS.
    fn service_tls(&mut self, line: &Directive, upstream: &mut Upstream) -> Result<(), String> {
        let words: Vec<&str> = line.args.iter().map(String::as_str).collect();
        let mut set = |key, text: &str| drop(upstream.tls.insert(key, text.to_owned()));
        match (&*line.name, &words[..]) {
            ("tls" | "tls_timeout" | "tls_renegotiation" | "tls_curves", _) => {}
            ("tls_server_name", [name]) if !name.contains('{') => set("tls_name", name),
            ("tls_trusted_ca_certs", [file]) | ("tls_trust_pool", ["file", file]) => {
                set("tls_ca", file);
            }
            ("tls_client_auth", [certificate, key]) => {
                set("tls_certificate", certificate);
                set("tls_key", key);
            }
            ("tls_insecure_skip_verify", _) => {
                self.notes.differs(&line.place, &line.line(), service::VERIFIED);
            }
            _ => return Err(format!("`{}` is not translated; see `tls_ca`", line.line())),
        }
        Ok(())
    }

    /// `header_up`, or `request_header` beside it.
    pub(super) fn field(
        &mut self,
        line: &Directive,
        args: &[String],
        servers: &[String],
        upstream: &mut Upstream,
    ) {
        let first = args.first().map_or("", String::as_str);
        let reason = match (first.chars().next(), &args[args.len().min(1)..]) {
            (Some('-'), []) if !first.contains('*') => upstream.tell(&first[1..], Told::Text("")),
            (Some('+'), _) => Some(
                "a field is set or removed, and nothing is added to what the \
                client says",
            ),
            (Some('-' | '?' | '>'), _) => {
                Some("only fields that are named whole are set or removed")
            }
            (_, [value]) if first.eq_ignore_ascii_case("host") => {
                self.host(line, value, servers, upstream);
                None
            }
            (_, [value]) => upstream.tell(first, told(first, value)),
            // A part of what the client says is replaced.
            _ => upstream.tell(first, Told::Other),
        };
        if let Some(reason) = reason {
            self.notes.left(&line.place, &line.line(), reason);
        }
    }

    fn host(&mut self, line: &Directive, value: &str, servers: &[String], upstream: &mut Upstream) {
        let first = servers.first().map_or("", String::as_str);
        let own = match value {
            "{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}" => {
                upstream.host = None;
                return;
            }
            "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}" => first.to_owned(),
            "{http.reverse_proxy.upstream.host}" => {
                first.rsplit_once(':').map_or(first, |(host, _)| host).to_owned()
            }
            own => own.to_owned(),
        };
        if own.starts_with("unix:") || !service::is_host(&own) {
            let reason = "no name of a host; the service is told what the client says";
            self.notes.left(&line.place, &line.line(), reason);
            return;
        }
        if value.starts_with('{') && servers.len() > 1 {
            let reason = "each of them is told its own name by Caddy; here all are told that of \
                the first one";
            self.notes.differs(&line.place, &line.line(), reason);
        }
        upstream.host = Some(own);
    }
}

/// The value of a field.
fn told<'a>(name: &str, value: &'a str) -> Told<'a> {
    let own = value.strip_prefix("{header.").or(value.strip_prefix("{http.request.header."));
    let own = own.and_then(|own| own.strip_suffix('}'));
    match value {
        "{remote_host}" | "{http.request.remote.host}" => Told::Known(Known::Address),
        "{scheme}" | "{http.request.scheme}" => Told::Known(Known::Scheme),
        "{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}" => {
            Told::Known(Known::Host)
        }
        _ if own.is_some_and(|own| own.eq_ignore_ascii_case(name)) => Told::Same,
        value if value.contains('{') => Told::Other,
        value => Told::Text(value),
    }
}

/// The servers of an address, as [`service::address`] takes them.
fn dialled(text: &str) -> Result<(Scheme, Vec<String>), String> {
    if text.contains(['{', '}']) {
        return Err("where it leads depends on placeholders".to_owned());
    }
    if let Some(path) = text.strip_prefix("unix/") {
        return Ok((Scheme::Http, vec![format!("unix:{path}")]));
    }
    let (scheme, rest) = match text.contains("://") {
        true => service::split_scheme(text)?,
        false => (Scheme::Http, text.strip_prefix("tcp/").unwrap_or(text)),
    };
    let rest = match rest.strip_prefix(':') {
        Some(port) => format!("localhost:{port}"),
        None => rest.to_owned(),
    };
    let Some((host, ports)) = rest.rsplit_once(':').filter(|(_, it)| it.contains('-')) else {
        return Ok((scheme, vec![rest]));
    };
    let range = ports
        .split_once('-')
        .and_then(|(from, to)| Some((from.parse::<u16>().ok()?, to.parse::<u16>().ok()?)));
    match range.filter(|(from, to)| from <= to && to - from < MOST_PORTS) {
        Some((from, to)) => {
            Ok((scheme, (from..=to).map(|port| format!("{host}:{port}")).collect()))
        }
        None => Err(format!("`{ports}` is no range of at most {MOST_PORTS} ports")),
    }
}

/// The server of `dynamic a NAME PORT`, whose addresses come and go here, too.
fn looked_up(line: &Directive) -> Result<String, String> {
    let of = |name: &str| line.inner().iter().rfind(|it| it.name == name).map(|it| it.arg(0));
    let name = line.args.get(1).map(String::as_str).or(of("name")).unwrap_or_default();
    let port = line.args.get(2).map(String::as_str).or(of("port")).unwrap_or("80");
    match line.arg(0) == "a" && !name.is_empty() {
        true => Ok(format!("{name}:{port}")),
        false => Err(format!("`{}` is not translated; see `address`", line.line())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_are_dialled() {
        for (text, expected) in [
            ("127.0.0.1:3000", &["127.0.0.1:3000"][..]),
            (":3000", &["localhost:3000"]),
            ("http://app", &["app"]),
            ("tcp/app:3000", &["app:3000"]),
            ("unix//run/a.sock", &["unix:/run/a.sock"]),
            ("app:1-3", &["app:1", "app:2", "app:3"]),
        ] {
            assert_eq!(dialled(text).unwrap().1, expected, "{text}");
        }
        assert_eq!(dialled("https://a").unwrap(), (Scheme::Https, vec!["a".to_owned()]));
        for text in ["h2c://a", "{env.A}", "a:1-9999", "ws://a"] {
            assert!(dialled(text).is_err(), "{text}");
        }
    }
}
