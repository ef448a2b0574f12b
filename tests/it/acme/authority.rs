//! Authorities: pebble, with its name server, and one that refuses.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::Plan;
use crate::harness::{Process, eventually, fetched, free_address};
use crate::layers::root;

/// An authority with its name server.
pub struct Pebble {
    folder: TempDir,
    address: SocketAddr,
    management: SocketAddr,
    pub names: SocketAddr,
    _processes: Vec<Process>,
}

/// What is different about an authority.
#[derive(Clone, Copy, Default)]
pub struct Traits {
    /// Whether accounts need a key of the authority.
    pub wants_eab: bool,
    /// Percent of good nonces that it refuses.
    pub refuses: u8,
}

/// The key of an account that it knows, with [`Traits::wants_eab`].
pub const EAB: (&str, &str) =
    ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W");

/// A certificate for 127.0.0.1 that its key has signed itself: `localhost.pem`, `localhost.key`.
pub fn certificate(folder: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=authority"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "localhost.key", "-out", "localhost.pem"])
        .current_dir(folder)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The first certificate of a file.
pub fn leaf(file: &str) -> &str {
    let begin = file.find("-----BEGIN CERTIFICATE").unwrap();
    let end = file.find("-----END CERTIFICATE-----\n").unwrap() + 26;
    &file[begin..end]
}

impl Pebble {
    /// Starts one that looks for challenges where the server is to be. `None` if pebble was not
    /// fetched.
    pub fn start(plan: &Plan, traits: Traits) -> Option<Pebble> {
        Pebble::start_at(free_address(), plan, traits)
    }

    /// The same, at this address.
    pub fn start_at(address: SocketAddr, plan: &Plan, traits: Traits) -> Option<Pebble> {
        let program = fetched("pebble", "pebble")?;
        let names_program = fetched("pebble", "pebble-challtestsrv")?;
        let folder = plan.folder.path();
        if !folder.join("localhost.pem").exists() {
            certificate(folder);
        }
        let own = tempfile::tempdir().unwrap();
        let (management, dns, names) = (free_address(), free_address(), free_address());
        let config = json!({ "pebble": {
            "listenAddress": address.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": folder.join("localhost.pem"),
            "privateKey": folder.join("localhost.key"),
            "httpPort": plan.plain.port(),
            "tlsPort": plan.tls.port(),
            "externalAccountBindingRequired": traits.wants_eab,
            "externalAccountMACKeys": { (EAB.0): EAB.1 },
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "default": { "description": "usual", "validityPeriod": 7_776_000 } },
        }});
        let file = own.path().join("pebble.json");
        fs::write(&file, config.to_string()).unwrap();
        let text = |part: &str| part.to_owned();
        let arguments = [
            "-defaultIPv4",
            "127.0.0.1",
            "-defaultIPv6",
            "",
            "-http01",
            "",
            "-https01",
            "",
            "-tlsalpn01",
            "",
            "-doh",
            "",
            "-dnsserver",
            &dns.to_string(),
            "-management",
            &names.to_string(),
        ];
        let log = own.path().join("log");
        let name_server = Process::start(&names_program, &arguments.map(text), &[], &log);
        let environment = [
            (text("PEBBLE_VA_NOSLEEP"), text("1")),
            (text("PEBBLE_WFE_NONCEREJECT"), traits.refuses.to_string()),
            (text("PEBBLE_AUTHZREUSE"), text("0")),
        ];
        let arguments =
            ["-config", file.to_str().unwrap(), "-dnsserver", &dns.to_string()].map(text);
        let pebble = Process::start(&program, &arguments, &environment, &log);
        let accepts = || {
            let all = [address, management, names];
            all.iter().all(|address| TcpStream::connect(address).is_ok()).then_some(())
        };
        let waited = eventually(Duration::from_secs(20), accepts);
        assert!(waited.is_some(), "{}", fs::read_to_string(&log).unwrap_or_default());
        let processes = vec![pebble, name_server];
        Some(Pebble { folder: own, address, management, names, _processes: processes })
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    /// Its root certificate, for clients of the server.
    pub fn root(&self) -> PathBuf {
        let path = self.folder.path().join("root.pem");
        if !path.exists() {
            fs::write(&path, self.manage("/roots/0", &[])).unwrap();
        }
        path
    }

    /// From now on it wants this certificate to be renewed at once.
    pub fn wants_renewal(&self, file: &str) {
        let window = json!({ "suggestedWindow": {
            "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"
        }});
        let order = json!({ "certificate": leaf(file), "ariResponse": window.to_string() });
        self.manage("/set-renewal-info/", &["-d", &order.to_string()]);
    }

    /// Asks its management, with these arguments of curl.
    pub fn manage(&self, path: &str, arguments: &[&str]) -> String {
        let output = Command::new("curl")
            .args(["-sSk", "-m", "10", "--fail"])
            .args(arguments)
            .arg(format!("https://{}{path}", self.management))
            .output()
            .expect("curl runs");
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// An authority that answers each request for an account, or an order, with this status and
/// `Retry-After`.
pub struct Refusing {
    pub address: SocketAddr,
    _process: Process,
}

impl Refusing {
    /// `what` is `newAccount` or `newOrder`: then it gives accounts.
    pub fn start(plan: &Plan, status: u16, retry_after: &str, what: &str) -> Refusing {
        let folder = plan.folder.path();
        certificate(folder);
        let address = free_address();
        let script = root().join("tests/it/acme/refusing.py");
        let arguments = [
            script.to_str().unwrap().to_owned(),
            address.port().to_string(),
            folder.to_str().unwrap().to_owned(),
            status.to_string(),
            retry_after.to_owned(),
            what.to_owned(),
        ];
        let log = folder.join("authority.log");
        let process = Process::start(Path::new("python3"), &arguments, &[], &log);
        let accepts = || TcpStream::connect(address).is_ok().then_some(());
        let waited = eventually(Duration::from_secs(20), accepts);
        assert!(waited.is_some(), "{}", fs::read_to_string(&log).unwrap_or_default());
        Refusing { address, _process: process }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.address)
    }
}
