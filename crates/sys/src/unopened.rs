//! Why a file cannot be opened, and which status a client gets for that: one answer for all places
//! that open files for clients.

use std::fmt;
use std::io;
use std::path::Path;

use crate::process;

/// What an error of opening a file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// There is no such file.
    Missing,
    /// It may not be opened.
    Denied,
    /// This process or the machine has no room for another open file, which says nothing about the
    /// file.
    Exhausted,
    /// The file is there, as far as is known, and cannot be read.
    Broken,
}

impl Unopened {
    /// What this error means.
    pub fn of(error: &io::Error) -> Unopened {
        match error.raw_os_error() {
            Some(number) => Unopened::of_number(number),
            // Of the standard library: a name with a NUL.
            None if error.kind() == io::ErrorKind::InvalidInput => Unopened::Missing,
            None => Unopened::Broken,
        }
    }

    /// The same of an error by its number.
    pub fn of_number(number: i32) -> Unopened {
        match number {
            libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ENXIO | libc::ENODEV => {
                Unopened::Missing
            }
            libc::EACCES | libc::EPERM | libc::ELOOP => Unopened::Denied,
            libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS | libc::EAGAIN => {
                Unopened::Exhausted
            }
            _ => Unopened::Broken,
        }
    }

    /// The status of HTTP that says so.
    pub fn status(self) -> u16 {
        match self {
            Unopened::Missing => 404,
            Unopened::Denied => 403,
            Unopened::Exhausted => 503,
            Unopened::Broken => 500,
        }
    }
}

/// The error with the file that it is about and, if a limit is reached, with its name and value.
pub fn reason(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be opened: {}", path.display(), Explained(error))
}

/// An error with the limit that it is about.
pub struct Explained<'a>(pub &'a io::Error);

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explained(error) = self;
        write!(f, "{error}")?;
        match error.raw_os_error() {
            Some(libc::EMFILE) => {
                write!(f, "; a process may have {} (RLIMIT_NOFILE)", process::open_files())
            }
            Some(libc::ENFILE) => f.write_str("; the machine may have no more (fs.file-max)"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_mean_statuses() {
        for (number, status) in [
            (libc::ENOENT, 404),
            (libc::ENOTDIR, 404),
            (libc::ENAMETOOLONG, 404),
            (libc::ENXIO, 404),
            (libc::ENODEV, 404),
            (libc::EACCES, 403),
            (libc::EPERM, 403),
            (libc::ELOOP, 403),
            (libc::EMFILE, 503),
            (libc::ENFILE, 503),
            (libc::ENOMEM, 503),
            (libc::ENOBUFS, 503),
            (libc::EAGAIN, 503),
            (libc::EIO, 500),
            (libc::ESTALE, 500),
            (libc::EOVERFLOW, 500),
        ] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(Unopened::of(&error).status(), status, "{error}");
        }
        let nul = std::fs::File::open("a\0b").unwrap_err();
        assert_eq!(Unopened::of(&nul), Unopened::Missing);
    }

    #[test]
    fn the_reason_names_the_limit() {
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        let text = reason(Path::new("/a"), &error);
        let limit = format!("may have {} (RLIMIT_NOFILE)", process::open_files());
        assert!(text.starts_with("/a cannot be opened: Too many open files"), "{text}");
        assert!(text.ends_with(&limit), "{text}");
    }
}
