//! The folder of temporary files: of request bodies and responses that memory does not hold.

use std::io;
use std::path::Path;

use tokamak_upstream::unopened::Explained;

/// Lets all temporary files of this process be made there. Only the first call counts.
///
/// # Errors
/// As [`verify`].
pub fn set(folder: &Path) -> io::Result<()> {
    verify(folder)?;
    let _ = tempfile::env::override_temp_dir(folder);
    Ok(())
}

/// Makes a temporary file there, and drops it.
///
/// # Errors
/// Fails if that is not possible.
pub fn verify(folder: &Path) -> io::Result<()> {
    let explain = |error: io::Error| {
        let message = format!(
            "temp_dir: no file can be made in {}: {}; let the user of the server write there, or \
                name another directory",
            folder.display(),
            Explained(&error)
        );
        io::Error::new(error.kind(), message)
    };
    tempfile::tempfile_in(folder).map(drop).map_err(explain)
}
