//! The passwords of clients: which are known to be right, and the threads that verify the others.
//!
//! A hash of a password is made to be slow. So each login is verified once, on a thread of its own
//! kind, and remembered for as long as the user's line in the file stays as it is. What strangers
//! can make the server compute is bounded: by the threads, by their queue, and by the attempts of
//! each client.
//!
//! A client has two buckets. The small one counts wrong passwords that were verified. The large one
//! counts every login that failed, for whatever reason, and while it is full nothing of the client
//! is looked at: a comparison with a remembered login is fast, and its answer alone would tell a
//! guesser, thousands of times in a second, whether a password is right.

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

use crate::throttle::{LimitKind, Pace, Throttle};

pub use file::UserFile;
use verifier::{Job, Verifier};

/// The numbers of the limits: on wrong passwords, on failed logins, and on logins that are being
/// verified. Rules have numbers from the other end.
const WRONG: u32 = u32::MAX;
const FAILED: u32 = u32::MAX - 1;
const VERIFYING: u32 = u32::MAX - 2;

/// Wrong passwords that a client may send at once. With a tenth, an office behind one address would
/// be locked out by a few mistakes; with ten times more, each address could keep a thread busy for
/// half a minute.
const WRONG_AT_ONCE: u32 = 20;

/// Seconds for one wrong password more.
const WRONG_EVERY: Duration = Duration::from_secs(1);

/// Logins that may fail at once, and how many may in each second from then on. An office with a
/// program that has an old password stays below it; a dictionary of a million words takes two days.
const FAILED_AT_ONCE: u32 = 200;
const FAILED_PER_SECOND: u32 = 5;

/// Logins of one client that wait for a thread or have one. With a tenth of the queue, ten
/// addresses could keep everybody else out.
const VERIFYING_AT_ONCE: u32 = 4;

/// Why a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLogin {
    /// There is no such user, or the password is another one.
    Wrong,
    /// The client has sent too many that failed; it may try again after these nanoseconds.
    TooMany(u64),
    /// Too many others are being verified, or too many of the client.
    Busy,
}

/// The files of users, and what verifies passwords.
pub struct Passwords {
    files: BTreeMap<PathBuf, Arc<UserFile>>,
    verifier: Verifier,
    throttle: Arc<Throttle>,
    wrong: Pace,
    failed: Pace,
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
        let wrong = Pace::new(1, WRONG_EVERY, WRONG_AT_ONCE);
        let failed = Pace::new(FAILED_PER_SECOND, Duration::from_secs(1), FAILED_AT_ONCE);
        let verifier = Verifier::start(server.loops.div_ceil(2), throttle.clone(), wrong)?;
        Ok(Some(Arc::new(Passwords { files, verifier, throttle, wrong, failed })))
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

    /// Whether logins of a client are looked at now.
    ///
    /// # Errors
    /// Too many have failed.
    pub fn look(&self, client: IpAddr) -> Result<(), NoLogin> {
        let client = self.throttle.address(FAILED, client);
        let room = self.throttle.buckets.look(client, &self.failed, tokamak_cost::now());
        room.map_err(NoLogin::TooMany)
    }

    /// Verifies a login, unless it is known or another request waits for the same one already.
    ///
    /// # Errors
    /// Fails with why it is refused.
    pub async fn verify(
        &self,
        file: &UserFile,
        login: &Login,
        client: IpAddr,
    ) -> Result<(), NoLogin> {
        self.look(client)?;
        if file.has_verified(login) {
            return Ok(());
        }
        let outcome = match self.begin(file, login.clone(), client) {
            Ok(mut result) => match result.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(true)) => Ok(()),
                Ok(_) => Err(NoLogin::Wrong),
                // Its thread is gone, or has failed.
                Err(_) => Err(NoLogin::Busy),
            },
            Err(refused) => Err(refused),
        };
        if outcome.is_err() {
            // Each failure counts: any answer but the one for a right login says that it is wrong.
            let client = self.throttle.address(FAILED, client);
            let _ = self.throttle.buckets.admit(client, &self.failed, tokamak_cost::now());
        }
        outcome
    }

    fn begin(
        &self,
        file: &UserFile,
        login: Login,
        client: IpAddr,
    ) -> Result<file::Result, NoLogin> {
        let known = file.known();
        known.clone().join(login, |login, result| {
            let [verifying, client] =
                [VERIFYING, WRONG].map(|limit| self.throttle.address(limit, client));
            let room = self.throttle.buckets.look(client, &self.wrong, tokamak_cost::now());
            room.map_err(NoLogin::TooMany)?;
            let slot = self.throttle.running.enter(verifying, VERIFYING_AT_ONCE);
            let slot = slot.ok_or(NoLogin::Busy)?;
            let is_taken = self.verifier.take(Job { known, login, client, slot, result });
            is_taken.map_err(|_| NoLogin::Busy)
        })
    }
}
