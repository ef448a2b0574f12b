//! Files by the names that people use for them: the current directory, and programs in `PATH`.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The current directory by the name that its shell has for it (`PWD`), if that still leads there:
/// what a link leads to is another directory after a deployment.
///
/// # Errors
/// Fails if there is none.
pub fn current_directory() -> io::Result<PathBuf> {
    let real = env::current_dir()?;
    let named = env::var_os("PWD").map(PathBuf::from).filter(|named| named.is_absolute());
    Ok(named.filter(|named| is_same_file(named, &real)).unwrap_or(real))
}

/// The first file of this name in the folders of `PATH`; none for a name with a slash.
pub fn find_in_path(name: &OsStr) -> Option<PathBuf> {
    let is_plain = !name.is_empty() && !name.as_encoded_bytes().contains(&b'/');
    let path = env::var_os("PATH").filter(|_| is_plain)?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Whether two names lead to one file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
