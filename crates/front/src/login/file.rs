//! A file of users as it is now, and the logins that have been verified.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use hmac::{Hmac, Mac};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;
use tokamak_auth::{BadUsers, Login, Users};
use tokio::sync::watch;

/// Bytes of a key, and of a fingerprint.
const BYTES: usize = 32;

/// A keyed hash of a name and a password, which is kept in memory in place of them.
type Fingerprint = [u8; BYTES];

/// The result of a verification: whether the login is right; `None` until that is known.
pub type Result = watch::Receiver<Option<bool>>;

/// A file of users. It may be replaced at any time.
pub struct UserFile(RwLock<Arc<KnownUsers>>);

/// The users of one version of the file, and the logins that were verified with it.
pub struct KnownUsers {
    file: Vec<u8>,
    users: Users,
    /// Makes fingerprints. Its key is random, so a fingerprint alone does not tell a password.
    mac: Hmac<Sha256>,
    /// The fingerprint of the right password of each user, once it was used. So the memory is
    /// bounded by the file, and nothing has to be forgotten.
    verified: Box<[OnceLock<Fingerprint>]>,
    /// Logins that are being verified.
    pending: Mutex<HashMap<Fingerprint, Result>>,
}

impl UserFile {
    /// Parses the contents of a file.
    ///
    /// # Errors
    /// Fails if a line is wrong.
    pub fn new(file: &[u8]) -> std::result::Result<UserFile, BadUsers> {
        Ok(UserFile(RwLock::new(KnownUsers::new(file)?)))
    }

    /// Replaces the contents. Verified logins of users whose hash is unchanged stay verified.
    ///
    /// # Errors
    /// Fails if a line is wrong; the old contents stay in use.
    pub fn renew(&self, file: &[u8]) -> std::result::Result<(), BadUsers> {
        if self.known().file != file {
            let known = KnownUsers::renewed(&self.known(), file)?;
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
        }
        Ok(())
    }

    /// Whether this login was verified before, and was right.
    pub fn has_verified(&self, login: &Login) -> bool {
        self.known().has_verified(login)
    }

    /// The current version.
    pub fn known(&self) -> Arc<KnownUsers> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl KnownUsers {
    fn new(file: &[u8]) -> std::result::Result<Arc<KnownUsers>, BadUsers> {
        KnownUsers::with_mac(file, random_mac()).map(Arc::new)
    }

    /// The new version, with the verified logins of `old` whose users have the same hash. Their
    /// fingerprints stay valid because the key of the hash stays the same.
    fn renewed(old: &KnownUsers, file: &[u8]) -> std::result::Result<Arc<KnownUsers>, BadUsers> {
        let known = KnownUsers::with_mac(file, old.mac.clone())?;
        for (user, before) in known.users.unchanged_since(&old.users) {
            if let Some(fingerprint) = old.verified[before].get() {
                let _ = known.verified[user].set(*fingerprint);
            }
        }
        Ok(Arc::new(known))
    }

    fn with_mac(file: &[u8], mac: Hmac<Sha256>) -> std::result::Result<KnownUsers, BadUsers> {
        let users = Users::read(file)?;
        let verified = (0..users.len()).map(|_| OnceLock::new()).collect();
        Ok(KnownUsers { file: file.to_owned(), users, mac, verified, pending: Mutex::default() })
    }

    fn fingerprint(&self, login: &Login) -> Hmac<Sha256> {
        let length = (login.name.len() as u64).to_le_bytes();
        self.mac
            .clone()
            .chain_update(length)
            .chain_update(&login.name)
            .chain_update(&login.password)
    }

    fn has_verified(&self, login: &Login) -> bool {
        let verified = self.users.find(&login.name).and_then(|user| self.verified[user].get());
        // The comparison takes the same time wherever they differ.
        verified.is_some_and(|known| self.fingerprint(login).verify_slice(known).is_ok())
    }

    /// The result of a login that is being verified; `begin` has it verified if it is not.
    pub fn join<E>(
        &self,
        login: Login,
        begin: impl FnOnce(Login, watch::Sender<Option<bool>>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Result, E> {
        let fingerprint = self.fingerprint(&login).finalize().into_bytes().into();
        let mut pending = self.pending();
        if let Some(result) = pending.get(&fingerprint) {
            return Ok(result.clone());
        }
        let (sender, result) = watch::channel(None);
        begin(login, sender)?;
        pending.insert(fingerprint, result.clone());
        Ok(result)
    }

    /// Verifies a login and sends the result to the requests that wait for it; calls `count_wrong`
    /// before if it was wrong. Does nothing if no request waits any more.
    pub fn verify(
        &self,
        login: &Login,
        result: &watch::Sender<Option<bool>>,
        count_wrong: impl FnOnce(),
    ) {
        self.verify_by(login, result, count_wrong, |user| self.users.verify(user, &login.password));
    }

    fn verify_by(
        &self,
        login: &Login,
        result: &watch::Sender<Option<bool>>,
        count_wrong: impl FnOnce(),
        is_right: impl FnOnce(Option<usize>) -> bool,
    ) {
        let fingerprint = self.fingerprint(login).finalize().into_bytes().into();
        {
            let mut pending = self.pending();
            // The map holds one receiver itself, so no request waits.
            if result.receiver_count() <= 1 {
                pending.remove(&fingerprint);
                return;
            }
        }
        let entry = PendingEntry { known: self, fingerprint };
        let user = self.users.find(&login.name);
        let is_right = is_right(user);
        match user.filter(|_| is_right) {
            // A second password may be right too, since bcrypt compares only 72 bytes. It has no
            // entry here, so each login with it is verified anew.
            Some(user) => _ = self.verified[user].set(fingerprint),
            None => count_wrong(),
        }
        drop(entry);
        result.send_replace(Some(is_right));
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<Fingerprint, Result>> {
        // No code that holds the lock can panic and leave the map half changed.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A login among those that are being verified. It is removed also after a panic: the entry of a
/// verification that has ended would fail all further requests with this login.
struct PendingEntry<'a> {
    known: &'a KnownUsers,
    fingerprint: Fingerprint,
}

impl Drop for PendingEntry<'_> {
    fn drop(&mut self) {
        self.known.pending().remove(&self.fingerprint);
    }
}

fn random_mac() -> Hmac<Sha256> {
    let mut key = [0; BYTES];
    // The kernel returns up to 256 bytes without interruption once it has booted.
    let got = getrandom(&mut key, GetRandomFlags::empty()).unwrap_or(0);
    assert_eq!(got, BYTES, "the kernel gives random numbers");
    Hmac::new_from_slice(&key).unwrap_or_else(|_| unreachable!("a key may have any length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"max:{SHA}kGByAB793z4R5tK1eC9Hd/4Dhzk=\n";

    fn login(name: &str, password: &str) -> Login {
        Login { name: name.into(), password: password.into() }
    }

    fn verify(file: &UserFile, login: &Login) -> Option<bool> {
        let (sender, result) = watch::channel(None);
        let (_other, mut counted) = (result.clone(), 0);
        file.known().verify(login, &sender, || counted += 1);
        let is_right = *result.borrow();
        assert_eq!(counted == 1, is_right == Some(false), "wrong ones count");
        is_right
    }

    #[test]
    fn a_login_is_known_until_its_line_changes() {
        let file = UserFile::new(FILE).unwrap();
        let right = login("max", "geheim");
        assert!(!file.has_verified(&right));
        assert_eq!(verify(&file, &right), Some(true));
        assert!(file.has_verified(&right));
        for wrong in [login("max", "geheiM"), login("eva", "geheim"), login("maxg", "eheim")] {
            assert_eq!(verify(&file, &wrong), Some(false));
            assert!(!file.has_verified(&wrong));
        }
        file.renew(FILE).unwrap();
        assert!(file.has_verified(&right));
        assert!(file.renew(b"max:geheim").is_err());
        assert!(file.has_verified(&right));
        let eva = "eva:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
        file.renew(&[eva.as_bytes(), b"# x\n", FILE].concat()).unwrap();
        assert!(file.has_verified(&right), "its place is another one");
        let other = login("eva", "secret");
        assert!(!file.has_verified(&other));
        assert_eq!(verify(&file, &other), Some(true));
        // Both names stay, with each other's password.
        let swapped =
            "max:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\neva:{SHA}kGByAB793z4R5tK1eC9Hd/4Dhzk=\n";
        file.renew(swapped.as_bytes()).unwrap();
        assert!(!file.has_verified(&right) && !file.has_verified(&other));
        assert_eq!(verify(&file, &right), Some(false));
        file.renew(FILE).unwrap();
        assert!(!file.has_verified(&right));
        assert_eq!(verify(&file, &right), Some(true));
        file.renew(b"").unwrap();
        assert!(!file.has_verified(&right));
        assert_eq!(verify(&file, &right), Some(false));
    }

    #[test]
    fn the_same_login_is_verified_once() {
        let known = UserFile::new(FILE).unwrap().known();
        let mut jobs = Vec::new();
        let mut join = |password: &str| {
            let begin = |login, sender| {
                jobs.push((login, sender));
                Ok::<(), ()>(())
            };
            known.join(login("max", password), begin).unwrap()
        };
        let results = [join("geheim"), join("geheim"), join("other")];
        let [(first, sender), (other, other_sender)] = &jobs[..] else { panic!("two jobs") };
        known.verify(first, sender, || panic!("it is right"));
        assert_eq!(
            results.each_ref().map(|result| *result.borrow()),
            [Some(true), Some(true), None]
        );
        drop(results);
        known.verify(other, other_sender, || panic!("nobody waits"));
        assert!(known.pending().is_empty());
        let refused = known.join(login("max", "x"), |_, _| Err("busy"));
        assert!(refused.is_err() && known.pending().is_empty());
    }
    #[test]
    fn a_panic_leaves_nothing_behind() {
        let known = UserFile::new(FILE).unwrap().known();
        let mut jobs = Vec::new();
        let mut join = || {
            let begin = |login, sender| {
                jobs.push((login, sender));
                Ok::<(), ()>(())
            };
            known.join(login("max", "geheim"), begin).unwrap()
        };
        let _waits = join();
        let (login, sender) = jobs.remove(0);
        let verify = || known.verify_by(&login, &sender, || {}, |_| panic!("a broken hash"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(verify)).is_err());
        assert!(known.pending().is_empty(), "the next request begins anew");
    }
}
