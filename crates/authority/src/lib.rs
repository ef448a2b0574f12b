//! The authority of one machine, which signs certificates for the names that mean this machine
//! everywhere: `localhost`, names below it, and loopback addresses. Without this crate nobody could
//! try a site by `https` before it has a public name.
//!
//! Its certificate says that it is for such names only. So a browser that trusts it is safe even if
//! its key is stolen: nobody can sign a certificate for another name with it.

pub mod folder;
mod sign;
pub mod store;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokamak_tls::Pair;

use folder::{Folder, Readers};
use sign::{Lifetime, Root};

/// Its folder in the state directory.
const FOLDER: &str = "local";

/// The file with its certificate, for those who are to trust it.
const CERTIFICATE: &str = "root.pem";

/// The file with its key, and with the certificate once more, so that both fit each other.
const KEY: &str = "root.key";

/// More than any certificate of an authority has. The file may be another user's, and without end.
const LARGEST: u64 = 64 * 1024;

/// How long it is trusted: people trust it by hand, so it should outlive the machine.
const ROOT_LIFETIME: Duration = days(3650);

/// How long a certificate for a name is valid. Some systems refuse more than 825 days; with a tenth
/// of this, a server that was off for two weeks would begin with an expired one.
const LIFETIME: Duration = days(90);

/// A certificate that is valid for less than this is replaced.
const RENEW_BEFORE: Duration = days(30);

/// Loopback addresses are in every certificate: a client that connects to an address names none, so
/// it gets any of them.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

const fn days(days: u64) -> Duration {
    Duration::from_secs(days * 24 * 3600)
}

/// The file with the certificate of the authority of a state directory.
pub fn root_path(state_dir: &Path) -> PathBuf {
    state_dir.join(FOLDER).join(CERTIFICATE)
}

/// The file with the certificate and the key for a host.
pub fn pair_path(state_dir: &Path, host: &str) -> PathBuf {
    state_dir.join(FOLDER).join(file_name(host))
}

/// As a file name that a shell leaves alone.
fn file_name(host: &str) -> String {
    format!("{}.pem", plain(host).replace('*', "_"))
}

/// A host without the brackets of an address.
fn plain(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The authority of a state directory.
pub struct Authority {
    folder: Folder,
    root: Root,
    /// Whether it is new, so that nobody can trust it yet.
    pub is_new: bool,
}

impl Authority {
    /// Opens the authority of a state directory, and makes it where it is missing or ends before
    /// the certificates that it would sign.
    ///
    /// # Errors
    /// Fails if its files cannot be used.
    pub fn open(state_dir: &Path, now: Duration) -> Result<Authority, String> {
        let folder = Folder::open(state_dir)?.folder(FOLDER)?;
        let known = folder.read(KEY)?.map(|file| read_root(&folder, &file)).transpose()?;
        let ends = |root: &Root| root.certificate.has_expired(now + LIFETIME);
        let (root, is_new) = match known {
            Some(root) if !ends(&root) => (root, false),
            old => (make_root(&folder, old.is_some(), now)?, true),
        };
        let certificate = root.pem().as_bytes();
        if folder.read(CERTIFICATE)?.as_deref() != Some(certificate) {
            folder.write(CERTIFICATE, certificate, Readers::All)?;
        }
        Ok(Authority { folder, root, is_new })
    }

    /// Makes sure that the file for a host has a certificate that lasts. Whether it is a new one.
    ///
    /// # Errors
    /// Fails if it cannot be made. Then the file is as before.
    pub fn ensure(&self, host: &str, now: Duration) -> Result<bool, String> {
        let name = file_name(host);
        if self.folder.read(&name)?.is_some_and(|file| self.is_good(&file, host, now)) {
            return Ok(false);
        }
        let mut names = vec![plain(host)];
        names.extend(LOOPBACK.iter().filter(|address| **address != plain(host)));
        let pair = self.root.sign(&names, Lifetime::from(now, LIFETIME))?;
        self.folder.write(&name, pair.as_bytes(), Readers::Owner)?;
        Ok(true)
    }

    fn is_good(&self, file: &[u8], host: &str, now: Duration) -> bool {
        Pair::read(file, file).is_ok_and(|Pair { certificate, .. }| {
            certificate.issuer == self.root.certificate.subject
                && certificate.names.iter().any(|name| name == plain(host))
                && certificate.not_before <= now.as_secs()
                && !certificate.has_expired(now + RENEW_BEFORE)
        })
    }
}

/// Of several servers that begin at once, all use the root of the first.
fn make_root(folder: &Folder, has_old: bool, now: Duration) -> Result<Root, String> {
    let root = Root::new(Lifetime::from(now, ROOT_LIFETIME))?;
    let file = root.pair();
    if has_old {
        folder.write(KEY, file.as_bytes(), Readers::Owner)?;
        return Ok(root);
    }
    if folder.write_new(KEY, file.as_bytes(), Readers::Owner)? {
        return Ok(root);
    }
    let file = folder.read(KEY)?.ok_or("another server removes the local authority")?;
    read_root(folder, &file)
}

fn read_root(folder: &Folder, file: &[u8]) -> Result<Root, String> {
    Root::read(file).map_err(|problem| {
        let path = folder.path(KEY);
        let path = path.display();
        format!("{path} is damaged: {problem}; remove it, and the server makes a new authority")
    })
}

/// The certificate of an authority, as others read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFile {
    /// The name of the authority, without anything that a shell or a path understands.
    pub name: String,
    /// The certificate alone (PEM), whatever else is in the file.
    pub pem: String,
}

/// The certificate of the authority of a state directory, if there is one. The directory may be
/// another user's: what is returned is safe to trust, whatever that user has written.
///
/// # Errors
/// Fails if the file cannot be read, or is no certificate that [`Authority`] makes.
pub fn root(state_dir: &Path) -> Result<Option<RootFile>, String> {
    let path = root_path(state_dir);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    let read = || {
        let mut content = Vec::new();
        file.take(LARGEST).read_to_end(&mut content).map_err(|error| error.to_string())?;
        let (certificate, pem) = tokamak_tls::only_certificate(&content)?;
        let name = certificate.subject.strip_prefix("CN=").filter(|name| sign::is_name(name));
        let name = name.ok_or("its name is another one")?.to_owned();
        let expected = Root::new(Lifetime::from(Duration::ZERO, LIFETIME))?.certificate;
        if certificate.name_constraints != expected.name_constraints {
            return Err("it is not for local names only".to_owned());
        }
        Ok(RootFile { name, pem })
    };
    let wrong = |problem: String| {
        let path = path.display();
        format!(
            "{path} is no certificate of a local authority: {problem}; remove it, and the server \
                writes it anew"
        )
    };
    read().map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests;
