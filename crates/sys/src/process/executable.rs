//! A program that is opened once, so that what is started later is what was found at first.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program, found by its path and from then on started by its open file, whatever has taken the
/// path since.
#[derive(Debug)]
pub struct Executable {
    path: PathBuf,
    /// [`None`]: a script, which the kernel would have its interpreter open by a descriptor that
    /// is closed by then.
    file: Option<File>,
}

impl Executable {
    /// Opens it.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn open(path: &Path) -> io::Result<Executable> {
        let mut file = File::open(path)?;
        let mut begin = Vec::new();
        file.by_ref().take(2).read_to_end(&mut begin)?;
        Ok(Executable { path: path.to_owned(), file: Some(file).filter(|_| begin != b"#!") })
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Whether its path now leads to another file, or to none.
    pub fn is_replaced(&self) -> bool {
        let Some(Ok(opened)) = self.file.as_ref().map(File::metadata) else { return false };
        std::fs::metadata(&self.path)
            .map_or(true, |found| (found.dev(), found.ino()) != (opened.dev(), opened.ino()))
    }
}

/// Gives this process the name of this file, as the kernel does to a program that is started by its
/// path: what `ps` and `top` show. The kernel keeps the first 15 bytes.
pub fn set_name(program: impl AsRef<OsStr>) {
    let name = Path::new(program.as_ref()).file_name().unwrap_or_default();
    if let Ok(name) = CString::new(name.as_bytes()) {
        // SAFETY: the text is NUL-terminated and outlives the call.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
}
