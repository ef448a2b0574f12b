//! What the state directory keeps of authorities (ACME). Only the supervisor reads and writes it:
//! the process that talks to them, like the front, has no right to see it.
//!
//! ```text
//! acme/lock                          held by the server that gets certificates
//! acme/certificates/NAME.pem         certificate, chain and key in one file
//! acme/on-demand/NAME.pem            the same for names that were first seen in a handshake
//! acme/accounts/DIRECTORY.json       the account at an authority
//! acme/tries/NAME.json               how the tries to get a certificate have gone; absent after
//!                                    a success
//! ```

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tokamak_authority::folder::{Folder, Readers};
use tokamak_sys::file_lock;

/// Bytes of a URL that become part of a file's name; file systems take 255.
const LONGEST_NAME: usize = 200;

/// The part of a state directory that is this server's, as long as it lives.
#[derive(Debug)]
pub struct StateDir {
    certificates: Folder,
    on_demand: Folder,
    accounts: Folder,
    tries: Folder,
    _lock: File,
}

/// Why it is not this server's.
#[derive(Debug)]
pub enum Refused {
    /// Another server has it.
    Taken,
    /// It cannot be used.
    Broken(String),
}

/// The file with the certificate for a name, and its key.
pub fn certificate(state_dir: &Path, name: &str) -> PathBuf {
    state_dir.join("acme/certificates").join(certificate_file(name))
}

/// The same for a name that was first seen in a handshake.
pub fn on_demand(state_dir: &Path, name: &str) -> PathBuf {
    state_dir.join("acme/on-demand").join(certificate_file(name))
}

/// The names that were first seen in a handshake, and have a certificate.
pub fn on_demand_names(state_dir: &Path) -> Vec<String> {
    // Without the folder there are none yet.
    let files = std::fs::read_dir(state_dir.join("acme/on-demand")).into_iter().flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_suffix(".pem")?.to_owned())).collect()
}

fn certificate_file(name: &str) -> String {
    format!("{}.pem", plain(name))
}

fn tries_file(name: &str) -> String {
    format!("{}.json", plain(name))
}

/// A name as part of a file's name. A host name has no `@`.
fn plain(name: &str) -> String {
    name.replacen('*', "@", 1)
}

fn account_file(directory: &str) -> String {
    let url = directory.strip_prefix("https://").unwrap_or(directory);
    let plain = |byte: char| {
        if byte.is_ascii_alphanumeric() || "-.".contains(byte) { byte } else { '_' }
    };
    let name: String = url.chars().take(LONGEST_NAME).map(plain).collect();
    format!("{name}.json")
}

impl StateDir {
    /// Makes the folders where they are missing, and locks them.
    ///
    /// # Errors
    /// Fails if another server has them, or they cannot be used.
    pub fn open(path: &Path) -> Result<StateDir, Refused> {
        let folder = Folder::open(path).and_then(|state| state.folder("acme"));
        let folder = folder.map_err(Refused::Broken)?;
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600);
        let broken = |error| Refused::Broken(format!("{}: {error}", folder.path("lock").display()));
        let lock = lock.open(folder.path("lock")).map_err(broken)?;
        if !file_lock::try_lock(&lock).map_err(broken)? {
            return Err(Refused::Taken);
        }
        Ok(StateDir {
            certificates: folder.folder("certificates").map_err(Refused::Broken)?,
            on_demand: folder.folder("on-demand").map_err(Refused::Broken)?,
            accounts: folder.folder("accounts").map_err(Refused::Broken)?,
            tries: folder.folder("tries").map_err(Refused::Broken)?,
            _lock: lock,
        })
    }

    /// Keeps the certificate for a name, with its key. The tries to get it do not count any more.
    ///
    /// # Errors
    /// Fails if it cannot be written. Then the older one is still there.
    pub fn keep_certificate(&self, name: &str, file: &[u8]) -> Result<(), String> {
        self.certificates.write(&certificate_file(name), file, Readers::Owner)?;
        // If that stays, a renewal may come later than it could, and nothing else.
        let _ = self.tries.remove(&tries_file(name));
        Ok(())
    }

    /// Keeps the certificate for a name that was first seen in a handshake.
    ///
    /// # Errors
    /// As [`StateDir::keep_certificate`].
    pub fn keep_on_demand(&self, name: &str, file: &[u8]) -> Result<(), String> {
        self.on_demand.write(&certificate_file(name), file, Readers::Owner)?;
        // As above.
        let _ = self.tries.remove(&tries_file(name));
        Ok(())
    }

    /// Removes the certificate for a name that was first seen in a handshake.
    ///
    /// # Errors
    /// Fails if it is there and cannot be removed.
    pub fn forget_on_demand(&self, name: &str) -> Result<(), String> {
        self.on_demand.remove(&certificate_file(name))
    }

    /// Keeps how the tries to get a certificate for a name have gone.
    ///
    /// # Errors
    /// As [`StateDir::keep_certificate`].
    pub fn keep_tries(&self, name: &str, file: &[u8]) -> Result<(), String> {
        self.tries.write(&tries_file(name), file, Readers::Owner)
    }

    /// How the tries to get a certificate for a name have gone; [`None`] if it is not known.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn tries(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        self.tries.read(&tries_file(name))
    }

    /// Keeps the account at the authority with this directory.
    ///
    /// # Errors
    /// As [`StateDir::keep_certificate`].
    pub fn keep_account(&self, directory: &str, file: &[u8]) -> Result<(), String> {
        self.accounts.write(&account_file(directory), file, Readers::Owner)
    }

    /// The account at the authority with this directory; [`None`] if it is missing.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn account(&self, directory: &str) -> Result<Option<Vec<u8>>, String> {
        self.accounts.read(&account_file(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let state = StateDir::open(&path).unwrap();
        assert!(matches!(StateDir::open(&path), Err(Refused::Taken)));
        state.keep_tries("*.a.example", b"{}").unwrap();
        assert_eq!(state.tries("*.a.example").unwrap().unwrap(), b"{}");
        assert!(path.join("acme/tries/@.a.example.json").exists());
        state.keep_certificate("*.a.example", b"one").unwrap();
        assert_eq!(state.tries("*.a.example").unwrap(), None);
        let file = certificate(&path, "*.a.example");
        assert_eq!(file, path.join("acme/certificates/@.a.example.pem"));
        assert_eq!(std::fs::read(file).unwrap(), b"one");
        state.keep_on_demand("b.example", b"two").unwrap();
        assert_eq!(on_demand_names(&path), ["b.example"]);
        assert_eq!(std::fs::read(on_demand(&path, "b.example")).unwrap(), b"two");
        state.forget_on_demand("b.example").unwrap();
        assert!(on_demand_names(&path).is_empty());
        let directory = "https://a.example/../../x?y";
        assert_eq!(state.account(directory).unwrap(), None);
        state.keep_account(directory, b"{}").unwrap();
        assert_eq!(state.account(directory).unwrap().unwrap(), b"{}");
        assert!(path.join("acme/accounts/a.example_.._.._x_y.json").exists());
    }
}
