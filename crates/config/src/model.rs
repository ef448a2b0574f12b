//! What a configuration means: every default filled in, every unit converted, every path absolute.
//!
//! The rest of the program sees only these types. How they were typed (file, environment, flags) is
//! the concern of [`crate::raw`] and [`crate::option`].

mod acme;
mod admin;
mod cache;
mod compression;
mod early_hints;
mod log_pattern;
mod mercure;
mod network;
mod proxy;
mod rule;
mod secret;
mod site;
mod throttle;
mod tls;
mod trace;
mod upstream;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokamak_fpm::Pool as FpmPool;

use crate::fpm::{Fpm, FpmSocket};

pub use acme::*;
pub use admin::*;
pub use cache::*;
pub use compression::*;
pub use early_hints::EarlyHints;
pub use log_pattern::{LogPart, LogPattern, LogVariable};
pub use mercure::*;
pub use network::Network;
pub use proxy::*;
pub use rule::*;
pub use secret::Secret;
pub use site::*;
pub use throttle::*;
pub use tls::*;
pub use trace::*;
pub use upstream::*;

/// One running server: what it listens on and the sites that it serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Addresses that accept HTTP connections.
    pub listen: Vec<SocketAddr>,
    /// Addresses that accept HTTP connections over TLS.
    pub listen_tls: Vec<SocketAddr>,
    /// What is set once for TLS.
    pub tls: Tls,
    /// Whom the server asks for certificates.
    pub acme: Acme,
    /// Directory for what has to outlive the server.
    pub state_dir: PathBuf,
    /// Directory for temporary files; [`None`]: as the environment says.
    pub temp_dir: Option<PathBuf>,
    /// Number of event loops of the front; one thread each.
    pub loops: usize,
    /// User that the front and the workers run as, when the server was started as root.
    pub user: Option<String>,
    /// Group that goes with [`Server::user`]; that user's own group when absent.
    pub group: Option<String>,
    /// Unix socket for `tokamak status` and `tokamak reload`. Absent: chosen by the wiring from
    /// user and port.
    pub control: Option<PathBuf>,
    /// Proxies in front of the server, and what is believed of them.
    pub proxies: Proxies,
    /// Whether each request gets an `X-Request-Id`.
    pub request_ids: bool,
    /// Which clients get the interim responses of applications.
    pub early_hints: EarlyHints,
    /// The admin listener, if there is to be one.
    pub admin: Option<Admin>,
    /// File that receives the supervisor's process id.
    pub pid_file: Option<PathBuf>,
    /// Limits on what a client may send.
    pub limits: Limits,
    /// What a client may do on one HTTP/2 connection.
    pub http2: Http2,
    /// What a client may do on one HTTP/3 connection.
    pub http3: Http3,
    /// How long the server waits, for whom.
    pub timeouts: Timeouts,
    /// Where the log lines go.
    pub log: Log,
    /// Name servers for the addresses of [`Server::upstreams`]; those of the machine if empty.
    pub resolver: Vec<SocketAddr>,
    /// What scripts in the server may use.
    pub lua: Lua,
    /// What responses may take that are kept.
    pub cache: Cache,
    /// What is done for traces.
    pub trace: Trace,
    /// FastCGI applications that sites may name.
    pub upstreams: Vec<Upstream>,
    /// Sites in the order of the file; the first one also answers for unknown host names.
    pub sites: Vec<Site>,
    /// What a server has that stands in for php-fpm.
    pub fpm: Option<Fpm>,
}

impl Server {
    /// A server of these sites for which nothing else is set: where there is no file of settings,
    /// and in tests.
    pub fn plain(sites: Vec<Site>, limits: Limits, timeouts: Timeouts) -> Server {
        Server {
            listen: Vec::new(),
            listen_tls: Vec::new(),
            tls: Tls::default(),
            acme: Acme::default(),
            state_dir: PathBuf::new(),
            temp_dir: None,
            loops: 1,
            user: None,
            group: None,
            control: None,
            proxies: Proxies::default(),
            request_ids: false,
            early_hints: EarlyHints::Off,
            admin: None,
            pid_file: None,
            limits,
            http2: Http2::default(),
            http3: Http3::default(),
            timeouts,
            log: Log { access: None, error: None },
            resolver: Vec::new(),
            lua: Lua::default(),
            cache: Cache::default(),
            trace: Trace::default(),
            upstreams: Vec::new(),
            sites,
            fpm: None,
        }
    }

    /// The FastCGI sockets for web servers, each with the pool that it belongs to.
    pub fn fpm_sockets(&self) -> impl Iterator<Item = (&FpmSocket, &FpmPool)> {
        let sockets = self.fpm.iter().flat_map(|fpm| &fpm.sockets);
        sockets
            .filter_map(|socket| Some((socket, self.sites.get(socket.site_index)?.fpm.as_deref()?)))
    }

    /// The access logs of the sites, each once, in the order of the sites.
    pub fn access_logs(&self) -> Vec<&AccessLog> {
        let mut logs: Vec<&AccessLog> = Vec::new();
        for log in self.sites.iter().filter_map(|site| site.access_log.as_ref()) {
            if !logs.contains(&log) {
                logs.push(log);
            }
        }
        logs
    }
}

/// Limits on what a client may send. Sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Request line and headers together.
    pub head: usize,
    /// Number of header fields.
    pub headers: usize,
    /// Request body.
    pub body: u64,
    /// Part of a request body, and of a response, that is held in memory before it goes to a spool
    /// file.
    pub buffer: usize,
    /// Bytes of responses of all sites in spool files.
    pub spool: u64,
    /// Bytes a second that a client has to take of a response; zero: any.
    pub send_rate: u64,
    /// Open client connections over all event loops.
    pub connections: usize,
    /// What each client may do, whatever it asks for.
    pub client: ClientLimits,
}

/// What a client may do on one HTTP/2 connection. Sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Http2 {
    /// Whether clients may use HTTP/2.
    pub enabled: bool,
    /// Requests that may be open at the same time.
    pub streams: usize,
    /// Requests after which the connection ends.
    pub requests: usize,
    /// Requests that may be cancelled within ten seconds.
    pub resets: usize,
    /// Frames of no request that may come within ten seconds, beside those that are due.
    pub control_frames: usize,
    /// Part of one request's body that may come before the server has taken it.
    pub window: usize,
    /// The same for all requests of a connection together.
    pub connection_window: usize,
}

/// What a client may do on one HTTP/3 connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Http3 {
    /// Whether clients may use HTTP/3.
    pub enabled: bool,
    /// Requests that may be open at the same time.
    pub streams: usize,
    /// Requests after which the connection ends.
    pub requests: usize,
    /// Requests that may be cancelled within ten seconds.
    pub resets: usize,
    /// Frames of no request that may come within ten seconds.
    pub control_frames: usize,
    /// Part of one request's body that may come before the server has taken it.
    pub window: usize,
    /// The same for all requests of a connection together.
    pub connection_window: usize,
    /// Bytes of responses that may be under way without an acknowledgement.
    pub send_window: usize,
}

/// How long the server waits, for whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its headers.
    pub head: Duration,
    /// Between two reads of a request body.
    pub body: Duration,
    /// On a kept-alive connection between two requests.
    pub idle: Duration,
    /// How long a client may take nothing of a response, or less than the lowest rate.
    pub send: Duration,
    /// How long nothing may come on a WebSocket.
    pub tunnel: Duration,
    /// How long a stopping or reloading server lets running requests finish.
    pub drain: Duration,
    /// How long a stopping server still accepts connections, while it is not ready any more.
    pub drain_delay: Duration,
    /// How long a process may give no sign of life before another takes its place; zero: for ever.
    pub watchdog: Duration,
}

impl Timeouts {
    /// How often a process gives a sign of life: a quarter of the time after which it counts as
    /// dead, so that one which comes late does no harm, and every 2.5 seconds at least. As
    /// `watchdog` is zero or a second at least, it is not below 250 ms.
    pub fn heartbeat(&self) -> Duration {
        let longest = Duration::from_millis(2500);
        if self.watchdog.is_zero() { longest } else { longest.min(self.watchdog / 4) }
    }
}

/// Where the log lines go.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// The access log of sites that do not say otherwise; absent: none is written.
    pub access: Option<AccessLog>,
    /// Error log; absent: standard error.
    pub error: Option<PathBuf>,
}

/// An access log: one line a request.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// File, or `-` for standard output.
    pub path: PathBuf,
    /// Shape of a line.
    pub format: LogFormat,
}

impl AccessLog {
    /// The file; `None` for standard output.
    pub fn file(&self) -> Option<&Path> {
        (self.path.as_os_str() != "-").then_some(&self.path)
    }
}

/// Shape of an access log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's and nginx's `combined`.
    Combined,
    /// The same after the name of the site and the port, as Apache's `vhost_combined`.
    Vhost,
    /// One JSON object a line, with the phases of the request.
    Json,
    /// A pattern with variables.
    Pattern(Arc<LogPattern>),
}

/// What scripts in the server may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Lua {
    /// Time in one go.
    pub time: Duration,
    /// Time from a script's beginning to its end.
    pub total: Duration,
    /// Bytes of memory of one event loop's scripts together.
    pub memory: usize,
    /// Dictionaries of all event loops, by their names, with their sizes in bytes.
    pub shared: BTreeMap<String, usize>,
}
