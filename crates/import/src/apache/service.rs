//! Services that `ProxyPass` leads to: their addresses, what they are told, how long they are
//! waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::directive::Directive;
use crate::model::Upstream;
use crate::service::{self, Known, Scheme, Told};

use super::Reader;
use super::lines::{lines_for, lines_within};

/// Parameters that change neither a request nor an answer, or say what is done anyway.
const SILENT: &[&str] = &[
    "acquire",
    "disablereuse",
    "enablereuse",
    "flushpackets",
    "flushwait",
    "growth",
    "iobuffersize",
    "keepalive",
    "max_attempts",
    "maxattempts",
    "min",
    "nocanon",
    "nonce",
    "ping",
    "receivebuffersize",
    "responsefieldsize",
    "route",
    "scolonpathdelim",
    "smax",
    "stickysessionsep",
    "ttl",
    "upgrade",
];

/// Where a URL leads.
#[derive(Debug)]
pub(super) struct Target {
    scheme: Scheme,
    /// A host with a port if it says one, `unix:` and a path, or the name of a balancer.
    pub server: String,
    /// What the service is told as `Host`, if the client's is not passed on.
    host: String,
    /// The URL itself.
    url: String,
    /// The path of the URL, which stands in place of that of the route.
    pub path: String,
    /// The members and the settings of a balancer.
    members: Option<Vec<Directive>>,
}

impl Target {
    /// Reads the URL of a service.
    pub(super) fn of(
        url: &str,
        balancers: &BTreeMap<String, Vec<Directive>>,
    ) -> Result<Target, String> {
        if url.contains(['$', '%']) {
            return Err("where it leads depends on the request".to_owned());
        }
        if let Some(rest) = url.strip_prefix("balancer://") {
            let (name, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let members = balancers.get(name).cloned();
            let members = members.ok_or_else(|| format!("`balancer://{name}` has no members"))?;
            let first = members.iter().find(|it| it.name == "balancermember");
            let first = first.map_or("", |it| it.arg(0));
            let Service { scheme, host, .. } = of_url(first)?;
            return plain(Target {
                scheme,
                server: name.to_owned(),
                host,
                url: url.to_owned(),
                path: path.to_owned(),
                members: Some(members),
            });
        }
        let Service { scheme, server, host, path } = of_url(url)?;
        plain(Target { scheme, server, host, url: url.to_owned(), path, members: None })
    }
}

fn plain(target: Target) -> Result<Target, String> {
    match service::is_path(&target.path) {
        true => Ok(target),
        false => Err("its path is none that can stand in place of another one".to_owned()),
    }
}

/// What a URL says of a service.
struct Service {
    scheme: Scheme,
    /// A host with a port if it says one, or `unix:` and a path.
    server: String,
    /// What the service is told as `Host`, if the client's is not passed on.
    host: String,
    path: String,
}

fn of_url(url: &str) -> Result<Service, String> {
    let (socket, url) = match url.strip_prefix("unix:").and_then(|rest| rest.split_once('|')) {
        Some((socket, url)) => (Some(socket), url),
        None => (None, url),
    };
    if url.starts_with("fcgi://") {
        return Err("applications of FastCGI have an [[upstream]] without a scheme".to_owned());
    }
    let (scheme, rest) = service::split_scheme(url)?;
    let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = service::host(scheme, server);
    let server = socket.map_or_else(|| server.to_owned(), |socket| format!("unix:{socket}"));
    Ok(Service { scheme, server, host, path: path.to_owned() })
}

/// The members of balancers by their names, and what is set of these.
pub(super) fn balancers(directives: &[Directive]) -> BTreeMap<String, Vec<Directive>> {
    let mut all: BTreeMap<String, Vec<Directive>> = BTreeMap::new();
    let name = |text: &str| {
        let name = text.strip_prefix("balancer://")?;
        Some(name.trim_end_matches('/').to_owned())
    };
    let mut add = |name: Option<String>, line: &Directive| {
        if let Some(name) = name {
            all.entry(name).or_default().push(line.clone());
        }
    };
    for directive in directives {
        match &*directive.name {
            // Outside of a section, the first word is the name.
            "balancermember" | "proxyset" if directive.arg(0).starts_with("balancer://") => {
                let mut own = directive.clone();
                let first = own.args.remove(0);
                add(name(&first), &own);
            }
            "proxy" => {
                let own = name(directive.arg(0));
                let inner = directive.inner().iter();
                inner
                    .filter(|it| matches!(&*it.name, "balancermember" | "proxyset"))
                    .for_each(|it| add(own.clone(), it));
            }
            _ => {}
        }
    }
    all
}

impl Reader<'_> {
    /// The upstream of a line, for the route of a path, or why it cannot be asked.
    pub(super) fn upstream(
        &mut self,
        pass: &Directive,
        target: &Target,
        parameters: &[String],
        path: &str,
    ) -> Result<Upstream, String> {
        let mut upstream = Upstream { place: pass.place.clone(), ..Upstream::default() };
        let all = std::mem::take(&mut self.services.around);
        let lines = lines_for(&all, path);
        let part = lines_within(&all, path);
        let is_on = |name: &str, otherwise: bool| {
            let said = lines.iter().rfind(|it| it.name == name);
            said.map_or(otherwise, |it| it.arg(0).eq_ignore_ascii_case("on"))
        };
        if !is_on("proxypreservehost", false) {
            upstream.host = Some(target.host.clone()).filter(|host| service::is_host(host));
        }
        upstream.hides_clients = !is_on("proxyaddheaders", true);
        self.patience(&lines, &mut upstream);
        if target.scheme == Scheme::Https {
            self.service_tls(pass, &lines, &mut upstream);
        }
        let made = match &target.members {
            Some(members) => self.members(members, &mut upstream),
            None => service::address(target.scheme, &target.server)
                .map(|own| upstream.add(own, 1))
                .ok_or_else(|| "it names no address".to_owned()),
        };
        let is_own = |it: &&Directive| {
            it.name == "proxy" && target.members.is_none() && target.url.starts_with(it.arg(0))
        };
        let sections = all.iter().filter(is_own).flat_map(Directive::inner);
        let mut set: Vec<(&Directive, &[String])> =
            sections.filter(|it| it.name == "proxyset").map(|it| (it, &it.args[..])).collect();
        set.push((pass, parameters));
        let is_balancer = target.members.is_some();
        let made = made.and_then(|()| {
            set.into_iter()
                .try_for_each(|(line, own)| self.parameters(line, own, is_balancer, &mut upstream))
        });
        for line in lines.iter().filter(|it| it.name == "requestheader") {
            self.services.done.push(line.place.clone());
            self.field(line, &mut upstream);
        }
        for line in part.iter().filter(|it| it.name == "requestheader") {
            self.services.done.push(line.place.clone());
            let name =
                if line.arg(0).eq_ignore_ascii_case("early") { line.arg(2) } else { line.arg(1) };
            upstream.tell(name, Told::Other);
            let reason = "it is for a part of what the service answers, which is not told this \
                field at all; give that part a `ProxyPass` of its own";
            self.notes.left(&line.place, &line.line(), reason);
        }
        let is_part_of_host = |it: &&&Directive| it.name == "proxypreservehost";
        if let Some(line) = part.iter().find(is_part_of_host) {
            let reason = "it is for a part of what the service answers; give that part a \
                `ProxyPass` of its own";
            self.notes.left(&line.place, &line.line(), reason);
        }
        self.services.around = all;
        made.map(|()| upstream)
    }

    /// Whom a service over TLS has to be, and what it is shown.
    fn service_tls(&mut self, pass: &Directive, lines: &[&Directive], upstream: &mut Upstream) {
        let last = |name: &str| lines.iter().rfind(|it| it.name == name);
        let is_verified =
            last("sslproxyverify").is_some_and(|line| line.arg(0).eq_ignore_ascii_case("require"));
        if !is_verified {
            self.notes.differs(&pass.place, &pass.line(), service::VERIFIED);
        }
        for (name, key) in [
            ("sslproxycacertificatefile", "tls_ca"),
            ("sslproxymachinecertificatefile", "tls_certificate"),
        ] {
            upstream.tls.extend(last(name).map(|line| (key, self.path(line.arg(0)))));
        }
        for (name, reason) in [
            ("sslproxycacertificatepath", "authorities are named in one file; see `tls_ca`"),
            ("sslproxycarevocationfile", "no list of revoked certificates is read"),
            ("sslproxycheckpeername", "a certificate always has to name the service"),
        ] {
            let is_as_here = |line: &&&Directive| line.arg(0).eq_ignore_ascii_case("on");
            if let Some(line) = last(name).filter(|line| !is_as_here(line)) {
                self.notes.left(&line.place, &line.line(), reason);
            }
        }
    }

    /// `Timeout` and `ProxyTimeout`.
    fn patience(&mut self, lines: &[&Directive], upstream: &mut Upstream) {
        for name in ["timeout", "proxytimeout"] {
            let Some(line) = lines.iter().rfind(|it| it.name == name) else { continue };
            if let Err(reason) = wait(line.arg(0), upstream) {
                self.notes.left(&line.place, &line.line(), reason);
            }
        }
    }

    /// The members of a balancer, and how it spreads requests over them.
    fn members(&mut self, lines: &[Directive], upstream: &mut Upstream) -> Result<(), String> {
        let mut hosts = Vec::new();
        for line in lines.iter().filter(|it| it.name == "balancermember") {
            let Service { scheme, server, host, path } = of_url(line.arg(0))?;
            if !matches!(&*path, "" | "/") {
                return Err(format!("`{}` has a path of its own", line.arg(0)));
            }
            if let Some(weight) = self.weight(line) {
                let own = service::address(scheme, &server);
                upstream.add(own.ok_or(format!("`{server}` is no address"))?, weight);
                hosts.push(host);
            }
        }
        if upstream.addresses.is_empty() {
            return Err("it has no member that is asked".to_owned());
        }
        hosts.sort();
        hosts.dedup();
        if upstream.host.is_some() && hosts.len() > 1 {
            let reason = "Apache tells each of them its own name as `Host`; here all are told that \
                of the first one";
            self.notes.differs(&lines[0].place, &lines[0].line(), reason);
        }
        let settings = lines.iter().filter(|it| it.name == "proxyset");
        settings
            .cloned()
            .collect::<Vec<_>>()
            .iter()
            .try_for_each(|line| self.parameters(line, &line.args, true, upstream))
    }

    /// The share of a member, unless it is not asked.
    fn weight(&mut self, line: &Directive) -> Option<u32> {
        let mut weight = 1;
        for parameter in &line.args[1..] {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let reason = match &*key.to_ascii_lowercase() {
                "loadfactor" => {
                    // It may have two decimals.
                    let share = value.parse::<f32>().ok().filter(|it| (1.0..=100.0).contains(it));
                    weight = share.map_or(1, |share| (share.round()) as u32);
                    continue;
                }
                "status" if value.contains(['D', 'd']) && !value.starts_with('-') => return None,
                "status" if value.contains(['H', 'h', 'R', 'r']) => {
                    let reason = "no address is kept for the time when others fail";
                    self.notes.left(&line.place, &line.line(), reason);
                    return None;
                }
                key if SILENT.contains(&key) => continue,
                "max" | "retry" | "timeout" | "connectiontimeout" => {
                    format!("`{parameter}` is not of an address; see the keys of [[upstream]]")
                }
                _ => format!("`{parameter}` is left out; see `failures` and `check`"),
            };
            self.notes.left(&line.place, &line.line(), reason);
        }
        Some(weight)
    }

    /// What is set of a service or of a balancer.
    fn parameters(
        &mut self,
        line: &Directive,
        parameters: &[String],
        is_balancer: bool,
        upstream: &mut Upstream,
    ) -> Result<(), String> {
        for parameter in parameters {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let reason = match (&*key.to_ascii_lowercase(), value) {
                // That of a balancer is the time until one of its members is free.
                ("timeout", _) if is_balancer => "see `queue_timeout`".to_owned(),
                ("timeout", _) => match wait(value, upstream) {
                    Ok(()) => continue,
                    Err(reason) => reason,
                },
                ("connectiontimeout", _) => {
                    match upstream.wait(&["connect_timeout"], duration(value)) {
                        Ok(()) => continue,
                        Err(reason) => reason,
                    }
                }
                ("lbmethod", "byrequests") => continue,
                ("lbmethod", "bybusyness") => {
                    upstream.asks_least_busy = true;
                    continue;
                }
                ("lbmethod", _) => {
                    "no such way to spread requests; see `balance` and `affinity`".to_owned()
                }
                ("stickysession", _) => "sessions are bound to addresses in another way; see \
                    `affinity`"
                    .to_owned(),
                ("max", _) => "it is for each process of Apache; see `connections`".to_owned(),
                (
                    "retry" | "failonstatus" | "failontimeout" | "forcerecovery" | "nofailover",
                    _,
                ) => {
                    format!("`{parameter}` is left out; see `failures` and `pause`")
                }
                (key, _) if SILENT.contains(&key) => continue,
                _ => return Err(format!("`{parameter}` is not translated")),
            };
            self.notes.left(&line.place, &line.line(), reason);
        }
        Ok(())
    }

    /// `RequestHeader`.
    fn field(&mut self, line: &Directive, upstream: &mut Upstream) {
        let mut args: Vec<&str> = line.args.iter().map(String::as_str).collect();
        if args.first().is_some_and(|it| it.eq_ignore_ascii_case("early")) {
            args.remove(0);
        }
        if args.last().is_some_and(|it| it.eq_ignore_ascii_case("early")) {
            args.pop();
        }
        let action = args.first().map(|action| action.to_ascii_lowercase()).unwrap_or_default();
        let name = args.get(1).map(|name| name.trim_end_matches(':')).unwrap_or_default();
        let value = match (&*action, &args[args.len().min(2)..]) {
            ("unset", []) => Told::Text(""),
            ("set", [value]) => told(value),
            ("add" | "append" | "merge", _) => {
                let reason = "a field is set or removed, and nothing is added to what the client \
                    says";
                return self.notes.left(&line.place, &line.line(), reason);
            }
            _ => Told::Other,
        };
        if name.eq_ignore_ascii_case("host") {
            match value {
                Told::Text(host) if service::is_host(host) => {
                    upstream.host = Some(host.to_owned());
                }
                _ => {
                    let reason = "no name of a host; see `host` of [[upstream]]";
                    self.notes.left(&line.place, &line.line(), reason);
                }
            }
            return;
        }
        if let Some(reason) = upstream.tell(name, value) {
            self.notes.left(&line.place, &line.line(), reason);
        }
    }
}

/// The value of a field.
fn told(value: &str) -> Told<'_> {
    match value {
        "expr=%{REMOTE_ADDR}" | "%{REMOTE_ADDR}s" => Told::Known(Known::Address),
        "expr=%{REQUEST_SCHEME}" | "%{REQUEST_SCHEME}s" => Told::Known(Known::Scheme),
        "expr=%{HTTP_HOST}" | "%{HTTP_HOST}s" => Told::Known(Known::Host),
        value if value.contains('%') || value.starts_with("expr=") => Told::Other,
        value => Told::Text(value),
    }
}

/// Sets how long a service may take.
fn wait(text: &str, upstream: &mut Upstream) -> Result<(), String> {
    let keys = ["send_timeout", "first_byte_timeout", "read_timeout"];
    let Some(duration) = duration(text) else {
        return upstream.wait(&keys, None);
    };
    // Of the first one, an hour is the most.
    upstream.wait(&keys[1..], Some(duration))?;
    upstream.wait(&keys[..1], Some(duration.min(Duration::from_secs(3600))))
}

/// A duration in seconds, or in the unit that it says.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits].parse::<u64>().ok()?;
    match &*text[digits..].to_ascii_lowercase() {
        "ms" => Some(Duration::from_millis(number)),
        "" | "s" => Some(Duration::from_secs(number)),
        "min" | "mi" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_server_a_host_and_a_path() {
        for (url, server, host, path) in [
            ("http://127.0.0.1:3000/", "127.0.0.1:3000", "127.0.0.1:3000", "/"),
            ("http://app:80/a/b", "app:80", "app", "/a/b"),
            ("http://[::1]:3000", "[::1]:3000", "[::1]:3000", ""),
            ("unix:/run/a.sock|http://localhost/x", "unix:/run/a.sock", "localhost", "/x"),
        ] {
            let target = Target::of(url, &BTreeMap::new()).unwrap();
            let found = (&*target.server, &*target.host, &*target.path);
            assert_eq!(found, (server, host, path), "{url}");
        }
        for url in [
            "ws://a/",
            "ajp://a/",
            "fcgi://a/",
            "balancer://none/",
            "http://a/?b",
            "http://%{HTTP_HOST}/",
        ] {
            assert!(Target::of(url, &BTreeMap::new()).is_err(), "{url}");
        }
    }

    #[test]
    fn durations_are_seconds_or_have_a_unit() {
        for (text, expected) in [
            ("60", Some(60_000)),
            ("500ms", Some(500)),
            ("2min", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("", None),
            ("x", None),
            ("1d", None),
        ] {
            assert_eq!(duration(text).map(|it| it.as_millis()), expected, "{text}");
        }
    }
}
