//! Every directive, one row each: its name, where its value goes, how it is read and shown, what
//! comes of it here. The order is that of `php-fpm -tt`.

use crate::message::Level;
use crate::raw::{Global, Kind, NO_PRIORITY, Pairs, Pool};
use crate::value;

/// A directive with one value.
pub struct Row<T: 'static> {
    /// As written, in any case.
    pub name: &'static str,
    /// Where the value goes.
    pub field: Field<T>,
    /// Why it has no effect here, if it has none. Setting it logs a warning.
    pub idle: Option<&'static str>,
}

/// The value of a directive, by its kind.
pub enum Field<T: 'static> {
    /// Text, with `$pool` replaced.
    Text(fn(&mut T) -> &mut Option<String>),
    /// Text that `-tt` leaves out.
    HiddenText(fn(&mut T) -> &mut Option<String>),
    /// A number.
    Number(fn(&mut T) -> &mut i32),
    /// A number of which one value means "not set".
    Priority(fn(&mut T) -> &mut i32),
    /// A time in seconds.
    Seconds(fn(&mut T) -> &mut i32),
    /// A time in seconds that is shown without the unit.
    BareSeconds(fn(&mut T) -> &mut i32),
    /// Yes or no.
    Flag(fn(&mut T) -> &mut bool),
    /// Bytes, or -1 for `unlimited`.
    Core(fn(&mut T) -> &mut i32),
    /// The level of the log.
    Level(fn(&mut T) -> &mut Level),
    /// The facility of syslog.
    Facility(fn(&mut T) -> &mut i32),
    /// The process manager.
    Manager(fn(&mut T) -> &mut Option<Kind>),
}

macro_rules! rows {
    ($($name:literal $kind:ident $($field:ident)+ $(, idle $why:literal)?;)+) => {
        &[$(Row {
            name: $name,
            field: Field::$kind(|raw| &mut raw$(.$field)+),
            idle: rows!(@ $($why)?),
        }),+]
    };
    (@) => { None };
    (@ $why:literal) => { Some($why) };
}

/// The directives of `[global]`.
pub const GLOBAL: &[Row<Global>] = rows! {
    "pid" Text pid;
    "error_log" Text error_log;
    "syslog.ident" Text syslog_ident, idle "nothing is written to the system's log";
    "syslog.facility" Facility syslog_facility, idle "nothing is written to the system's log";
    "log_buffering" Flag log_buffering;
    "log_level" Level log_level;
    "log_limit" Number log_limit;
    "emergency_restart_interval" Seconds emergency_restart_interval;
    "emergency_restart_threshold" Number emergency_restart_threshold;
    "process_control_timeout" Seconds process_control_timeout;
    "process.max" Number process_max, idle "only pools have limits";
    "process.priority" Priority process_priority;
    "daemonize" Flag daemonize;
    "rlimit_files" Number rlimit_files;
    "rlimit_core" Core rlimit_core;
    "events.mechanism" Text events_mechanism, idle "it is always epoll";
    "systemd_interval" Seconds systemd_interval, idle "systemd is told when something changes";
};

/// The directives of a pool that have one value.
pub const POOL: &[Row<Pool>] = rows! {
    "prefix" Text prefix;
    "user" Text user;
    "group" Text group;
    "listen" Text listen;
    "listen.backlog" Number listen_backlog;
    "listen.acl_users" Text listen_acl_users;
    "listen.acl_groups" Text listen_acl_groups;
    "listen.owner" Text listen_owner;
    "listen.group" Text listen_group;
    "listen.mode" Text listen_mode;
    "listen.allowed_clients" Text listen_allowed_clients;
    "process.priority" Priority process_priority;
    "process.dumpable" Flag process_dumpable;
    "pm" Manager pm;
    "pm.max_children" Number max_children;
    "pm.start_servers" Number start_servers;
    "pm.min_spare_servers" Number min_spare_servers;
    "pm.max_spare_servers" Number max_spare_servers;
    "pm.max_spawn_rate" Number max_spawn_rate, idle "it is always 32";
    "pm.process_idle_timeout" BareSeconds process_idle_timeout;
    "pm.max_requests" Number max_requests;
    "pm.status_path" Text status_path;
    "pm.status_listen" Text status_listen;
    "ping.path" Text ping_path;
    "ping.response" Text ping_response;
    "access.log" Text access_log;
    "access.format" Text access_format;
    "slowlog" Text slowlog;
    "request_slowlog_timeout" Seconds request_slowlog_timeout;
    "request_slowlog_trace_depth" Number request_slowlog_trace_depth;
    "request_terminate_timeout" Seconds request_terminate_timeout;
    "request_terminate_timeout_track_finished" Flag request_terminate_timeout_track_finished;
    "rlimit_files" Number rlimit_files;
    "rlimit_core" Core rlimit_core;
    "chroot" Text chroot;
    "chdir" Text chdir;
    "catch_workers_output" Flag catch_workers_output;
    "decorate_workers_output" Flag decorate_workers_output;
    "clear_env" Flag clear_env;
    "security.limit_extensions" Text limit_extensions;
    "apparmor_hat" HiddenText apparmor_hat, idle "workers keep the profile of the server";
};

/// A directive of a pool with a key, or with many values.
pub struct List {
    /// As written, in this case.
    pub name: &'static str,
    /// Where the pairs go; `None`: `access.suppress_path`, which has no keys.
    pub pairs: Option<fn(&mut Pool) -> &mut Pairs>,
    /// The values are yes or no, kept as `1` or `0`.
    pub flags: bool,
}

/// The directives of a pool with a key, or with many values.
pub const LISTS: &[List] = &[
    List { name: "env", pairs: Some(|pool| &mut pool.env), flags: false },
    List { name: "php_value", pairs: Some(|pool| &mut pool.php_values), flags: false },
    List { name: "php_flag", pairs: Some(|pool| &mut pool.php_values), flags: true },
    List { name: "php_admin_value", pairs: Some(|pool| &mut pool.php_admin_values), flags: false },
    List { name: "php_admin_flag", pairs: Some(|pool| &mut pool.php_admin_values), flags: true },
    List { name: "access.suppress_path", pairs: None, flags: false },
];

/// A directive, for its documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documented {
    /// As it is written, with `[NAME]` or `[]` where it has a key.
    pub name: String,
    /// Why it has no effect here, if it has none.
    pub idle: Option<&'static str>,
}

/// The directives of `[global]`, then those of pools.
pub fn all() -> [Vec<Documented>; 2] {
    fn of<T>(row: &Row<T>) -> Documented {
        Documented { name: row.name.to_string(), idle: row.idle }
    }
    let lists = LISTS.iter().map(|list| {
        let key = if list.pairs.is_some() { "NAME" } else { "" };
        Documented { name: format!("{}[{key}]", list.name), idle: None }
    });
    [GLOBAL.iter().map(of).collect(), POOL.iter().map(of).chain(lists).collect()]
}

impl<T> Row<T> {
    /// The row of a name.
    pub fn named<'a>(rows: &'a [Row<T>], name: &str) -> Option<&'a Row<T>> {
        rows.iter().find(|row| row.name.eq_ignore_ascii_case(name))
    }

    /// Reads a value. `pool` is what `$pool` stands for.
    pub fn set(&self, raw: &mut T, text: &str, pool: Option<&str>) -> Result<(), &'static str> {
        match self.field {
            Field::Text(at) | Field::HiddenText(at) => {
                *at(raw) = Some(value::with_pool(text, pool)?)
            }
            Field::Number(at) | Field::Priority(at) => *at(raw) = value::integer(text)?,
            Field::Seconds(at) | Field::BareSeconds(at) => *at(raw) = value::seconds(text)?,
            Field::Flag(at) => *at(raw) = value::boolean(text)?,
            Field::Core(at) => *at(raw) = value::core(text)?,
            Field::Level(at) => {
                *at(raw) = Level::named(text).ok_or("invalid value for 'log_level'")?;
            }
            Field::Facility(at) => *at(raw) = value::facility(text)?,
            Field::Manager(at) => *at(raw) = Some(value::manager(text)?),
        }
        Ok(())
    }

    /// The value as `-tt` shows it; `None` if it does not.
    pub fn shown(&self, raw: &mut T) -> Option<String> {
        Some(match self.field {
            Field::HiddenText(_) => return None,
            Field::Text(at) => at(raw).clone().unwrap_or_else(|| "undefined".into()),
            Field::Number(at) | Field::BareSeconds(at) | Field::Core(at) | Field::Facility(at) => {
                at(raw).to_string()
            }
            Field::Priority(at) if *at(raw) == NO_PRIORITY => "undefined".into(),
            Field::Priority(at) => at(raw).to_string(),
            Field::Seconds(at) => format!("{}s", at(raw)),
            Field::Flag(at) => if *at(raw) { "yes" } else { "no" }.into(),
            Field::Level(at) => at(raw).name().into(),
            Field::Manager(at) => match at(raw) {
                Some(Kind::Static) => "static",
                Some(Kind::Dynamic) => "dynamic",
                Some(Kind::OnDemand) | None => "ondemand",
            }
            .into(),
        })
    }
}
