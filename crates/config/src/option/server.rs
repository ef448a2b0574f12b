//! What is set once for the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{AdminAddress, LogFormat, Secret, TraceMode};
use crate::unit::{GIB, HOUR, KIB, MIB, SECOND};
use crate::value::{ANY, Auto, Count, Direct, Off, Share, Size, Text, within};

section! {
    /// The server as a whole. These keys stand at the start of the file, before the first table.
    Top "" {
        /// Addresses that accept HTTP connections. `":80"` is every IPv4 address, `"[::]:80"` every
        /// address.
        listen: Vec<SocketAddr> = "127.0.0.1:8080", ANY, Live, env "TOKAMAK_LISTEN", flag "--listen";
        /// Most event loops that serve HTTP, one thread each; `"auto"` is one for each core. Only
        /// as many serve as the load needs.
        loops: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_LOOPS";
        /// User that the front and the PHP workers run as, if the server is started as root.
        user: Option<Text> = "", ANY, Live, env "TOKAMAK_USER";
        /// Group to go with `user`; that user's own group if not set.
        group: Option<Text> = "", ANY, Live, env "TOKAMAK_GROUP";
        /// Unix socket for `tokamak status` and `tokamak reload`; if not set, a name made from the
        /// user and the port.
        control: Option<PathBuf> = "", ANY, Restart, env "TOKAMAK_CONTROL", flag "--control";
        /// Address of the admin listener, which says over HTTP how the server is doing, and takes
        /// commands: `"127.0.0.1:9080"`, or `"unix:/run/tokamak/admin.sock"` for the user who
        /// starts the server. An address that other machines reach needs `admin_token`.
        admin: Option<AdminAddress> = "", ANY, Restart, env "TOKAMAK_ADMIN";
        /// What requests to an admin listener on an address have to know, 16 characters at least:
        /// they send `Authorization: Bearer` with it. Without it they may look from this machine,
        /// and change nothing.
        admin_token: Option<Secret> = "", ANY, Restart, env "TOKAMAK_ADMIN_TOKEN";
        /// Name servers that are asked for the addresses of upstreams, as in `"127.0.0.1:53"`; if
        /// not set, `/etc/hosts` and those of `/etc/resolv.conf`.
        resolver: Vec<SocketAddr> = "", ANY, Live;
        /// File that receives the supervisor's process id.
        pid_file: Option<PathBuf> = "", ANY, Restart, env "TOKAMAK_PID_FILE";
    }
}

section! {
    /// What a client may send. More is answered with an error, or not accepted at all.
    Limits "limits" {
        /// Request line and headers together; more is answered 431.
        head: Size = "32KiB", within(KIB, MIB), Live, env "TOKAMAK_LIMITS_HEAD";
        /// Number of header fields; more is answered 431.
        headers: Count = "100", within(8, 1000), Live, env "TOKAMAK_LIMITS_HEADERS";
        /// Request body; a larger one is answered 413.
        body: Size = "64MiB", within(0, 1024 * GIB), Live, env "TOKAMAK_LIMITS_BODY";
        /// Part of a request body that is held in memory before the rest goes to a spool file, and
        /// part of a response that is held for a slow client before its worker has to wait.
        buffer: Size = "1MiB", within(16 * KIB, GIB), Live, env "TOKAMAK_LIMITS_BUFFER";
        /// Open client connections over all event loops.
        connections: Count = "10000", within(1, 1_000_000), Live, env "TOKAMAK_LIMITS_CONNECTIONS";
    }
}

section! {
    /// How long the server waits for a client, and for its own processes.
    Timeouts "timeouts" {
        /// From the first byte of a request to the end of its headers.
        head: Duration = "10s", within(1, HOUR), Live, env "TOKAMAK_TIMEOUTS_HEAD";
        /// Between two reads of a request body. After ten times that, 500 bytes a second have to
        /// come on average.
        body: Duration = "30s", within(1, HOUR), Live, env "TOKAMAK_TIMEOUTS_BODY";
        /// On a kept-alive connection, between two requests.
        idle: Duration = "75s", within(1, 24 * HOUR), Live, env "TOKAMAK_TIMEOUTS_IDLE";
        /// Between two writes of a response to the client.
        send: Duration = "60s", within(1, HOUR), Live, env "TOKAMAK_TIMEOUTS_SEND";
        /// How long a stopping or reloading server lets running requests finish.
        drain: Duration = "30s", within(1, 24 * HOUR).or_zero("end them at once"), Live, env "TOKAMAK_TIMEOUTS_DRAIN";
        /// How long a front, an event loop or a PHP zygote may give no sign of life before another
        /// one takes its place, and whether the processes of a site with a spoiled queue are
        /// replaced. Zero while a debugger stops them.
        watchdog: Duration = "10s", within(SECOND, HOUR).or_zero("never"), Live, env "TOKAMAK_TIMEOUTS_WATCHDOG";
    }
}

section! {
    /// Where the log lines go. `tokamak reload` opens the files again, so that they can be rotated.
    Log "log" {
        /// Access log, one line a request: a file, or `"-"` for standard output.
        access: Off<PathBuf> = "off", ANY, Live, env "TOKAMAK_LOG_ACCESS", flag "--access-log";
        /// Shape of an access log line: Apache's `combined`, or one JSON object with the phases of
        /// the request.
        access_format: LogFormat = "combined", ANY, Live, env "TOKAMAK_LOG_ACCESS_FORMAT", flag "--access-format";
        /// Error log, with the errors of PHP; standard error if not set.
        error: Option<PathBuf> = "", ANY, Live, env "TOKAMAK_LOG_ERROR";
    }
}

section! {
    /// What Lua scripts in the server may use. A script that wants more is ended, and its request
    /// answered 503.
    Lua "lua" {
        /// Time in one go: other requests of the event loop wait meanwhile.
        time: Duration = "500ms", within(50, 60 * SECOND), Live, env "TOKAMAK_LUA_TIME";
        /// Time from a script's beginning to its end, with what it waits for.
        total: Duration = "30s", within(50, HOUR), Live, env "TOKAMAK_LUA_TOTAL";
        /// Memory of all scripts of one event loop together.
        memory: Size = "64MiB", within(4 * MIB, GIB), Live, env "TOKAMAK_LUA_MEMORY";
        /// Dictionaries that the scripts of all event loops share, by their names, with the memory
        /// of each: `limits = "1MiB"` in a table `[lua.shared]` makes `tokamak.shared.limits`. A
        /// reload begins with empty ones.
        shared: BTreeMap<String, Size> = "", within(4 * KIB, 64 * GIB), Live;
    }
}

section! {
    /// The content cache, for sites and routes with `cache = true`.
    Cache "cache" {
        /// Memory of all responses that are kept. When it is full, the least requested ones go
        /// first.
        memory: Size = "64MiB", within(MIB, 1024 * GIB), Live, env "TOKAMAK_CACHE_MEMORY";
        /// Largest response that is kept; a quarter of `memory` at most. A larger one is passed on.
        largest: Size = "1MiB", within(KIB, GIB), Live, env "TOKAMAK_CACHE_LARGEST";
        /// How long a request waits for the response that another one has asked for, before it asks
        /// for itself.
        wait: Duration = "5s", within(10, HOUR), Live, env "TOKAMAK_CACHE_WAIT";
        /// A Redis server by which several nodes share responses, as `"10.0.0.5:6379"` or
        /// `"unix:/run/redis.sock"`. Absent: each node keeps its own.
        redis: Option<Direct> = "", ANY, Live, env "TOKAMAK_CACHE_REDIS";
        /// Its password, if it asks for one.
        redis_password: Option<Secret> = "", ANY, Live, env "TOKAMAK_CACHE_REDIS_PASSWORD";
        /// Its database.
        redis_database: Count = "0", within(0, 1_000_000), Live, env "TOKAMAK_CACHE_REDIS_DATABASE";
        /// What all names that are stored there begin with. Nodes with the same prefix share
        /// responses.
        redis_prefix: Text = "tokamak:", ANY, Live, env "TOKAMAK_CACHE_REDIS_PREFIX";
        /// How long a request waits for it before it asks the application.
        redis_timeout: Duration = "50ms", within(1, 10 * SECOND), Live, env "TOKAMAK_CACHE_REDIS_TIMEOUT";
    }
}

section! {
    /// Traces over browser, proxies, this server and applications, by W3C Trace Context
    /// (`traceparent`, `tracestate`).
    Trace "trace" {
        /// Which trace requests belong to: `"begin"` is a new one for each, whatever the client
        /// sends; `"continue"` is the client's, with its decision whether it is recorded, and a new
        /// one if it sends no valid one: for a server behind a proxy of one's own. PHP, FastCGI
        /// applications and the calls of Lua scripts get it. `"off"` passes on what clients send,
        /// as any header.
        context: TraceMode = "off", ANY, Live, env "TOKAMAK_TRACE_CONTEXT";
        /// The part of the traces that begin here which is recorded.
        sample: Share = "100%", ANY, Live, env "TOKAMAK_TRACE_SAMPLE";
        /// A secret of 16 characters at least: requests that are signed with it in the header
        /// `Tokamak-Timing` get `Server-Timing`, wherever that is off for others.
        timing_secret: Option<Secret> = "", ANY, Live, env "TOKAMAK_TRACE_TIMING_SECRET";
        /// Collector that gets the spans of recorded traces, by OTLP over HTTP: a URL such as
        /// `"http://127.0.0.1:4318"`, to which `/v1/traces` is added unless it has a path. If not
        /// set, nothing is exported.
        export: Option<Text> = "", ANY, Live, env "TOKAMAK_TRACE_EXPORT";
        /// Header fields for the collector, as in `{ Authorization = "Bearer …" }`.
        export_headers: BTreeMap<String, Secret> = "", ANY, Live;
        /// Most requests of a second whose spans are exported; those of more are counted as
        /// dropped.
        export_rate: Count = "1000", within(1, 1_000_000), Live, env "TOKAMAK_TRACE_EXPORT_RATE";
        /// How long the collector may take for one export.
        export_timeout: Duration = "5s", within(10, 60 * SECOND), Live, env "TOKAMAK_TRACE_EXPORT_TIMEOUT";
    }
}
