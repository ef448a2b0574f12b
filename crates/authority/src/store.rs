//! The certificates that a system trusts: a folder for those that an administrator adds, and a
//! program that makes of all of them what libraries read. Each family of systems has its own.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A family of systems.
struct Family {
    /// The folder, below the root of the system.
    folder: &'static str,
    /// The program that reads it, and its arguments.
    update: &'static [&'static str],
    /// The same when something has been removed.
    update_removed: &'static [&'static str],
}

const FAMILIES: [Family; 4] = [
    // Debian, Ubuntu, Alpine.
    Family {
        folder: "usr/local/share/ca-certificates",
        update: &["update-ca-certificates"],
        update_removed: &["update-ca-certificates", "--fresh"],
    },
    // Fedora, Red Hat.
    Family {
        folder: "etc/pki/ca-trust/source/anchors",
        update: &["update-ca-trust", "extract"],
        update_removed: &["update-ca-trust", "extract"],
    },
    // Arch.
    Family {
        folder: "etc/ca-certificates/trust-source/anchors",
        update: &["trust", "extract-compat"],
        update_removed: &["trust", "extract-compat"],
    },
    // SUSE.
    Family {
        folder: "etc/pki/trust/anchors",
        update: &["update-ca-certificates"],
        update_removed: &["update-ca-certificates"],
    },
];

/// The store of a system.
pub struct Store {
    root: PathBuf,
    family: &'static Family,
}

/// What was done.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the file was put there or removed; it may have been as it should be already.
    pub is_changed: bool,
    /// The command that is to be run in the system, if that is another one than the running one.
    /// Otherwise it has run.
    pub pending: Option<String>,
}

/// Why the store could not be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// The user may not do that.
    Forbidden(PathBuf),
    /// The file is as it should be, and the program that reads it has failed.
    Update(String),
    /// Anything else.
    Other(String),
}

impl Store {
    /// The store of the system below this folder, if it is of a known family.
    pub fn find(root: &Path) -> Option<Store> {
        let family = FAMILIES.iter().find(|family| root.join(family.folder).is_dir())?;
        Some(Store { root: root.to_owned(), family })
    }

    /// Where a certificate of this name is in it.
    pub fn path(&self, name: &str) -> PathBuf {
        let words = name.to_lowercase().replace(' ', "-");
        self.root.join(self.family.folder).join(format!("{words}.crt"))
    }

    /// Adds a certificate (PEM).
    ///
    /// # Errors
    /// Fails if the file cannot be written, or the program fails.
    pub fn add(&self, name: &str, certificate: &[u8]) -> Result<Outcome, Problem> {
        let path = self.path(name);
        let is_changed = !fs::read(&path).is_ok_and(|known| known == certificate);
        if is_changed {
            let written = fs::write(&path, certificate)
                .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)));
            written.map_err(|error| problem(&path, &error))?;
        }
        // In any case: it may have failed the last time.
        let pending = self.update(self.family.update)?;
        Ok(Outcome { is_changed, pending })
    }

    /// Removes a certificate.
    ///
    /// # Errors
    /// Fails if the file cannot be removed, or the program fails.
    pub fn remove(&self, name: &str) -> Result<Outcome, Problem> {
        let path = self.path(name);
        let is_changed = match fs::remove_file(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(problem(&path, &error)),
        };
        let pending = self.update(self.family.update_removed)?;
        Ok(Outcome { is_changed, pending })
    }

    /// Runs the program, or returns what is to be run.
    fn update(&self, command: &[&str]) -> Result<Option<String>, Problem> {
        let line = command.join(" ");
        if self.root != Path::new("/") {
            return Ok(Some(line));
        }
        let wrong = |why: String| Err(Problem::Update(format!("`{line}` {why}; run it again")));
        // Its output is for the case that it fails.
        match Command::new(command[0]).args(&command[1..]).output() {
            Ok(output) if output.status.success() => Ok(None),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                wrong(format!("failed ({}): {}", output.status, said.trim()))
            }
            Err(error) => wrong(format!("cannot be run: {error}")),
        }
    }
}

fn problem(path: &Path, error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Problem::Forbidden(path.to_owned()),
        _ => Problem::Other(format!("{} cannot be changed: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_folder_and_program() {
        assert!(Store::find(tempfile::tempdir().unwrap().path()).is_none());
        for (folder, program) in [
            ("usr/local/share/ca-certificates", "update-ca-certificates"),
            ("etc/pki/ca-trust/source/anchors", "update-ca-trust extract"),
            ("etc/ca-certificates/trust-source/anchors", "trust extract-compat"),
            ("etc/pki/trust/anchors", "update-ca-certificates"),
        ] {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            let store = Store::find(root.path()).unwrap();
            let pending = |is_changed| Outcome { is_changed, pending: Some(program.into()) };
            assert_eq!(store.add("Our Own 1f", b"x"), Ok(pending(true)));
            assert_eq!(fs::read(folder.join("our-own-1f.crt")).unwrap(), b"x");
            // The program may have failed before.
            assert_eq!(store.add("Our Own 1f", b"x"), Ok(pending(false)));
            for (name, is_changed) in [("Other", false), ("Our Own 1f", true)] {
                let removed = store.remove(name).unwrap();
                assert_eq!(removed.is_changed, is_changed, "{name}");
                assert!(removed.pending.unwrap().starts_with(program), "{name}");
            }
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_failed_update_program_is_an_error() {
        let store = Store { root: "/".into(), family: &FAMILIES[0] };
        assert_eq!(store.update(&["true"]), Ok(None));
        for (command, why) in [("ls /no/such", "failed"), ("no-such-program", "cannot be run")] {
            let words: Vec<&str> = command.split(' ').collect();
            let Err(Problem::Update(problem)) = store.update(&words) else { panic!("{command}") };
            assert!(problem.contains(command) && problem.contains(why), "{problem}");
        }
    }
}
