//! TLS for clients, with clients of other makes: curl, `openssl s_client`, Python.

mod browsers;
mod certificates;
mod clients;
mod connections;
mod halfway;
mod local;
mod python;
mod sessions;
mod shared_tickets;
mod small_clients;
mod suites;
pub mod wire;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Kind, Server, Setup, free_address};

/// A folder with certificates. Their keys are for root alone, if root makes them.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs openssl in the folder.
    pub fn openssl(&self, arguments: &[&str]) {
        let made = Command::new("openssl")
            .args(arguments)
            .current_dir(self.0.path())
            .output()
            .expect("openssl runs");
        assert!(made.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&made.stderr));
    }

    /// Makes a certificate for these names that its key has signed itself: `FILE.pem`, `FILE.key`.
    pub fn certificate(&self, file: &str, names: &[&str]) {
        self.made_with(file, names, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    }

    /// As [`Folder::certificate`], with a key of this kind.
    pub fn made_with(&self, file: &str, names: &[&str], kind: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| format!("DNS:{name}")).collect();
        let names = format!("subjectAltName={}", names.join(","));
        let (subject, key) = (format!("/CN={file}"), format!("{file}.key"));
        let certificate = format!("{file}.pem");
        let common = ["req", "-x509", "-nodes", "-days", "30", "-subj", &subject];
        let files = ["-addext", &names, "-keyout", &key, "-out", &certificate];
        self.openssl(&[&common[..], kind, &files].concat());
    }

    /// Makes a certificate with these extensions that the key of an `authority` has signed.
    /// Without extensions openssl makes certificates of version 1, which are refused.
    pub fn signed(&self, file: &str, subject: &str, authority: &str, extensions: &str) {
        let [key, request, certificate] =
            ["key", "csr", "pem"].map(|ending| format!("{file}.{ending}"));
        let [ca, ca_key] = ["pem", "key"].map(|ending| format!("{authority}.{ending}"));
        let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let files = ["-subj", subject, "-keyout", &key, "-out", &request];
        self.openssl(&[&["req"], &kind[..], &files].concat());
        fs::write(self.path("extensions"), extensions).unwrap();
        let by = ["-CA", &ca, "-CAkey", &ca_key, "-set_serial", "0x1A2B", "-days", "2"];
        let files = ["-in", &request, "-extfile", "extensions", "-out", &certificate];
        self.openssl(&[&["x509", "-req"], &by[..], &files].concat());
    }

    /// The lines of a configuration for a certificate.
    pub fn lines(&self, file: &str) -> String {
        let (certificate, key) =
            (self.path(&format!("{file}.pem")), self.path(&format!("{file}.key")));
        format!("certificate = ['{}']\nkey = ['{}']", certificate.display(), key.display())
    }
}

/// A folder with an authority for clients, a client that it knows, and one that it does not.
fn with_clients() -> Folder {
    let folder = Folder::new();
    folder.certificate("localhost", &["localhost"]);
    folder.certificate("authority", &["authority"]);
    folder.certificate("stranger", &["stranger"]);
    folder.signed("ann", "/O=Tests/CN=ann", "authority", "basicConstraints = CA:FALSE\n");
    folder
}

/// A server with TLS, whose certificate for `localhost` is in a folder.
pub struct Secured {
    pub server: Server,
    pub address: SocketAddr,
    pub folder: Folder,
}

/// A server with these lines of its configuration and of its site.
pub fn secured(kind: Kind, lines: &[&str], site_lines: &[&str]) -> Secured {
    let folder = Folder::new();
    folder.certificate("localhost", &["localhost"]);
    secured_in(folder, Setup::new(kind), lines, site_lines)
}

/// As [`secured`], with a folder that has a certificate already.
pub fn secured_in(folder: Folder, setup: Setup, lines: &[&str], site_lines: &[&str]) -> Secured {
    let address = free_address();
    let mut setup = setup.line(&format!("listen_tls = [\"{address}\"]"));
    for line in lines {
        setup = setup.line(&line.replace("$FOLDER", folder.path("").to_str().unwrap()));
    }
    setup = setup.site_line(&folder.lines("localhost"));
    for line in site_lines {
        setup = setup.site_line(line);
    }
    Secured { server: setup.start(), address, folder }
}

impl Secured {
    /// Runs curl for a path, with the certificate of the folder.
    pub fn curl(&self, path: &str, arguments: &[&str]) -> Output {
        let resolve = format!("localhost:{}:{}", self.address.port(), self.address.ip());
        Command::new("curl")
            .args(["-sS", "-m", "30", "--cacert"])
            .arg(self.folder.path("localhost.pem"))
            .args(["--resolve", &resolve])
            .args(arguments)
            .arg(format!("https://localhost:{}{path}", self.address.port()))
            .output()
            .expect("curl runs")
    }

    /// What curl gets for a path.
    #[track_caller]
    pub fn text(&self, path: &str, arguments: &[&str]) -> String {
        let output = self.curl(path, arguments);
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{wrong}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `$_SERVER` of a request.
    #[track_caller]
    pub fn server_vars(&self, arguments: &[&str]) -> Value {
        let text = self.text("/server.php", arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Runs `openssl s_client`, which sends these bytes; what it prints.
    pub fn s_client(&self, arguments: &[&str], request: &str) -> String {
        s_client(self.address, self.folder.path("").as_path(), arguments, request)
    }
}

/// Runs `openssl s_client` in a folder, which sends these bytes; what it prints.
pub fn s_client(address: SocketAddr, folder: &Path, arguments: &[&str], request: &str) -> String {
    let input = folder.join("request");
    fs::write(&input, request).unwrap();
    let output = Command::new("timeout")
        .args(["30", "openssl", "s_client", "-connect", &address.to_string()])
        .args(arguments)
        .current_dir(folder)
        .stdin(fs::File::open(&input).unwrap())
        .output()
        .expect("openssl runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}
