//! The home of somebody who browses: whom their Chromium trusts, and which certificate it shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use tempfile::TempDir;

/// An empty home directory, which ends with the test.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        Home(tempfile::Builder::new().prefix("tokamak-home-").tempdir().unwrap())
    }

    /// What `HOME` is set to.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where Chromium keeps all but its store of certificates.
    pub fn profile(&self) -> PathBuf {
        self.path().join("profile")
    }

    /// Makes the store of certificates with this authority in it.
    pub fn trusts(&self, authority: &Path) {
        fs::create_dir_all(self.store()).unwrap();
        self.nss("certutil", &["-N", "--empty-password"]);
        self.nss("certutil", &["-A", "-t", "C,,", "-n", "server", "-i", text(authority)]);
    }

    /// Puts a certificate with its key into the store, and lets Chromium show it to this origin
    /// without a question: headless it would wait for an answer for ever. The rule is what the
    /// policy `AutoSelectCertificateForUrls` becomes inside. That policy is read from a folder of
    /// the whole machine, and no test changes that one.
    pub fn shows(&self, certificate: &Path, key: &Path, origin: &str) {
        let bundle = self.path().join("bundle.p12");
        let export = Command::new("openssl")
            .args(["pkcs12", "-export", "-passout", "pass:", "-name", "client", "-out"])
            .arg(&bundle)
            .args(["-in", text(certificate), "-inkey", text(key)])
            .output();
        succeeds("openssl", export.expect("openssl runs"));
        self.nss("pk12util", &["-i", text(&bundle), "-W", ""]);
        let any = json!({"setting": {"filters": [{}]}});
        let rules = json!({"auto_select_certificate": {format!("{origin},*"): any}});
        let all = json!({"profile": {"content_settings": {"exceptions": rules}}});
        fs::create_dir_all(self.profile().join("Default")).unwrap();
        fs::write(self.profile().join("Default/Preferences"), all.to_string()).unwrap();
    }

    /// Where older Chromiums make it, and newer ones look first.
    fn store(&self) -> PathBuf {
        self.path().join(".pki/nssdb")
    }

    fn nss(&self, program: &str, arguments: &[&str]) {
        let store = format!("sql:{}", self.store().display());
        let output = Command::new(program).args(["-d", &store]).args(arguments).output();
        succeeds(program, output.expect("it runs (package libnss3-tools)"));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

#[track_caller]
fn succeeds(program: &str, output: Output) {
    assert!(output.status.success(), "{program}: {output:?}");
}
