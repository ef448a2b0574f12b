//! Opens the file of a path safely, even if it turns out to be a pipe or a device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An open regular file.
#[derive(Debug)]
pub struct OpenFile {
    /// The file, open for reading.
    pub file: File,
    /// Its length in bytes.
    pub len: u64,
    /// When it was last changed, in whole seconds of Unix time.
    pub modified: i64,
    /// The path by which it was found.
    pub path: PathBuf,
}

/// What a path turned out to be.
#[derive(Debug)]
pub enum Opened {
    /// A file that can be sent.
    Regular(OpenFile),
    /// A directory.
    Directory,
    /// A device, a socket or a pipe.
    Special,
}

/// Opens a path. A pipe without a writer, or a slow device, does not block the event loop.
pub fn open(path: &Path) -> io::Result<Opened> {
    let mut options = OpenOptions::new();
    let file = match options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path) {
        Ok(file) => file,
        // The error for a socket, or for a device without a driver.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(Opened::Special),
        Err(error) => return Err(error),
    };
    let meta = file.metadata()?;
    let kind = meta.file_type();
    Ok(if kind.is_file() {
        Opened::Regular(OpenFile {
            file,
            len: meta.len(),
            modified: meta.mtime(),
            path: path.to_owned(),
        })
    } else if kind.is_dir() {
        Opened::Directory
    } else {
        Opened::Special
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_given_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        assert!(
            matches!(open(&dir.path().join("file")), Ok(Opened::Regular(found)) if found.len == 1)
        );
        assert!(matches!(open(dir.path()), Ok(Opened::Directory)));
        assert!(matches!(open(Path::new("/dev/null")), Ok(Opened::Special)));
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        assert!(matches!(open(&dir.path().join("socket")), Ok(Opened::Special)));
        // Would block for ever without O_NONBLOCK.
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(matches!(open(&pipe), Ok(Opened::Special)));
        assert_eq!(open(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
