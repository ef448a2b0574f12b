//! From judged sections to their meaning: text becomes addresses, paths, times and choices.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::access::Format;
use crate::config::{
    Access, Address, AllowedClients, Config, CoreLimit, ErrorLog, Global, Listen, Manager, Ping, Pool,
    Setting, Slow,
};
use crate::ini::Lookup;
use crate::judge::is_path;
use crate::low::{self, Kind, NO_PRIORITY};
use crate::read::Sections;

/// The meaning of sections that have been judged.
pub fn mean(file: &Path, sections: &Sections, variables: Lookup<'_>) -> Config {
    Config {
        file: file.to_path_buf(),
        global: global(&sections.global),
        pools: sections.pools.iter().map(|low| pool(low, variables)).collect(),
    }
}

/// A number that must not be negative; php-fpm takes a negative one for none.
fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::from(count(number)))
}

/// A time; `None` for none.
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

fn global(low: &low::Global) -> Global {
    let error_log = low.error_log.clone().unwrap_or_default();
    Global {
        pid: some_path(&low.pid),
        error_log: if error_log.eq_ignore_ascii_case("syslog") {
            ErrorLog::Syslog
        } else {
            ErrorLog::File(error_log.into())
        },
        log_level: low.log_level,
        log_limit: usize::try_from(low.log_limit).unwrap_or_default(),
        log_buffering: low.log_buffering,
        emergency_restart_threshold: count(low.emergency_restart_threshold),
        emergency_restart_interval: seconds(low.emergency_restart_interval),
        process_control_timeout: seconds(low.process_control_timeout),
        process_priority: priority(low.process_priority),
        daemonize: low.daemonize,
        rlimit_files: files(low.rlimit_files),
        rlimit_core: core(low.rlimit_core),
    }
}

fn pool(low: &low::Pool, variables: Lookup<'_>) -> Pool {
    Pool {
        name: low.name.clone(),
        user: some_text(&low.user),
        group: some_text(&low.group),
        listen: listen(low),
        process_priority: priority(low.process_priority),
        process_dumpable: low.process_dumpable,
        manager: manager(low),
        max_children: count(low.max_children),
        max_requests: count(low.max_requests),
        status_path: some_text(&low.status_path),
        status_listen: some_text(&low.status_listen).map(|text| address(&text)),
        ping: some_text(&low.ping_path)
            .map(|path| Ping { path, response: low.ping_response.clone().unwrap_or_default() }),
        access: access(low),
        slow: some_path(&low.slowlog).map(|file| Slow {
            file,
            timeout: some_seconds(low.request_slowlog_timeout),
            trace_depth: count(low.request_slowlog_trace_depth),
        }),
        terminate_timeout: some_seconds(low.request_terminate_timeout),
        terminate_track_finished: low.request_terminate_timeout_track_finished,
        rlimit_files: files(low.rlimit_files),
        rlimit_core: core(low.rlimit_core),
        chroot: some_path(&low.chroot),
        chdir: some_path(&low.chdir),
        catch_workers_output: low.catch_workers_output,
        decorate_workers_output: low.decorate_workers_output,
        clear_env: low.clear_env,
        limit_extensions: words(low.limit_extensions.as_deref().unwrap_or_default(), &[' ', '\t']),
        env: settings(&low.env, |value| match value.strip_prefix('$') {
            Some(name) => variables(name).unwrap_or_default(),
            None => value.to_string(),
        }),
        php_values: settings(&low.php_values, str::to_string),
        php_admin_values: settings(&low.php_admin_values, str::to_string),
    }
}

/// php-fpm puts each new pair before the others, and takes them in that order.
fn settings(pairs: &[(String, String)], value: impl Fn(&str) -> String) -> Vec<Setting> {
    let pairs = pairs.iter().rev();
    pairs.map(|(name, text)| Setting { name: name.clone(), value: value(text) }).collect()
}

fn words(text: &str, between: &[char]) -> Vec<String> {
    text.split(between).filter(|word| !word.is_empty()).map(str::to_string).collect()
}

fn access(low: &low::Pool) -> Option<Access> {
    Some(Access {
        file: some_path(&low.access_log)?,
        format: Format::compile(low.access_format.as_deref().unwrap_or_default()).ok()?,
        suppress_paths: low.access_suppress_paths.clone(),
    })
}

fn manager(low: &low::Pool) -> Manager {
    match low.pm {
        Some(Kind::Static) => Manager::Static,
        Some(Kind::Dynamic) => Manager::Dynamic {
            start: count(low.start_servers),
            min_spare: count(low.min_spare_servers),
            max_spare: count(low.max_spare_servers),
        },
        Some(Kind::OnDemand) | None => Manager::OnDemand { idle_timeout: seconds(low.process_idle_timeout) },
    }
}

fn listen(low: &low::Pool) -> Listen {
    let mode = low.listen_mode.as_deref().filter(|mode| !mode.is_empty());
    let names = |list: &Option<String>| words(list.as_deref().unwrap_or_default(), &[',']);
    Listen {
        address: address(low.listen.as_deref().unwrap_or_default()),
        backlog: low.listen_backlog,
        owner: some_text(&low.listen_owner),
        group: some_text(&low.listen_group),
        mode: mode.map_or(0o660, octal),
        acl_users: names(&low.listen_acl_users),
        acl_groups: names(&low.listen_acl_groups),
        allowed_clients: some_text(&low.listen_allowed_clients).map(|text| allowed_clients(&text)),
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
