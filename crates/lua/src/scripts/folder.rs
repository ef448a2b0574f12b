//! Scripts of a folder, by the names that web servers have for them.
//!
//! A name is followed once, links included, and remembered. Once a second all names are followed
//! again, away from requests: what a deployment has moved is found then, and what has been deleted
//! is forgotten.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use super::ScriptId;

/// Most names that are remembered, because requests may write one name in many ways. The bound is
/// for clients that invent names: ten times more is ten times the memory that they can take. A
/// tenth would look up the names of a large site again and again.
const MOST_NAMES: usize = 4096;

/// Why there is no script to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The request names no file, but nothing or a folder.
    Unnamed,
    /// There is no such file.
    Missing,
    /// It may not be run: it is outside the folder, unreadable, or no file.
    Forbidden,
    /// The system cannot read it at the moment.
    Unreadable,
}

impl Absent {
    /// What an error of the system means.
    pub fn of(error: &io::Error) -> Absent {
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput => Absent::Missing,
            ErrorKind::PermissionDenied => Absent::Forbidden,
            ErrorKind::IsADirectory => Absent::Unnamed,
            _ => Absent::Unreadable,
        }
    }
}

/// A folder, and the names of its scripts.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    names: RwLock<HashMap<Vec<u8>, Named>>,
}

#[derive(Debug)]
struct Named {
    id: ScriptId,
    /// Where the name leads.
    path: PathBuf,
}

impl Folder {
    /// A folder, which need not be there yet.
    pub fn new(root: PathBuf) -> Folder {
        Folder { root, names: RwLock::default() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The script that a name leads to; `add` knows or reads the one at a path.
    ///
    /// # Errors
    /// Fails if there is no such script.
    pub fn find(
        &self,
        name: &[u8],
        add: impl FnOnce(&Path) -> Result<ScriptId, Absent>,
    ) -> Result<ScriptId, Absent> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = names.get(name) {
            return Ok(named.id);
        }
        drop(names);
        let path = self.follow(name)?;
        let id = add(&path)?;
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        names.insert(name.to_vec(), Named { id, path });
        Ok(id)
    }

    /// Follows all names again, and forgets those that lead elsewhere now.
    pub fn look(&self) {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<_> =
            names.iter().map(|(name, named)| (name.clone(), named.path.clone())).collect();
        drop(names);
        for (name, path) in known {
            if self.follow(&name) != Ok(path) {
                self.names.write().unwrap_or_else(PoisonError::into_inner).remove(&name);
            }
        }
    }

    /// The file below the folder that a name leads to.
    fn follow(&self, name: &[u8]) -> Result<PathBuf, Absent> {
        let name = Path::new(OsStr::from_bytes(name));
        if !name.is_absolute() {
            return Err(Absent::Unnamed);
        }
        let root = fs::canonicalize(&self.root).map_err(|error| Absent::of(&error))?;
        let path = fs::canonicalize(name).map_err(|error| Absent::of(&error))?;
        if !path.starts_with(&root) {
            return Err(Absent::Forbidden);
        }
        if fs::metadata(&path).map_err(|error| Absent::of(&error))?.is_dir() {
            return Err(Absent::Unnamed);
        }
        Ok(path)
    }
}
