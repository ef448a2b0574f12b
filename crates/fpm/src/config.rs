//! What a php-fpm configuration means: every directive typed, every path absolute, everything
//! judged.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::access::Format;
use crate::message::Level;

/// A whole configuration: the file, what it includes, and the command line above it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file that was read first.
    pub file: PathBuf,
    /// The section `[global]`.
    pub global: Global,
    /// The pools in the order of their sections; at least one. A pool with [`Pool::status_listen`]
    /// is one pool here, where php-fpm makes two of it.
    pub pools: Vec<Pool>,
}

/// The section `[global]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Global {
    /// `pid`, or `--pid`.
    pub pid: Option<PathBuf>,
    /// `error_log`.
    pub error_log: ErrorLog,
    /// `log_level`.
    pub log_level: Level,
    /// `log_limit`: the longest line, its end included. At least 512.
    pub log_limit: usize,
    /// `log_buffering`: whether a line is written in one piece.
    pub log_buffering: bool,
    /// `emergency_restart_threshold`: so many workers that die of SIGSEGV or SIGBUS within
    /// `emergency_restart_interval` restart everything. 0: never.
    pub emergency_restart_threshold: u32,
    /// `emergency_restart_interval`.
    pub emergency_restart_interval: Duration,
    /// `process_control_timeout`: how long workers may take for an order before they get a harder
    /// one. Zero: they do not get the harder one.
    pub process_control_timeout: Duration,
    /// `process.priority` of the master.
    pub process_priority: Option<i32>,
    /// `daemonize`, or `-D` or `-F`.
    pub daemonize: bool,
    /// `rlimit_files` of the master.
    pub rlimit_files: Option<u64>,
    /// `rlimit_core` of the master.
    pub rlimit_core: Option<CoreLimit>,
}

/// Where the master writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorLog {
    /// A file.
    File(PathBuf),
    /// `error_log = syslog`, which is not done here.
    Syslog,
}

/// `rlimit_core`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreLimit {
    /// So many bytes.
    Bytes(u64),
    /// `unlimited`.
    Unlimited,
}

/// One pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The name in brackets.
    pub name: String,
    /// `user`, a name or a number. Has no effect unless the master is root.
    pub user: Option<String>,
    /// `group`, a name or a number.
    pub group: Option<String>,
    /// `listen` and what belongs to it.
    pub listen: Listen,
    /// `process.priority` of the workers.
    pub process_priority: Option<i32>,
    /// `process.dumpable`.
    pub process_dumpable: bool,
    /// `pm` with the numbers of its kind.
    pub manager: Manager,
    /// `pm.max_children`, at least 1.
    pub max_children: u32,
    /// `pm.max_requests`: a worker is replaced after so many. 0: never.
    pub max_requests: u32,
    /// `pm.status_path`.
    pub status_path: Option<String>,
    /// `pm.status_listen`: a second socket, on which the status page (and ping) answers even when
    /// all workers are busy. It has the owner, mode and allowed clients of [`Pool::listen`].
    pub status_listen: Option<Address>,
    /// `ping.path` and `ping.response`.
    pub ping: Option<Ping>,
    /// `access.log` and its kin.
    pub access: Option<Access>,
    /// `slowlog` and its kin.
    pub slow: Option<Slow>,
    /// `request_terminate_timeout`.
    pub terminate_timeout: Option<Duration>,
    /// `request_terminate_timeout_track_finished`: count on after `fastcgi_finish_request()`.
    pub terminate_track_finished: bool,
    /// `rlimit_files` of the workers.
    pub rlimit_files: Option<u64>,
    /// `rlimit_core` of the workers.
    pub rlimit_core: Option<CoreLimit>,
    /// `chroot`. Has no effect unless the master is root.
    pub chroot: Option<PathBuf>,
    /// `chdir`, inside the chroot.
    pub chdir: Option<PathBuf>,
    /// `catch_workers_output`: what workers write goes to the error log; else it is lost.
    pub catch_workers_output: bool,
    /// `decorate_workers_output`: with time, level and `[pool NAME] child N said into …` before it.
    pub decorate_workers_output: bool,
    /// `clear_env`: workers see nothing of the master's environment.
    pub clear_env: bool,
    /// `security.limit_extensions`; none means that any file may be run.
    pub limit_extensions: Vec<String>,
    /// `env[NAME]`, with `$VARIABLE` already replaced. To be set in this order: where a name comes
    /// twice, the last one stands, which is the one that the file has first.
    pub env: Vec<Setting>,
    /// `php_value` and `php_flag`, in the order of [`Pool::env`]. Scripts may change them.
    pub php_values: Vec<Setting>,
    /// `php_admin_value` and `php_admin_flag`, likewise. Scripts may not.
    pub php_admin_values: Vec<Setting>,
}

/// `listen` and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listen {
    /// Where.
    pub address: Address,
    /// `listen.backlog`; negative: as many as the system allows.
    pub backlog: i32,
    /// `listen.owner`, a name or a number.
    pub owner: Option<String>,
    /// `listen.group`, a name or a number.
    pub group: Option<String>,
    /// `listen.mode`.
    pub mode: u32,
    /// `listen.acl_users`, names. With this or the next, owner and group have no effect.
    pub acl_users: Vec<String>,
    /// `listen.acl_groups`, names.
    pub acl_groups: Vec<String>,
    /// `listen.allowed_clients`; `None`: everybody.
    pub allowed_clients: Option<AllowedClients>,
}

/// The socket of a pool, in the words of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `PORT`: all addresses of the machine.
    Port(String),
    /// `HOST:PORT` or `[HOST]:PORT`. The port may be none: php-fpm finds out when it binds.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// What stands after the last colon.
        port: String,
    },
    /// An absolute path.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Port(port) => f.write_str(port),
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// `listen.allowed_clients`. Concerns TCP only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedClients {
    /// The clients that may connect. Empty when nothing of the list was an address: then none may.
    pub addresses: Vec<IpAddr>,
    /// What is not an address. Each worker complains about it: `Wrong IP address '…' in
    /// listen.allowed_clients`.
    pub wrong: Vec<String>,
}

/// `pm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Always `pm.max_children`.
    Static,
    /// By what is idle.
    Dynamic {
        /// `pm.start_servers`.
        start: u32,
        /// `pm.min_spare_servers`.
        min_spare: u32,
        /// `pm.max_spare_servers`.
        max_spare: u32,
    },
    /// When a request comes.
    OnDemand {
        /// `pm.process_idle_timeout`.
        idle_timeout: Duration,
    },
}

impl Manager {
    /// The value of `pm`.
    pub const fn name(self) -> &'static str {
        match self {
            Manager::Static => "static",
            Manager::Dynamic { .. } => "dynamic",
            Manager::OnDemand { .. } => "ondemand",
        }
    }
}

/// `ping.path` and `ping.response`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ping {
    /// The path in `SCRIPT_NAME`.
    pub path: String,
    /// The body.
    pub response: String,
}

/// `access.log` and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// `access.log`.
    pub file: PathBuf,
    /// `access.format`.
    pub format: Format,
    /// `access.suppress_path[]`.
    pub suppress_paths: Vec<String>,
}

/// `slowlog` and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// `slowlog`.
    pub file: PathBuf,
    /// `request_slowlog_timeout`; `None`: nothing is ever slow.
    pub timeout: Option<Duration>,
    /// `request_slowlog_trace_depth`.
    pub trace_depth: u32,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key in brackets.
    pub name: String,
    /// What it is set to.
    pub value: String,
}
