//! Files that are read again when they change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Longest file that is read. One with a hundred certificates of authorities is about 200 kB.
const LONGEST: u64 = 4 << 20;

/// How a file was when it was looked at: another time, inode or size is another file.
pub type Mark = Option<(i64, i64, u64, u64)>;

/// Something that was read from files, which may change.
pub struct Watched<T> {
    /// What they hold.
    pub value: T,
    /// How the files were when they were read.
    read: Vec<Mark>,
    /// How they were at the last look. They are read when two looks find the same: a program may
    /// be about to write the other file of a pair.
    seen: Vec<Mark>,
}

// What was read may be a key.
impl<T> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl<T> Watched<T> {
    /// This was in the files when they were so.
    pub fn new(value: T, marks: Vec<Mark>) -> Watched<T> {
        Watched { value, read: marks.clone(), seen: marks }
    }

    /// Whether the files are to be read again.
    pub fn look(&mut self, files: &[&Path]) -> bool {
        let now: Vec<Mark> = files.iter().map(|file| mark(file)).collect();
        let is_settled = now == self.seen;
        let is_new = is_settled && now != self.read;
        self.seen = now;
        if is_new {
            // Once, whatever comes of it.
            self.read.clone_from(&self.seen);
        }
        is_new
    }
}

/// How a file is now.
pub fn mark(path: &Path) -> Mark {
    let found = fs::metadata(path).ok()?;
    Some((found.mtime(), found.mtime_nsec(), found.ino(), found.size()))
}

/// The contents of a file.
///
/// # Errors
/// Fails with what is wrong, and the path.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let name = |error: io::Error| {
        let text = error.to_string();
        let plain = text.split(" (os error").next().unwrap_or_default();
        format!("{} cannot be read: {plain}", path.display())
    };
    if fs::metadata(path).map_err(name)?.len() > LONGEST {
        return Err(format!("{} is longer than {} MiB", path.display(), LONGEST >> 20));
    }
    fs::read(path).map_err(name)
}
