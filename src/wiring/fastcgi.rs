//! What servers have in common that serve FastCGI and no HTTP: php-fpm's
//! pools and Lua scripts.

use std::path::PathBuf;
use std::time::Duration;

use tokamak_config::{ClientLimits, Limits, Pool, PoolSize, Server, Site, Timeouts};

/// Bytes of a request's parameters. Web servers send up to 64 KiB in one record, and their headers
/// are bounded by themselves.
const HEAD: usize = 128 * 1024;
/// Bytes of a request body. Web servers and PHP have smaller limits of their own, which operators
/// know; without this one a hostile web server could fill the disk.
const BODY: u64 = 16 << 30;
/// Bytes of a request body, and of a response, that are held in memory.
const BUFFER: usize = 1024 * 1024;
/// Connections of web servers. php-fpm has no such limit, as it has one process for each.
pub const CONNECTIONS: usize = 10_000;
/// How long a web server may be silent in the middle of a request.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a web server may read nothing of an answer. Long: it may be waiting for its own slow
/// client.
const SEND: Duration = Duration::from_secs(600);
/// As good as for ever: it is for the web server to give up waiting, and to close its idle
/// connections.
pub const AGES: Duration = Duration::from_secs(10 * 365 * 86_400);

/// As in the configuration of HTTP sites.
const WATCHDOG: Duration = Duration::from_secs(10);

/// A server for these sites, with an event loop for each core.
pub fn server(sites: Vec<Site>) -> Server {
    let limits = Limits {
        head: HEAD,
        headers: 0,
        body: BODY,
        buffer: BUFFER,
        spool: 0,
        send_rate: 0,
        connections: CONNECTIONS,
        client: ClientLimits::NONE,
    };
    let timeouts = Timeouts {
        head: SILENCE,
        body: SILENCE,
        idle: AGES,
        send: SEND,
        tunnel: AGES,
        drain: AGES,
        drain_delay: Duration::ZERO,
        watchdog: WATCHDOG,
    };
    let loops = std::thread::available_parallelism().map_or(1, usize::from).min(256);
    Server { loops, ..Server::plain(sites, limits, timeouts) }
}

/// A site for which nothing is set but where it is.
pub fn site(name: &str, root: PathBuf) -> Site {
    let pool = Pool {
        size: PoolSize::Static { workers: 0 },
        queue: CONNECTIONS,
        queue_timeout: AGES,
        max_requests: 0,
        max_memory: 0,
        request_timeout: Duration::ZERO,
        slow: Duration::ZERO,
    };
    Site::plain(name, root, pool)
}
