//! What was written in the sections, value by value, before anybody asks what it means together.

use crate::message::Level;

/// The priority if none is set: php-fpm's own marker, one beyond the valid range.
pub const NO_PRIORITY: i32 = 64;

/// `listen.backlog` where nothing is written: as many as the system allows.
pub const BACKLOG: i32 = -1;

/// The section `[global]`.
#[derive(Clone, Debug)]
pub struct Global {
    pub pid: Option<String>,
    pub error_log: Option<String>,
    pub syslog_ident: Option<String>,
    /// `-1`: not set.
    pub syslog_facility: i32,
    pub log_buffering: bool,
    pub log_level: Level,
    pub log_limit: i32,
    pub emergency_restart_threshold: i32,
    pub emergency_restart_interval: i32,
    pub process_control_timeout: i32,
    pub process_max: i32,
    pub process_priority: i32,
    pub daemonize: bool,
    pub rlimit_files: i32,
    pub rlimit_core: i32,
    pub events_mechanism: Option<String>,
    /// `-1`: not set.
    pub systemd_interval: i32,
}

impl Default for Global {
    fn default() -> Global {
        Global {
            pid: None,
            error_log: None,
            syslog_ident: None,
            syslog_facility: -1,
            log_buffering: true,
            log_level: Level::default(),
            log_limit: 1024,
            emergency_restart_threshold: 0,
            emergency_restart_interval: 0,
            process_control_timeout: 0,
            process_max: 0,
            process_priority: NO_PRIORITY,
            daemonize: true,
            rlimit_files: 0,
            rlimit_core: 0,
            events_mechanism: None,
            systemd_interval: -1,
        }
    }
}

/// `pm`, without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Static,
    Dynamic,
    OnDemand,
}

/// Names and values in the order of the file.
pub type Pairs = Vec<(String, String)>;

/// A pool's section.
#[derive(Clone, Debug)]
pub struct Pool {
    pub name: String,
    pub prefix: Option<String>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub listen: Option<String>,
    pub listen_backlog: i32,
    pub listen_acl_users: Option<String>,
    pub listen_acl_groups: Option<String>,
    pub listen_owner: Option<String>,
    pub listen_group: Option<String>,
    pub listen_mode: Option<String>,
    pub listen_allowed_clients: Option<String>,
    pub process_priority: i32,
    pub process_dumpable: bool,
    pub pm: Option<Kind>,
    pub max_children: i32,
    pub start_servers: i32,
    pub min_spare_servers: i32,
    pub max_spare_servers: i32,
    pub max_spawn_rate: i32,
    pub process_idle_timeout: i32,
    pub max_requests: i32,
    pub status_path: Option<String>,
    pub status_listen: Option<String>,
    pub ping_path: Option<String>,
    pub ping_response: Option<String>,
    pub access_log: Option<String>,
    pub access_format: Option<String>,
    pub access_suppress_paths: Vec<String>,
    pub slowlog: Option<String>,
    pub request_slowlog_timeout: i32,
    pub request_slowlog_trace_depth: i32,
    pub request_terminate_timeout: i32,
    pub request_terminate_timeout_track_finished: bool,
    pub rlimit_files: i32,
    pub rlimit_core: i32,
    pub chroot: Option<String>,
    pub chdir: Option<String>,
    pub catch_workers_output: bool,
    pub decorate_workers_output: bool,
    pub clear_env: bool,
    pub limit_extensions: Option<String>,
    pub apparmor_hat: Option<String>,
    pub env: Pairs,
    pub php_values: Pairs,
    pub php_admin_values: Pairs,
}

impl Pool {
    /// A section with nothing in it.
    pub fn new(name: &str) -> Pool {
        Pool {
            name: name.to_string(),
            prefix: None,
            user: None,
            group: None,
            listen: None,
            listen_backlog: BACKLOG,
            listen_acl_users: None,
            listen_acl_groups: None,
            listen_owner: None,
            listen_group: None,
            listen_mode: None,
            listen_allowed_clients: None,
            process_priority: NO_PRIORITY,
            process_dumpable: false,
            pm: None,
            max_children: 0,
            start_servers: 0,
            min_spare_servers: 0,
            max_spare_servers: 0,
            max_spawn_rate: 32,
            process_idle_timeout: 10,
            max_requests: 0,
            status_path: None,
            status_listen: None,
            ping_path: None,
            ping_response: None,
            access_log: None,
            access_format: None,
            access_suppress_paths: Vec::new(),
            slowlog: None,
            request_slowlog_timeout: 0,
            request_slowlog_trace_depth: 0,
            request_terminate_timeout: 0,
            request_terminate_timeout_track_finished: false,
            rlimit_files: 0,
            rlimit_core: 0,
            chroot: None,
            chdir: None,
            catch_workers_output: false,
            decorate_workers_output: true,
            clear_env: true,
            limit_extensions: None,
            apparmor_hat: None,
            env: Vec::new(),
            php_values: Vec::new(),
            php_admin_values: Vec::new(),
        }
    }
}
