//! Log files, opened by root in folders that may belong to another user.
//!
//! Who owns a folder may put a link into it, and root would write wherever that leads. So root
//! follows links of its own, and those whose owner also owns what they lead to, as nginx does with
//! `disable_symlinks if_not_owner`. Other users get no more than they have, so for them the system
//! decides.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::fs::{fstat, open as open_file, openat2, readlinkat, statat};
use rustix::io::Errno;

/// Links that are followed; the system's own limit.
const MOST_LINKS: usize = 40;

/// Opens a log for appending, with this mode if it is not there yet.
///
/// # Errors
/// Those of `open`; and, for root, a link that belongs to another user than its target.
pub fn open(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    if !rustix::process::geteuid().is_root() {
        return Ok(open_file(path, flags | OFlags::NOCTTY, mode)?.into());
    }
    let path = resolved(path)?;
    // What descriptors of this process lead to has no name to resolve.
    if path.starts_with("/proc") {
        return Ok(open_file(&path, flags, mode)?.into());
    }
    // A link that has come since is an error.
    let file = match openat2(CWD, &path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // An old kernel, or a container that forbids the call.
        Err(Errno::NOSYS | Errno::PERM) => open_file(&path, flags | OFlags::NOFOLLOW, mode),
        file => file,
    };
    Ok(file?.into())
}

/// The path without links.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MOST_LINKS {
        match without_first_link(&path)? {
            Some(next) => path = next,
            None => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// The path with what its first link leads to in place of the link; `None` if it has no link.
fn without_first_link(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut folder = PathBuf::new();
    let mut parts = path.components();
    while let Some(part) = parts.next() {
        let place = folder.join(part);
        // The owner and the target are those of the same link, also if it is exchanged meanwhile.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link: OwnedFd = match open_file(&place, flags, Mode::empty()) {
            // `open` says so, or makes the file.
            Err(Errno::NOENT) => return Ok(None),
            link => link?,
        };
        let about = fstat(&link)?;
        if kind(&about) != FileType::Symlink {
            folder = place;
            continue;
        }
        // A descriptor's link in `/proc` may name a pipe, and only the system leads there.
        if folder.starts_with("/proc") && parts.as_path().as_os_str().is_empty() {
            return Ok(None);
        }
        let target = readlinkat(&link, "", [])?;
        let target = Path::new(OsStr::from_bytes(target.to_bytes()));
        let target = folder.join(target);
        let owner =
            |place: &Path| statat(CWD, place, AtFlags::SYMLINK_NOFOLLOW).map(|it| it.st_uid);
        if about.st_uid != 0 && owner(&target) != Ok(about.st_uid) {
            let message = format!(
                "{} is a link of the user {} to what is not theirs; make the link as root, or \
                 name the file that it leads to",
                place.display(),
                about.st_uid
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        // Not by `join`, which ends the path of a folder when nothing follows.
        return Ok(Some(target.components().chain(parts).collect()));
    }
    Ok(None)
}

fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    fn write(path: &Path) -> io::Result<()> {
        open(path, 0o640)?.write_all(b"line\n")
    }

    #[test]
    fn links_of_ones_own_lead_to_logs() {
        let top = tempfile::tempdir().unwrap();
        let (real, folder) = (top.path().join("real"), top.path().join("folder"));
        fs::create_dir(&real).unwrap();
        symlink("real", &folder).unwrap();
        symlink("../folder/b", real.join("a")).unwrap();
        write(&folder.join("a")).unwrap();
        write(&folder.join("../folder/a")).unwrap();
        assert_eq!(fs::read_to_string(real.join("b")).unwrap(), "line\nline\n");
        assert!(write(Path::new("/proc/self/fd/1/x")).is_err());
        symlink("round", top.path().join("round")).unwrap();
        assert!(write(&top.path().join("round")).is_err());
        assert!(write(&top.path().join("none/x")).is_err());
    }

    #[test]
    fn what_is_open_is_reached_by_its_descriptor() {
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = std::io::pipe().unwrap();
        write(Path::new(&format!("/dev/fd/{}", writer.as_raw_fd()))).unwrap();
        let mut line = [0; 5];
        std::io::Read::read_exact(&mut reader, &mut line).unwrap();
        assert_eq!(&line, b"line\n");
    }

    #[test]
    fn root_follows_a_users_link_only_to_what_is_theirs() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can make links that belong to another user.
        }
        let top = tempfile::tempdir().unwrap();
        let (theirs, ours) = (top.path().join("theirs"), top.path().join("ours"));
        for folder in [&theirs, &ours] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(ours.join("secret"), "").unwrap();
        fs::write(theirs.join("log"), "").unwrap();
        let link = |to: &Path, name: &str| {
            symlink(to, theirs.join(name)).unwrap();
            lchown(theirs.join(name), Some(65_534), None).unwrap();
            theirs.join(name)
        };
        chown(&theirs, Some(65_534), None).unwrap();
        chown(theirs.join("log"), Some(65_534), None).unwrap();
        let refused = |path: &Path| write(path).unwrap_err().to_string();
        let to_file = refused(&link(&ours.join("secret"), "file"));
        assert!(to_file.contains("theirs/file is a link of the user 65534"), "{to_file}");
        let in_folder = refused(&link(&ours, "folder").join("new"));
        assert!(in_folder.contains("theirs/folder is a link"), "{in_folder}");
        assert!(refused(&link(&ours.join("new"), "dangling")).contains("dangling is a link"));
        // By a link of root to one of theirs.
        symlink(theirs.join("file"), top.path().join("outer")).unwrap();
        assert!(refused(&top.path().join("outer")).contains("theirs/file is a link"));
        assert_eq!(fs::read_dir(&ours).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(ours.join("secret")).unwrap(), "");
        // A release of theirs.
        write(&link(&theirs, "current").join("log")).unwrap();
        write(&link(Path::new("log"), "other")).unwrap();
        assert_eq!(fs::read_to_string(theirs.join("log")).unwrap(), "line\nline\n");
    }
}
