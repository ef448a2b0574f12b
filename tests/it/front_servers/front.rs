//! A front server that has been started, with Tokamak or php-fpm behind it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::{Kind, Process, Server, Setup, eventually, free_address, installed};
use crate::tls::Folder;

/// Far above what a loaded machine needs, but for what never comes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Workers of the site.
pub const WORKERS: usize = 2;

/// Requests that may wait at `tokamak serve`: more than the clients of a load, so that only what is
/// meant to fill the queue does.
pub const QUEUE: usize = 20;

/// How a front server hands requests over.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    /// FastCGI, to `tokamak fpm`.
    FastCgi,
    /// HTTP, to `tokamak serve`.
    Http,
    /// HTTP behind a PROXY header, to `tokamak serve`.
    Proxy,
}

/// Plain HTTP, and HTTP over TLS.
pub const BOTH: &[&str] = &["http", "https"];

/// A front server of the table, and the way that it is used.
pub struct Row {
    pub name: &'static str,
    /// Whose version is shown.
    pub package: &'static str,
    pub way: Way,
    /// What clients speak with it.
    pub schemes: &'static [&'static str],
    /// Writes its files. The commands that start it, each a program and its arguments.
    pub commands: fn(&Site) -> Vec<Vec<String>>,
}

/// What a front server is told.
pub struct Site {
    /// Where it listens.
    pub at: SocketAddr,
    /// Where it listens for TLS.
    pub secured: SocketAddr,
    /// The socket of `tokamak fpm`, or of php-fpm.
    pub socket: PathBuf,
    /// Where `tokamak serve` listens for HTTP.
    pub plain: SocketAddr,
    /// Where it listens for the PROXY protocol.
    pub proxied: SocketAddr,
    /// The document root.
    pub root: PathBuf,
    /// The front server's own files, with a certificate: `shop.pem`, `shop.key`, and both in
    /// `both.pem`.
    folder: Folder,
}

impl Site {
    fn new(at: SocketAddr, socket: &Path, root: PathBuf, plain: SocketAddr) -> Site {
        let folder = Folder::new();
        let allow = |name: &str, mode| {
            fs::set_permissions(folder.path(name), PermissionsExt::from_mode(mode)).unwrap();
        };
        allow("", 0o755);
        folder.certificate("shop", &["shop.example"]);
        // For those that read it as a user of their own.
        allow("shop.key", 0o644);
        let read = |name: &str| fs::read_to_string(folder.path(name)).unwrap();
        fs::write(folder.path("both.pem"), read("shop.pem") + &read("shop.key")).unwrap();
        let (secured, proxied) = (free_address(), free_address());
        Site { at, secured, socket: socket.to_owned(), plain, proxied, root, folder }
    }

    /// Writes one of the front server's files; its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.folder.path(name), text).unwrap();
        self.path(name)
    }

    /// The path of one of the front server's files.
    pub fn path(&self, name: &str) -> String {
        self.folder.path(name).display().to_string()
    }

    /// The folder of the front server's files.
    pub fn top(&self) -> String {
        self.path("").trim_end_matches('/').to_owned()
    }

    /// Makes a folder of the front server's that all users may write to.
    pub fn writable(&self, name: &str) -> String {
        fs::create_dir(self.folder.path(name)).unwrap();
        fs::set_permissions(self.folder.path(name), PermissionsExt::from_mode(0o777)).unwrap();
        self.path(name)
    }
}

/// Where front servers are taken from: the machine, or a Debian in a folder.
pub struct Origin {
    /// What the rows say of it; empty for the machine.
    pub release: String,
    pub root: Option<PathBuf>,
}

impl Origin {
    /// A command that runs there. `None` if the program is not there.
    fn command(&self, words: &[String]) -> Option<(PathBuf, Vec<String>)> {
        let Some(root) = &self.root else {
            return Some((installed(&words[0])?, words[1..].to_vec()));
        };
        let root = root.to_str().expect("a path is text").to_owned();
        let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
        let own = ["-i".to_owned(), path, "/usr/sbin/chroot".to_owned(), root];
        Some(("/usr/bin/env".into(), own.into_iter().chain(words.iter().cloned()).collect()))
    }

    /// The version of a package, without an epoch and without what Debian adds. `None` if the
    /// package is not installed.
    pub fn version(&self, package: &str) -> Option<String> {
        let mut command = Command::new("dpkg-query");
        if let Some(root) = &self.root {
            command.arg(format!("--admindir={}", root.join("var/lib/dpkg").display()));
        }
        let format = "--showformat=${db:Status-Status} ${Version}";
        let output = command.args(["--show", format, package]).output().expect("dpkg-query runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.strip_prefix("installed ")?;
        let version = version.split_once(':').map_or(version, |(_, rest)| rest);
        Some(version.rsplit_once('-').map_or(version, |(upstream, _)| upstream).to_owned())
    }

    fn start(&self, row: &Row, site: &Site, log: &Path) -> Vec<Process> {
        let commands = (row.commands)(site).into_iter();
        let start = |words: Vec<String>| {
            let (program, arguments) = self.command(&words).expect("its package is installed");
            // Caddy keeps its configuration below its home.
            let environment = [("HOME".to_owned(), site.top())];
            Process::start(&program, &arguments, &environment, log)
        };
        commands.map(start).collect()
    }
}

/// A running front server.
pub struct Front {
    /// The processes of a front server before `tokamak serve`. They end first.
    _processes: Vec<Process>,
    /// The server behind it; its address is that of the front server.
    pub server: Server,
    pub way: Way,
    pub site: Site,
    /// What clients speak with it.
    pub schemes: &'static [&'static str],
    /// The same before php-fpm.
    pub beside: Option<Box<Front>>,
}

impl Front {
    /// Starts it before Tokamak, and before php-fpm if it speaks FastCGI.
    pub fn start(row: &Row, origin: &Origin) -> Front {
        match row.way {
            Way::FastCgi => {
                let beside = Box::new(Front::before_fpm(row, origin, Kind::Peer));
                Front { beside: Some(beside), ..Front::before_fpm(row, origin, Kind::Fpm) }
            }
            Way::Http | Way::Proxy => Front::before_serve(row, origin),
        }
    }

    fn before_fpm(row: &Row, origin: &Origin, kind: Kind) -> Front {
        // Each connection that is kept has a process of php-fpm.
        let workers = if kind == Kind::Peer { 8 } else { WORKERS };
        let mut site = None;
        let server = Setup::new(kind).workers(workers).start_behind(|places, socket, at| {
            let site = site.insert(Site::new(at, socket, places.root(), at));
            origin.start(row, site, &places.log()).pop().expect("it has a command")
        });
        let site = site.expect("it has been started");
        let (way, schemes) = (row.way, row.schemes);
        Front { _processes: Vec::new(), server, way, site, schemes, beside: None }
    }

    fn before_serve(row: &Row, origin: &Origin) -> Front {
        let proxied = free_address();
        let mut server = Setup::new(Kind::Classic)
            .workers(WORKERS)
            .site_line(&format!("pool.queue = {QUEUE}"))
            .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{proxied}\"]"))
            .line(&format!("proxy_protocol = \"{proxied}\"\ntrusted_proxies = \"127.0.0.1\""))
            .line("trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\"]")
            .start();
        let root = server.places.root();
        let mut site = Site::new(free_address(), Path::new(""), root, server.address);
        site.proxied = proxied;
        server.address = site.at;
        let mut processes = origin.start(row, &site, &server.places.log());
        let accepts = || {
            let ended = processes.iter_mut().find_map(Process::ended);
            assert!(ended.is_none(), "it ends at its start: {}", server.log());
            TcpStream::connect(site.at).ok()
        };
        assert!(eventually(PATIENCE, accepts).is_some(), "it does not accept");
        let (way, schemes) = (row.way, row.schemes);
        Front { _processes: processes, server, way, site, schemes, beside: None }
    }
}
