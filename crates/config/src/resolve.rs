//! From what was typed to what it means: paths made absolute, `"auto"` decided, options checked
//! against each other and against the file system. It reads directories and files' existence and
//! changes nothing.

mod cache;
mod spawn;
mod upstream;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::Errors;
use crate::model::{
    AccessLog, Limits, Log, Lua, Mode, Pool, PoolSize, Scripts, Server, Site, Timeouts,
};
use crate::option::{self, Manager};
use crate::origin::{Given, Origin};
use crate::raw::{Raw, RawSite};
use crate::value::{Auto, Count, Nothing, Off, Text};

/// What resolving depends on beside the text.
pub(crate) struct Surroundings<'a> {
    /// Flags' and variables' paths are relative to it.
    pub directory: &'a Path,
    /// Cores that this process may use.
    pub cores: usize,
    /// Where programs are looked for.
    pub path: Option<&'a str>,
}

/// One for each core: a further process that computes only takes turns with the others, which on
/// two cores cost 36 instead of 25 µs of CPU for an empty endpoint. On one core there are two, so
/// that a request that waits does not delay others. Those that mostly wait get company, up to four
/// for each core, or eight.
fn auto_size(cores: usize) -> PoolSize {
    PoolSize::Auto { least: cores.clamp(2, 256), max: (cores * 4).clamp(8, 256) }
}

/// What `raw` means, unless something is wrong; everything wrong goes to `errors`.
pub(crate) fn server(raw: &Raw, around: &Surroundings, errors: &mut Errors) -> Server {
    let mut reader = Reader { raw, around, errors };
    let top = &raw.top;
    reader.listen(&top.listen);
    Server {
        listen: top.listen.value.clone(),
        loops: match top.loops.value {
            Auto::Word => around.cores.min(256),
            Auto::Is(Count(loops)) => number(loops),
        },
        user: text(&top.user),
        group: text(&top.group),
        control: reader.optional_path(&top.control),
        pid_file: reader.optional_path(&top.pid_file),
        limits: Limits {
            head: number(raw.limits.head.value.0),
            headers: number(raw.limits.headers.value.0),
            body: raw.limits.body.value.0,
            buffer: number(raw.limits.buffer.value.0),
            connections: number(raw.limits.connections.value.0),
        },
        timeouts: Timeouts {
            head: raw.timeouts.head.value,
            body: raw.timeouts.body.value,
            idle: raw.timeouts.idle.value,
            send: raw.timeouts.send.value,
            drain: raw.timeouts.drain.value,
            watchdog: raw.timeouts.watchdog.value,
        },
        log: reader.log(&raw.log),
        resolver: top.resolver.value.clone(),
        lua: lua(&raw.lua),
        cache: reader.cache(),
        upstreams: reader.upstreams(),
        sites: reader.sites(),
        fpm: None,
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

fn mode(site: &option::Site) -> Mode {
    match (&site.mode.value, &site.worker.value) {
        (Auto::Is(mode), _) => *mode,
        (Auto::Word, _) if site.upstream.value.is_some() => Mode::Fastcgi,
        (Auto::Word, Some(_)) => Mode::Worker,
        (Auto::Word, None) => Mode::Classic,
    }
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

    fn listen(&mut self, given: &Given<Vec<std::net::SocketAddr>>) {
        if given.value.is_empty() {
            self.report("", "listen", given.origin, "must name at least one address".into());
        }
        for (nth, address) in given.value.iter().enumerate() {
            if given.value[..nth].contains(address) {
                self.report(
                    "",
                    "listen",
                    given.origin,
                    format!("{address} is there twice; remove one"),
                );
            }
        }
    }

    fn log(&mut self, log: &option::Log) -> Log {
        let access = match &log.access.value {
            Off::Word => None,
            Off::Is(path) if path.as_os_str() == "-" => Some(path.clone()),
            Off::Is(path) => Some(self.log_file("access", path, log.access.origin)),
        };
        Log {
            access: access.map(|path| AccessLog { path, format: log.access_format.value }),
            error: log
                .error
                .value
                .as_ref()
                .map(|path| self.log_file("error", path, log.error.origin)),
        }
    }

    fn log_file(&mut self, name: &str, path: &Path, origin: Origin) -> PathBuf {
        let path = self.absolute(path, origin);
        match path.parent() {
            Some(parent) if !path.is_dir() && parent.is_dir() => {}
            Some(parent) if !parent.is_dir() => {
                let problem =
                    format!("the directory {} does not exist; create it", parent.display());
                self.report("log", name, origin, problem);
            }
            _ => self.report(
                "log",
                name,
                origin,
                format!("{} is a directory; name a file", path.display()),
            ),
        }
        path
    }

    fn sites(&mut self) -> Vec<Site> {
        let raw = self.raw;
        let mut taken: BTreeMap<String, Origin> = BTreeMap::new();
        let several = raw.sites.len() > 1;
        let mut sites = Vec::new();
        for site in &raw.sites {
            let hosts = self.hosts(site, several, &mut taken);
            sites.push(self.site(site, hosts, several));
        }
        self.fallbacks(&mut sites);
        sites
    }

    /// Finds the sites that are named as fallbacks.
    fn fallbacks(&mut self, sites: &mut [Site]) {
        let (raw, all) = (self.raw, sites.to_vec());
        for (site, raw) in sites.iter_mut().zip(&raw.sites) {
            let Some(host) = site.fallback.take().map(|host| host.to_ascii_lowercase()) else {
                continue;
            };
            let problem = match all.iter().find(|other| other.hosts.contains(&host)) {
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

    fn hosts(
        &mut self,
        raw: &RawSite,
        several: bool,
        taken: &mut BTreeMap<String, Origin>,
    ) -> Vec<String> {
        let given = &raw.site.host;
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
            } else if taken.contains_key(&host) {
                self.report(
                    "site",
                    "host",
                    given.origin,
                    format!("`{host}` is there twice; a name has one site"),
                );
            } else {
                taken.insert(host.clone(), given.origin);
                hosts.push(host);
            }
        }
        if several && given.value.is_empty() {
            let problem = "not set; with several sites each needs its host names".into();
            self.report("site", "host", raw.origin, problem);
        }
        hosts
    }

    fn site(&mut self, raw: &RawSite, hosts: Vec<String>, several: bool) -> Site {
        let site = &raw.site;
        let root = self.root(raw, several);
        let front_controller = root.as_ref().and_then(|root| self.front_controller(site, root));
        let mode = mode(site);
        let worker = self.worker(site, mode);
        let (boot, warm) = self.image(site, mode);
        let upstream = self.upstream(site, mode);
        let authorizer = self.optional_upstream(
            "site",
            "authorizer",
            site.authorizer.value.as_ref(),
            site.authorizer.origin,
        );
        let lua = self.site_scripts(site);
        let cache = cache::site(site);
        let routes = self.routes(raw, authorizer, (&lua, &cache));
        self.names_of_files(site);
        self.php_settings(site);
        Site {
            name: hosts.first().cloned().unwrap_or_else(|| "default".into()),
            hosts,
            root: root.unwrap_or_default(),
            index: site.index.value.iter().map(|text| text.0.clone()).collect(),
            front_controller,
            front_controller_for: site.front_controller_for.value.clone(),
            mode,
            worker,
            boot,
            warm,
            fallback: text(&site.fallback),
            lua,
            cache,
            keep: site.keep.value.clone(),
            upstream,
            authorizer,
            routes,
            pool: self.pool(&raw.pool),
            php_value: site.php_value.value.clone(),
            php_admin_value: site.php_admin_value.value.clone(),
            env: site.env.value.clone(),
            inherit_env: site.inherit_env.value,
            dumpable: site.dumpable.value,
            fpm: None,
        }
    }

    fn root(&mut self, raw: &RawSite, several: bool) -> Option<PathBuf> {
        let given = &raw.site.root;
        match &given.value {
            Auto::Is(path) => {
                let root = self.absolute(path, given.origin);
                if root.is_dir() {
                    return Some(root);
                }
                let problem =
                    format!("{} is not a directory; create it or correct the path", root.display());
                self.report("site", "root", given.origin, problem);
                None
            }
            Auto::Word if several => {
                let problem = "not set; with several sites each needs its document root".into();
                self.report("site", "root", raw.origin, problem);
                None
            }
            Auto::Word => {
                let origin =
                    if self.raw.file.is_some() { Origin::File(0) } else { Origin::Default };
                let directory = self.absolute(Path::new("."), origin);
                let found = discover(&directory);
                if let Err(problem) = &found {
                    self.report("site", "root", raw.origin, problem.clone());
                }
                found.ok()
            }
        }
    }

    fn front_controller(&mut self, site: &option::Site, root: &Path) -> Option<String> {
        let given = &site.front_controller;
        match &given.value {
            Auto::Word => root.join("index.php").is_file().then(|| "index.php".into()),
            Auto::Is(Nothing::Word) => None,
            Auto::Is(Nothing::Is(Text(name))) => {
                let script = name.trim_start_matches('/');
                if Path::new(script)
                    .components()
                    .any(|part| !matches!(part, std::path::Component::Normal(_)))
                {
                    let problem =
                        format!("`{name}` must be a path below the root, without `.` and `..`");
                    self.report("site", "front_controller", given.origin, problem);
                } else if !root.join(script).is_file() {
                    let problem = format!(
                        "{} is not a file; correct the name, or write \"none\"",
                        root.join(script).display()
                    );
                    self.report("site", "front_controller", given.origin, problem);
                }
                Some(script.to_owned())
            }
        }
    }

    fn worker(&mut self, site: &option::Site, mode: Mode) -> Option<PathBuf> {
        if matches!(mode, Mode::Classic | Mode::Fastcgi) {
            return None;
        }
        let script = self.script("worker", &site.worker);
        if mode == Mode::Worker && script.is_none() {
            let problem =
                "worker mode needs a script that boots the application; set `worker`".into();
            self.report("site", "mode", site.mode.origin, problem);
        }
        script
    }

    /// A script that the server itself runs.
    fn script(&mut self, name: &str, given: &Given<Option<PathBuf>>) -> Option<PathBuf> {
        let script = self.optional_path(given)?;
        if !script.is_file() {
            let problem =
                format!("{} is not a file; create it or correct the path", script.display());
            self.report("site", name, given.origin, problem);
        }
        Some(script)
    }

    fn site_scripts(&mut self, site: &option::Site) -> Scripts {
        Scripts {
            raw_url: self.scripts("site", "lua_raw_url", &site.lua_raw_url),
            physical: self.scripts("site", "lua_physical", &site.lua_physical),
            content: self.scripts("site", "lua_content", &site.lua_content),
            response: self.scripts("site", "lua_response", &site.lua_response),
            store: self.scripts("site", "lua_store", &site.lua_store),
        }
    }

    fn scripts(&mut self, section: &str, name: &str, given: &Given<Vec<Text>>) -> Vec<PathBuf> {
        let mut scripts = Vec::new();
        for Text(path) in &given.value {
            let script = self.absolute(Path::new(path), given.origin);
            if !script.is_file() {
                let problem =
                    format!("{} is not a file; create it or correct the path", script.display());
                self.report(section, name, given.origin, problem);
            }
            scripts.push(script);
        }
        scripts
    }

    /// What goes into the image of sealed mode: the boot script and the targets to warm up with.
    fn image(&mut self, site: &option::Site, mode: Mode) -> (Option<PathBuf>, Vec<String>) {
        let option::Site { boot, warm, keep, .. } = site;
        if mode != Mode::Sealed {
            // A mode that is tried from outside leaves what the file says of sealed mode without
            // effect.
            let is_tried = matches!(site.mode.origin, Origin::Flag(_) | Origin::Environment(_));
            for (name, is_set, origin) in [
                ("boot", boot.value.is_some(), boot.origin),
                ("warm", !warm.value.is_empty(), warm.origin),
            ] {
                if is_set && !(is_tried && matches!(origin, Origin::File(_))) {
                    let problem = "only sealed mode has an image to prepare; set `mode = \
                        \"sealed\"`, or remove this key";
                    self.report("site", name, origin, problem.into());
                }
            }
            return (None, Vec::new());
        }
        if boot.value.is_some() && site.worker.value.is_some() {
            let problem = "a worker script boots the application itself; remove `boot` or `worker`";
            self.report("site", "boot", boot.origin, problem.into());
        }
        if !keep.value.is_empty() {
            let problem =
                "sealed mode keeps nothing between requests; remove the key, or use worker mode";
            self.report("site", "keep", keep.origin, problem.into());
        }
        for Text(target) in &warm.value {
            let plain = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
            let address =
                ["http://", "https://"].iter().find_map(|scheme| target.strip_prefix(scheme));
            let host = address.map(|address| address.split('/').next().unwrap_or_default());
            let begins = target.starts_with('/')
                || host.is_some_and(|host| !host.is_empty() && !host.contains('?'));
            if !begins || !plain {
                let problem = format!(
                    "`{target}` must begin with `/`, or with `http://` or `https://` and a host, \
                        and be written as in a \
                     request, as in \"/login?from=home\""
                );
                self.report("site", "warm", warm.origin, problem);
            }
        }
        (self.script("boot", boot), warm.value.iter().map(|text| text.0.clone()).collect())
    }

    fn names_of_files(&mut self, site: &option::Site) {
        for Text(name) in &site.index.value {
            if name.contains('/') || name.starts_with('.') {
                let problem = format!(
                    "`{name}` must be a plain file name, without `/` and not starting with a dot"
                );
                self.report("site", "index", site.index.origin, problem);
            }
        }
    }

    fn php_settings(&mut self, site: &option::Site) {
        for name in site.php_value.value.keys() {
            if site.php_admin_value.value.contains_key(name) {
                let problem = format!("`{name}` is in php_admin_value too; keep one of them");
                self.report("site", "php_value", site.php_value.origin, problem);
            }
        }
    }

    fn pool(&mut self, pool: &option::Pool) -> Pool {
        Pool {
            size: self.pool_size(pool),
            queue: number(pool.queue.value.0),
            queue_timeout: pool.queue_timeout.value,
            max_requests: pool.max_requests.value.0,
            max_memory: pool.max_memory.value.0,
            request_timeout: pool.request_timeout.value,
            slow: pool.slow.value,
        }
    }

    fn pool_size(&mut self, pool: &option::Pool) -> PoolSize {
        let auto = auto_size(self.around.cores);
        let workers = or(&pool.workers, auto.max());
        match pool.manager.value {
            Manager::Auto if matches!(pool.workers.value, Auto::Word) => auto,
            Manager::Auto => PoolSize::Static { workers },
            Manager::Static => PoolSize::Static { workers },
            Manager::Ondemand => PoolSize::Ondemand { max: workers, idle: pool.idle.value },
            Manager::Dynamic => {
                let max_spare = or(&pool.max_spare, (workers * 3 / 4).max(1));
                let min_spare = or(&pool.min_spare, (workers / 4).clamp(1, max_spare));
                let start = or(&pool.start, min_spare + max_spare.saturating_sub(min_spare) / 2);
                if max_spare > workers {
                    let problem = format!(
                        "{max_spare} is more than workers ({workers}); lower it or raise workers"
                    );
                    self.report("site.pool", "max_spare", pool.max_spare.origin, problem);
                }
                if min_spare > max_spare {
                    let problem = format!(
                        "{min_spare} is more than max_spare ({max_spare}); lower it or raise \
                            max_spare"
                    );
                    self.report("site.pool", "min_spare", pool.min_spare.origin, problem);
                } else if !(min_spare..=max_spare).contains(&start) {
                    let problem = format!(
                        "{start} must lie between min_spare ({min_spare}) and max_spare \
                            ({max_spare})"
                    );
                    self.report("site.pool", "start", pool.start.origin, problem);
                }
                PoolSize::Dynamic { start, min_spare, max_spare, max: workers }
            }
        }
    }
}

fn or(given: &Given<Auto<Count>>, auto: usize) -> usize {
    match given.value {
        Auto::Word => auto,
        Auto::Is(Count(count)) => number(count),
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
