//! The files of users whose passwords are asked for: read here, because the front may not, and
//! given to each front. When a file changes, it is read again; a broken one leaves the old one in
//! use.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokamak_auth::{UserFiles, Users};
use tokamak_config::Server;
use tokamak_sys::memory_file;

use crate::log::{self, Level};
use crate::watch::since;
use crate::watched::{Watched, mark, read};

/// Time between two looks at the files, as for certificates.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The files of users of a server.
#[derive(Debug, Default)]
pub struct UserFilesWatch {
    files: BTreeMap<PathBuf, Watched<Vec<u8>>>,
    looked: u64,
    /// Whether something has changed that fronts do not know yet.
    changed: bool,
}

impl UserFilesWatch {
    /// Reads all files of a configuration.
    ///
    /// # Errors
    /// Fails with the first file that cannot be used. Then nothing has changed.
    pub fn load(&mut self, server: &Server) -> Result<(), String> {
        let mut files = Vec::new();
        for (site, path) in files_of(server) {
            let marks = vec![mark(path)];
            let file = read_users(path).map_err(|problem| format!("site {site}: {problem}"))?;
            files.push((path.to_owned(), file, marks));
        }
        for (path, file, marks) in files {
            self.changed |= self.files.get(&path).is_some_and(|old| old.value != file);
            self.files.insert(path, Watched::new(file, marks));
        }
        Ok(())
    }

    /// Forgets the files that none of these configurations needs.
    pub fn keep(&mut self, servers: &[&Server]) {
        let needed = |path: &Path| {
            servers.iter().flat_map(|server| files_of(server)).any(|(_, other)| other == path)
        };
        self.files.retain(|path, _| needed(path));
    }

    /// Those that a front of this configuration needs.
    pub fn of(&self, server: &Server) -> UserFiles {
        let known = files_of(server)
            .filter_map(|(_, path)| Some((path.to_owned(), self.files.get(path)?.value.clone())));
        UserFiles(known.collect())
    }

    /// The same, as a front gets it that runs already.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn memory_file(&self, server: &Server) -> io::Result<OwnedFd> {
        memory_file::write("tokamak-users", &self.of(server).encode())
    }

    /// Looks at the files, if it is time for that. Whether the fronts are to get new ones.
    pub fn tick(&mut self, now: u64) -> bool {
        if since(self.looked, now) >= LOOK_EVERY {
            self.looked = now;
            self.files.iter_mut().for_each(|(path, watched)| self.changed |= renew(path, watched));
        }
        std::mem::take(&mut self.changed)
    }
}

/// Reads a file again if it has changed. Whether its contents have.
fn renew(path: &Path, watched: &mut Watched<Vec<u8>>) -> bool {
    if !watched.look(&[path]) {
        return false;
    }
    match read_users(path) {
        Ok(file) => {
            let has_changed = file != watched.value;
            if has_changed {
                let path = path.display();
                log::line(Level::Info, format_args!("new users are known: {path}"));
            }
            watched.value = file;
            has_changed
        }
        Err(problem) => {
            let advice = "the old users stay; correct the file, it is read when it changes";
            log::line(Level::Error, format_args!("users not taken: {problem}; {advice}"));
            false
        }
    }
}

/// The files of a configuration, each with the name of a site whose rule names it.
fn files_of(server: &Server) -> impl Iterator<Item = (&str, &Path)> {
    server.sites.iter().flat_map(|site| {
        let rules = site.rules.iter().filter_map(|rule| rule.login.as_ref());
        rules.map(|login| (&*site.name, &*login.users))
    })
}

/// Checks the files of users of a configuration.
///
/// # Errors
/// Fails with the first file that cannot be used.
pub fn verify(server: &Server) -> Result<(), String> {
    UserFilesWatch::default().load(server)
}

fn read_users(path: &Path) -> Result<Vec<u8>, String> {
    let file = read(path)?;
    Users::read(&file).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(file)
}
