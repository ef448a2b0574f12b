//! What to start: which server, which site, which settings.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::process::Process;
use super::server::Server;
use super::{peer, tokamak};

/// Which server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tokamak, one request start-up and shutdown per request.
    Classic,
    /// Tokamak, one loop that calls a handler.
    Worker,
    /// Tokamak, the same for many requests at once.
    Async,
    /// Tokamak, every request from the same image, taken where the loop of the same script begins.
    Sealed,
    /// Tokamak in front of php-fpm, or of [another application](Setup::upstream).
    Fastcgi,
    /// nginx with `tokamak fpm` in php-fpm's place, in classic mode.
    Fpm,
    /// The same in sealed mode, with the image of [`Kind::Sealed`].
    FpmSealed,
    /// nginx with php-fpm: what the expectations are checked against.
    Peer,
}

impl Kind {
    /// Whether requests are served by a worker script that includes the requested one.
    pub fn has_loop(self) -> bool {
        matches!(self, Kind::Worker | Kind::Async | Kind::Sealed | Kind::FpmSealed)
    }
}

/// Who is in front of php-fpm, or of what stands in for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebServer {
    /// nginx, with a connection for each request.
    Nginx,
    /// nginx, which keeps its connections.
    NginxThatKeeps,
    /// Apache with mod_proxy_fcgi, which keeps its connections.
    Apache,
    /// lighttpd, which keeps none.
    Lighttpd,
}

/// A server to be. Settings that both servers know are applied to either; lines of Tokamak's own
/// configuration ([`Setup::line`], [`Setup::site_line`]) do not concern the peer.
pub struct Setup {
    pub(super) kind: Kind,
    pub(super) site: PathBuf,
    pub(super) public: String,
    pub(super) worker: String,
    pub(super) image: Image,
    pub(super) warm: Vec<String>,
    pub(super) workers: Option<usize>,
    pub(super) front_controller: Option<String>,
    pub(super) php_value: Vec<(String, String)>,
    pub(super) php_admin_value: Vec<(String, String)>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) server_environment: Vec<(String, String)>,
    pub(super) lines: Vec<String>,
    pub(super) site_lines: Vec<String>,
    pub(super) more_sites: Vec<MoreSite>,
    pub(super) more_tables: String,
    pub(super) own_sites: Option<String>,
    pub(super) fallback: Option<String>,
    pub(super) upstream: Option<String>,
    pub(super) fpm_lines: Vec<String>,
    pub(super) web_server: WebServer,
    pub(super) is_root: bool,
    pub(super) open_files: Option<u64>,
    pub(super) service: Option<Service>,
    pub(super) program: Option<PathBuf>,
}

/// What runs in sealed mode before the image is taken.
pub(super) enum Image {
    /// The worker script, up to its loop.
    Worker,
    /// This script of the site.
    Boot(String),
    /// Nothing of the application.
    Bare,
}

/// A further site of the same server.
pub(super) struct MoreSite {
    pub(super) host: String,
    pub(super) site: PathBuf,
}

/// A user with capabilities.
pub(super) struct Service {
    pub user: &'static str,
    pub capabilities: &'static [&'static str],
}

/// The places that a started server uses; all of them end with the test.
pub struct Places {
    directory: TempDir,
}

impl Setup {
    /// The behaviour scripts in `tests/php`, served by this kind of server.
    pub fn new(kind: Kind) -> Setup {
        Setup {
            kind,
            site: tests().join("php"),
            public: String::new(),
            worker: "worker.php".into(),
            image: Image::Worker,
            warm: Vec::new(),
            workers: Some(2),
            front_controller: None,
            php_value: Vec::new(),
            php_admin_value: Vec::new(),
            environment: Vec::new(),
            server_environment: Vec::new(),
            lines: Vec::new(),
            site_lines: Vec::new(),
            more_sites: Vec::new(),
            more_tables: String::new(),
            own_sites: None,
            fallback: None,
            upstream: None,
            fpm_lines: Vec::new(),
            web_server: WebServer::Nginx,
            is_root: false,
            open_files: None,
            service: None,
            program: None,
        }
    }

    /// Serves this directory below `tests` instead; the server gets a copy of it.
    pub fn site(mut self, name: &str) -> Setup {
        self.site = tests().join(name);
        self
    }

    /// Serves only this directory of the site; a path of [`Setup::worker`] starts there too.
    pub fn public(mut self, directory: &str) -> Setup {
        self.public = directory.into();
        self
    }

    /// In worker and sealed mode, runs this script of the site instead of `worker.php`.
    pub fn worker(mut self, script: &str) -> Setup {
        self.worker = script.into();
        self
    }

    /// In sealed mode, runs this script of the site before the image is taken, and no worker
    /// script.
    pub fn boot(mut self, script: &str) -> Setup {
        self.image = Image::Boot(script.into());
        self
    }

    /// In sealed mode, takes the image before any script of the site has run.
    pub fn bare(mut self) -> Setup {
        self.image = Image::Bare;
        self
    }

    /// In sealed mode, requests these targets before the image is taken.
    pub fn warm(mut self, targets: &[&str]) -> Setup {
        self.warm = targets.iter().map(|target| target.to_string()).collect();
        self
    }

    /// Sets the number of PHP processes.
    pub fn workers(mut self, count: usize) -> Setup {
        self.workers = Some(count);
        self
    }

    /// Leaves the number of PHP processes to the server.
    pub fn automatic_workers(mut self) -> Setup {
        self.workers = None;
        self
    }

    /// Sends every path that is no file to this script.
    pub fn front_controller(mut self, script: &str) -> Setup {
        self.front_controller = Some(script.into());
        self
    }

    /// Sets a `php.ini` value that scripts may change.
    pub fn php_value(mut self, name: &str, value: &str) -> Setup {
        self.php_value.push((name.into(), value.into()));
        self
    }

    /// Sets a `php.ini` value that scripts may not change.
    pub fn php_admin_value(mut self, name: &str, value: &str) -> Setup {
        self.php_admin_value.push((name.into(), value.into()));
        self
    }

    /// Sets an environment variable of the PHP processes.
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets an environment variable of the server itself.
    pub fn server_env(mut self, name: &str, value: &str) -> Setup {
        self.server_environment.push((name.into(), value.into()));
        self
    }

    /// What serves it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A worker has one request at a time, also in async mode.
    pub fn one_at_a_time(self) -> Setup {
        if self.kind == Kind::Async { self.site_line("concurrency = 1") } else { self }
    }

    /// Adds a line to the top of Tokamak's configuration, such as `limits.head = 4096`; `$PORT` in
    /// it is the port that the server was given.
    pub fn line(mut self, line: &str) -> Setup {
        self.lines.push(line.into());
        self
    }

    /// Adds a line to the site in Tokamak's configuration, such as `pool.queue = 1`.
    pub fn site_line(mut self, line: &str) -> Setup {
        self.site_lines.push(line.into());
        self
    }

    /// With [`Kind::Fastcgi`], no php-fpm but an application that runs already: these lines
    /// describe the upstream `app`.
    pub fn upstream(mut self, lines: &str) -> Setup {
        self.upstream = Some(lines.into());
        self
    }

    /// Adds a line to the pool in php-fpm's configuration.
    pub fn fpm_line(mut self, line: &str) -> Setup {
        self.fpm_lines.push(line.into());
        self
    }

    /// With [`Kind::Fpm`] and [`Kind::Peer`], puts this web server in front.
    pub fn behind(mut self, web_server: WebServer) -> Setup {
        self.web_server = web_server;
        self
    }

    /// Scripts run as whoever runs the tests, also if that is root.
    pub fn run_as_root(mut self) -> Setup {
        self.is_root = true;
        self
    }

    /// Starts the server as this user with these capabilities, as systemd starts a service. Only
    /// root can do so.
    pub fn service_of(
        mut self,
        user: &'static str,
        capabilities: &'static [&'static str],
    ) -> Setup {
        self.service = Some(Service { user, capabilities });
        self
    }

    /// Started from this file, a copy of the program.
    pub fn program(mut self, file: PathBuf) -> Setup {
        self.program = Some(file);
        self
    }

    /// No process of Tokamak may have more files open.
    pub fn open_files(mut self, most: u64) -> Setup {
        self.open_files = Some(most);
        self
    }

    /// Serves a further site, a directory below `tests`, under this host name.
    pub fn also(mut self, host: &str, name: &str) -> Setup {
        self.more_sites.push(MoreSite { host: host.into(), site: tests().join(name) });
        self
    }

    /// Adds tables to the end of Tokamak's configuration.
    pub fn more(mut self, tables: &str) -> Setup {
        self.more_tables = tables.into();
        self
    }

    /// Serves the sites of these tables alone; `$ROOT` in them is the copy of [`Setup::site`],
    /// and `$STATE` a directory that scripts may write to.
    pub fn sites(mut self, tables: &str) -> Setup {
        self.own_sites = Some(tables.into());
        self
    }

    /// Serves the same root in classic mode too, under this host name, and makes that the site's
    /// fallback.
    pub fn fallback(mut self, host: &str) -> Setup {
        self.fallback = Some(host.into());
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> Server {
        let places = Places::new(&self);
        match self.kind {
            Kind::Fpm | Kind::FpmSealed | Kind::Peer => peer::start(&self, places),
            Kind::Classic | Kind::Worker | Kind::Async | Kind::Sealed | Kind::Fastcgi => {
                tokamak::start(&self, places)
            }
        }
    }

    /// With [`Kind::Fpm`] and [`Kind::Peer`], puts what this function starts in front, which gets
    /// the socket of PHP and the address to listen on.
    pub fn start_behind(
        self,
        web_server: impl FnOnce(&Places, &Path, SocketAddr) -> Process,
    ) -> Server {
        let places = Places::new(&self);
        peer::start_behind(&self, places, web_server)
    }

    /// Document root of the first site.
    pub(super) fn document_root(&self, places: &Places) -> PathBuf {
        if self.public.is_empty() { places.root() } else { places.root().join(&self.public) }
    }

    /// `php.ini` values that every server of these tests starts from, so that none depends on the
    /// machine's `php.ini`; what the test itself sets comes after them.
    pub(super) fn all_php_values(&self, places: &Places) -> Vec<(String, String)> {
        let state = places.state();
        let state = state.to_str().expect("a temporary path is text");
        let base = [
            ("display_errors", "1"),
            ("html_errors", "0"),
            ("log_errors", "1"),
            ("error_reporting", "32767"),
            ("output_buffering", "0"),
            ("default_charset", "UTF-8"),
            ("date.timezone", "UTC"),
            ("variables_order", "GPCS"),
            ("request_order", "GP"),
            ("session.gc_probability", "0"),
            ("session.save_path", state),
        ];
        let base = base.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let given = |name: &str| self.php_value.iter().any(|(has, _)| has == name);
        base.filter(|(name, _)| !given(name)).chain(self.php_value.iter().cloned()).collect()
    }

    /// Locked `php.ini` values: large bodies are wanted, and temporary files stay in the test's own
    /// directory.
    pub(super) fn all_php_admin_values(&self, places: &Places) -> Vec<(String, String)> {
        let state = places.state();
        let state = state.to_str().expect("a temporary path is text");
        let base =
            [("post_max_size", "64M"), ("upload_max_filesize", "64M"), ("upload_tmp_dir", state)];
        let base = base.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let given = |name: &str| self.php_admin_value.iter().any(|(has, _)| has == name);
        base.filter(|(name, _)| !given(name)).chain(self.php_admin_value.iter().cloned()).collect()
    }

    /// The environment of the PHP processes; `STATE` is a directory that scripts may write to.
    pub(super) fn all_environment(&self, places: &Places) -> Vec<(String, String)> {
        let state = places.state().to_str().expect("a temporary path is text").to_string();
        [("STATE".to_string(), state)].into_iter().chain(self.environment.iter().cloned()).collect()
    }
}

impl Places {
    fn new(setup: &Setup) -> Places {
        let places =
            Places { directory: tempfile::Builder::new().prefix("tokamak-it-").tempdir().unwrap() };
        allow(places.top(), 0o755);
        copy(&setup.site, &places.root());
        for (position, more) in setup.more_sites.iter().enumerate() {
            copy(&more.site, &places.more_root(position));
        }
        fs::create_dir(places.state()).unwrap();
        allow(&places.state(), 0o777);
        places
    }

    /// Directory that holds everything else.
    pub fn top(&self) -> &Path {
        self.directory.path()
    }

    /// A copy of the site, so that a test may change it; the document root unless [`Setup::public`]
    /// chose another.
    pub fn root(&self) -> PathBuf {
        self.top().join("site")
    }

    /// Document root of a further site.
    pub fn more_root(&self, position: usize) -> PathBuf {
        self.top().join(format!("site-{}", position + 1))
    }

    /// Directory that scripts may write to.
    pub fn state(&self) -> PathBuf {
        self.top().join("state")
    }

    /// What the server wrote to its standard streams.
    pub fn log(&self) -> PathBuf {
        self.top().join("server.log")
    }
}

/// The `tests` directory of the sources.
pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Whether the tests run as root: the servers then drop to an ordinary user.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Copies a directory, following symbolic links; the copy is readable for every user.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    allow(to, 0o755);
    let entries = fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    for entry in entries {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            allow(&target, 0o644);
        }
    }
}
