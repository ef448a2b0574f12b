//! The table of options. Each row is the only place that knows an option's name, type, default,
//! bounds, documentation, reload class, environment variable and flag; all else is derived from it.
//!
//! A new option is one row here, one field in `model.rs` and one line each in `resolve` (towards
//! the server) and `text` (back to TOML). The compiler asks for the last two.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::literal::Literal;
use crate::model::{
    Address, Affinity, Balance, Endpoint, Ignored, Leftover, LogFormat, Mode, Reset, Split,
    StopSignal,
};
use crate::origin::{Given, Origin};
use crate::unit::{GIB, HOUR, KIB, MIB, SECOND};
pub use crate::value::Kind;
use crate::value::{
    ANY, Auto, Bounds, Choice, Count, Nothing, Off, Size, Text, Value, ValueError, within,
};

/// When a changed option takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// At `tokamak reload`.
    Live,
    /// At the next start: the supervisor holds it open for its whole life.
    Restart,
}

/// One option.
#[derive(Debug)]
pub struct Row {
    /// Table of the file that it stands in: empty, `limits`, `site.pool`, …
    pub section: &'static str,
    /// Name in that table.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Default, as one would type it on the command line; empty: not set.
    pub default: &'static str,
    /// Limits of a number.
    pub bounds: Bounds,
    /// When a change takes effect.
    pub reload: Reload,
    /// Environment variable that overrides the file.
    pub variable: Option<&'static str>,
    /// Flag that overrides both.
    pub flag: Option<&'static str>,
    /// What it means, in full sentences.
    pub about: &'static str,
}

impl Row {
    /// `section.name`, as errors and documentation write it.
    pub fn key(&self) -> String {
        key_of(self.section, self.name)
    }
}

pub(crate) fn key_of(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// The rows of one table of the file, and the struct that holds its typed values.
pub(crate) trait Section: Sized {
    /// Its rows, in the order of the documentation.
    const ROWS: &'static [Row];

    /// Every option at its default.
    fn defaults() -> Self;

    /// Sets the option `name`, which must be one of the rows.
    fn put(&mut self, name: &str, literal: &Literal, origin: Origin)
    -> Result<(), Vec<ValueError>>;

    /// The option `name` as TOML; absent if it is not set.
    fn show(&self, name: &str) -> Option<String>;
}

/// One table of the documentation.
#[derive(Debug)]
pub struct Group {
    /// Heading as in the file: `[limits]`, `[[site]]`; empty for the top level.
    pub heading: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// The options in it.
    pub rows: &'static [Row],
}

macro_rules! maybe {
    () => {
        None
    };
    ($set:expr) => {
        Some($set)
    };
}

/// Declares a section: the struct of its values and its rows.
macro_rules! section {
    (
        $(#[doc = $what:literal])+
        $Name:ident $rows:ident $section:literal {$(
            $(#[doc = $about:literal])+
            $name:ident: $Type:ty = $default:literal, $bounds:expr, $reload:ident
                $(, env $variable:literal)? $(, flag $flag:literal)?;
        )*}
    ) => {
        $(#[doc = $what])+
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $Name {
            $($(#[doc = $about])+ pub $name: Given<$Type>,)*
        }

        const $rows: (&str, &[Row]) = (concat!($($what),+).trim_ascii(), &[$(Row {
            section: $section,
            name: stringify!($name),
            kind: <$Type as Value>::KIND,
            default: $default,
            bounds: $bounds,
            reload: Reload::$reload,
            variable: maybe!($($variable)?),
            flag: maybe!($($flag)?),
            about: concat!($($about),+).trim_ascii(),
        },)*]);

        impl Section for $Name {
            const ROWS: &'static [Row] = $rows.1;

            fn defaults() -> $Name {
                $Name {$(
                    $name: Given {
                        value: <$Type as Value>::read(&Literal::Word($default.into()), &$bounds)
                            .expect("a test reads every default"),
                        origin: Origin::Default,
                    },
                )*}
            }

            fn put(&mut self, name: &str, literal: &Literal, origin: Origin) -> Result<(), Vec<ValueError>> {
                match name {
                    $(stringify!($name) => {
                        let value = <$Type as Value>::read(literal, &$bounds)?;
                        self.$name = Given { value, origin };
                        Ok(())
                    })*
                    _ => Err(vec![format!("`{name}` is no option of this table").into()]),
                }
            }

            fn show(&self, name: &str) -> Option<String> {
                match name {
                    $(stringify!($name) => self.$name.value.toml(),)*
                    _ => None,
                }
            }
        }
    };
}

/// How the number of a pool's processes changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manager {
    Auto,
    Static,
    Dynamic,
    Ondemand,
}

impl Choice for Manager {
    const NAMES: &'static [&'static str] = &["auto", "static", "dynamic", "ondemand"];
    const ALL: &'static [Manager] =
        &[Manager::Auto, Manager::Static, Manager::Dynamic, Manager::Ondemand];
}

impl Choice for Mode {
    const NAMES: &'static [&'static str] = &["classic", "worker", "sealed", "fastcgi"];
    const ALL: &'static [Mode] = &[Mode::Classic, Mode::Worker, Mode::Sealed, Mode::Fastcgi];
}

impl Choice for LogFormat {
    const NAMES: &'static [&'static str] = &["combined", "json"];
    const ALL: &'static [LogFormat] = &[LogFormat::Combined, LogFormat::Json];
}

impl Choice for Balance {
    const NAMES: &'static [&'static str] = &["round_robin", "least_busy"];
    const ALL: &'static [Balance] = &[Balance::RoundRobin, Balance::LeastBusy];
}

impl Choice for Reset {
    const NAMES: &'static [&'static str] = &[
        "ini",
        "error_handlers",
        "cwd",
        "umask",
        "locale",
        "timezone",
        "encodings",
        "env",
        "session",
    ];
    const ALL: &'static [Reset] = Reset::ALL;
}

impl Choice for Ignored {
    const NAMES: &'static [&'static str] = &["cookie", "set_cookie", "request", "response"];
    const ALL: &'static [Ignored] =
        &[Ignored::Cookie, Ignored::SetCookie, Ignored::Request, Ignored::Response];
}

impl Choice for Leftover {
    const NAMES: &'static [&'static str] = &["php", "hidden"];
    const ALL: &'static [Leftover] = &[Leftover::Php, Leftover::Hidden];
}

impl Choice for StopSignal {
    const NAMES: &'static [&'static str] = &["term", "usr1", "int", "quit"];
    const ALL: &'static [StopSignal] =
        &[StopSignal::Terminate, StopSignal::User1, StopSignal::Interrupt, StopSignal::Quit];
}

section! {
    /// The server as a whole. These keys stand at the start of the file, before the first table.
    Top TOP "" {
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
        /// Name servers that are asked for the addresses of upstreams, as in `"127.0.0.1:53"`; if
        /// not set, `/etc/hosts` and those of `/etc/resolv.conf`.
        resolver: Vec<SocketAddr> = "", ANY, Live;
        /// File that receives the supervisor's process id.
        pid_file: Option<PathBuf> = "", ANY, Restart, env "TOKAMAK_PID_FILE";
    }
}

section! {
    /// What a client may send. More is answered with an error, or not accepted at all.
    Limits LIMITS "limits" {
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
    Timeouts TIMEOUTS "timeouts" {
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
    Log LOG "log" {
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
    Lua LUA "lua" {
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
    Cache CACHE "cache" {
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
        redis: Option<Endpoint> = "", ANY, Live, env "TOKAMAK_CACHE_REDIS";
        /// Its password, if it asks for one.
        redis_password: Option<Text> = "", ANY, Live, env "TOKAMAK_CACHE_REDIS_PASSWORD";
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
    /// A FastCGI application, either a running one, such as php-fpm, or a program that the server
    /// starts. Repeat `[[upstream]]` for each; sites and routes name them.
    Upstream UPSTREAM "upstream" {
        /// Name by which sites and routes refer to it.
        name: Option<Text> = "", ANY, Live;
        /// Where it listens: `"unix:/run/app.sock"`, `"HOST:PORT"` or `"srv:NAME"`. Of several
        /// addresses each gets its share; to give one of them three times as much as others, write
        /// `{ address = "HOST:PORT", weight = 3 }`. A host's name stands for all its addresses,
        /// `"srv:NAME"` for those of the service's SRV records, with their weights.
        address: Vec<Address> = "", ANY, Live;
        /// Starts the application: a program and its arguments, as in `["python3", "app.py"]`. It
        /// finds its listening socket on descriptor 0, as the FastCGI specification says, and is
        /// started again when it ends. Not beside `address`.
        spawn: Vec<Text> = "", ANY, Live;
        /// How many processes `spawn` starts.
        processes: Count = "1", within(1, 256), Live;
        /// Whether the processes of `spawn` share one socket. Else each has an address of its own,
        /// so that requests can be sent to the process that has their data in memory.
        shared: bool = "false", ANY, Live;
        /// Working directory of `spawn`; if not set, the directory of the file.
        directory: Option<PathBuf> = "", ANY, Live;
        /// Environment of `spawn`.
        env: BTreeMap<String, String> = "", ANY, Live;
        /// Whether `spawn` sees the server's own environment too.
        inherit_env: bool = "true", ANY, Live;
        /// User that `spawn` runs as, if the server is started as root; if not set, the server's
        /// `user`.
        user: Option<Text> = "", ANY, Live;
        /// Group to go with `user`; that user's own group if not set.
        group: Option<Text> = "", ANY, Live;
        /// Signal that tells a process of `spawn` to end: with `"usr1"` a process that uses libfcgi
        /// finishes its request first.
        stop_signal: StopSignal = "term", ANY, Live;
        /// How long it may take to end; then it gets `SIGTERM` if that was not `stop_signal`, and a
        /// second later `SIGKILL`.
        stop_timeout: Duration = "5s", within(1, HOUR), Live;
        /// How often names in `address` are resolved again, in the background. `"auto"` follows the
        /// answer's time to live, within one second and five minutes.
        resolve: Auto<Duration> = "auto", within(100, 24 * HOUR), Live;
        /// How requests are spread over several addresses: `"round_robin"` asks each in turn,
        /// `"least_busy"` the address with the fewest requests. Both pass over a busy address while
        /// another one is free.
        balance: Balance = "round_robin", ANY, Live;
        /// What binds requests to an address, so that they find what an earlier one has left in the
        /// memory of its process: `"cookie:NAME"`, `"header:NAME"`, `"query:NAME"`, `"segment:N"`
        /// (a part of the path, counted from 1), `"prefix:REGEX"` (what a regular expression finds
        /// at the start of the path), `"variable:NAME"` (a CGI variable that a Lua script or an
        /// authorizer has set), `"user"` (as in `Authorization`) or `"client"` (the IP address). Of
        /// several the first that a request has; a request without any is spread as `balance` says.
        affinity: Vec<Affinity> = "", ANY, Live;
        /// Whether a request that is bound to an address whose connections are all in use goes to
        /// another one, always the same, instead of waiting.
        spill: bool = "false", ANY, Live;
        /// Failed requests within `failure_window` after which an address is left out; an address
        /// where no process listens is left out at once.
        failures: Count = "3", within(1, 1000).or_zero("never"), Live;
        /// See `failures`.
        failure_window: Duration = "10s", within(1, HOUR), Live;
        /// How long an address is left out. Then one request tries it; if that fails too, the next
        /// pause is twice as long, up to a minute.
        pause: Duration = "1s", within(10, 60 * SECOND), Live;
        /// Path that each address is asked for every now and then, such as `ping.path` of php-fpm:
        /// an address that answers badly is left out until it answers well. Without it only
        /// requests show whether an address works.
        check: Option<Text> = "", ANY, Live;
        /// How often; an address whose connections are all in use is not checked.
        check_interval: Duration = "5s", within(100, HOUR), Live;
        /// How long the answer to a check may take.
        check_timeout: Duration = "2s", within(10, HOUR), Live;
        /// Status that is a good answer to a check.
        check_status: Count = "200", within(200, 599), Live;
        /// Good checks in a row that bring an address back.
        check_rise: Count = "2", within(1, 100), Live;
        /// Bad checks in a row after which an address is left out.
        check_fall: Count = "3", within(1, 100), Live;
        /// Parameters of a check, such as `HTTP_HOST` or `SCRIPT_FILENAME` (which is the path
        /// otherwise); an empty value removes one.
        check_params: BTreeMap<String, String> = "", ANY, Live;
        /// Most connections to each address: as many as the application has processes or threads
        /// there. They are kept open between requests; the next request waits for a free one.
        /// `"auto"` is 16; with `spawn` it is one for each process.
        connections: Auto<Count> = "auto", within(1, 10_000), Live;
        /// Whether several requests share a connection, if the application says that it can
        /// (`FCGI_MPXS_CONNS`). It is asked once, on a connection of its own; not by default, since
        /// few can and some do not know the question.
        multiplex: bool = "false", ANY, Live;
        /// Requests after which a connection is closed; 1 opens one for each request.
        requests: Count = "0", within(1, u32::MAX as u64).or_zero("never"), Live;
        /// How long an unused connection is kept.
        idle: Duration = "60s", within(1, 24 * HOUR), Live;
        /// Requests that may wait for a connection; one more is answered 503.
        queue: Count = "1024", within(1, 1_000_000), Live;
        /// Longest wait for a free connection; then the answer is 503.
        queue_timeout: Duration = "10s", within(1, HOUR), Live;
        /// Opening a connection; then the answer is 502.
        connect_timeout: Duration = "5s", within(1, HOUR), Live;
        /// Between two writes of a request; then the answer is 504.
        send_timeout: Duration = "60s", within(1, HOUR), Live;
        /// From the last byte of the request to the first one of the response; then the answer
        /// is 504.
        first_byte_timeout: Duration = "60s", within(1, 24 * HOUR), Live;
        /// Between two reads of a response; then it is broken off.
        read_timeout: Duration = "60s", within(1, 24 * HOUR), Live;
        /// Headers of a response; longer ones are answered 502.
        head: Size = "64KiB", within(KIB, 16 * MIB), Live;
        /// Parameters added to each request, such as `HTTPS` or `PHP_VALUE`; an empty value removes
        /// one.
        params: BTreeMap<String, String> = "", ANY, Live;
        /// Directories whose files the application may have sent, by the URL path under which
        /// `X-Accel-Redirect` names them; `X-Sendfile` names the files themselves. Other files of
        /// the site's root may be sent too.
        internal: BTreeMap<String, String> = "", ANY, Live;
    }
}

section! {
    /// One site: a document root and the PHP pool that serves it. Repeat `[[site]]` for each site;
    /// without any, the directory of the file is served. Environment variables and flags of sites
    /// work only while there is one site.
    Site SITE "site" {
        /// Host names; `"*.example.org"` matches every name below. The first site also answers for
        /// unknown names.
        host: Vec<Text> = "", ANY, Live;
        /// Document root; `"auto"` is `public` if that has an `index.php`, else the directory of
        /// the file.
        root: Auto<PathBuf> = "auto", ANY, Live, env "TOKAMAK_ROOT";
        /// File names tried for a directory.
        index: Vec<Text> = "index.php, index.html", ANY, Live;
        /// Script, relative to the root, that answers for paths which are no file; `"none"` answers
        /// 404 to them, `"auto"` is the `index.php` of the root if there is one.
        front_controller: Auto<Nothing<Text>> = "auto", ANY, Live, env "TOKAMAK_FRONT_CONTROLLER";
        /// What is 404 otherwise and the front controller answers too: paths of scripts that do not
        /// exist (`"php"`), and names that begin with a dot (`"hidden"`), whether there are such
        /// files or not.
        front_controller_for: Vec<Leftover> = "", ANY, Live;
        /// How requests are served: `"classic"` starts PHP anew for each, `"worker"` calls the loop
        /// of the `worker` script, `"sealed"` boots the application once and serves each request
        /// from the same untouched image of it, `"fastcgi"` starts no PHP and sends scripts to the
        /// `upstream`; `"auto"` is `"fastcgi"` if an `upstream` is set, `"worker"` if a `worker`
        /// script is, else `"classic"`.
        mode: Auto<Mode> = "auto", ANY, Live, env "TOKAMAK_MODE", flag "--mode";
        /// The worker script: it boots the application once, then handles requests in a loop. In
        /// sealed mode the image is taken where it first asks for a request.
        worker: Option<PathBuf> = "", ANY, Live, env "TOKAMAK_WORKER", flag "--worker";
        /// Script that is run once before the image is taken, for an application whose front
        /// controller knows nothing of workers. Sealed mode only, and not beside `worker`.
        boot: Option<PathBuf> = "", ANY, Live, env "TOKAMAK_BOOT", flag "--boot";
        /// Targets such as `"/login"` that are requested before the image is taken, so that what an
        /// application makes at its first requests is in the image; the responses are thrown away.
        /// With scheme and host, as in `"https://blog.example/"`, for an application that looks at
        /// them. Sealed mode only.
        warm: Vec<Text> = "", ANY, Live, env "TOKAMAK_WARM";
        /// Another site, by one of its host names, whose workers get what this site's are not for:
        /// requests with another method than `GET` and `HEAD`, or with a body, and those that the
        /// application declines with `tokamak_decline()`. Files and scripts are looked up here;
        /// `root` should be the same there.
        fallback: Option<Text> = "", ANY, Live, env "TOKAMAK_FALLBACK";
        /// The `[[upstream]]` that runs the site's scripts, by its name. FastCGI mode only; without
        /// it scripts are 404 there.
        upstream: Option<Text> = "", ANY, Live, env "TOKAMAK_UPSTREAM";
        /// The `[[upstream]]` that is asked before anything of the site is served whether it may be
        /// (FastCGI's role Authorizer); a route may have another.
        authorizer: Option<Text> = "", ANY, Live, env "TOKAMAK_AUTHORIZER";
        /// State that worker mode leaves alone between requests, instead of resetting it. Sealed
        /// mode keeps nothing.
        keep: Vec<Reset> = "", ANY, Live;
        /// Lua scripts that see a request before its path is looked up, in their order, until one
        /// does not go on.
        lua_raw_url: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see it when it is known which file its path means.
        lua_physical: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see it when an application would be asked, or nothing else answers: not
        /// for files that are sent as they are.
        lua_content: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see the response's head before it is sent.
        lua_response: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see a response before the content cache keeps it.
        lua_store: Vec<Text> = "", ANY, Live;
        /// Whether responses of PHP, FastCGI applications and content scripts are kept and sent
        /// again, as far as their headers allow it (`Cache-Control`, `Expires`, `Vary`).
        cache: bool = "false", ANY, Live, env "TOKAMAK_CACHE";
        /// How long a response is kept that does not say so itself, if the request had no cookies.
        cache_lifetime: Duration = "0", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live, env "TOKAMAK_CACHE_LIFETIME";
        /// How long a response that has become stale is still sent while it is fetched anew, if it
        /// does not say so itself.
        cache_stale_while_revalidate: Duration = "0", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live, env "TOKAMAK_CACHE_STALE_WHILE_REVALIDATE";
        /// How long a response that has become stale is still sent if the application fails, if it
        /// does not say so itself.
        cache_stale_if_error: Duration = "0", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live, env "TOKAMAK_CACHE_STALE_IF_ERROR";
        /// What the cache overlooks: `"cookie"`, that a request has cookies; `"set_cookie"`, that a
        /// response sets some, which are then left out; `"request"`, what a request says of the
        /// cache; `"response"`, what a response says of its lifetime.
        cache_ignore: Vec<Ignored> = "", ANY, Live;
        /// Query parameters that make no difference, as in `"utm_*"`; `"*"` is the whole query.
        cache_ignore_query: Vec<Text> = "", ANY, Live;
        /// Environment of the PHP workers, also found in `$_SERVER`.
        env: BTreeMap<String, String> = "", ANY, Live;
        /// Whether the PHP workers see the server's own environment too.
        inherit_env: bool = "true", ANY, Live, env "TOKAMAK_INHERIT_ENV";
        /// Whether the PHP processes leave core files. Debuggers of the same user may then look
        /// into them, and so may scripts of that user.
        dumpable: bool = "false", ANY, Live, env "TOKAMAK_DUMPABLE";
        /// Settings of `php.ini` that scripts may change with `ini_set`.
        php_value: BTreeMap<String, String> = "", ANY, Live;
        /// Settings of `php.ini` that scripts cannot change.
        php_admin_value: BTreeMap<String, String> = "", ANY, Live;
    }
}

section! {
    /// The PHP processes of the site above it.
    Pool POOL "site.pool" {
        /// How the number of workers changes: `"static"` keeps all of them, `"dynamic"` keeps some
        /// idle ones, `"ondemand"` starts them when requests come. `"auto"` is `"static"` if
        /// `workers` is a number. Else it keeps one for each core, two at least, and starts more
        /// while requests wait and the workers do so too, for a database or another server; not
        /// while they compute.
        manager: Manager = "auto", ANY, Live, env "TOKAMAK_MANAGER";
        /// Most workers; `"auto"` is four for each core, eight at least.
        workers: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_WORKERS", flag "--workers";
        /// Workers at start, for `"dynamic"`; `"auto"` is midway between `min_spare` and
        /// `max_spare`.
        start: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_START";
        /// Fewest idle workers, for `"dynamic"`; `"auto"` is a quarter of `workers`.
        min_spare: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_MIN_SPARE";
        /// Most idle workers, for `"dynamic"`; `"auto"` is three quarters of `workers`.
        max_spare: Auto<Count> = "auto", within(1, 256), Live, env "TOKAMAK_MAX_SPARE";
        /// How long a worker may be idle, for `"ondemand"`.
        idle: Duration = "10s", within(SECOND, 24 * HOUR), Live, env "TOKAMAK_IDLE";
        /// Requests that may wait for a worker; one more is answered 503.
        queue: Count = "1024", within(1, 32_768), Live, env "TOKAMAK_QUEUE";
        /// Longest wait for a worker; then the answer is 503.
        queue_timeout: Duration = "10s", within(1, HOUR), Live, env "TOKAMAK_QUEUE_TIMEOUT";
        /// Requests after which a worker is replaced.
        max_requests: Count = "0", within(1, u32::MAX as u64).or_zero("never"), Live, env "TOKAMAK_MAX_REQUESTS";
        /// Resident memory above which a worker is replaced after its request.
        max_memory: Size = "0", within(MIB, 1024 * GIB).or_zero("never"), Live, env "TOKAMAK_MAX_MEMORY";
        /// Wall time after which the worker of a request is ended, wherever it is; PHP's own
        /// `max_execution_time` applies beside it.
        request_timeout: Duration = "0", within(1, 24 * HOUR).or_zero("never"), Live, env "TOKAMAK_REQUEST_TIMEOUT";
        /// Wall time after which a request is written to the error log with its PHP backtrace.
        slow: Duration = "0", within(1, 24 * HOUR).or_zero("never"), Live, env "TOKAMAK_SLOW";
    }
}

section! {
    /// A path of the site above it that an application serves, guards or filters, whatever is on
    /// the disk. Repeat `[[site.route]]` for each; the longest path that fits counts.
    Route ROUTE "site.route" {
        /// The path: `"/app"` is `/app` and all below it, `"/"` everything.
        path: Option<Text> = "", ANY, Live;
        /// The `[[upstream]]` that answers, by its name; without one, what the site has there is
        /// served.
        upstream: Option<Text> = "", ANY, Live;
        /// The `[[upstream]]` that is asked before whether the client may have this (FastCGI's role
        /// Authorizer), `"none"` for no check; `"auto"` is that of the route around it, or of the
        /// site.
        authorizer: Auto<Nothing<Text>> = "auto", ANY, Live;
        /// The `[[upstream]]` through which files are sent (FastCGI's role Filter).
        filter: Option<Text> = "", ANY, Live;
        /// Extensions such as `".html"` of the files that are filtered; without any, all are.
        filter_extensions: Vec<Text> = "", ANY, Live;
        /// Where `SCRIPT_NAME` ends and `PATH_INFO` begins: `"path"` behind the route's path,
        /// `"whole"` at the end, an extension such as `".pl"` behind the first part of the path
        /// that ends so (404 if there is none).
        split: Split = "path", ANY, Live;
        /// What `SCRIPT_FILENAME` is; if not set, the root and `SCRIPT_NAME`.
        script: Option<PathBuf> = "", ANY, Live;
        /// Whether files that are below the root are sent first.
        files: bool = "false", ANY, Live;
        /// Lua scripts that see its requests before their path is looked up, instead of the site's.
        lua_raw_url: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see them when it is known which file their path means, instead of the
        /// site's.
        lua_physical: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see them when an application would be asked, or nothing else answers,
        /// instead of the site's.
        lua_content: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see the head of their response before it is sent, instead of the
        /// site's.
        lua_response: Vec<Text> = "", ANY, Live;
        /// Lua scripts that see its responses before the content cache keeps them, instead of the
        /// site's.
        lua_store: Vec<Text> = "", ANY, Live;
        /// Whether responses are kept and sent again; `"auto"`, here and below, is what the site
        /// says.
        cache: Auto<bool> = "auto", ANY, Live;
        /// As in `[[site]]`.
        cache_lifetime: Auto<Duration> = "auto", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live;
        /// As in `[[site]]`.
        cache_stale_while_revalidate: Auto<Duration> = "auto", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live;
        /// As in `[[site]]`.
        cache_stale_if_error: Auto<Duration> = "auto", within(SECOND, 8760 * HOUR).or_zero("not at all"), Live;
        /// As in `[[site]]`.
        cache_ignore: Auto<Vec<Ignored>> = "auto", ANY, Live;
        /// As in `[[site]]`.
        cache_ignore_query: Auto<Vec<Text>> = "auto", ANY, Live;
    }
}

/// Every option, table by table.
pub const GROUPS: &[Group] = &[
    Group { heading: "", about: TOP.0, rows: TOP.1 },
    Group { heading: "[limits]", about: LIMITS.0, rows: LIMITS.1 },
    Group { heading: "[timeouts]", about: TIMEOUTS.0, rows: TIMEOUTS.1 },
    Group { heading: "[log]", about: LOG.0, rows: LOG.1 },
    Group { heading: "[lua]", about: LUA.0, rows: LUA.1 },
    Group { heading: "[cache]", about: CACHE.0, rows: CACHE.1 },
    Group { heading: "[[upstream]]", about: UPSTREAM.0, rows: UPSTREAM.1 },
    Group { heading: "[[site]]", about: SITE.0, rows: SITE.1 },
    Group { heading: "[site.pool]", about: POOL.0, rows: POOL.1 },
    Group { heading: "[[site.route]]", about: ROUTE.0, rows: ROUTE.1 },
];

/// Every option.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|group| group.rows)
}

/// The row with this flag.
pub fn row_of_flag(flag: &str) -> Option<&'static Row> {
    rows().find(|row| row.flag == Some(flag))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_variables_and_flags_are_unique() {
        let mut seen = BTreeSet::new();
        for row in rows() {
            for name in
                [Some(row.key()), row.variable.map(str::to_owned), row.flag.map(str::to_owned)]
                    .into_iter()
                    .flatten()
            {
                assert!(seen.insert(name.clone()), "{name} is there twice");
            }
        }
    }

    #[test]
    fn every_row_is_documented_in_sentences() {
        for row in rows() {
            assert!(row.about.ends_with('.'), "{}: {}", row.key(), row.about);
            assert!(row.about.starts_with(|first: char| first.is_uppercase()), "{}", row.key());
            assert!(!row.about.contains("  ") && !row.about.contains('|'), "{}", row.key());
        }
        for group in GROUPS {
            assert!(group.about.ends_with('.'), "{}", group.heading);
        }
    }

    #[test]
    fn every_scalar_option_has_a_variable_with_our_prefix() {
        for row in rows() {
            // Of these tables there are several, and a variable could not tell which it means.
            if matches!(row.section, "upstream" | "site.route") {
                assert_eq!((row.variable, row.flag), (None, None), "{}", row.key());
                continue;
            }
            match row.variable {
                Some(variable) => assert!(variable.starts_with("TOKAMAK_"), "{variable}"),
                None => assert!(!row.kind.is_scalar(), "{} has no environment variable", row.key()),
            }
            assert!(row.flag.is_none_or(|flag| flag.starts_with("--")), "{}", row.key());
        }
    }

    #[test]
    fn every_default_is_within_its_bounds() {
        Top::defaults();
        Limits::defaults();
        Timeouts::defaults();
        Log::defaults();
        Lua::defaults();
        Cache::defaults();
        Site::defaults();
        Pool::defaults();
        Upstream::defaults();
        Route::defaults();
    }

    #[test]
    fn restart_options_stand_at_the_top_where_they_are_compared() {
        assert!(rows().all(|row| row.reload == Reload::Live || row.section.is_empty()));
    }

    #[test]
    fn a_choice_has_one_name_for_each_value() {
        assert_eq!(Reset::NAMES.len(), Reset::ALL.len());
        assert!(Mode::ALL.iter().map(|mode| mode.name()).eq(Mode::NAMES.iter().copied()));
        assert_eq!(LogFormat::NAMES.len(), LogFormat::ALL.len());
        assert_eq!(Manager::NAMES.len(), Manager::ALL.len());
    }
}
