//! One site: its root, its scripts, its mode.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::pool::or;
use super::{Reader, cache, discover, mount, text};
use crate::model::{FileCharset, Mode, Scripts, Site};
use crate::option;
use crate::origin::{Given, Origin};
use crate::raw::RawSite;
use crate::value::{Auto, Nothing, Off, Text};

fn mode(site: &option::Site) -> Mode {
    match (&site.mode.value, &site.worker.value) {
        (Auto::Is(mode), _) => *mode,
        (Auto::Word, _) if site.upstream.value.is_some() => Mode::Fastcgi,
        (Auto::Word, Some(_)) => Mode::Worker,
        (Auto::Word, None) => Mode::Classic,
    }
}

/// Whether the mode comes from outside of the file. A mode that is tried in this way leaves what
/// the file says of another one without effect.
fn is_tried(site: &option::Site) -> bool {
    matches!(site.mode.origin, Origin::Flag(_) | Origin::Environment(_))
}

/// Requests at once in a worker of async mode, if no key says otherwise. With a tenth of it, a
/// worker whose requests mostly wait would be idle; with ten times more, it would need ten times
/// the memory and connections.
const AT_ONCE: usize = 32;

/// The path of a mounted site, without a slash at its end.
pub(super) fn path(site: &option::Site) -> String {
    let path = site.path.value.as_ref().map_or("", |text| &text.0);
    path.trim_end_matches('/').to_owned()
}

/// A host and its port, if it has one. IPv6 addresses keep their brackets.
pub(super) fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

impl Reader<'_> {
    /// Checks what a mounted site says.
    fn mount(&mut self, site: &option::Site) {
        let Some(Text(path)) = &site.path.value else { return };
        let origin = site.path.origin;
        let clean = path.trim_end_matches('/');
        if clean.is_empty() || !path.starts_with('/') || clean.contains("//") || path.contains("/.")
        {
            let problem = format!(
                "`{path}` must begin with `/`, name a folder, and have no empty or hidden part"
            );
            self.report("site", "path", origin, problem);
        }
        let option::Site {
            lua_raw_url, lua_physical, lua_content, lua_response, lua_store, ..
        } = site;
        let scripts = [lua_raw_url, lua_physical, lua_content, lua_response, lua_store];
        if scripts.iter().any(|scripts| !scripts.value.is_empty()) {
            let problem = "a mounted site has no Lua scripts; leave them out, or serve it under a \
                host of its own";
            self.report("site", "path", origin, problem.into());
        }
    }

    pub(super) fn site(
        &mut self,
        raw: &RawSite,
        name: String,
        hosts: Vec<String>,
        listen: Vec<SocketAddr>,
        several: bool,
    ) -> Site {
        let site = &raw.site;
        let path = path(site);
        self.mount(site);
        let root = self.root(raw, several);
        let front_controller = root.as_ref().and_then(|root| self.front_controller(site, root));
        let mode = mode(site);
        let worker = self.worker(site, mode);
        let (boot, warm) = self.image(site, mode);
        let upstream = self.upstream(site, mode);
        let authorizer = self.fastcgi_upstream(
            "site",
            "authorizer",
            site.authorizer.value.as_ref(),
            site.authorizer.origin,
        );
        let whole = upstream.filter(|index| self.speaks_http(*index));
        if whole.is_none() && site.files.value {
            let problem = "is for an `upstream` of HTTP: files are sent here; remove this key";
            self.report("site", "files", site.files.origin, problem.into());
        }
        let lua = self.site_scripts(site);
        let cache = cache::site(site);
        let compression = self.compression(site);
        let routes = self.routes(raw, authorizer, whole, &lua, &cache, &compression);
        let rules = self.rules(&raw.rules);
        let canonical_host = self.canonical_host(site, &hosts);
        let internal = self.internal("site", &site.internal);
        self.error_pages(site, root.as_deref());
        self.names_of_files(site);
        self.php_settings(site);
        Site {
            name,
            hosts,
            listen,
            path,
            root: root.unwrap_or_default(),
            index: site.index.value.iter().map(|text| text.0.clone()).collect(),
            spool: site.spool.value.0,
            index_listing: site.index_listing.value,
            charset: match &site.charset.value {
                Auto::Word => FileCharset::UnlessNamed,
                Auto::Is(Off::Word) => FileCharset::None,
                Auto::Is(Off::Is(name)) => FileCharset::Is(name.0.clone()),
            },
            access_log: self.site_log(site),
            front_controller,
            front_controller_for: site.front_controller_for.value.clone(),
            tls: self.site_tls(site),
            mode,
            php: self.php_version(&site.php, mode),
            user: self.user(site, mode),
            group: text(&site.group),
            concurrency: self.concurrency(site, mode),
            worker,
            boot,
            warm,
            fallback: text(&site.fallback),
            lua,
            cache,
            compression,
            internal,
            error_pages: site.error_pages.value.clone(),
            intercept_errors: site.intercept_errors.value,
            keep: site.keep.value.clone(),
            upstream,
            authorizer,
            routes,
            rules,
            canonical_host,
            pool: self.pool(&raw.pool, mode),
            mercure: self.mercure(&raw.mercure, site.path.value.is_some()),
            php_value: site.php_value.value.0.clone(),
            php_admin_value: site.php_admin_value.value.0.clone(),
            env: site.env.value.clone(),
            inherit_env: site.inherit_env.value,
            dumpable: site.dumpable.value,
            count_calls: site.count_calls.value,
            server_timing: site.server_timing.value,
            fpm: None,
        }
    }

    /// The host that others are redirected to. It must be one of the site's, or the redirected
    /// request would be another site's.
    fn canonical_host(&mut self, site: &option::Site, hosts: &[String]) -> Option<String> {
        let given = &site.canonical_host;
        let host = given.value.as_ref()?.0.to_ascii_lowercase();
        let (name, port) = split_port(&host);
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte));
        if !is_name || port.is_some_and(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
            let problem = format!(
                "`{host}` is not a host name; write it without scheme and path, as in \
                    \"www.example.org\""
            );
            self.report("site", "canonical_host", given.origin, problem);
        }
        if !mount::is_one_of(name, hosts) {
            let problem = format!("`{name}` is no host of this site; add it to `host`");
            self.report("site", "canonical_host", given.origin, problem);
        }
        Some(host)
    }

    fn error_pages(&mut self, site: &option::Site, root: Option<&Path>) {
        let given = &site.error_pages;
        for (status, page) in &given.value {
            let is_class = matches!(&**status, "4xx" | "5xx");
            let is_status = status.len() == 3
                && status.parse().is_ok_and(|status: u16| (400..600).contains(&status));
            let relative = page.strip_prefix('/').map(Path::new);
            let is_plain = relative.is_some_and(|path| {
                path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
            });
            let problem = if !is_class && !is_status {
                format!("`{status}` is no status from 400 to 599, nor `4xx` or `5xx`")
            } else if !is_plain {
                format!("`{page}` must be a path below the root, as in \"/404.html\"")
            } else if let (Some(root), Some(relative)) = (root, relative)
                && !root.join(relative).is_file()
            {
                format!("{} is not a file; create it or correct it", root.join(relative).display())
            } else {
                continue;
            };
            self.report("site", "error_pages", given.origin, problem);
        }
        if site.intercept_errors.value && given.value.is_empty() {
            let problem = "is for `error_pages`, which are not set; name the pages there";
            let origin = site.intercept_errors.origin;
            self.report("site", "intercept_errors", origin, problem.into());
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
        if matches!(mode, Mode::Worker | Mode::Async) && script.is_none() {
            let problem = format!(
                "{} mode needs a script that boots the application; set `worker`",
                mode.name()
            );
            self.report("site", "mode", site.mode.origin, problem);
        }
        script
    }

    /// Whether that version is installed, only a look at the machine shows.
    fn php_version(&mut self, given: &Given<Option<Text>>, mode: Mode) -> Option<String> {
        let version = text(given)?;
        if mode == Mode::Fastcgi {
            let problem = "the scripts of this site are run by its `upstream`; remove this key";
            self.report("site", "php", given.origin, problem.into());
        }
        let is_number = |part: &str| {
            (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_version = |(major, minor): (&str, &str)| is_number(major) && is_number(minor);
        if version.split_once('.').is_none_or(|parts| !is_version(parts)) {
            let problem = "must be a version of two numbers, such as \"8.4\"";
            self.report("site", "php", given.origin, problem.into());
        }
        Some(version)
    }

    /// Whether there is such a user, only a look at the machine shows.
    fn user(&mut self, site: &option::Site, mode: Mode) -> Option<String> {
        let user = text(&site.user);
        if user.is_some() && mode == Mode::Fastcgi {
            let problem = "the scripts of this site are run by its `upstream`; set `user` there";
            self.report("site", "user", site.user.origin, problem.into());
        }
        if user.is_none() && site.group.value.is_some() {
            let problem = "a group goes with a user; set `user` too";
            self.report("site", "group", site.group.origin, problem.into());
        }
        user
    }

    /// Requests at once in a worker.
    fn concurrency(&mut self, site: &option::Site, mode: Mode) -> usize {
        let option::Site { concurrency, keep, .. } = site;
        if mode != Mode::Async {
            if matches!(concurrency.value, Auto::Is(_))
                && !(is_tried(site) && matches!(concurrency.origin, Origin::File(_)))
            {
                let problem = "only async mode serves several requests at once in a worker; set \
                    `mode = \"async\"`, or remove this key";
                self.report("site", "concurrency", concurrency.origin, problem.into());
            }
            return 1;
        }
        if !keep.value.is_empty() {
            let problem = "in async mode each request has a state of its own; set in the worker \
                script, before its loop, what is to be the same for all, and remove the key";
            self.report("site", "keep", keep.origin, problem.into());
        }
        or(concurrency, AT_ONCE)
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

    pub(super) fn scripts(
        &mut self,
        section: &str,
        name: &str,
        given: &Given<Vec<Text>>,
    ) -> Vec<PathBuf> {
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
            for (name, is_set, origin) in [
                ("boot", boot.value.is_some(), boot.origin),
                ("warm", !warm.value.is_empty(), warm.origin),
            ] {
                if is_set && !(is_tried(site) && matches!(origin, Origin::File(_))) {
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
        for name in site.php_value.value.0.keys() {
            if site.php_admin_value.value.0.contains_key(name) {
                let problem = format!("`{name}` is in php_admin_value too; keep one of them");
                self.report("site", "php_value", site.php_value.origin, problem);
            }
        }
    }
}
