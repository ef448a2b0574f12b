//! What is set once for the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{
    AcmeChallenge, AdminAddress, ClientAuth, EarlyHints, LogFormat, Network, Rate, Secret,
    TlsVersion, TraceMode, TrustedHeader, UnknownName,
};
use crate::unit::{GIB, HOUR, KIB, MIB, SECOND};
use crate::value::{ANY, Auto, Count, Direct, Off, Share, Size, Text, within};

section! {
    /// The server as a whole. These keys stand at the start of the file, before the first table.
    Top "" {
        /// Addresses that accept HTTP connections. `":80"` is every IPv4 address, `"[::]:80"` every
        /// IPv6 address; with both, the latter is left out on a machine without IPv6.
        listen: Vec<SocketAddr> = "127.0.0.1:8080", ANY, Live, env "TOKAMAK_LISTEN", flag "--listen";
        /// Addresses that accept HTTP connections over TLS (`https`), as in `":443"`. They need a
        /// certificate, in `[tls]` or in a `[[site]]`.
        listen_tls: Vec<SocketAddr> = "", ANY, Live, env "TOKAMAK_LISTEN_TLS", flag "--listen-tls";
        /// Host names of the only site, for which the server gets certificates by itself. Short for
        /// these, unless they are set: `host` and `https_redirect = true` of the site, `auto =
        /// true` in `[tls]`, `listen = [":80", "[::]:80"]`, `listen_tls = [":443", "[::]:443"]`,
        /// and for root `user = "www-data"`, if there is such a user.
        domain: Vec<Text> = "", ANY, Live, env "TOKAMAK_DOMAIN", flag "--domain";
        /// Directory for what has to outlive the server: keys and certificates that it gets by
        /// itself. It is made when it is needed, for the user who starts the server alone. `"auto"`
        /// is `/var/lib/tokamak` for root, and `tokamak` in `$XDG_STATE_HOME` or `~/.local/state`
        /// for others; `$STATE_DIRECTORY` of a service manager comes first.
        state_dir: Auto<PathBuf> = "auto", ANY, Restart, env "TOKAMAK_STATE_DIR";
        /// Existing directory for temporary files: of request bodies and of responses that are
        /// larger than `limits.buffer`. The `user` has to be able to write there. If not set, what
        /// the environment variable `TMPDIR` names, else `/tmp`. PHP's own are where
        /// `sys_temp_dir` and `upload_tmp_dir` of PHP say.
        temp_dir: Option<PathBuf> = "", ANY, Live, env "TOKAMAK_TEMP_DIR";
        /// Most event loops that serve HTTP, one thread each; `"auto"` is one for each core. Only
        /// as many serve as the load needs.
        loops: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_LOOPS";
        /// User that the front and the PHP workers run as, if the server is started as root.
        user: Option<Text> = "", ANY, Live, env "TOKAMAK_USER", flag "--user";
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
        /// Proxies and load balancers whose word about clients is believed: networks, addresses,
        /// and `"private"` for this machine and the ranges of private networks. What all others say
        /// is passed on and not believed.
        trusted_proxies: Vec<Network> = "", ANY, Live, env "TOKAMAK_TRUSTED_PROXIES";
        /// The header fields of trusted proxies that are believed. Name only those that your proxy
        /// sets, or removes, in each request: others pass it as the client sends them. Many proxies
        /// pass on a client's `X-Forwarded-Proto`, so it is not believed by default.
        trusted_headers: Vec<TrustedHeader> = "x-forwarded-for", ANY, Live, env "TOKAMAK_TRUSTED_HEADERS";
        /// Those addresses of `listen` and `listen_tls` where each connection begins with a PROXY
        /// header, version 1 or 2, of a trusted proxy. Connections there without one, and those
        /// from other addresses, are closed.
        proxy_protocol: Vec<SocketAddr> = "", ANY, Live, env "TOKAMAK_PROXY_PROTOCOL";
        /// Whether each request has an `X-Request-Id`: that of a trusted proxy, if `x-request-id`
        /// is in `trusted_headers`, else a new one. PHP, applications, scripts, the access log and
        /// the response get it.
        request_ids: bool = "false", ANY, Live, env "TOKAMAK_REQUEST_IDS";
        /// Which clients get the interim responses of applications, as `headers_send(103)` sends
        /// them: `"http2"`, those that speak HTTP/2; `"all"`, those of HTTP/1.1, too, many of which
        /// take one for the response; `"off"`, none. Clients behind a proxy never get them.
        early_hints: EarlyHints = "http2", ANY, Live, env "TOKAMAK_EARLY_HINTS";
        /// Name servers that are asked for the addresses of upstreams, as in `"127.0.0.1:53"`; if
        /// not set, `/etc/hosts` and those of `/etc/resolv.conf`.
        resolver: Vec<SocketAddr> = "", ANY, Live;
        /// File that receives the supervisor's process id.
        pid_file: Option<PathBuf> = "", ANY, Restart, env "TOKAMAK_PID_FILE";
    }
}

section! {
    /// TLS, for the addresses of `listen_tls`. Certificates and keys are files (PEM), which are
    /// read as the user who starts the server. When they change they are read again, without a
    /// reload.
    Tls "tls" {
        /// Whether the server gets certificates by itself, for the hosts of all sites without a
        /// `certificate` of their own: from the authorities of `[acme]`, and from one of its own
        /// for `localhost`, names below it, and loopback addresses.
        auto: bool = "false", ANY, Live, env "TOKAMAK_TLS_AUTO";
        /// Files of the certificate for names that no site has a certificate for, each with the
        /// certificates of the authorities between it and a known one. Of several,
        /// a client gets one for the name that it asks for, and of those of different kinds, as
        /// with an ECDSA and an RSA key, the first that it understands.
        certificate: Vec<Text> = "", ANY, Live, env "TOKAMAK_TLS_CERTIFICATE";
        /// Files of the keys, in the order of `certificate`; if not set, each key is in the file of
        /// its certificate.
        key: Vec<Text> = "", ANY, Live, env "TOKAMAK_TLS_KEY";
        /// Oldest version of TLS that is spoken.
        minimum: TlsVersion = "1.2", ANY, Live, env "TOKAMAK_TLS_MINIMUM";
        /// Whether clients are asked for a certificate: with `"optional"` those without one are
        /// served too, with `"required"` they are not. Applications find what it says in
        /// `SSL_CLIENT_S_DN` and the other variables of Apache.
        client_auth: ClientAuth = "none", ANY, Live, env "TOKAMAK_TLS_CLIENT_AUTH";
        /// File with the certificates of the authorities whose clients are known (PEM).
        client_ca: Option<PathBuf> = "", ANY, Live, env "TOKAMAK_TLS_CLIENT_CA";
        /// What a client gets that asks for a name without a certificate, or for none: `"default"`
        /// is the certificate of `[tls]`, else that of the first site that has one; `"refuse"` is
        /// an error of TLS.
        unknown_name: UnknownName = "default", ANY, Live, env "TOKAMAK_TLS_UNKNOWN_NAME";
        /// A Redis server by which several nodes share the keys of session tickets, as
        /// `"10.0.0.5:6379"` or `"unix:/run/redis.sock"`, so that a client may come back to any of
        /// them. Absent: each node has its own.
        redis: Option<Direct> = "", ANY, Live, env "TOKAMAK_TLS_REDIS";
        /// Its password, if it asks for one.
        redis_password: Option<Secret> = "", ANY, Live, env "TOKAMAK_TLS_REDIS_PASSWORD";
        /// Its database.
        redis_database: Count = "0", within(0, 1_000_000), Live, env "TOKAMAK_TLS_REDIS_DATABASE";
        /// What the nodes encrypt with what they store there: 16 characters at least, the same on
        /// all of them. With it they share the certificates of `auto`, too.
        redis_secret: Option<Secret> = "", ANY, Live, env "TOKAMAK_TLS_REDIS_SECRET";
        /// What all names that are stored there begin with. Nodes with the same prefix share keys.
        redis_prefix: Text = "tokamak:", ANY, Live, env "TOKAMAK_TLS_REDIS_PREFIX";
        /// How long the server waits for it, off the way of clients.
        redis_timeout: Duration = "2s", within(1, 10 * SECOND), Live, env "TOKAMAK_TLS_REDIS_TIMEOUT";
    }
}

section! {
    /// Whom the server asks for certificates, if `auto` of `[tls]` is set, and how it shows that
    /// the names are its own (ACME, RFC 8555).
    Acme "acme" {
        /// Address to which authorities may write about the certificates.
        email: Option<Text> = "", ANY, Live, env "TOKAMAK_ACME_EMAIL";
        /// Authorities, by the URLs of their directories. The first one is asked; the next one when
        /// it fails.
        directory: Vec<Text> = "https://acme-v02.api.letsencrypt.org/directory", ANY, Live, env "TOKAMAK_ACME_DIRECTORY";
        /// Accounts at authorities that ask for one (external account binding), by the URLs of
        /// their directories: `{ "https://acme.example/directory" = "KEY-ID:HMAC-KEY" }`, the key
        /// as the authority shows it (base64url).
        eab: BTreeMap<String, Secret> = "", ANY, Live;
        /// Ways to show that a name is this server's: `"http-01"` needs port 80, `"tls-alpn-01"`
        /// port 443, `"dns-01"` a `dns_hook`. When one fails, the next try uses the next one.
        challenge: Vec<AcmeChallenge> = "http-01,tls-alpn-01", ANY, Live, env "TOKAMAK_ACME_CHALLENGE";
        /// Program that changes the zone of a name, for `"dns-01"`, without which no authority
        /// gives certificates for `*.` names. It is run as `PROGRAM add NAME VALUE`, and has to
        /// return when the name servers have the TXT record; later as `PROGRAM remove NAME VALUE`.
        dns_hook: Option<PathBuf> = "", ANY, Live, env "TOKAMAK_ACME_DNS_HOOK";
        /// URL that says for which names clients may have certificates ordered, by the name of
        /// their handshake: `?domain=NAME` is added, and an answer with a status from 200 to 299
        /// allows it. Only for names that a site serves which has no `host`, or one that begins
        /// with `*.`. Absent: certificates are ordered for the hosts of sites only.
        ask: Option<Text> = "", ANY, Live, env "TOKAMAK_ACME_ASK";
        /// Most names with such a certificate. Further names are refused, and the log says so.
        ask_names: Count = "1000", within(1, 10_000), Live, env "TOKAMAK_ACME_ASK_NAMES";
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
        /// Part of a request body, and of a response for a slow client, that is held in memory
        /// before the rest goes to a temporary file.
        buffer: Size = "1MiB", within(16 * KIB, GIB), Live, env "TOKAMAK_LIMITS_BUFFER";
        /// Bytes of responses of all sites together that may lie in temporary files because their
        /// clients are slow; [`site.spool`](#site) bounds those of one site. Beyond that, workers
        /// and applications wait for their clients.
        spool: Size = "4GiB", within(MIB, 1024 * GIB).or_zero("none: only memory is used"), Live, env "TOKAMAK_LIMITS_SPOOL";
        /// Bytes a second that a client has to take of its response, on average over
        /// `timeouts.send`. The responses of an HTTP/2 connection share this rate.
        send_rate: Size = "500", within(1, MIB).or_zero("each byte renews `timeouts.send`"), Live, env "TOKAMAK_LIMITS_SEND_RATE";
        /// Open client connections over all event loops.
        connections: Count = "10000", within(1, 1_000_000), Live, env "TOKAMAK_LIMITS_CONNECTIONS";
        /// Requests of one client in a time, to all sites together; more are answered 429. A client
        /// is an address, or a network of 64 bits of IPv6.
        client_rate: Option<Rate> = "", ANY, Live, env "TOKAMAK_LIMITS_CLIENT_RATE";
        /// Requests that a client may send at once beyond `client_rate`.
        client_burst: Count = "0", within(0, 1_000_000), Live, env "TOKAMAK_LIMITS_CLIENT_BURST";
        /// Requests of one client that are served at the same time; more are answered 429. Each
        /// stream of HTTP/2 counts.
        client_connections: Count = "0", within(1, 1_000_000).or_zero("any number"), Live, env "TOKAMAK_LIMITS_CLIENT_CONNECTIONS";
        /// Whether what these limits would refuse is only logged and counted.
        client_dry_run: bool = "false", ANY, Live, env "TOKAMAK_LIMITS_CLIENT_DRY_RUN";
    }
}

section! {
    /// HTTP/2: what a client may do on one connection.
    Http2 "http2" {
        /// Whether clients may use HTTP/2. With TLS they choose it in the handshake; without, they
        /// begin with it ("prior knowledge").
        enabled: bool = "true", ANY, Live, env "TOKAMAK_HTTP2_ENABLED";
        /// Requests that a connection may have open at the same time; more are refused before they
        /// begin, and clients send them again later.
        streams: Count = "128", within(1, 10_000), Live, env "TOKAMAK_HTTP2_STREAMS";
        /// Requests after which a connection ends, once all of them are answered; clients go on
        /// with a new one.
        requests: Count = "10000", within(1, 1_000_000_000), Live, env "TOKAMAK_HTTP2_REQUESTS";
        /// Requests that a client may cancel within ten seconds; after more the connection is
        /// closed.
        resets: Count = "200", within(1, 1_000_000), Live, env "TOKAMAK_HTTP2_RESETS";
        /// Frames that belong to no request and answer nothing (PING, SETTINGS, PRIORITY, unknown
        /// ones …) that a client may send within ten seconds, beside some for each request and for
        /// what it gets; after more the connection is closed.
        control_frames: Count = "2000", within(10, 1_000_000), Live, env "TOKAMAK_HTTP2_CONTROL_FRAMES";
        /// Bytes of one request's body that a client may send before the server has taken them.
        window: Size = "256KiB", within(64 * KIB, GIB), Live, env "TOKAMAK_HTTP2_WINDOW";
        /// As `window`, for all requests of a connection together.
        connection_window: Size = "1MiB", within(64 * KIB, GIB), Live, env "TOKAMAK_HTTP2_CONNECTION_WINDOW";
    }
}

section! {
    /// HTTP/3: HTTP over QUIC, on the UDP port of each address of `listen_tls`.
    Http3 "http3" {
        /// Whether clients may use HTTP/3. Responses over TLS tell them so (`Alt-Svc`).
        enabled: bool = "false", ANY, Live, env "TOKAMAK_HTTP3_ENABLED";
        /// Requests that a connection may have open at the same time; the client waits with more.
        streams: Count = "128", within(1, 10_000), Live, env "TOKAMAK_HTTP3_STREAMS";
        /// Requests after which a connection ends, once all of them are answered; clients go on
        /// with a new one.
        requests: Count = "10000", within(1, 1_000_000_000), Live, env "TOKAMAK_HTTP3_REQUESTS";
        /// Requests that a client may cancel within ten seconds; after more the connection is
        /// closed.
        resets: Count = "200", within(1, 1_000_000), Live, env "TOKAMAK_HTTP3_RESETS";
        /// Frames of no request that a client may send within ten seconds; after more the
        /// connection is closed.
        control_frames: Count = "2000", within(10, 1_000_000), Live, env "TOKAMAK_HTTP3_CONTROL_FRAMES";
        /// Bytes of one request's body that a client may send before the server has taken them.
        window: Size = "256KiB", within(64 * KIB, GIB), Live, env "TOKAMAK_HTTP3_WINDOW";
        /// As `window`, for all requests of a connection together.
        connection_window: Size = "1MiB", within(64 * KIB, GIB), Live, env "TOKAMAK_HTTP3_CONNECTION_WINDOW";
        /// Bytes of responses that may be on their way on a connection and are not acknowledged;
        /// a connection is no faster than this in each round trip.
        send_window: Size = "1MiB", within(64 * KIB, GIB), Live, env "TOKAMAK_HTTP3_SEND_WINDOW";
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
        /// How long a client may take nothing of its response, or less than `limits.send_rate`.
        send: Duration = "60s", within(1, HOUR), Live, env "TOKAMAK_TIMEOUTS_SEND";
        /// How long nothing may come on a WebSocket, from either end; then it is closed.
        tunnel: Duration = "1h", within(1, 24 * HOUR), Live, env "TOKAMAK_TIMEOUTS_TUNNEL";
        /// How long a stopping or reloading server lets running requests finish.
        drain: Duration = "30s", within(1, 24 * HOUR).or_zero("end them at once"), Live, env "TOKAMAK_TIMEOUTS_DRAIN";
        /// How long a stopping server still accepts connections before it drains. `/ready` of the
        /// admin listener fails meanwhile, so balancers take the server out before it is gone.
        drain_delay: Duration = "0s", within(1, HOUR).or_zero("none"), Live, env "TOKAMAK_TIMEOUTS_DRAIN_DELAY";
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
        /// Shape of an access log line: Apache's `combined`, `vhost` with the name of the site in
        /// front of it, one JSON object with the phases of the request, or a pattern with
        /// [variables](operating.md#lines-of-your-own).
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
