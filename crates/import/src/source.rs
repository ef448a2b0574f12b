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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The files that a pattern with `*`, `?` and `[]` names, in the order of their names.
    fn glob(&self, pattern: &str) -> Vec<PathBuf>;
    /// Whether there is such a file.
    fn is_file(&self, path: &Path) -> bool;
    /// The files of this name below a directory; `None` if there are too many entries to look at.
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
        glob::glob(pattern).map(|paths| paths.flatten().collect()).unwrap_or_default()
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn find(&self, directory: &Path, name: &str) -> Option<Vec<PathBuf>> {
        let (mut found, mut seen) = (Vec::new(), 0);
        let mut directories = vec![directory.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MOST_ENTRIES {
                    return None;
                }
                // Links are not followed: they may form a circle.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                    Ok(_) if entry.file_name() == name => found.push(entry.path()),
                    _ => {}
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
