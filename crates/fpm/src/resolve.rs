//! From validated sections to the configuration: text becomes addresses, paths, times and choices.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::access::Format;
use crate::config::{
    Access, Address, AllowedClients, Config, CoreLimit, ErrorLog, Global, Listen, Manager, Ping,
    Pool, Setting, Slow,
};
use crate::ini::Lookup;
use crate::raw::{self, Kind, NO_PRIORITY};
use crate::read::Sections;
use crate::validate::is_path;

/// The configuration that validated sections describe.
pub fn resolve(file: &Path, sections: &Sections, variables: Lookup<'_>) -> Config {
    Config {
        file: file.to_path_buf(),
        global: global(&sections.global),
        pools: sections.pools.iter().map(|raw| pool(raw, variables)).collect(),
    }
}

/// A number that must not be negative; php-fpm takes a negative one for 0.
fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::from(count(number)))
}

/// A time; 0 means that there is none.
fn some_seconds(number: i32) -> Option<Duration> {
    Some(seconds(number)).filter(|time| !time.is_zero())
}

fn some_path(path: &Option<String>) -> Option<PathBuf> {
    some_text(path).map(PathBuf::from)
}

fn some_text(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}

fn priority(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != NO_PRIORITY)
}

fn files(number: i32) -> Option<u64> {
    u64::try_from(number).ok().filter(|number| *number > 0)
}

fn core(number: i32) -> Option<CoreLimit> {
    match number {
        0 => None,
        -1 => Some(CoreLimit::Unlimited),
        bytes => Some(CoreLimit::Bytes(u64::from(count(bytes)))),
    }
}

fn global(raw: &raw::Global) -> Global {
    let error_log = raw.error_log.clone().unwrap_or_default();
    Global {
        pid: some_path(&raw.pid),
        error_log: if error_log.eq_ignore_ascii_case("syslog") {
            ErrorLog::Syslog
        } else {
            ErrorLog::File(error_log.into())
        },
        log_level: raw.log_level,
        log_limit: usize::try_from(raw.log_limit).unwrap_or_default(),
        log_buffering: raw.log_buffering,
        emergency_restart_threshold: count(raw.emergency_restart_threshold),
        emergency_restart_interval: seconds(raw.emergency_restart_interval),
        process_control_timeout: seconds(raw.process_control_timeout),
        process_priority: priority(raw.process_priority),
        daemonize: raw.daemonize,
        rlimit_files: files(raw.rlimit_files),
        rlimit_core: core(raw.rlimit_core),
    }
}

fn pool(raw: &raw::Pool, variables: Lookup<'_>) -> Pool {
    Pool {
        name: raw.name.clone(),
        user: some_text(&raw.user),
        group: some_text(&raw.group),
        listen: listen(raw),
        process_priority: priority(raw.process_priority),
        process_dumpable: raw.process_dumpable,
        manager: manager(raw),
        max_children: count(raw.max_children),
        max_requests: count(raw.max_requests),
        status_path: some_text(&raw.status_path),
        status_listen: some_text(&raw.status_listen).map(|text| address(&text)),
        ping: some_text(&raw.ping_path)
            .map(|path| Ping { path, response: raw.ping_response.clone().unwrap_or_default() }),
        access: access(raw),
        slow: some_path(&raw.slowlog).map(|file| Slow {
            file,
            timeout: some_seconds(raw.request_slowlog_timeout),
            trace_depth: count(raw.request_slowlog_trace_depth),
        }),
        terminate_timeout: some_seconds(raw.request_terminate_timeout),
        terminate_track_finished: raw.request_terminate_timeout_track_finished,
        rlimit_files: files(raw.rlimit_files),
        rlimit_core: core(raw.rlimit_core),
        chroot: some_path(&raw.chroot),
        chdir: some_path(&raw.chdir),
        catch_workers_output: raw.catch_workers_output,
        decorate_workers_output: raw.decorate_workers_output,
        clear_env: raw.clear_env,
        limit_extensions: words(raw.limit_extensions.as_deref().unwrap_or_default(), &[' ', '\t']),
        env: settings(&raw.env, |value| match value.strip_prefix('$') {
            Some(name) => variables(name).unwrap_or_default(),
            None => value.to_string(),
        }),
        php_values: settings(&raw.php_values, str::to_string),
        php_admin_values: settings(&raw.php_admin_values, str::to_string),
    }
}

/// The pairs in reverse: php-fpm puts each new pair before the others, and applies them in that
/// order.
fn settings(pairs: &[(String, String)], value: impl Fn(&str) -> String) -> Vec<Setting> {
    let pairs = pairs.iter().rev();
    pairs.map(|(name, text)| Setting { name: name.clone(), value: value(text) }).collect()
}

fn words(text: &str, between: &[char]) -> Vec<String> {
    text.split(between).filter(|word| !word.is_empty()).map(str::to_string).collect()
}

fn access(raw: &raw::Pool) -> Option<Access> {
    Some(Access {
        file: some_path(&raw.access_log)?,
        format: Format::compile(raw.access_format.as_deref().unwrap_or_default()).ok()?,
        suppress_paths: raw.access_suppress_paths.clone(),
    })
}

fn manager(raw: &raw::Pool) -> Manager {
    match raw.pm {
        Some(Kind::Static) => Manager::Static,
        Some(Kind::Dynamic) => Manager::Dynamic {
            start: count(raw.start_servers),
            min_spare: count(raw.min_spare_servers),
            max_spare: count(raw.max_spare_servers),
        },
        Some(Kind::OnDemand) | None => {
            Manager::OnDemand { idle_timeout: seconds(raw.process_idle_timeout) }
        }
    }
}

fn listen(raw: &raw::Pool) -> Listen {
    let mode = raw.listen_mode.as_deref().filter(|mode| !mode.is_empty());
    let names = |list: &Option<String>| words(list.as_deref().unwrap_or_default(), &[',']);
    Listen {
        address: address(raw.listen.as_deref().unwrap_or_default()),
        backlog: raw.listen_backlog,
        owner: some_text(&raw.listen_owner),
        group: some_text(&raw.listen_group),
        mode: mode.map_or(0o660, octal),
        acl_users: names(&raw.listen_acl_users),
        acl_groups: names(&raw.listen_acl_groups),
        allowed_clients: some_text(&raw.listen_allowed_clients).map(|text| allowed_clients(&text)),
    }
}

/// The octal number at the head of a text.
fn octal(text: &str) -> u32 {
    let digits = text.trim_start();
    let end = digits.find(|char| !matches!(char, '0'..='7')).unwrap_or(digits.len());
    u32::from_str_radix(&digits[..end], 8).unwrap_or(0) & 0o7777
}

fn allowed_clients(text: &str) -> AllowedClients {
    let mut clients = AllowedClients { addresses: Vec::new(), wrong: Vec::new() };
    for word in words(text, &[',', ' ']) {
        match word.parse::<IpAddr>() {
            Ok(address) => clients.addresses.push(address),
            Err(_) => clients.wrong.push(word),
        }
    }
    clients
}

fn address(text: &str) -> Address {
    if is_path(text) {
        return Address::Unix(text.into());
    }
    match text.rsplit_once(':') {
        None => Address::Port(text.to_string()),
        Some((host, port)) => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            Address::Tcp { host: bare.unwrap_or(host).to_string(), port: port.to_string() }
        }
    }
}
