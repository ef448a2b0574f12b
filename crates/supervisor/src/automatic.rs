//! The certificates that the server has got by itself, in its state directory. A name without one
//! is refused in the handshake: a browser that gets a certificate for another name teaches its user
//! to accept any.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tokamak_config::Server;
use tokamak_tls::{Entry, Pair, PairFiles};

use crate::log::{self, Level};
use crate::state_dir;
use crate::watched::{Watched, mark, read};

/// The certificates by their names.
#[derive(Debug, Default)]
pub struct Automatic {
    state_dir: PathBuf,
    known: BTreeMap<String, NameState>,
}

#[derive(Debug)]
struct NameState {
    path: PathBuf,
    /// Whether the name was first seen in a handshake.
    is_on_demand: bool,
    /// Absent until there is a certificate.
    pair: Watched<Option<Certificate>>,
}

/// Whether there is a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is in use.
    Known,
    /// It was found in the directory now.
    New,
    /// No certificate was found.
    Nothing,
}

/// A certificate for its name.
struct Certificate {
    files: PairFiles,
    /// Seconds since 1970.
    ends: u64,
    /// Whether it has ended, and is not used. It is kept, because a clock that was wrong may be set
    /// back.
    is_over: bool,
}

impl Automatic {
    /// Those below this state directory.
    pub fn below(state_dir: &Path) -> Automatic {
        Automatic { state_dir: state_dir.to_owned(), known: BTreeMap::new() }
    }

    /// Reads the certificates for the names of a configuration that are not known yet; whether
    /// any of them is to be used.
    pub fn load(&mut self, server: &Server) -> bool {
        let mut is_new = false;
        for name in server.public_names() {
            match self.known.get_mut(name) {
                // A site names it now.
                Some(known) => known.is_on_demand = false,
                None => is_new |= self.read(name, false),
            }
        }
        if server.on_demand_hosts().next().is_some() {
            for name in state_dir::on_demand_names(&self.state_dir) {
                if server.gets_on_demand(&name) && !self.known.contains_key(&name) {
                    is_new |= self.read(&name, true);
                }
            }
        }
        is_new
    }

    fn path(&self, name: &str, is_on_demand: bool) -> PathBuf {
        match is_on_demand {
            true => state_dir::on_demand(&self.state_dir, name),
            false => state_dir::certificate(&self.state_dir, name),
        }
    }

    /// Reads the certificate for a name; whether there is one to be used.
    fn read(&mut self, name: &str, is_on_demand: bool) -> bool {
        let mut path = self.path(name, is_on_demand);
        if !is_on_demand && !path.exists() {
            // It may have got one before a site named it.
            let other = self.path(name, true);
            path = if other.exists() { other } else { path };
        }
        let marks = vec![mark(&path)];
        let pair = if path.exists() { held(&path, name, clock()) } else { None };
        let is_used = pair.as_ref().is_some_and(|held| !held.is_over);
        if pair.is_some() || !is_on_demand {
            let pair = Watched::new(pair, marks);
            self.known.insert(name.to_owned(), NameState { path, is_on_demand, pair });
        }
        is_used
    }

    /// Forgets the names that none of these configurations has.
    pub fn keep(&mut self, servers: &[&Server]) {
        let names: BTreeSet<&str> =
            servers.iter().flat_map(|server| server.public_names()).collect();
        self.known.retain(|name, known| match known.is_on_demand {
            true => servers.iter().any(|server| server.gets_on_demand(name)),
            false => names.contains(&**name),
        });
    }

    /// What a front of this configuration needs.
    pub fn entries(&self, server: &Server) -> impl Iterator<Item = Entry> {
        let named = server.public_names().into_iter().map(|name| {
            // Without one the name is refused, and does not get that of another one.
            let pairs = self.files(name).cloned().into_iter().collect();
            Entry { names: vec![name.to_owned()], pairs, is_for_itself: false }
        });
        let on_demand = self.on_demand().filter(|name| server.gets_on_demand(name));
        // Without one a handshake waits for it.
        let on_demand = on_demand.filter_map(|name| {
            let pairs = vec![self.files(name)?.clone()];
            // A client that asks for another name must not see the name of a customer.
            Some(Entry { names: vec![name.to_owned()], pairs, is_for_itself: true })
        });
        named.chain(on_demand)
    }

    /// The names that were first seen in a handshake, and have a certificate, which may have ended.
    pub fn on_demand(&self) -> impl Iterator<Item = &str> {
        let known = self.known.iter().filter(|(_, known)| known.is_on_demand);
        known.map(|(name, _)| &**name)
    }

    /// Whether there is a certificate for a name that was first seen in a handshake. Another server
    /// with the same directory may have got it since.
    pub fn find_on_demand(&mut self, name: &str) -> Lookup {
        if self.files(name).is_some() {
            if let Some(known) = self.known.get_mut(name) {
                // A site may have named it before.
                known.is_on_demand = true;
            }
            Lookup::Known
        } else if self.read(name, true) {
            Lookup::New
        } else {
            Lookup::Nothing
        }
    }

    /// Forgets a name that was first seen in a handshake.
    pub fn forget_on_demand(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// The certificate for a name.
    pub fn files(&self, name: &str) -> Option<&PairFiles> {
        let held = self.known.get(name)?.pair.value.as_ref()?;
        Some(&held.files).filter(|_| !held.is_over)
    }

    /// Uses this certificate, which is in the state directory already; whether it is another one.
    /// `is_on_demand`: the name was first seen in a handshake.
    pub fn renew(&mut self, name: &str, files: PairFiles, is_on_demand: bool) -> bool {
        let Ok(held) = verify(name, files, clock()) else { return false };
        let path = self.path(name, is_on_demand);
        log::line(Level::Info, format_args!("new certificate in use: {}", path.display()));
        let pair = Watched::new(Some(held), vec![mark(&path)]);
        self.known.insert(name.to_owned(), NameState { path, is_on_demand, pair });
        true
    }

    /// Looks at the files, and at the clock; whether something has changed.
    pub fn look(&mut self) -> bool {
        self.look_at(clock())
    }

    fn look_at(&mut self, now: u64) -> bool {
        let mut is_changed = false;
        for (name, NameState { path, pair, .. }) in &mut self.known {
            if pair.look(&[path])
                && let Some(held) = held(path, name, now)
                && !held.is_over
                && pair.value.as_ref().is_none_or(|old| old.files != held.files)
            {
                log::line(Level::Info, format_args!("new certificate in use: {}", path.display()));
                pair.value = Some(held);
                is_changed = true;
            }
            let Some(held) = &mut pair.value else { continue };
            let is_over = now > held.ends;
            if is_over == held.is_over {
                continue;
            }
            held.is_over = is_over;
            is_changed = true;
            let (level, what) = if is_over {
                let what = "the certificate has expired and is not used any more; the lines \
                            before say why there is no new one, or the clock of this machine \
                            is wrong";
                (Level::Error, what)
            } else {
                (Level::Info, "the clock was set back: the certificate is used again")
            };
            log::line(level, format_args!("{name}: {what}"));
        }
        is_changed
    }
}

// It has a key.
impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Certificate { ends, is_over, .. } = self;
        let mut shown = f.debug_struct("Held");
        shown.field("ends", ends).field("is_over", is_over).finish_non_exhaustive()
    }
}

/// The certificate for a name in this file. If it is not used, the log says why.
fn held(path: &Path, name: &str, now: u64) -> Option<Certificate> {
    let held = read(path).and_then(|file| {
        let files = PairFiles { certificate: file.clone(), key: file };
        verify(name, files, now).map_err(|problem| format!("{}: {problem}", path.display()))
    });
    let not_used = |problem: &str| log::line(Level::Warn, format_args!("not used: {problem}"));
    if held.as_ref().is_ok_and(|held| held.is_over) {
        not_used(&format!("{}: {EXPIRED}", path.display()));
    }
    held.map_err(|problem| not_used(&problem)).ok()
}

/// What is said of a certificate that has ended.
const EXPIRED: &str = "the certificate has expired";

/// Whether this is a certificate for the name, with its key.
fn verify(name: &str, files: PairFiles, now: u64) -> Result<Certificate, String> {
    let pair = Pair::read(&files.certificate, &files.key).map_err(|error| error.to_string())?;
    let certificate = pair.certificate;
    if !certificate.is_for(name) && !certificate.names.iter().any(|other| other == name) {
        return Err(format!("the certificate is not for {name}"));
    }
    let ends = certificate.not_after;
    Ok(Certificate { files, ends, is_over: now > ends })
}

/// What is wrong with a file that is to become the certificate for a name.
///
/// # Errors
/// Fails with that.
pub fn check(name: &str, file: &[u8]) -> Result<PairFiles, String> {
    let files = PairFiles { certificate: file.to_vec(), key: file.to_vec() };
    let held = verify(name, files, clock())?;
    if held.is_over { Err(EXPIRED.into()) } else { Ok(held.files) }
}

fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokamak_authority::{Authority, pair_path};

    use super::*;

    /// A clock that is ahead for a while, as before NTP has set it, takes no certificate away.
    #[test]
    fn a_clock_that_is_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let name = "a.localhost";
        let today = Duration::from_secs(clock());
        Authority::open(folder.path(), today).unwrap().ensure(name, today).unwrap();
        let path = pair_path(folder.path(), name);
        let mut automatic = Automatic::below(folder.path());
        let now = clock();
        let wrong = now + 50 * 365 * 24 * 3600;
        let pair = Watched::new(held(&path, name, wrong), vec![mark(&path)]);
        automatic.known.insert(name.into(), NameState { path, is_on_demand: false, pair });
        assert!(automatic.files(name).is_none(), "it has ended, says the clock");
        assert!(automatic.look_at(now) && automatic.files(name).is_some());
        assert!(!automatic.look_at(now), "once");
        assert!(automatic.look_at(wrong) && automatic.files(name).is_none());
        assert!(automatic.look_at(now) && automatic.files(name).is_some());
    }
}
