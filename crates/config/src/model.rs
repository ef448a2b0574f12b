//! What a configuration means: every default filled in, every unit converted, every path absolute.
//!
//! The rest of the program sees only these types. How they were typed (file, environment, flags) is
//! the concern of [`crate::raw`] and [`crate::option`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regex_lite::Regex;
use tokamak_fpm::Pool as FpmPool;

use crate::fpm::{Fpm, FpmSocket};

/// One running server: what it listens on and the sites that it serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Addresses that accept HTTP connections.
    pub listen: Vec<SocketAddr>,
    /// Number of event loops of the front; one thread each.
    pub loops: usize,
    /// User that the front and the workers run as, when the server was started as root.
    pub user: Option<String>,
    /// Group that goes with [`Server::user`]; that user's own group when absent.
    pub group: Option<String>,
    /// Unix socket for `tokamak status` and `tokamak reload`. Absent: chosen by the wiring from
    /// user and port.
    pub control: Option<PathBuf>,
    /// File that receives the supervisor's process id.
    pub pid_file: Option<PathBuf>,
    /// Limits on what a client may send.
    pub limits: Limits,
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
    /// FastCGI applications that sites may name.
    pub upstreams: Vec<Upstream>,
    /// Sites in the order of the file; the first one also answers for unknown host names.
    pub sites: Vec<Site>,
    /// What a server has that stands in for php-fpm.
    pub fpm: Option<Fpm>,
}

impl Server {
    /// The FastCGI sockets for web servers, each with the pool that it belongs to.
    pub fn fpm_sockets(&self) -> impl Iterator<Item = (&FpmSocket, &FpmPool)> {
        let sockets = self.fpm.iter().flat_map(|fpm| &fpm.sockets);
        sockets.filter_map(|socket| Some((socket, self.sites.get(socket.site)?.fpm.as_deref()?)))
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
    /// file (request) or the worker has to wait (response).
    pub buffer: usize,
    /// Open client connections over all event loops.
    pub connections: usize,
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
    /// Between two writes of a response to the client.
    pub send: Duration,
    /// How long a stopping or reloading server lets running requests finish.
    pub drain: Duration,
    /// How long a process may give no sign of life before another takes its place; zero: for ever.
    pub watchdog: Duration,
}

/// Where the log lines go.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Access log; absent: none is written.
    pub access: Option<AccessLog>,
    /// Error log; absent: standard error.
    pub error: Option<PathBuf>,
}

/// The access log: one line a request.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// File, or `-` for standard output.
    pub path: PathBuf,
    /// Shape of a line.
    pub format: LogFormat,
}

/// Shape of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's and nginx's `combined`.
    Combined,
    /// One JSON object a line, with the phases of the request.
    Json,
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

/// What responses may take that are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Bytes of all of them.
    pub memory: usize,
    /// Bytes of one.
    pub largest: usize,
    /// How long a request waits for the response that another one has asked for.
    pub wait: Duration,
    /// What several nodes share, if they do.
    pub tier: Option<Tier>,
}

/// A Redis server by which several nodes share responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// Where it is; never a service's name.
    pub server: Endpoint,
    /// Its password, if it asks for one.
    pub password: Option<String>,
    /// The database.
    pub database: u32,
    /// What the names of everything begin with that is stored there.
    pub prefix: String,
    /// How long a request waits for it.
    pub timeout: Duration,
}

/// Which responses of a site, or of a part of it, are kept and how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Caching {
    /// Whether any are.
    pub is_on: bool,
    /// How long one is fresh that says nothing of it; zero: it is not kept.
    pub lifetime: Duration,
    /// How long a stale response that does not say may be used while it is fetched anew.
    pub while_revalidate: Duration,
    /// How long a stale response that does not say may be used if it cannot be fetched.
    pub if_error: Duration,
    /// What does not count.
    pub ignore: Vec<Ignored>,
    /// Names of query parameters that make no difference; with `*` at its end one stands for all
    /// that begin so.
    pub ignore_query: Vec<String>,
}

/// What a cache may be told to overlook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Cookies of requests.
    Cookie,
    /// Cookies that responses set: they are left out.
    SetCookie,
    /// What requests say of the cache.
    Request,
    /// What responses say of their lifetime.
    Response,
}

/// Paths that are 404 unless the front controller is to answer for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Of scripts that do not exist.
    Php,
    /// With names that begin with a dot.
    Hidden,
}

/// The Lua scripts (absolute) that see a site's requests, by when they do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scripts {
    /// Before the path is looked up.
    pub raw_url: Vec<PathBuf>,
    /// When it is known which file the path means.
    pub physical: Vec<PathBuf>,
    /// When an application would be asked, or nothing else answers.
    pub content: Vec<PathBuf>,
    /// Before the content cache keeps a response.
    pub store: Vec<PathBuf>,
    /// When the response's head is about to be sent.
    pub response: Vec<PathBuf>,
}

impl Site {
    /// All scripts of the site and its routes; one may be there several times.
    pub fn scripts(&self) -> impl Iterator<Item = &PathBuf> {
        self.lua.all().chain(self.routes.iter().flat_map(|route| route.lua.all()))
    }
}

impl Scripts {
    /// These, and others where there are none.
    pub(crate) fn or(self, others: &Scripts) -> Scripts {
        let or = |own: Vec<PathBuf>, other: &Vec<PathBuf>| {
            if own.is_empty() { other.clone() } else { own }
        };
        Scripts {
            raw_url: or(self.raw_url, &others.raw_url),
            physical: or(self.physical, &others.physical),
            content: or(self.content, &others.content),
            response: or(self.response, &others.response),
            store: or(self.store, &others.store),
        }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.raw_url, &self.physical, &self.content, &self.response, &self.store]
            .into_iter()
            .flatten()
    }
}

/// One site: a document root and the PHP pool that serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Name in logs and status: the first host name, or `default`.
    pub name: String,
    /// Host names in lower case; `*.example.org` matches every name below.
    pub hosts: Vec<String>,
    /// Document root, absolute, not resolved: a symlink is resolved anew at each reload.
    pub root: PathBuf,
    /// File names tried for a directory.
    pub index: Vec<String>,
    /// Script, relative to the root, that answers for paths which are no file; absent: such paths
    /// are 404.
    pub front_controller: Option<String>,
    /// For what else it answers.
    pub front_controller_for: Vec<Leftover>,
    /// How requests are served.
    pub mode: Mode,
    /// The worker script (absolute): always for [`Mode::Worker`], perhaps for [`Mode::Sealed`].
    pub worker: Option<PathBuf>,
    /// Script (absolute) that is run before the image of [`Mode::Sealed`] is taken, where there is
    /// no worker script.
    pub boot: Option<PathBuf>,
    /// Targets that are requested before the image of [`Mode::Sealed`] is taken.
    pub warm: Vec<String>,
    /// Name of the site whose workers get what this one's decline, and whatever may not be asked
    /// twice.
    pub fallback: Option<String>,
    /// Which of [`Server::upstreams`] runs the scripts of [`Mode::Fastcgi`]; absent: none.
    pub upstream: Option<usize>,
    /// Which of [`Server::upstreams`] is asked whether a request may be served, where no route says
    /// otherwise.
    pub authorizer: Option<usize>,
    /// Paths that applications have to do with; the longest first.
    pub routes: Vec<Route>,
    /// Scripts in the server that see its requests.
    pub lua: Scripts,
    /// Which of its responses are kept.
    pub cache: Caching,
    /// State that worker mode leaves alone between requests.
    pub keep: Vec<Reset>,
    /// The processes.
    pub pool: Pool,
    /// `php.ini` settings that scripts may change with `ini_set`.
    pub php_value: BTreeMap<String, String>,
    /// `php.ini` settings that scripts cannot change.
    pub php_admin_value: BTreeMap<String, String>,
    /// Environment of the workers, added to `$_SERVER` too.
    pub env: BTreeMap<String, String>,
    /// Whether the workers see the server's own environment beside [`Site::env`].
    pub inherit_env: bool,
    /// Whether the PHP processes leave core files, and others of their user may look into them.
    pub dumpable: bool,
    /// The pool of php-fpm that it stands in for, in a server with [`Server::fpm`].
    pub fpm: Option<Arc<FpmPool>>,
}

/// How a site's requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Full request start-up and shutdown, as php-fpm.
    Classic,
    /// The application's loop calls a handler; state stays but for what is reset.
    Worker,
    /// Every request starts from the same image of the booted application; nothing stays.
    Sealed,
    /// No PHP process of ours: scripts go to a FastCGI application.
    Fastcgi,
}

impl Mode {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Classic => "classic",
            Mode::Worker => "worker",
            Mode::Sealed => "sealed",
            Mode::Fastcgi => "fastcgi",
        }
    }
}

impl Site {
    /// Whether it has PHP processes of ours.
    pub fn has_workers(&self) -> bool {
        self.mode != Mode::Fastcgi
    }
}

/// A FastCGI application: where it listens, and how much it may be asked at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Name in the configuration and in logs.
    pub name: String,
    /// Where it listens; each address takes a share of the requests. Empty beside
    /// [`Upstream::spawn`]: the supervisor makes the sockets.
    pub addresses: Vec<Address>,
    /// How it is started, if the server does that.
    pub spawn: Option<Spawn>,
    /// How requests are spread over the addresses.
    pub balance: Balance,
    /// What binds a request to an address: the first of these that it has.
    pub affinity: Vec<Affinity>,
    /// Whether a request that is bound to a busy address goes to another one instead of waiting.
    pub spill: bool,
    /// How often names are resolved again; absent: when the answer has had its time.
    pub resolve: Option<Duration>,
    /// When an address is left out.
    pub health: Health,
    /// How its addresses are checked beside requests, if they are.
    pub check: Option<Check>,
    /// Most connections to each address.
    pub connections: usize,
    /// Whether it is asked if it takes several requests on a connection.
    pub multiplex: bool,
    /// Requests after which a connection is closed; 0: never, 1: none is kept.
    pub requests: u64,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// Requests that wait for a connection; one more is answered 503.
    pub queue: usize,
    /// How long the parts of an exchange may take.
    pub timeouts: UpstreamTimeouts,
    /// Most bytes of a response's headers.
    pub head: usize,
    /// Added to each request's parameters; an empty value removes one.
    pub params: BTreeMap<String, String>,
    /// Directories whose files the application may have sent, by the URL path under which it names
    /// them.
    pub internal: BTreeMap<String, PathBuf>,
}

/// An application that the server starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Spawn {
    /// The program, absolute.
    pub program: PathBuf,
    /// What follows it.
    pub arguments: Vec<String>,
    /// How many of it run.
    pub processes: usize,
    /// Whether they share one socket.
    pub shared: bool,
    /// Where they start.
    pub directory: PathBuf,
    /// Their environment.
    pub env: BTreeMap<String, String>,
    /// Whether they see the server's own environment beside [`Spawn::env`].
    pub inherit_env: bool,
    /// User that they run as, when the server was started as root; [`Server::user`] if absent.
    pub user: Option<String>,
    /// Group that goes with [`Spawn::user`].
    pub group: Option<String>,
    /// What tells one to end.
    pub stop_signal: StopSignal,
    /// How long it may take then.
    pub stop_timeout: Duration,
}

impl Spawn {
    /// How many sockets the processes have.
    pub fn sockets(&self) -> usize {
        if self.shared { 1 } else { self.processes }
    }
}

/// What tells an application to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// `SIGTERM`
    Terminate,
    /// `SIGUSR1`
    User1,
    /// `SIGINT`
    Interrupt,
    /// `SIGQUIT`
    Quit,
}

/// One address of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its share of the requests, at least 1.
    pub weight: u32,
}

/// How requests are spread over the addresses of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn, as often as its weight says.
    RoundRobin,
    /// The one with the fewest requests for its weight.
    LeastBusy,
}

/// Information in a request that binds it to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// A cookie's value.
    Cookie(String),
    /// A header's value.
    Header(String),
    /// The value of an argument in the query.
    Query(String),
    /// A segment of the path, counted from 1.
    Segment(usize),
    /// What a regular expression finds at the start of the path.
    Prefix(Pattern),
    /// The value of a CGI variable that a script or an authorizer has set.
    Variable(String),
    /// The user's name, as in the `Authorization` header.
    User,
    /// The client's IP address.
    Client,
}

/// A regular expression that is looked for at the start of a text.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    anchored: Regex,
}

impl Pattern {
    /// From its text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let anchored = Regex::new(text).and_then(|_| Regex::new(&format!(r"\A(?:{text})")));
        let anchored = anchored.map_err(|error| error.to_string())?;
        Ok(Pattern { text: text.to_owned(), anchored })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The start of `path` that it matches.
    pub fn find<'a>(&self, path: &'a str) -> Option<&'a str> {
        self.anchored.find(path).map(|found| found.as_str())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// A request that is made at an interval, to find out whether an address is well.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What is asked for: a path, perhaps with a query.
    pub path: String,
    /// How often.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The status of a good answer.
    pub status: u16,
    /// Good answers in a row that bring an address back.
    pub rise: u32,
    /// Bad ones in a row that take it out.
    pub fall: u32,
    /// Added to [`Upstream::params`]; an empty value removes one.
    pub params: BTreeMap<String, String>,
}

/// When an address is left out, because requests to it failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Health {
    /// So many failures within the window; 0: never.
    pub failures: u32,
    /// The window.
    pub window: Duration,
    /// The first pause; each further one is twice as long.
    pub pause: Duration,
}

/// How long the parts of an exchange with an application may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpstreamTimeouts {
    /// Waiting for a connection that is free.
    pub queue: Duration,
    /// Opening one.
    pub connect: Duration,
    /// Between two writes of the request.
    pub send: Duration,
    /// From the request's last byte to the response's first one.
    pub first_byte: Duration,
    /// Between two reads of the response.
    pub read: Duration,
}

/// Where something listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `host:port`; a name stands for all its addresses.
    Tcp(String),
    /// A service's name, whose SRV records have hosts, ports and weights.
    Srv(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Tcp(address) => f.write_str(address),
            Endpoint::Srv(name) => write!(f, "srv:{name}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A path that applications have to do with.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The path, with a slash at its start and none at its end; `/` alone is empty.
    pub path: String,
    /// Which of [`Server::upstreams`] answers; absent: what is on the disk does.
    pub upstream: Option<usize>,
    /// Which one is asked before.
    pub authorizer: Option<usize>,
    /// Through which one files are sent.
    pub filter: Option<Filter>,
    /// Where SCRIPT_NAME ends.
    pub split: Split,
    /// SCRIPT_FILENAME; absent: the root and SCRIPT_NAME.
    pub script: Option<PathBuf>,
    /// Whether files of the root are sent first.
    pub files: bool,
    /// Scripts in the server that see its requests.
    pub lua: Scripts,
    /// Which of its responses are kept.
    pub cache: Caching,
}

/// An application through which files are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Which of [`Server::upstreams`].
    pub upstream: usize,
    /// Extensions of the files, with their dot; none: all files.
    pub extensions: Vec<String>,
}

/// Where SCRIPT_NAME ends and PATH_INFO begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// Behind the route's path.
    Path,
    /// At the end: there is no PATH_INFO.
    Whole,
    /// Behind the first segment that ends so.
    Extension(String),
}

/// One kind of state that worker mode resets between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Settings changed by `ini_set`, `set_time_limit` and `error_reporting`.
    Ini,
    /// The stacks of `set_error_handler` and `set_exception_handler`, and `error_get_last`.
    ErrorHandlers,
    /// The current directory.
    Cwd,
    /// `umask`.
    Umask,
    /// `setlocale`.
    Locale,
    /// `date_default_timezone_set`.
    Timezone,
    /// `mb_internal_encoding` and its relatives.
    Encodings,
    /// `putenv`.
    Env,
    /// An open session is written and closed.
    Session,
}

impl Reset {
    /// All of them.
    pub const ALL: &[Reset] = &[
        Reset::Ini,
        Reset::ErrorHandlers,
        Reset::Cwd,
        Reset::Umask,
        Reset::Locale,
        Reset::Timezone,
        Reset::Encodings,
        Reset::Env,
        Reset::Session,
    ];
}

/// The processes of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// How many processes there are, and when.
    pub size: PoolSize,
    /// Requests that wait for a worker; one more is answered 503.
    pub queue: usize,
    /// Longest wait for a worker before the answer is 503.
    pub queue_timeout: Duration,
    /// Requests after which a worker is replaced; 0: never.
    pub max_requests: u64,
    /// Resident memory, in bytes, above which a worker is replaced after its request; 0: never.
    pub max_memory: u64,
    /// Wall time after which a request's worker is ended, wherever it is; zero: never.
    pub request_timeout: Duration,
    /// Wall time after which a request is written to the log with its PHP backtrace; zero: never.
    pub slow: Duration,
}

/// How many processes a pool has, and when.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolSize {
    /// As many as compute at once, and more while these wait for something else than a processor.
    Auto {
        /// Fewest processes.
        least: usize,
        /// Most processes.
        max: usize,
    },
    /// Always this many.
    Static {
        /// Processes.
        workers: usize,
    },
    /// Between `min_spare` and `max_spare` idle ones, at most `max`.
    Dynamic {
        /// Processes at start.
        start: usize,
        /// Fewest idle processes.
        min_spare: usize,
        /// Most idle processes.
        max_spare: usize,
        /// Most processes.
        max: usize,
    },
    /// None until a request comes, at most `max`; idle ones end.
    Ondemand {
        /// Most processes.
        max: usize,
        /// How long a process may be idle.
        idle: Duration,
    },
}

impl PoolSize {
    /// Most processes that the pool may have.
    pub fn max(&self) -> usize {
        match *self {
            PoolSize::Static { workers } => workers,
            PoolSize::Auto { max, .. }
            | PoolSize::Dynamic { max, .. }
            | PoolSize::Ondemand { max, .. } => max,
        }
    }
}
