//! What one site's processes get: a resolved configuration, settings, environment, queue
//! sizes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokamak_config::{Mode, Reset, Secret, Server, Site, option};
use tokamak_sys::control::{MAX_SETTINGS, key};
use tokamak_sys::process::{Account, Identity};
use tokamak_sys::queue::Geometry;

/// Most workers that a segment has room for, and most slots of one event loop.
const MOST_WORKERS: usize = 256;
const MOST_SLOTS: usize = 1024;
/// Part of a slot for the body that comes with a request, beside its record. More than most bodies;
/// the rest streams.
const BODY_RING: usize = 64 * 1024;
/// Ring for the response: what a worker can write before the front reads. Most pages fit whole, so
/// the worker is free at once. With a tenth, most would have to wait for the front in between; ten
/// times more would be memory for each slot, touched once and kept.
const RESPONSE_RING: usize = 128 * 1024;

/// A configuration that is fine by itself but does not fit this machine now.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusable(String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// The configuration with the paths of every site and application resolved. A generation keeps to
/// the directory that a symlink named when it started, so a deployment that moves the symlink never
/// mixes two versions in one request.
///
/// # Errors
/// Fails for a path that does not exist, or more workers than a pool can have.
pub fn resolve(server: &Server) -> Result<Server, Unusable> {
    let mut resolved = server.clone();
    for site in &mut resolved.sites {
        let name = site.name.clone();
        let real = |what: &str, path: &Path| real(&format!("site {name}: {what}"), path);
        site.root = real("root", &site.root)?;
        if let Some(worker) = &mut site.worker {
            *worker = real("worker script", worker)?;
        }
        if let Some(boot) = &mut site.boot {
            *boot = real("boot script", boot)?;
        }
        let most = site.pool.size.max();
        if site.has_workers() && !(1..=MOST_WORKERS).contains(&most) {
            return Err(Unusable(format!(
                "site {name}: {most} workers; a pool can have 1 to {MOST_WORKERS}"
            )));
        }
    }
    for upstream in &mut resolved.upstreams {
        let Some(spawn) = &mut upstream.spawn else { continue };
        let directory = real(&format!("upstream {}: directory", upstream.name), &spawn.directory)?;
        // Of the program's path no more than this: a Python finds its virtual environment by the
        // path that it was called by.
        if let Ok(rest) = spawn.program.strip_prefix(&spawn.directory) {
            spawn.program = directory.join(rest);
        }
        spawn.directory = directory;
    }
    Ok(resolved)
}

fn real(what: &str, path: &Path) -> Result<PathBuf, Unusable> {
    fs::canonicalize(path)
        .map_err(|error| Unusable(format!("{what} {}: {}", path.display(), plain(&error))))
}

/// The system's words without the error number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The pairs for a zygote.
///
/// # Errors
/// Fails if there are more than a message holds.
pub fn settings(site: &Site) -> Result<Vec<(String, String)>, Unusable> {
    let mode = match site.mode {
        Mode::Classic => key::MODE_CLASSIC,
        Mode::Worker => key::MODE_WORKER,
        Mode::Sealed => key::MODE_SEALED,
        Mode::Async => key::MODE_ASYNC,
        Mode::Fastcgi => {
            return Err(Unusable(format!("site {}: it has no PHP processes", site.name)));
        }
    };
    let keep: Vec<&str> = site.keep.iter().map(|reset| reset_name(*reset)).collect();
    let mut pairs = vec![
        (key::SITE.to_owned(), site.name.clone()),
        (key::MODE.to_owned(), mode.to_owned()),
        (key::ROOT.to_owned(), site.root.to_string_lossy().into_owned()),
        (key::KEEP.to_owned(), keep.join(",")),
        (key::MAX_REQUESTS.to_owned(), site.pool.max_requests.to_string()),
    ];
    if site.mode == Mode::Async {
        pairs.push((key::CONCURRENCY.to_owned(), site.concurrency.to_string()));
    }
    for (name, script) in [(key::SCRIPT, &site.worker), (key::BOOT, &site.boot)] {
        pairs.extend(
            script.iter().map(|script| (name.to_owned(), script.to_string_lossy().into_owned())),
        );
    }
    pairs.extend(
        site.warm
            .iter()
            .enumerate()
            .map(|(nth, target)| (format!("{}{nth}", key::WARM), target.clone())),
    );
    for (prefix, table) in [(key::INI, &site.php_value), (key::ADMIN, &site.php_admin_value)] {
        pairs.extend(table.iter().map(|(name, value)| (format!("{prefix}{name}"), value.clone())));
    }
    let env = site.env.iter();
    pairs.extend(env.map(|(name, value)| (format!("{}{name}", key::ENV), value.reveal().into())));
    if site.dumpable {
        pairs.push((key::DUMPABLE.to_owned(), String::new()));
    }
    if site.count_calls {
        pairs.push((key::COUNT_CALLS.to_owned(), String::new()));
    }
    if let Some(pool) = &site.fpm {
        pairs.push((key::FPM.to_owned(), String::new()));
        pairs.push((key::LIMIT_EXTENSIONS.to_owned(), pool.limit_extensions.join(" ")));
        if pool.catch_workers_output {
            pairs.push((key::CATCH_OUTPUT.to_owned(), String::new()));
        }
        pairs.extend(
            pool.chdir
                .iter()
                .map(|path| (key::CHDIR.to_owned(), path.to_string_lossy().into_owned())),
        );
    }
    let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
    if pairs.len() > MAX_SETTINGS || bytes + 64 > tokamak_sys::channel::MAX_MESSAGE {
        return Err(Unusable(format!(
            "site {}: too many or too long php_value, env … settings",
            site.name
        )));
    }
    Ok(pairs)
}

/// The pairs for a zygote that come before those of its site: what the command line says to all.
pub fn defined(server: &Server) -> Vec<(String, String)> {
    server.fpm.as_ref().map(|fpm| fpm.php.settings()).unwrap_or_default()
}

/// What a zygote has to do before it may become `identity`, if there is such a thing: the pairs for
/// that.
pub fn entrance(site: &Site, identity: Option<&Identity>) -> Vec<(String, String)> {
    let (Some(root), Some(identity)) =
        (site.fpm.as_ref().and_then(|pool| pool.chroot.as_ref()), identity)
    else {
        return Vec::new();
    };
    let groups: Vec<String> = identity.groups().iter().map(u32::to_string).collect();
    let identity = format!("{} {} {}", identity.uid(), identity.gid(), groups.join(","));
    vec![
        (key::CHROOT.to_owned(), root.to_string_lossy().into_owned()),
        (key::IDENTITY.to_owned(), identity),
    ]
}

fn reset_name(reset: Reset) -> &'static str {
    match reset {
        Reset::Ini => "ini",
        Reset::ErrorHandlers => "error_handlers",
        Reset::Cwd => "cwd",
        Reset::Umask => "umask",
        Reset::Locale => "locale",
        Reset::Timezone => "timezone",
        Reset::Encodings => "encodings",
        Reset::Env => "env",
        Reset::Session => "session",
    }
}

/// What a service manager, or a web server that started this one, said to the server alone.
const PRIVATE: &[&str] = &[
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "FCGI_WEB_SERVER_ADDRS",
    crate::upgrade::VARIABLE,
];

/// Whether no process of an application may see a variable: it is for the server alone, or it sets
/// an option that is a secret.
fn is_private(name: &OsStr) -> bool {
    let mut secrets = option::rows().filter(|row| row.kind.is_secret());
    PRIVATE.iter().any(|other| name == *other)
        || secrets.any(|row| row.variable.is_some_and(|variable| name == variable))
}

/// The environment of a site's or an application's processes: the server's own, if they inherit it,
/// then `USER` and `HOME` of the user that they become, then `given`.
pub fn environment(
    given: &BTreeMap<String, Secret>,
    inherit: bool,
    account: Option<&Account>,
    own: impl Iterator<Item = (OsString, OsString)>,
) -> Variables {
    let is_given = |name: &OsStr| given.keys().any(|other| name == other.as_str());
    let becomes = |Account { name, home }: &Account| {
        let pairs = [("USER", name), ("HOME", home)];
        pairs.map(|(name, value)| (OsString::from(name), value.clone())).to_vec()
    };
    let mut becomes = account.map(becomes).unwrap_or_default();
    becomes.retain(|(name, _)| !is_given(name));
    let is_replaced = |name: &OsStr| is_given(name) || becomes.iter().any(|(own, _)| own == name);
    let inherited = own.filter(|(name, _)| inherit && !is_private(name) && !is_replaced(name));
    let inherited: Vec<_> = inherited.collect();
    let added = given.iter().map(|(name, value)| (name.into(), value.reveal().into()));
    inherited.into_iter().chain(becomes).chain(added).collect()
}

/// An environment: names and values.
pub type Variables = Vec<(OsString, OsString)>;

/// What PHP itself reads of the environment when it starts: where its settings are. php-fpm heeds
/// it whatever its workers are given.
const FOR_PHP: &[&str] = &["PHPRC", "PHP_INI_SCAN_DIR"];

/// The environment of a site's zygote, and the pairs that name what of it no script may see.
pub fn environment_of_php(
    site: &Site,
    account: Option<&Account>,
    own: impl Iterator<Item = (OsString, OsString)>,
) -> (Variables, Vec<(String, String)>) {
    let own: Vec<_> = own.collect();
    let mut all = environment(&site.env, site.inherit_env, account, own.iter().cloned());
    let is_given = |name: &str| all.iter().any(|(given, _)| given == name);
    let hidden: Vec<&str> = FOR_PHP.iter().copied().filter(|name| !is_given(name)).collect();
    all.extend(own.into_iter().filter(|(name, _)| hidden.iter().any(|hidden| name == hidden)));
    (all, vec![(key::HIDDEN_ENV.to_owned(), hidden.join(" "))])
}

/// The sizes of a site's queue.
pub fn geometry(server: &Server, site: &Site) -> Geometry {
    let loops = server.loops.clamp(1, 256);
    let is_async = site.mode == Mode::Async;
    // In async mode a worker that only finishes what it has keeps its place, and its successor
    // needs another one.
    let workers = match site.pool.size.max() {
        max if is_async => (max * 2).min(MOST_WORKERS),
        max => max,
    };
    // Any loop may get all connections. Memory that is not used is never given by the system.
    let held = workers.saturating_mul(site.concurrency);
    let slots = (site.pool.queue + held).clamp(1, MOST_SLOTS.min((1 << 16) / loops));
    // Names of CGI variables and lengths take room beside what the client sent.
    let record = server.limits.head.saturating_mul(2).clamp(16 * 1024, 1 << 20);
    let geometry = Geometry::new(
        loops as u16,
        slots as u16,
        workers as u16,
        (record + BODY_RING) as u32,
        RESPONSE_RING as u32,
    );
    // They also wait for what their requests wait for.
    if is_async { geometry.with_doorbells() } else { geometry }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Duration;
    use tokamak_config::{Limits, Pool, PoolSize, Timeouts};

    /// A small valid configuration.
    pub fn server(root: &Path) -> Server {
        let second = Duration::from_secs(1);
        let size = PoolSize::Static { workers: 2 };
        let pool = Pool {
            size,
            queue: 10,
            queue_timeout: second,
            max_requests: 7,
            max_memory: 0,
            request_timeout: Duration::ZERO,
            slow: Duration::ZERO,
        };
        let site = Site {
            index: vec!["index.php".into()],
            keep: vec![Reset::Cwd, Reset::ErrorHandlers],
            php_value: BTreeMap::from([("precision".into(), "5".into())]),
            php_admin_value: BTreeMap::from([("memory_limit".into(), "64M".into())]),
            env: BTreeMap::from([("APP".into(), Secret::new("x"))]),
            ..Site::plain("default", root.to_owned(), pool)
        };
        let limits = Limits {
            head: 32 << 10,
            headers: 100,
            body: 1 << 20,
            buffer: 1 << 16,
            spool: 0,
            send_rate: 0,
            connections: 100,
            client: tokamak_config::ClientLimits::NONE,
        };
        let timeouts = Timeouts {
            head: second,
            body: second,
            idle: second,
            send: second,
            tunnel: second,
            drain: second,
            drain_delay: Duration::ZERO,
            watchdog: second,
        };
        Server {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            loops: 2,
            ..Server::plain(vec![site], limits, timeouts)
        }
    }

    #[test]
    fn a_symlink_is_resolved() {
        let folder = tempfile::tempdir().unwrap();
        let release = folder.path().canonicalize().unwrap().join("release-1");
        fs::create_dir(&release).unwrap();
        fs::write(release.join("worker.php"), "").unwrap();
        let current = folder.path().join("current");
        std::os::unix::fs::symlink(&release, &current).unwrap();
        let mut server = server(&current);
        server.sites[0].worker = Some(current.join("worker.php"));
        server.sites[0].boot = Some(current.join("worker.php"));
        let site = &resolve(&server).unwrap().sites[0];
        assert_eq!(site.root, release);
        for script in [&site.worker, &site.boot] {
            assert_eq!(script.as_deref(), Some(release.join("worker.php").as_path()));
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = resolve(&server(Path::new("/no/such"))).unwrap_err();
        assert_eq!(error.to_string(), "site default: root /no/such: No such file or directory");
        let mut server = server(Path::new("/"));
        server.sites[0].pool.size = PoolSize::Static { workers: 300 };
        assert_eq!(
            resolve(&server).unwrap_err().to_string(),
            "site default: 300 workers; a pool can have 1 to 256"
        );
    }

    #[test]
    fn settings_of_a_site() {
        let mut site = server(Path::new("/srv")).sites.remove(0);
        site.mode = Mode::Worker;
        site.worker = Some("/srv/worker.php".into());
        let pairs = settings(&site).unwrap();
        let value =
            |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        for (name, expected) in [
            ("site", "default"),
            ("mode", "worker"),
            ("root", "/srv"),
            ("script", "/srv/worker.php"),
            ("keep", "cwd,error_handlers"),
            ("max_requests", "7"),
            ("ini.precision", "5"),
            ("admin.memory_limit", "64M"),
            ("env.APP", "x"),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
        site.mode = Mode::Sealed;
        (site.worker, site.boot) = (None, Some("/srv/boot.php".into()));
        site.warm = vec!["/".into(), "/login".into()];
        let pairs = settings(&site).unwrap();
        let value =
            |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        for (name, expected) in [
            ("mode", Some("sealed")),
            ("script", None),
            ("boot", Some("/srv/boot.php")),
            ("warm.0", Some("/")),
            ("warm.1", Some("/login")),
        ] {
            assert_eq!(value(name), expected, "{name}");
        }
        site.env.insert("BIG".into(), Secret::new("x".repeat(200_000)));
        assert!(settings(&site).is_err());
    }

    #[test]
    fn the_environment_is_the_servers_without_the_managers_words_or_the_sites_alone() {
        let own = || {
            [
                ("PATH", "/bin"),
                ("APP", "old"),
                ("NOTIFY_SOCKET", "/run/x"),
                ("LISTEN_FDS", "1"),
                ("TOKAMAK_ADMIN_TOKEN", "secret"),
                ("TOKAMAK_CACHE_REDIS_PASSWORD", "secret"),
            ]
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .into_iter()
        };
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let given = BTreeMap::from([("APP".to_owned(), Secret::new("x"))]);
        let environment = |inherit, account| environment(&given, inherit, account, own());
        assert_eq!(environment(true, None), [pair("PATH", "/bin"), pair("APP", "x")]);
        assert_eq!(environment(false, None), [pair("APP", "x")]);
        let account = Account { name: "web".into(), home: "/srv/web".into() };
        let of_account = [pair("USER", "web"), pair("HOME", "/srv/web"), pair("APP", "x")];
        assert_eq!(environment(false, Some(&account)), of_account);
    }

    #[test]
    fn a_segment_can_be_made_for_any_configuration() {
        let mut server = server(Path::new("/"));
        for (loops, queue, workers, head) in
            [(1, 0, 1, 1), (2, 128, 8, 32 << 10), (256, 100_000, 256, 1 << 30)]
        {
            server.loops = loops;
            server.limits.head = head;
            server.sites[0].pool.queue = queue;
            server.sites[0].pool.size = PoolSize::Static { workers };
            let geometry = geometry(&server, &server.sites[0]);
            tokamak_sys::queue::Segment::create("test", geometry).unwrap();
        }
    }
}
