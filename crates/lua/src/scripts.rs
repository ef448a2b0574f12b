//! The script files: read when the server starts, or when one of a folder is asked for first, and
//! again when they have changed.
//!
//! One thread looks at them once a second. A run compares one number to know whether its compiled
//! script is the newest.

mod folder;

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

pub use folder::Absent;
use folder::Folder;

/// Largest file that is taken for a script. A script is compiled on an event loop, which serves
/// nobody meanwhile: ten times more could be felt by all. Scripts with large tables inside stay
/// below it; a tenth would refuse some of them.
const LARGEST: u64 = 8 << 20;

/// Most files of a folder that are taken for scripts. The folder is read at start and looked at
/// every second: ten times more would be felt in both. A tenth is what a large generated site may
/// have.
const MOST: usize = 4096;

/// A script file that an engine was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptId(pub(crate) usize);

/// All script files.
#[derive(Debug)]
pub struct Scripts {
    entries: RwLock<Vec<Arc<ScriptEntry>>>,
    /// Where further ones may be.
    folder: Option<Folder>,
}

/// One script file.
#[derive(Debug)]
pub struct ScriptEntry {
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
    pub source: io::Result<Vec<u8>>,
    /// Identifies this version of the file without reading it.
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
        Text { version, source: read(path), mark }
    }

    /// When the file was changed, in seconds since 1970.
    pub fn changed(&self) -> i64 {
        self.mark.map_or(0, |(seconds, ..)| seconds)
    }
}

/// Reads a regular file; others might never end, or never begin.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is no regular file"));
    }
    let mut text = Vec::new();
    if file.take(LARGEST + 1).read_to_end(&mut text)? as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for a script"));
    }
    Ok(text)
}

impl Scripts {
    /// Reads the files at these paths.
    pub fn new(paths: Vec<PathBuf>) -> Scripts {
        let entries = paths.into_iter().map(|path| Arc::new(ScriptEntry::new(path))).collect();
        Scripts { entries: RwLock::new(entries), folder: None }
    }

    /// Those of a folder, which are read when they are asked for.
    pub fn below(folder: PathBuf) -> Scripts {
        Scripts { entries: RwLock::default(), folder: Some(Folder::new(folder)) }
    }

    /// The folder whose scripts these are, if they are a folder's.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(Folder::root)
    }

    /// The script of that path.
    pub fn id(&self, path: &Path) -> Option<ScriptId> {
        self.entries().iter().position(|entry| entry.path == path).map(ScriptId)
    }

    /// The script of the folder that a request names by its path.
    ///
    /// # Errors
    /// Fails if the script does not exist or may not be run.
    pub fn find(&self, name: &[u8]) -> Result<ScriptId, Absent> {
        let folder = self.folder.as_ref().ok_or(Absent::Missing)?;
        folder.find(name, |path| self.add(path))
    }

    /// The script at a path that no link leads to.
    fn add(&self, path: &Path) -> Result<ScriptId, Absent> {
        let known = self.id(path);
        if let Some(id) = known {
            // It may have come back.
            self.entry(id).look();
            return self.entry(id).text().source.as_ref().map(|_| id).map_err(Absent::of);
        }
        let entry = ScriptEntry::new(path.to_owned());
        entry.text().source.as_ref().map_err(Absent::of)?;
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MOST {
            return Err(Absent::Unreadable);
        }
        // Another event loop may have been faster.
        let index = entries.iter().position(|entry| entry.path == path).unwrap_or_else(|| {
            entries.push(Arc::new(entry));
            entries.len() - 1
        });
        Ok(ScriptId(index))
    }

    /// One script file.
    pub fn entry(&self, id: ScriptId) -> Arc<ScriptEntry> {
        self.entries()[id.0].clone()
    }

    /// Reads again what has changed.
    pub fn look(&self) {
        // Names first: a name that leads nowhere gets its own error, instead of that its file is
        // gone.
        self.folder.iter().for_each(Folder::look);
        let entries = self.entries().clone();
        entries.iter().for_each(|entry| entry.look());
    }

    fn entries(&self) -> RwLockReadGuard<'_, Vec<Arc<ScriptEntry>>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScriptEntry {
    fn new(path: PathBuf) -> ScriptEntry {
        ScriptEntry {
            version: AtomicU64::new(1),
            text: Mutex::new(Arc::new(Text::read(&path, 1))),
            reported: AtomicU64::new(0),
            path,
        }
    }

    /// Reads it again if it has changed.
    fn look(&self) {
        let mut newest = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if fs::metadata(&self.path).ok().as_ref().map(mark) != newest.mark {
            let version = newest.version + 1;
            *newest = Arc::new(Text::read(&self.path, version));
            self.version.store(version, Ordering::Release);
        }
    }

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
