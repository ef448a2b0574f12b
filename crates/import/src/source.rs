//! Where a configuration comes from: places in files, and the disk as a trait, so that tests and
//! fuzzers bring files of their own.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of one file. A configuration of ten times that size is none.
const LARGEST: u64 = 4 << 20;

/// Most entries of a directory tree that are looked at for `.htaccess` files. A tenth of it would
/// be too few for an application with its packages; ten times more would take a minute.
const MOST_ENTRIES: usize = 200_000;

/// A line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl Place {
    /// The first line of a file.
    pub fn start(file: &Path) -> Place {
        Place { file: file.to_string_lossy().into(), line: 1 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file, self.line)
    }
}

/// Why nothing was imported: the file cannot be read, or is none of this language.
#[derive(Debug)]
pub struct Unreadable {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.problem)
    }
}

/// The files that a configuration names.
pub trait Disk {
    /// The content of a file.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is too large for a configuration.
    fn read(&self, file: &Path) -> io::Result<Vec<u8>>;
    /// The files that a pattern with `*`, `?` and `[]` names, in the order of their names, and the
    /// folders that cannot be looked into.
    fn glob(&self, pattern: &str) -> Vec<PathBuf>;
    /// Whether there is such a file.
    fn is_file(&self, path: &Path) -> bool;
    /// The files of this name below a directory; `None` if there are too many entries to look at,
    /// or some that cannot be looked at.
    fn find(&self, directory: &Path, name: &str) -> Option<Vec<PathBuf>>;
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Disk for System {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let metadata = std::fs::metadata(file)?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
        }
        if metadata.len() > LARGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than 4 MiB"));
        }
        std::fs::read(file)
    }

    fn glob(&self, pattern: &str) -> Vec<PathBuf> {
        // A folder that cannot be read is named, too, so that reading it says so.
        let path = |found: glob::GlobResult| found.unwrap_or_else(|error| error.path().to_owned());
        glob::glob(pattern).map(|paths| paths.map(path).collect()).unwrap_or_default()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn find(&self, directory: &Path, name: &str) -> Option<Vec<PathBuf>> {
        let (mut found, mut seen) = (Vec::new(), 0);
        if !directory.exists() {
            return Some(found);
        }
        let mut directories = vec![directory.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(&directory).ok()? {
                let entry = entry.ok()?;
                seen += 1;
                if seen > MOST_ENTRIES {
                    return None;
                }
                let path = entry.path();
                // A folder behind a link is one, unless the link leads up: that is a circle.
                let is_folder = match entry.file_type().ok()? {
                    kind if kind.is_symlink() => {
                        path.is_dir()
                            && !directory
                                .canonicalize()
                                .ok()?
                                .starts_with(path.canonicalize().ok()?)
                    }
                    kind => kind.is_dir(),
                };
                match is_folder {
                    true => directories.push(path),
                    false if entry.file_name() == name => found.push(path),
                    false => {}
                }
            }
        }
        found.sort();
        Some(found)
    }
}

/// The text of a file. Bytes that are not UTF-8 become replacement characters.
pub(crate) fn text(disk: &dyn Disk, file: &Path) -> Result<String, Unreadable> {
    match disk.read(file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(Unreadable {
            place: Place::start(file),
            problem: format!("cannot be read: {error}"),
        }),
    }
}
