//! Sites, their routes and their pools.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokamak_fpm::Pool as FpmPool;

use super::{AccessLog, Caching, Compression, Mercure, Rule, Secret, SiteTls};

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

/// Which charset the `Content-Type` of a text file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FileCharset {
    /// UTF-8, unless files of this type name theirs themselves, as HTML and XML do.
    #[default]
    UnlessNamed,
    /// None.
    None,
    /// This one.
    Is(String),
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
    /// Name in logs and status: the first host name, or `default`, and the path of a mounted site.
    /// If another site has that name already, or if there is no host name, the first address of
    /// [`Site::listen`] is in it, too.
    pub name: String,
    /// Host names in lower case; `*.example.org` matches every name below.
    pub hosts: Vec<String>,
    /// The addresses among [`crate::Server::listen`] and [`crate::Server::listen_tls`] on which it
    /// is served; none: all of them.
    pub listen: Vec<SocketAddr>,
    /// The path under which it is mounted in other sites, with a slash at the start and none at
    /// the end; empty for a site of its own.
    pub path: String,
    /// Document root, absolute, not resolved: a symlink is resolved anew at each reload.
    pub root: PathBuf,
    /// File names tried for a directory.
    pub index: Vec<String>,
    /// Whether folders without one are listed.
    pub index_listing: bool,
    /// Which charset the `Content-Type` of a text file names.
    pub charset: FileCharset,
    /// Bytes of its responses in spool files.
    pub spool: u64,
    /// Where its requests are written; absent: nowhere.
    pub access_log: Option<AccessLog>,
    /// Script, relative to the root, that answers for paths which are no file; absent: such paths
    /// are 404.
    pub front_controller: Option<String>,
    /// For what else it answers.
    pub front_controller_for: Vec<Leftover>,
    /// Its certificates, and whether browsers are sent to `https`.
    pub tls: SiteTls,
    /// How requests are served.
    pub mode: Mode,
    /// The version of PHP that runs its scripts, such as `8.4`; absent: the one that is found.
    pub php: Option<String>,
    /// The user that runs its scripts, by name or number; absent: the server's.
    pub user: Option<String>,
    /// The group that goes with that user; absent: the user's own.
    pub group: Option<String>,
    /// Requests that each worker serves at once: 1, but for [`Mode::Async`].
    pub concurrency: usize,
    /// The worker script (absolute): always for [`Mode::Worker`] and [`Mode::Async`], perhaps for
    /// [`Mode::Sealed`].
    pub worker: Option<PathBuf>,
    /// Script (absolute) that is run before the image of [`Mode::Sealed`] is taken, where there is
    /// no worker script.
    pub boot: Option<PathBuf>,
    /// Targets that are requested before the image of [`Mode::Sealed`] is taken.
    pub warm: Vec<String>,
    /// Name of the site whose workers get what this one's decline, and whatever may not be asked
    /// twice.
    pub fallback: Option<String>,
    /// Which of [`crate::Server::upstreams`] runs the scripts of [`Mode::Fastcgi`]; absent: none.
    pub upstream: Option<usize>,
    /// Which of [`crate::Server::upstreams`] is asked whether a request may be served, where no
    /// route says otherwise.
    pub authorizer: Option<usize>,
    /// Paths that applications have to do with; the longest first.
    pub routes: Vec<Route>,
    /// What holds for which of its paths, in the order of the file.
    pub rules: Vec<Rule>,
    /// The one host name under which it answers, perhaps with a port; requests with others are
    /// redirected.
    pub canonical_host: Option<String>,
    /// Scripts in the server that see its requests.
    pub lua: Scripts,
    /// Which of its responses are kept.
    pub cache: Caching,
    /// Which of its responses are compressed.
    pub compression: Compression,
    /// Directories whose files scripts may have sent, by the URL path under which they name them,
    /// with a slash at both ends.
    pub internal: BTreeMap<String, PathBuf>,
    /// The pages for refused and failed requests, as paths of the site: by status, or by `4xx` and
    /// `5xx`.
    pub error_pages: BTreeMap<String, String>,
    /// Whether they also replace responses of applications.
    pub intercept_errors: bool,
    /// State that worker mode leaves alone between requests.
    pub keep: Vec<Reset>,
    /// The processes.
    pub pool: Pool,
    /// Its hub, if it has one.
    pub mercure: Option<Box<Mercure>>,
    /// `php.ini` settings that scripts may change with `ini_set`.
    pub php_value: BTreeMap<String, String>,
    /// `php.ini` settings that scripts cannot change.
    pub php_admin_value: BTreeMap<String, String>,
    /// Environment of the workers, added to `$_SERVER` too.
    pub env: BTreeMap<String, Secret>,
    /// Whether the workers see the server's own environment beside [`Site::env`].
    pub inherit_env: bool,
    /// Whether the PHP processes leave core files, and others of their user may look into them.
    pub dumpable: bool,
    /// Whether the PHP workers count what requests call in databases and in other servers.
    pub count_calls: bool,
    /// Whether clients get the phases of their requests (`Server-Timing`).
    pub server_timing: bool,
    /// The pool of php-fpm that it stands in for, in a server with [`crate::Server::fpm`].
    pub fpm: Option<Arc<FpmPool>>,
}

impl Site {
    /// A site of classic mode for which nothing else is set: where there is no file of settings,
    /// and in tests.
    pub fn plain(name: &str, root: PathBuf, pool: Pool) -> Site {
        Site {
            name: name.to_owned(),
            hosts: Vec::new(),
            listen: Vec::new(),
            path: String::new(),
            root,
            index: Vec::new(),
            index_listing: false,
            charset: FileCharset::default(),
            spool: 0,
            access_log: None,
            front_controller: None,
            front_controller_for: Vec::new(),
            tls: SiteTls::default(),
            mode: Mode::Classic,
            php: None,
            user: None,
            group: None,
            concurrency: 1,
            worker: None,
            boot: None,
            warm: Vec::new(),
            fallback: None,
            upstream: None,
            authorizer: None,
            routes: Vec::new(),
            rules: Vec::new(),
            canonical_host: None,
            lua: Scripts::default(),
            cache: Caching::default(),
            compression: Compression::default(),
            internal: BTreeMap::new(),
            error_pages: BTreeMap::new(),
            intercept_errors: false,
            keep: Vec::new(),
            pool,
            mercure: None,
            php_value: BTreeMap::new(),
            php_admin_value: BTreeMap::new(),
            env: BTreeMap::new(),
            inherit_env: true,
            dumpable: false,
            count_calls: false,
            server_timing: false,
            fpm: None,
        }
    }
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
    /// The application's loop calls a handler for many requests at once.
    Async,
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
            Mode::Async => "async",
            Mode::Fastcgi => "fastcgi",
        }
    }
}

impl Site {
    /// The page for a refused or failed request with this status.
    pub fn error_page(&self, status: u16) -> Option<&str> {
        if self.error_pages.is_empty() {
            return None;
        }
        let page = |status: &str| self.error_pages.get(status).map(String::as_str);
        page(&status.to_string()).or_else(|| page(&format!("{}xx", status / 100)))
    }

    /// Whether it has PHP processes of ours.
    pub fn has_workers(&self) -> bool {
        self.mode != Mode::Fastcgi
    }
}

/// A path that applications have to do with.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The path, with a slash at its start and none at its end; `/` alone is empty.
    pub path: String,
    /// Which of [`crate::Server::upstreams`] answers; absent: what is on the disk does.
    pub upstream: Option<usize>,
    /// What stands in place of [`Route::path`] in requests to an application of HTTP; absent: they
    /// keep it.
    pub upstream_path: Option<String>,
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
    /// Which of its responses are compressed.
    pub compression: Compression,
    /// Whether clients get the phases of their requests (`Server-Timing`).
    pub server_timing: bool,
}

impl Route {
    /// Its path as people write it.
    pub fn name(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }
}

/// An application through which files are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Which of [`crate::Server::upstreams`].
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
