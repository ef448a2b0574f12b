//! The script files: read when the server starts, and again when they have changed.
//!
//! One thread looks at them once a second. A run compares one number to know whether its compiled script is the newest.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A script file that an engine was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptId(pub(crate) usize);

/// All script files.
#[derive(Debug)]
pub struct Scripts {
    entries: Vec<Entry>,
}

/// One script file.
#[derive(Debug)]
pub struct Entry {
    /// Where it is.
    pub path: PathBuf,
    /// Which text is the newest: counts from 1.
    version: AtomicU64,
    text: Mutex<Arc<Text>>,
    /// The last version whose fault was reported, so that not every event loop does.
    reported: AtomicU64,
}

/// What was read at one time.
#[derive(Debug)]
pub struct Text {
    /// Which reading.
    pub version: u64,
    /// The text, or why there is none.
    pub source: Result<Vec<u8>, String>,
    /// What tells this text from the next without reading it.
    mark: Option<Mark>,
}

/// Modification time, size and inode.
type Mark = (i64, i64, u64, u64);

fn mark(metadata: &Metadata) -> Mark {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.size(), metadata.ino())
}

impl Text {
    fn read(path: &Path, version: u64) -> Text {
        // Looked at before it is read: what changes in between is found next time.
        let mark = fs::metadata(path).ok().as_ref().map(mark);
        let source = fs::read(path).map_err(|error| error.to_string());
        Text { version, source, mark }
    }
}

impl Scripts {
    /// Reads the files at these paths.
    pub fn new(paths: Vec<PathBuf>) -> Scripts {
        let entry = |path: PathBuf| Entry {
            version: AtomicU64::new(1),
            text: Mutex::new(Arc::new(Text::read(&path, 1))),
            reported: AtomicU64::new(0),
            path,
        };
        Scripts { entries: paths.into_iter().map(entry).collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The script of that path.
    pub fn id(&self, path: &Path) -> Option<ScriptId> {
        self.entries.iter().position(|entry| entry.path == path).map(ScriptId)
    }

    /// One script file.
    pub fn entry(&self, id: ScriptId) -> &Entry {
        &self.entries[id.0]
    }

    /// Reads again what has changed.
    pub fn look(&self) {
        for entry in &self.entries {
            let text = entry.text();
            if fs::metadata(&entry.path).ok().as_ref().map(mark) != text.mark {
                let version = text.version + 1;
                let text = Arc::new(Text::read(&entry.path, version));
                *entry.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
                entry.version.store(version, Ordering::Release);
            }
        }
    }
}

impl Entry {
    /// Which text is the newest.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The newest text.
    pub fn text(&self) -> Arc<Text> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the fault of that version is still to be reported; by whom is decided here.
    pub fn reports(&self, version: u64) -> bool {
        self.reported.fetch_max(version, Ordering::Relaxed) < version
    }
}
