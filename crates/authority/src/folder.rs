//! The folder for what has to outlive a server: keys and certificates that it gets by itself.
//! Without it each part that keeps something would have to take care of rights, of crashes
//! in the middle of a write, and of other servers with the same folder by itself.
//!
//! A file is written beside its place, brought to the disk, and put into its place at once: a
//! reader finds the old one or the new one, also after a crash or on a full disk.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};
use tokamak_sys::process;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The owner.
    Owner,
    /// All who may enter the folder.
    All,
}

/// A folder that only its owner may enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens a folder, and makes it where it is missing.
    ///
    /// # Errors
    /// Fails if it cannot be made, or users other than this one and root may put files into it.
    pub fn open(path: &Path) -> Result<Folder, String> {
        let name = |error: io::Error| {
            let (path, why) = (path.display(), plain(&error));
            format!("the state folder {path} cannot be used: {why}; set another `state_dir`")
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(name)?;
        let found = fs::metadata(path).map_err(name)?;
        let is_ours = [0, process::effective_uid()].contains(&found.uid());
        if !is_ours || found.mode() & 0o022 != 0 {
            let path = path.display();
            return Err(format!(
                "other users may write to the state folder {path}, which holds keys; `chmod 700 \
                    {path}` as its owner, or set another `state_dir`"
            ));
        }
        Ok(Folder(path.to_owned()))
    }

    /// A folder in this one.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn folder(&self, name: &str) -> Result<Folder, String> {
        Folder::open(&self.0.join(name))
    }

    /// Where a file of it is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Reads a file of it; [`None`] if it is missing.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        match fs::read(self.path(name)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.problem("read", name, &error)),
        }
    }

    /// Writes a file of it, in place of an older one.
    ///
    /// # Errors
    /// Fails if the disk is full or broken. Then the older one is still there.
    pub fn write(&self, name: &str, content: &[u8], readers: Readers) -> Result<(), String> {
        let written = self.written(content, readers).and_then(|file| {
            file.persist(self.path(name))?;
            self.sync()
        });
        written.map_err(|error| self.problem("written", name, &error))
    }

    /// Writes a file of it, unless there is one. Of several servers that do so at once, one
    /// succeeds. Whether this one did.
    ///
    /// # Errors
    /// Fails if the disk is full or broken.
    pub fn write_new(&self, name: &str, content: &[u8], readers: Readers) -> Result<bool, String> {
        let written = self.written(content, readers).and_then(|file| {
            match file.persist_noclobber(self.path(name)) {
                Ok(_) => self.sync().map(|()| true),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error.error),
            }
        });
        written.map_err(|error| self.problem("written", name, &error))
    }

    /// Removes a file of it, if it is there.
    ///
    /// # Errors
    /// Fails if it is there afterwards.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.problem("removed", name, &error))
            }
            _ => Ok(()),
        }
    }

    fn written(&self, content: &[u8], readers: Readers) -> io::Result<NamedTempFile> {
        let mode = match readers {
            Readers::Owner => 0o600,
            Readers::All => 0o644,
        };
        let mut file = Builder::new().prefix(".new-").tempfile_in(&self.0)?;
        file.write_all(content)?;
        // Not at its creation: the umask would count.
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        Ok(file)
    }

    /// Brings the names of the files to the disk.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn problem(&self, verb: &str, name: &str, error: &io::Error) -> String {
        format!("{} cannot be {verb}: {}", self.path(name).display(), plain(error))
    }
}

/// An error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn only_the_owner_reads_what_is_written() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(&temporary.path().join("a/b")).unwrap();
        assert_eq!(mode(&temporary.path().join("a/b")), 0o700);
        assert_eq!(folder.read("key"), Ok(None));
        folder.write("key", b"one", Readers::Owner).unwrap();
        folder.write("key", b"two", Readers::Owner).unwrap();
        assert_eq!(folder.read("key"), Ok(Some(b"two".to_vec())));
        assert_eq!(mode(&folder.path("key")), 0o600);
        folder.write("root", b"three", Readers::All).unwrap();
        assert_eq!(mode(&folder.path("root")), 0o644);
        folder.write("other", b"four", Readers::Owner).unwrap();
        assert_eq!((folder.remove("other"), folder.remove("other")), (Ok(()), Ok(())));
        assert!(folder.remove("").is_err(), "a folder");
        let names = fs::read_dir(temporary.path().join("a/b")).unwrap();
        assert_eq!(names.count(), 2, "nothing else is left");
        let inner = folder.folder("inner").unwrap();
        assert_eq!(mode(&inner.path("")), 0o700);
    }

    #[test]
    fn one_of_several_writes_a_new_file() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(&temporary.path().join("state")).unwrap();
        let write = |number: u8| folder.write_new("key", &[number], Readers::Owner).unwrap();
        let won = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || write(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<bool>>()
        });
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        let winner = won.iter().position(|won| *won).unwrap();
        assert_eq!(folder.read("key"), Ok(Some(vec![winner as u8])));
        assert_eq!(fs::read_dir(temporary.path().join("state")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        fs::set_permissions(temporary.path(), Permissions::from_mode(0o770)).unwrap();
        let problem = Folder::open(temporary.path()).unwrap_err();
        assert!(problem.contains("other users may write") && problem.contains("chmod 700"));
        fs::set_permissions(temporary.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(Folder::open(temporary.path()).is_ok(), "a service manager makes such ones");
        let file = temporary.path().join("file");
        fs::write(&file, "").unwrap();
        let problem = Folder::open(&file).unwrap_err();
        assert!(problem.contains("cannot be used") && problem.contains("state_dir"), "{problem}");
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_file() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(&temporary.path().join("state")).unwrap();
        folder.write("file", b"old", Readers::Owner).unwrap();
        fs::create_dir(folder.path("folder")).unwrap();
        let problem = folder.write("folder", b"new", Readers::Owner).unwrap_err();
        assert!(problem.contains("/folder cannot be written: "), "{problem}");
        assert_eq!(folder.read("file"), Ok(Some(b"old".to_vec())));
        assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 2, "nothing is left beside");
    }
}
