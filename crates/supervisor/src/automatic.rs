//! The certificates that the server has got by itself, in its state directory. A name without one
//! is refused in the handshake: a browser that is shown a certificate of nobody teaches its user to
//! accept any.

use std::collections::BTreeMap;
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
    known: BTreeMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// Absent until there is a certificate, and from when it has expired.
    pair: Watched<Option<Valid>>,
}

struct Valid {
    files: PairFiles,
    /// Seconds since 1970.
    ends: u64,
}

impl Automatic {
    /// Those below this state directory.
    pub fn below(state_dir: &Path) -> Automatic {
        Automatic { state_dir: state_dir.to_owned(), known: BTreeMap::new() }
    }

    /// Reads the certificates for the names of a configuration that are not known yet; whether
    /// there are any.
    pub fn load(&mut self, server: &Server) -> bool {
        let mut is_new = false;
        for name in server.public_names() {
            if self.known.contains_key(name) {
                continue;
            }
            let path = state_dir::certificate(&self.state_dir, name);
            let marks = vec![mark(&path)];
            let pair = if path.exists() { usable(&path, name) } else { None };
            is_new |= pair.is_some();
            self.known.insert(name.to_owned(), Known { path, pair: Watched::new(pair, marks) });
        }
        is_new
    }

    /// Forgets the names that none of these configurations has.
    pub fn keep(&mut self, servers: &[&Server]) {
        let names = servers.iter().flat_map(|server| server.public_names());
        let names: Vec<&str> = names.collect();
        self.known.retain(|name, _| names.contains(&&**name));
    }

    /// What a front of this configuration needs.
    pub fn entries(&self, server: &Server) -> impl Iterator<Item = Entry> {
        server.public_names().into_iter().map(|name| {
            // Without one the name is refused, and does not get that of another one.
            let pairs = self.files(name).cloned().into_iter().collect();
            Entry { names: vec![name.to_owned()], pairs }
        })
    }

    /// The certificate for a name.
    pub fn files(&self, name: &str) -> Option<&PairFiles> {
        Some(&self.known.get(name)?.pair.value.as_ref()?.files)
    }

    /// Uses this certificate, which is in the state directory already; whether it is another one.
    pub fn renew(&mut self, name: &str, files: PairFiles) -> bool {
        let Some(known) = self.known.get_mut(name) else { return false };
        let Ok(valid) = verify(name, files) else { return false };
        known.pair = Watched::new(Some(valid), vec![mark(&known.path)]);
        log::line(Level::Info, format_args!("new certificate in use: {}", known.path.display()));
        true
    }

    /// Looks at the files, and at the clock; whether something has changed.
    pub fn look(&mut self) -> bool {
        let (mut is_changed, now) = (false, clock());
        for (name, Known { path, pair }) in &mut self.known {
            if pair.look(&[path])
                && let Some(valid) = usable(path, name)
                && pair.value.as_ref().is_none_or(|old| old.files != valid.files)
            {
                log::line(Level::Info, format_args!("new certificate in use: {}", path.display()));
                pair.value = Some(valid);
                is_changed = true;
            }
            if pair.value.as_ref().is_some_and(|valid| now > valid.ends) {
                let what = "the certificate has expired and is not used any more; the lines before";
                log::line(Level::Error, format_args!("{name}: {what} say why there is no new one"));
                pair.value = None;
                is_changed = true;
            }
        }
        is_changed
    }
}

// It has a key.
impl std::fmt::Debug for Valid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Valid").field("ends", &self.ends).finish_non_exhaustive()
    }
}

fn usable(path: &Path, name: &str) -> Option<Valid> {
    let valid = read(path).and_then(|file| {
        let files = PairFiles { certificate: file.clone(), key: file };
        verify(name, files).map_err(|problem| format!("{}: {problem}", path.display()))
    });
    valid.map_err(|problem| log::line(Level::Warn, format_args!("not used: {problem}"))).ok()
}

/// Whether this is a certificate for the name, with its key, that has not expired.
fn verify(name: &str, files: PairFiles) -> Result<Valid, String> {
    let pair = Pair::read(&files.certificate, &files.key).map_err(|error| error.to_string())?;
    let certificate = pair.certificate;
    if !certificate.is_for(name) && !certificate.names.iter().any(|other| other == name) {
        return Err(format!("the certificate is not for {name}"));
    }
    if clock() > certificate.not_after {
        return Err("the certificate has expired".into());
    }
    Ok(Valid { files, ends: certificate.not_after })
}

/// What is wrong with a file that is to become the certificate for a name.
///
/// # Errors
/// Fails with that.
pub fn check(name: &str, file: &[u8]) -> Result<PairFiles, String> {
    let files = PairFiles { certificate: file.to_vec(), key: file.to_vec() };
    verify(name, files).map(|valid| valid.files)
}

fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
