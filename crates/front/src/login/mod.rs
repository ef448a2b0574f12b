//! The passwords of clients: which are known to be right, and the threads that verify the others.
//!
//! A hash of a password is made to be slow. So each login is verified once, on a thread of its own
//! kind, and remembered for as long as the file of users stays as it is. What strangers can make
//! the server compute is bounded: by the threads, by their queue, and by the attempts of each
//! client.

mod file;
mod verifier;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokamak_auth::{Login, UserFiles};
use tokamak_config as config;

use crate::throttle::{ClientKey, LimitKind, Pace, Throttle};

pub use file::UserFile;
use verifier::{Job, Verifier};

/// The number of the limit on attempts; rules have numbers from the other end.
const ATTEMPTS: u32 = u32::MAX;

/// Wrong passwords that a client may send at once. With a tenth, an office behind one address would
/// be locked out by a few mistakes; with ten times more, each address could keep a thread busy for
/// half a minute.
const WRONG_AT_ONCE: u32 = 20;

/// Seconds for one wrong password more.
const WRONG_EVERY: Duration = Duration::from_secs(1);

/// Why a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLogin {
    /// There is no such user, or the password is another one.
    Wrong,
    /// The client has sent too many wrong ones; it may try again after these nanoseconds.
    TooMany(u64),
    /// Too many others are being verified.
    Busy,
}

/// The files of users, and what verifies passwords.
pub struct Passwords {
    files: BTreeMap<PathBuf, Arc<UserFile>>,
    verifier: Verifier,
    throttle: Arc<Throttle>,
    pace: Pace,
}

impl Passwords {
    /// With these files, if any rule of the server asks for passwords.
    ///
    /// # Errors
    /// Fails if there are no more threads, or if a file is not one of users.
    pub fn new(
        server: &config::Server,
        files: &UserFiles,
        throttle: &Option<Arc<Throttle>>,
    ) -> io::Result<Option<Arc<Passwords>>> {
        let rules = server.sites.iter().flat_map(|site| &site.rules);
        let paths: Vec<&Path> =
            rules.filter_map(|rule| Some(&*rule.login.as_ref()?.users)).collect();
        let Some(throttle) = throttle.clone().filter(|_| !paths.is_empty()) else {
            return Ok(None);
        };
        let none = Vec::new();
        let file = |path: &Path| {
            let file = UserFile::new(files.0.get(path).unwrap_or(&none));
            file.map(|file| (path.to_owned(), Arc::new(file))).map_err(io::Error::other)
        };
        let files = paths.into_iter().map(file).collect::<io::Result<_>>()?;
        let pace = Pace::new(1, WRONG_EVERY, WRONG_AT_ONCE);
        let verifier = Verifier::start(server.loops.div_ceil(2), throttle.clone(), pace)?;
        Ok(Some(Arc::new(Passwords { files, verifier, throttle, pace })))
    }

    /// The file at this path, which a rule names.
    pub fn file(&self, path: &Path) -> Option<&Arc<UserFile>> {
        self.files.get(path)
    }

    /// Knows the users of these files from now on. Logins of files that are the same stay known.
    ///
    /// # Errors
    /// Fails if one is not a file of users. It stays as it was.
    pub fn renew(&self, files: &UserFiles) -> Result<(), String> {
        let mut outcome = Ok(());
        for (path, file) in &files.0 {
            if let Some(own) = self.files.get(path) {
                let renewed = own.renew(file);
                outcome =
                    outcome.and(renewed.map_err(|error| format!("{}: {error}", path.display())));
            }
        }
        outcome
    }

    /// A client of this site has sent too many wrong passwords.
    pub fn note_too_many(&self, site: usize) {
        self.throttle.exceeded.note(site, LimitKind::Passwords, false);
    }

    /// Verifies a login, unless another request waits for the same one already.
    ///
    /// # Errors
    /// Fails with why it is refused.
    pub async fn verify(
        &self,
        file: &UserFile,
        login: Login,
        client: IpAddr,
    ) -> Result<(), NoLogin> {
        let client = self.throttle.address(ATTEMPTS, client);
        let mut result = self.begin(file, login, client)?;
        match result.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(true)) => Ok(()),
            Ok(_) => Err(NoLogin::Wrong),
            // Its thread is gone.
            Err(_) => Err(NoLogin::Busy),
        }
    }

    fn begin(
        &self,
        file: &UserFile,
        login: Login,
        client: ClientKey,
    ) -> Result<file::Result, NoLogin> {
        let known = file.known();
        known.clone().join(login, |login, result| {
            let now = tokamak_cost::now();
            let admitted = self.throttle.buckets.admit(client, &self.pace, now);
            admitted.map_err(NoLogin::TooMany)?;
            let is_taken = self.verifier.take(Job { known, login, client, result });
            is_taken.map_err(|_| {
                self.throttle.buckets.give_back(client, &self.pace);
                NoLogin::Busy
            })
        })
    }
}
