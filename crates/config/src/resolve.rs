//! From what was typed to what it means: paths made absolute, `"auto"` decided, options checked
//! against each other and against the file system. It reads directories and files' existence and
//! changes nothing.

mod acme;
mod admin;
mod cache;
mod compression;
mod header_fields;
mod log;
mod mercure;
mod mount;
mod names;
mod pool;
mod proxy;
mod rule;
mod site;
mod spawn;
mod throttle;
mod tls;
mod trace;
mod upstream;

pub(crate) use mount::around;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Errors;
use crate::model::{Http2, Http3, Limits, Lua, Secret, Server, Site, Tier, Timeouts};
use crate::option;
use crate::origin::{Given, Origin};
use crate::raw::Raw;
use crate::value::{Auto, Count, Direct, Text};

/// Characters that a secret has at least.
const SHORTEST_SECRET: usize = 16;

/// What resolving depends on beside the text.
pub(crate) struct Surroundings<'a> {
    /// Flags' and variables' paths are relative to it.
    pub directory: &'a Path,
    /// Cores that this process may use.
    pub cores: usize,
    /// Where the server keeps what has to outlive it, unless another place is named.
    pub state: &'a Path,
    /// Where programs are looked for.
    pub path: Option<&'a str>,
}

/// What `raw` means, unless something is wrong; everything wrong goes to `errors`.
pub(crate) fn server(raw: &Raw, around: &Surroundings, errors: &mut Errors) -> Server {
    let mut reader = Reader { raw, around, errors };
    let top = &raw.top;
    reader.listeners(top);
    Server {
        listen: top.listen.value.clone(),
        listen_tls: top.listen_tls.value.clone(),
        tls: reader.tls(),
        acme: reader.acme(),
        state_dir: match &top.state_dir.value {
            Auto::Word => around.state.to_owned(),
            Auto::Is(path) => reader.absolute(path, top.state_dir.origin),
        },
        temp_dir: reader.temp_dir(&top.temp_dir),
        loops: match top.loops.value {
            Auto::Word => around.cores.min(256),
            Auto::Is(Count(loops)) => number(loops),
        },
        user: text(&top.user),
        group: text(&top.group),
        control: reader.optional_path(&top.control),
        proxies: reader.proxies(top),
        request_ids: top.request_ids.value,
        early_hints: top.early_hints.value,
        admin: reader.admin(top),
        pid_file: reader.optional_path(&top.pid_file),
        limits: Limits {
            head: number(raw.limits.head.value.0),
            headers: number(raw.limits.headers.value.0),
            body: raw.limits.body.value.0,
            buffer: number(raw.limits.buffer.value.0),
            spool: raw.limits.spool.value.0,
            send_rate: raw.limits.send_rate.value.0,
            connections: number(raw.limits.connections.value.0),
            client: reader.client_limits(&raw.limits),
        },
        http2: http2(&raw.http2),
        http3: reader.http3(),
        timeouts: Timeouts {
            head: raw.timeouts.head.value,
            body: raw.timeouts.body.value,
            idle: raw.timeouts.idle.value,
            send: raw.timeouts.send.value,
            tunnel: raw.timeouts.tunnel.value,
            drain: raw.timeouts.drain.value,
            drain_delay: raw.timeouts.drain_delay.value,
            watchdog: raw.timeouts.watchdog.value,
        },
        log: reader.log(&raw.log),
        resolver: top.resolver.value.clone(),
        lua: lua(&raw.lua),
        cache: reader.cache(),
        trace: reader.trace(),
        upstreams: reader.upstreams(),
        sites: reader.sites(),
        fpm: None,
    }
}

fn http2(raw: &option::Http2) -> Http2 {
    Http2 {
        enabled: raw.enabled.value,
        streams: number(raw.streams.value.0),
        requests: number(raw.requests.value.0),
        resets: number(raw.resets.value.0),
        control_frames: number(raw.control_frames.value.0),
        window: number(raw.window.value.0),
        connection_window: number(raw.connection_window.value.0),
    }
}

impl Default for Http2 {
    fn default() -> Http2 {
        http2(&option::Section::defaults())
    }
}

fn http3(raw: &option::Http3) -> Http3 {
    Http3 {
        enabled: raw.enabled.value,
        streams: number(raw.streams.value.0),
        requests: number(raw.requests.value.0),
        resets: number(raw.resets.value.0),
        control_frames: number(raw.control_frames.value.0),
        window: number(raw.window.value.0),
        connection_window: number(raw.connection_window.value.0),
        send_window: number(raw.send_window.value.0),
    }
}

impl Reader<'_> {
    fn http3(&mut self) -> Http3 {
        let (top, given) = (&self.raw.top, &self.raw.http3.enabled);
        if given.value && top.listen_tls.value.is_empty() {
            let problem = "is for `listen_tls`, which is not set; `listen_tls = [\":443\"]` \
                accepts connections with TLS, and HTTP/3 on the UDP port of the same number";
            self.report("http3", "enabled", given.origin, problem.into());
        }
        http3(&self.raw.http3)
    }
}

impl Default for Http3 {
    fn default() -> Http3 {
        http3(&option::Section::defaults())
    }
}

fn lua(raw: &option::Lua) -> Lua {
    let shared = raw.shared.value.iter();
    Lua {
        time: raw.time.value,
        total: raw.total.value,
        memory: number(raw.memory.value.0),
        shared: shared.map(|(name, size)| (name.clone(), number(size.0))).collect(),
    }
}

impl Default for Lua {
    fn default() -> Lua {
        lua(&option::Section::defaults())
    }
}

/// What the sites of `raw` mean by themselves; everything wrong goes to `errors`.
pub(crate) fn sites(raw: &Raw, around: &Surroundings, errors: &mut Errors) -> Vec<Site> {
    Reader { raw, around, errors }.sites()
}

/// The Redis server by which several nodes share something, if one is named.
fn tier(
    server: &Option<Direct>,
    password: &Option<Secret>,
    database: Count,
    prefix: &Text,
    timeout: Duration,
) -> Option<Tier> {
    Some(Tier {
        server: server.as_ref()?.0.clone(),
        password: password.clone(),
        database: database.0 as u32,
        prefix: prefix.0.clone(),
        timeout,
    })
}

fn number(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn text(given: &Given<Option<Text>>) -> Option<String> {
    given.value.as_ref().map(|text| text.0.clone())
}

struct Reader<'a> {
    raw: &'a Raw,
    around: &'a Surroundings<'a>,
    errors: &'a mut Errors,
}

impl Reader<'_> {
    fn report(&mut self, section: &str, name: &str, origin: Origin, problem: String) {
        self.raw.report(self.errors, section, name, origin, problem);
    }

    /// An attacker does not guess a shorter secret within a year, at a thousand requests a second,
    /// if it is random; but people make short ones of words.
    fn check_length(&mut self, section: &str, name: &str, given: &Given<Option<Secret>>) {
        let secret = given.value.as_ref();
        if secret.is_some_and(|secret| secret.reveal().len() < SHORTEST_SECRET) {
            let problem = format!(
                "is shorter than {SHORTEST_SECRET} characters; `openssl rand -hex 16` makes one"
            );
            self.report(section, name, given.origin, problem);
        }
    }

    /// Paths of the file are relative to its directory, all others to the current one.
    fn absolute(&self, path: &Path, origin: Origin) -> PathBuf {
        let base = match (origin, &self.raw.file) {
            (Origin::File(_), Some(file)) => file.parent().unwrap_or(self.around.directory),
            _ => self.around.directory,
        };
        clean(&self.around.directory.join(base).join(path))
    }

    fn optional_path(&self, given: &Given<Option<PathBuf>>) -> Option<PathBuf> {
        given.value.as_ref().map(|path| self.absolute(path, given.origin))
    }

    fn temp_dir(&mut self, given: &Given<Option<PathBuf>>) -> Option<PathBuf> {
        let folder = self.optional_path(given)?;
        if !folder.is_dir() {
            let problem =
                format!("{} is not a directory; create it or correct the path", folder.display());
            self.report("", "temp_dir", given.origin, problem);
        }
        Some(folder)
    }

    fn sites(&mut self) -> Vec<Site> {
        let raw = self.raw;
        let mut names = names::Names::default();
        let several = raw.sites.len() > 1;
        let own = raw.sites.iter().filter(|site| site.site.path.value.is_none());
        if let (0, Some(site)) = (own.clone().count(), raw.sites.first()) {
            let problem = "every site has a `path`; one without it must answer the rest".into();
            self.report("site", "path", site.origin, problem);
        }
        self.unserved(own.clone());
        let has_others = own.filter(|site| site.site.listen.value.is_empty()).count() > 1;
        let mut sites: Vec<Site> = Vec::new();
        for site in &raw.sites {
            let listen = self.site_listeners(site);
            let hosts = self.hosts(site, has_others, &mut names);
            let name = names.of_site(&hosts, &site.site);
            sites.push(self.site(site, name, hosts, listen, several));
        }
        self.fallbacks(&mut sites);
        self.inherit(&mut sites);
        self.check_log_formats(&sites);
        sites
    }

    /// Finds the sites that are named as fallbacks.
    fn fallbacks(&mut self, sites: &mut [Site]) {
        let (raw, all) = (self.raw, sites.to_vec());
        for (site, raw) in sites.iter_mut().zip(&raw.sites) {
            let Some(host) = site.fallback.take().map(|host| host.to_ascii_lowercase()) else {
                continue;
            };
            let problem =
                match all.iter().find(|other| other.path.is_empty() && other.hosts.contains(&host))
                {
                    None => {
                        format!("no site has the host `{host}`; correct the name, or add that site")
                    }
                    Some(other) if other.name == site.name => {
                        "a site cannot be its own fallback".into()
                    }
                    Some(other) if other.fallback.is_some() => {
                        format!("`{host}` has a fallback itself; name that one")
                    }
                    Some(other) => {
                        site.fallback = Some(other.name.clone());
                        continue;
                    }
                };
            self.report("site", "fallback", raw.site.fallback.origin, problem);
        }
    }
}

/// The document root of an application in `directory`: `public` if its `index.php` is there, as
/// frameworks have it, else the directory itself.
pub(crate) fn discover(directory: &Path) -> Result<PathBuf, String> {
    let public = directory.join("public");
    if public.join("index.php").is_file() {
        Ok(public)
    } else if ["index.php", "index.html"].iter().any(|name| directory.join(name).is_file()) {
        Ok(directory.to_owned())
    } else {
        Err(format!(
            "there is no public/index.php, index.php or index.html in {}; name the directory to \
                serve, or write \
             the demo site into a new one with `tokamak demo DIR`",
            directory.display()
        ))
    }
}

/// `path` without `.` and doubled slashes. `..` stays: behind a symlink it means another directory.
fn clean(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}
