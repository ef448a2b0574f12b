//! Whether the sections make sense together: php-fpm's checks in php-fpm's order, with its words.
//! Defaults are filled in and relative paths made absolute on the way.

mod manager;

use std::io;
use std::path::Path;

use crate::access;
use crate::host::Host;
use crate::message::{Level, Message};
use crate::paths;
use crate::raw::{Global, NO_PRIORITY, Pool};
use crate::read::{Sections, can_append};

/// The shortest `log_limit`.
const SHORTEST_LINE: i32 = 512;

/// Settings of PHP that are paths, so far as php-fpm knows them.
const PATH_SETTINGS: &[&str] = &[
    "error_log",
    "extension_dir",
    "mime_magic.magicfile",
    "sendmail_path",
    "session.cookie_path",
    "session_pgsql.sem_file_name",
    "soap.wsdl_cache_dir",
    "uploadprogress.file.filename_template",
    "xdebug.output_dir",
    "xdebug.profiler_output_dir",
    "xdebug.trace_output_dir",
    "xmms.path",
    "axis2.client_home",
    "blenc.key_file",
    "coin_acceptor.device",
];

/// What the command line adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Above<'a> {
    /// `--prefix`
    pub prefix: Option<&'a str>,
    /// `--pid`
    pub pid: Option<&'a str>,
    /// `-D` or `-F`
    pub daemonize: Option<bool>,
    /// `--allow-to-run-as-root`
    pub run_as_root: bool,
}

#[track_caller]
fn error(text: impl Into<String>) -> Message {
    Message::new(Level::Error, text)
}

#[track_caller]
fn of_pool(pool: &Pool, level: Level, text: impl std::fmt::Display) -> Message {
    Message::new(level, format!("[pool {}] {text}", pool.name))
}

/// Checks everything; the first grave fault ends it.
pub fn validate(
    sections: &mut Sections,
    above: &Above<'_>,
    host: &dyn Host,
    messages: &mut Vec<Message>,
) -> Result<(), Message> {
    global(&mut sections.global, above)?;
    pools(sections, above, host, messages)?;
    for pool in &sections.pools {
        if let Some(log) = set(&pool.access_log) {
            openable(log).map_err(|why| {
                Message::of_system(format!("failed to open access log ({log})"), &why)
            })?;
        }
    }
    for pool in sections.pools.iter().filter(|pool| set(&pool.access_log).is_some()) {
        let format = pool.access_format.as_deref().unwrap_or_default();
        if let Err(reason) = access::Format::compile(format) {
            messages.push(Message::new(Level::Warning, reason.to_string()));
            return Err(of_pool(
                pool,
                Level::Error,
                format!("wrong format for access.format '{format}'"),
            ));
        }
    }
    Ok(())
}

/// A value that is there and not empty.
fn set(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|value| !value.is_empty())
}

fn openable(file: &str) -> io::Result<()> {
    // A device may not be opened twice, and a pipe would wait for its reader.
    if Path::new(file).exists() && !Path::new(file).is_file() { Ok(()) } else { can_append(file) }
}

fn global(global: &mut Global, above: &Above<'_>) -> Result<(), Message> {
    let state = above.prefix.unwrap_or(paths::STATE);
    if let Some(pid) = above.pid.filter(|pid| !pid.is_empty()) {
        global.pid = global.pid.take().or_else(|| Some(pid.to_string()));
    }
    global.pid = global.pid.as_deref().map(|pid| paths::below(pid, state));
    global.daemonize = above.daemonize.unwrap_or(global.daemonize);
    if global.log_limit < SHORTEST_LINE {
        return Err(error(format!("log_limit must be greater than {SHORTEST_LINE}")));
    }
    if global.process_max < 0 {
        return Err(error("process_max can't be negative"));
    }
    if is_wrong_priority(global.process_priority) {
        return Err(error("process.priority must be included into [-19,20]"));
    }
    let log = global.error_log.take().unwrap_or_else(|| "log/php-fpm.log".into());
    if global.systemd_interval < 0 {
        global.systemd_interval = 10;
    }
    global.syslog_ident.get_or_insert_with(|| "php-fpm".into());
    if global.syslog_facility < 0 {
        // LOG_DAEMON
        global.syslog_facility = 3 << 3;
    }
    if log.eq_ignore_ascii_case("syslog") {
        global.error_log = Some(log);
    } else {
        let log = paths::below(&log, state);
        openable(&log)
            .map_err(|why| Message::of_system(format!("failed to open error_log ({log})"), &why))?;
        global.error_log = Some(log);
    }
    match global.events_mechanism.as_deref() {
        None | Some("epoll" | "poll" | "select") => global.events_mechanism = Some("epoll".into()),
        Some(other) => {
            return Err(error(format!(
                "event mechanism '{other}' is not available on this system"
            )));
        }
    }
    Ok(())
}

fn is_wrong_priority(priority: i32) -> bool {
    priority != NO_PRIORITY && !(-19..=20).contains(&priority)
}

fn pools(
    sections: &mut Sections,
    above: &Above<'_>,
    host: &dyn Host,
    messages: &mut Vec<Message>,
) -> Result<(), Message> {
    if sections.pools.is_empty() {
        return Err(error(
            "No pool defined. at least one pool section must be specified in config file",
        ));
    }
    for pool in &mut sections.pools {
        place(pool, above, host)?;
        manager::manager(pool, messages)?;
        pages(pool, above)?;
        logs(pool, above)?;
        folders(pool, above)?;
        settings(pool, above);
    }
    distinct(&sections.pools)
}

/// Prefix, user, socket, priority.
fn place(pool: &mut Pool, above: &Above<'_>, host: &dyn Host) -> Result<(), Message> {
    if let Some(prefix) = set(&pool.prefix) {
        let prefix = paths::of_pool(prefix, None, above.prefix);
        let exists = paths::is_folder(&prefix);
        pool.prefix = Some(prefix.clone());
        if !exists {
            let text = format!("the prefix '{prefix}' does not exist or is not a directory");
            return Err(of_pool(pool, Level::Error, text));
        }
    }
    if pool.user.is_none() && host.is_root() && !above.run_as_root {
        return Err(of_pool(pool, Level::Alert, "user has not been defined"));
    }
    let Some(listen) = set(&pool.listen) else {
        return Err(of_pool(pool, Level::Alert, "no listen address have been defined!"));
    };
    if is_path(listen) {
        pool.listen = Some(paths::of_pool(listen, pool.prefix.as_deref(), above.prefix));
    }
    if is_wrong_priority(pool.process_priority) {
        return Err(of_pool(pool, Level::Error, "process.priority must be included into [-19,20]"));
    }
    Ok(())
}

/// Whether an address is a Unix socket's path: no colon, and not only digits.
pub fn is_path(address: &str) -> bool {
    !address.contains(':') && !address.bytes().all(|byte| byte.is_ascii_digit())
}

/// Status and ping.
fn pages(pool: &mut Pool, above: &Above<'_>) -> Result<(), Message> {
    if let Some(listen) = set(&pool.status_listen).filter(|listen| is_path(listen)) {
        // The pool that php-fpm makes of it has no prefix of its own.
        pool.status_listen = Some(paths::of_pool(listen, None, above.prefix));
    }
    if pool.status_listen.is_some() {
        pool.status_path.get_or_insert_with(|| "/".into());
    }
    let shortest = if pool.status_listen.is_some() { 1 } else { 2 };
    if let Some(path) = set(&pool.status_path) {
        page(pool, "status", path, shortest)?;
    }
    let Some(path) = set(&pool.ping_path) else {
        pool.ping_response = None;
        return Ok(());
    };
    page(pool, "ping", path, 2)?;
    if pool.ping_response.get_or_insert_with(|| "pong".into()).is_empty() {
        return Err(of_pool(pool, Level::Error, "the ping response page '' is not long enough"));
    }
    Ok(())
}

fn page(pool: &Pool, what: &str, path: &str, shortest: usize) -> Result<(), Message> {
    let wrong =
        |why: &str| Err(of_pool(pool, Level::Error, format!("the {what} path '{path}' {why}")));
    if !path.starts_with('/') {
        return wrong("must start with a '/'");
    }
    if path.len() < shortest {
        return wrong("is not long enough");
    }
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte)) {
        return wrong("must contain only the following characters '[alphanum]/_-.~'");
    }
    Ok(())
}

/// Access log and slow log.
fn logs(pool: &mut Pool, above: &Above<'_>) -> Result<(), Message> {
    let absolute =
        |path: &str, pool: &Pool| paths::of_pool(path, pool.prefix.as_deref(), above.prefix);
    if let Some(log) = set(&pool.access_log) {
        pool.access_log = Some(absolute(log, pool));
        pool.access_format.get_or_insert_with(|| "%R - %u %t \"%m %r\" %s".into());
    }
    if let Some(log) = set(&pool.slowlog) {
        pool.slowlog = Some(absolute(log, pool));
    }
    let (slow, end) = (pool.request_slowlog_timeout, pool.request_terminate_timeout);
    if slow != 0 {
        let Some(log) = set(&pool.slowlog) else {
            let text = "'slowlog' must be specified for use with 'request_slowlog_timeout'";
            return Err(of_pool(pool, Level::Error, text));
        };
        openable(log).map_err(|why| {
            Message::of_system(format!("Unable to create or open slowlog({log})"), &why)
        })?;
        if end != 0 && slow > end {
            let text = format!(
                "'request_slowlog_timeout' ({slow}) can't be greater than \
                    'request_terminate_timeout' ({end})"
            );
            return Err(of_pool(pool, Level::Error, text));
        }
    }
    match pool.request_slowlog_trace_depth {
        0 => pool.request_slowlog_trace_depth = 20,
        _ if set(&pool.slowlog).is_none() => {
            let text = "'slowlog' must be specified for use with 'request_slowlog_trace_depth'";
            return Err(of_pool(pool, Level::Error, text));
        }
        depth if depth < 0 => {
            let text = format!("'request_slowlog_trace_depth' ({depth}) must be a positive value");
            return Err(of_pool(pool, Level::Error, text));
        }
        _ => {}
    }
    Ok(())
}

fn folders(pool: &mut Pool, above: &Above<'_>) -> Result<(), Message> {
    if let Some(chroot) = set(&pool.chroot) {
        let prefix = pool.prefix.as_deref().or(above.prefix).unwrap_or(paths::PREFIX);
        let chroot = match chroot.strip_prefix("$prefix") {
            Some(rest) => format!("{prefix}{}{rest}", if rest.is_empty() { "" } else { "/" }),
            None => paths::of_pool(chroot, pool.prefix.as_deref(), above.prefix),
        };
        pool.chroot = Some(chroot.clone());
        if !chroot.starts_with('/') {
            let text = format!("the chroot path '{chroot}' must start with a '/'");
            return Err(of_pool(pool, Level::Error, text));
        }
        if !paths::is_folder(&chroot) {
            let text = format!("the chroot path '{chroot}' does not exist or is not a directory");
            return Err(of_pool(pool, Level::Error, text));
        }
    }
    if let Some(chdir) = set(&pool.chdir) {
        let chdir = paths::of_pool(chdir, pool.prefix.as_deref(), above.prefix);
        pool.chdir = Some(chdir.clone());
        if !chdir.starts_with('/') {
            let text = format!("the chdir path '{chdir}' must start with a '/'");
            return Err(of_pool(pool, Level::Error, text));
        }
        let text = match &pool.chroot {
            Some(chroot) => {
                let inside = format!("{chroot}/{chdir}");
                (!paths::is_folder(&inside)).then(|| {
                    format!(
                        "the chdir path '{chdir}' within the chroot path '{chroot}' \
                        ('{inside}') does not exist or is not a directory"
                    )
                })
            }
            None => (!paths::is_folder(&chdir))
                .then(|| format!("the chdir path '{chdir}' does not exist or is not a directory")),
        };
        if let Some(text) = text {
            return Err(of_pool(pool, Level::Error, text));
        }
    }
    Ok(())
}

/// Extensions, and the settings of PHP that are paths. Inside a chroot those are left as they are.
fn settings(pool: &mut Pool, above: &Above<'_>) {
    pool.limit_extensions.get_or_insert_with(|| ".php .phar".into());
    if pool.chroot.is_some() {
        return;
    }
    let own = pool.prefix.clone();
    let is_path = |name: &str| PATH_SETTINGS.iter().any(|known| known.eq_ignore_ascii_case(name));
    let admin = pool.php_admin_values.iter_mut().map(|pair| (pair, true));
    let user = pool.php_values.iter_mut().map(|pair| (pair, false));
    for ((name, value), is_admin) in admin.chain(user).filter(|((name, _), _)| is_path(name)) {
        let is_syslog =
            name.eq_ignore_ascii_case("error_log") && value.eq_ignore_ascii_case("syslog");
        if !(is_admin && is_syslog) {
            *value = paths::of_pool(value, own.as_deref(), above.prefix);
        }
    }
}

/// No two pools on one socket.
fn distinct(pools: &[Pool]) -> Result<(), Message> {
    let own = pools.iter().map(|pool| (pool.name.clone(), set(&pool.listen)));
    let status =
        pools.iter().map(|pool| (format!("{}_status", pool.name), set(&pool.status_listen)));
    let all: Vec<(String, &str)> =
        own.chain(status).filter_map(|(name, listen)| Some((name, listen?))).collect();
    for (at, (name, listen)) in all.iter().enumerate() {
        if let Some((other, _)) = all[at + 1..].iter().find(|(_, other)| other == listen) {
            return Err(error(format!(
                "[pool {other}] unable to set listen address as it's already used in another pool \
                    '{name}'"
            )));
        }
    }
    Ok(())
}

/// Whether a user or a group is given by its number.
pub fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// The users and groups that `-t` looks up.
pub fn names(pool: &Pool, host: &dyn Host) -> Result<(), Message> {
    known_user(pool, &pool.user, host)?;
    known_group(pool, &pool.group, host)?;
    // php-fpm reports the system's error for these two, which does not name the user.
    let with_reason =
        |message: Message| Message { text: message.text + ": Success (0)", ..message };
    known_user(pool, &pool.listen_owner, host).map_err(with_reason)?;
    known_group(pool, &pool.listen_group, host).map_err(with_reason)
}

fn known_user(pool: &Pool, name: &Option<String>, host: &dyn Host) -> Result<(), Message> {
    known(pool, name, "uid for user", |name| host.user(name).is_some())
}

fn known_group(pool: &Pool, name: &Option<String>, host: &dyn Host) -> Result<(), Message> {
    known(pool, name, "gid for group", |name| host.group(name).is_some())
}

fn known(
    pool: &Pool,
    name: &Option<String>,
    what: &str,
    exists: impl Fn(&str) -> bool,
) -> Result<(), Message> {
    match name {
        Some(name) if !is_number(name) && !exists(name) => {
            Err(of_pool(pool, Level::Error, format!("cannot get {what} '{name}'")))
        }
        _ => Ok(()),
    }
}

/// The user and group of the workers: what has no effect without root, what is refused.
pub fn identity(
    pool: &mut Pool,
    above: &Above<'_>,
    host: &dyn Host,
    messages: &mut Vec<Message>,
) -> Result<(), Message> {
    if !host.is_root() {
        let ignored = [
            ("user", set(&pool.user).is_some()),
            ("group", set(&pool.group).is_some()),
            ("chroot", set(&pool.chroot).is_some()),
            ("process.priority", pool.process_priority != NO_PRIORITY),
        ];
        for (name, _) in ignored.iter().filter(|(_, is_set)| *is_set) {
            let text = format!("'{name}' directive is ignored when FPM is not running as root");
            messages.push(of_pool(pool, Level::Notice, text));
        }
        return Ok(());
    }
    let (mut uid, mut gid) = (0, 0);
    if let Some(user) = set(&pool.user) {
        known_user(pool, &pool.user, host)?;
        (uid, gid) = match user.parse() {
            Ok(number) => (number, host.group_of(number).unwrap_or_default()),
            Err(_) => host.user(user).unwrap_or_default(),
        };
    }
    if let Some(group) = set(&pool.group) {
        known_group(pool, &pool.group, host)?;
        gid = group.parse().ok().or_else(|| host.group(group)).unwrap_or_default();
    }
    if !above.run_as_root && (uid == 0 || gid == 0) {
        return Err(of_pool(pool, Level::Error, "please specify user and group other than root"));
    }
    if pool.user.is_some() && pool.group.is_none() {
        // A user id without an entry has no group; php-fpm leaves such workers root's.
        pool.group = Some(gid.to_string());
    }
    Ok(())
}
