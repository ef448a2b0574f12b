//! Certificates that the server gets by itself: from pebble, Let's Encrypt's authority for tests,
//! and from one that does everything wrong.

mod authority;
mod command_line;
mod events;
mod faults;
mod issue;
mod machine;
mod nodes;
mod on_demand;
mod ways;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Kind, Server, Setup, eventually, free_address};
use authority::Pebble;

/// The name of the site.
const NAME: &str = "shop.example";

/// What the log says of an order.
const ORDERED: &str = "INFO [-] a certificate for ";

/// How long a certificate may take, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(30);

/// Addresses and folders of a server to be, which outlive it.
struct Plan {
    plain: SocketAddr,
    tls: SocketAddr,
    folder: TempDir,
}

impl Plan {
    fn new() -> Plan {
        let folder = tempfile::tempdir().unwrap();
        // The process that gets certificates reads the authority's certificate as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Plan { plain: free_address(), tls: free_address(), folder }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("certificates-state")
    }

    fn certificate(&self) -> PathBuf {
        self.state().join(format!("acme/certificates/{NAME}.pem"))
    }

    /// A server with a site for [`NAME`], which asks this authority.
    fn setup(&self, directory: &str, trusted: &Path) -> Setup {
        self.setup_for(NAME, directory, trusted)
    }

    fn setup_for(&self, name: &str, directory: &str, trusted: &Path) -> Setup {
        Setup::new(Kind::Classic)
            .workers(1)
            .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{}\"]", self.plain))
            .line(&format!("listen_tls = [\"{}\"]", self.tls))
            .line(&format!("state_dir = '{}'", self.state().display()))
            .line("tls.auto = true")
            .line(&format!("acme.directory = [\"{directory}\"]"))
            .also(name, "php")
            .site_line("https_redirect = true")
            .server_env("SSL_CERT_FILE", trusted.to_str().unwrap())
    }

    /// Waits until the server that was there is gone, so that another one can take its place.
    fn is_free(&self) {
        let bind = || [self.plain, self.tls].map(|address| TcpListener::bind(address).ok());
        let free = eventually(PATIENCE, || bind().iter().all(Option::is_some).then_some(()));
        assert!(free.is_some(), "the addresses are still taken");
    }

    /// Runs curl for a page of a name, over TLS.
    fn curl(&self, name: &str, trusted: &Path) -> Output {
        self.curl_at(self.tls, name, trusted)
    }

    fn curl_at(&self, address: SocketAddr, name: &str, trusted: &Path) -> Output {
        let port = address.port();
        Command::new("curl")
            .args(["-sS", "-m", "10", "--cacert"])
            .arg(trusted)
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .arg(format!("https://{name}:{port}/hello.php"))
            .output()
            .expect("curl runs")
    }

    /// Waits until the name is served with a certificate of this authority.
    #[track_caller]
    fn is_served(&self, server: &Server, name: &str, pebble: &Pebble) {
        let served =
            eventually(PATIENCE, || self.curl(name, &pebble.root()).status.success().then_some(()));
        assert!(served.is_some(), "no certificate for {name}: {}", server.log());
    }
}

/// Waits for a line of the log.
#[track_caller]
fn logged(server: &Server, text: &str) -> String {
    let find = || server.log().lines().find(|line| line.contains(text)).map(str::to_owned);
    eventually(PATIENCE, find).unwrap_or_else(|| panic!("{text} is not in {}", server.log()))
}

/// How many lines of the log have this text.
fn count(server: &Server, text: &str) -> usize {
    server.log().lines().filter(|line| line.contains(text)).count()
}
