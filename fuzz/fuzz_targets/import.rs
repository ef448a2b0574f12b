//! Configurations of other servers, whose files all have the same invented text.

#![no_main]

use std::io;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use tokamak_import::{Disk, Language, Output, import};

/// A disk on which every file has this text.
struct Same<'a>(&'a [u8]);

impl Disk for Same<'_> {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        match file == Path::new("/etc/main.conf") {
            true => Ok(self.0.to_vec()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn glob(&self, _pattern: &str) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_file(&self, _path: &Path) -> bool {
        true
    }

    fn find(&self, _directory: &Path, _name: &str) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }
}

fuzz_target!(|text: &[u8]| {
    for language in Language::ALL {
        let _ = import(language, Path::new("/etc/main.conf"), None, &Same(text), Output::Folder);
    }
});
