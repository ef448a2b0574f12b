//! The files of a server's users on their way to the process that asks for passwords, which may not
//! read them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The contents of files, by their paths.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserFiles(pub BTreeMap<PathBuf, Vec<u8>>);

// Hashes are not for a log.
impl fmt::Debug for UserFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Bytes that are no files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the files of users did not arrive whole")
    }
}

impl std::error::Error for Malformed {}

impl UserFiles {
    /// The files as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (path, file) in &self.0 {
            for part in [path.as_os_str().as_bytes(), file] {
                out.extend_from_slice(&(part.len() as u32).to_le_bytes());
                out.extend_from_slice(part);
            }
        }
        out
    }

    /// Reads what [`UserFiles::encode`] wrote.
    ///
    /// # Errors
    /// Fails if the bytes are anything else.
    pub fn decode(mut encoded: &[u8]) -> Result<UserFiles, Malformed> {
        let mut files = BTreeMap::new();
        while !encoded.is_empty() {
            let path = Path::new(OsStr::from_bytes(take(&mut encoded)?)).to_owned();
            let file = take(&mut encoded)?.to_owned();
            // They are written in their order, and each once.
            if files.last_key_value().is_some_and(|(last, _)| *last >= path) {
                return Err(Malformed);
            }
            files.insert(path, file);
        }
        Ok(UserFiles(files))
    }
}

fn take<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let (length, rest) = from.split_first_chunk().ok_or(Malformed)?;
    let (part, rest) =
        rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(Malformed)?;
    *from = rest;
    Ok(part)
}
