//! Bytes for another process that are too many for a message, and are not to be in any file system.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, memfd_create};

/// Memory that holds these bytes, and that no process can change any more. `name` shows in
/// `/proc/PID/fd`.
///
/// # Errors
/// Fails if there is no memory, or no free descriptor.
pub fn write(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// The bytes of such memory.
///
/// # Errors
/// Fails if it cannot be read.
pub fn read(fd: OwnedFd) -> io::Result<Vec<u8>> {
    let length = usize::try_from(fstat(&fd)?.st_size).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    File::from(fd).read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_stays() {
        let fd = write("a test", b"some bytes").unwrap();
        let again = fd.try_clone().unwrap();
        assert_eq!(read(fd).unwrap(), b"some bytes");
        assert!(File::from(again.try_clone().unwrap()).write_all(b"other").is_err());
        assert_eq!(read(again).unwrap(), b"some bytes");
        assert!(read(write("empty", b"").unwrap()).unwrap().is_empty());
    }
}
