//! The home of somebody who browses, with all that their Chromium keeps.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// An empty home directory, which ends with the test.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        Home(tempfile::Builder::new().prefix("tokamak-home-").tempdir().unwrap())
    }

    /// What `HOME` is set to.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where Chromium keeps all but its store of certificates.
    pub fn profile(&self) -> PathBuf {
        self.path().join("profile")
    }
}
