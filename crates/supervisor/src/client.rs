//! The other end of the control socket: finding a running server and asking it.

use std::fs;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokamak_sys::process;

/// Where a server that listens on `address` has its control socket, unless the configuration says otherwise.
pub fn default_path(address: SocketAddr) -> PathBuf {
    folder().join(format!("{}.sock", address.port()))
}

/// Where a server that stands in for php-fpm has its control socket: several may listen on no port at all. A process id alone is not
/// enough, since containers that share the folder have the same ones.
pub fn fpm_path() -> PathBuf {
    folder().join(format!("fpm-{}-{:x}.sock", std::process::id(), tokamak_cost::now()))
}

/// Whether somebody else owns the directory of a default path. In `/tmp` anybody could have made it before us.
pub(crate) fn is_foreign(path: &Path) -> bool {
    path.parent()
        .and_then(|folder| fs::metadata(folder).ok())
        .is_some_and(|found| found.uid() != process::effective_uid())
}

/// `/run/tokamak` for root; else in the user's runtime directory; else a directory of one's own in `/tmp`.
fn folder() -> PathBuf {
    if process::is_root() {
        return "/run/tokamak".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => Path::new(&folder).join("tokamak"),
        _ => format!("/tmp/tokamak-{}", process::effective_uid()).into(),
    }
}

/// The control socket of the only server that runs.
///
/// # Errors
/// None runs, or several; the message names them.
pub fn find() -> Result<PathBuf, String> {
    find_in(&folder())
}

fn find_in(folder: &Path) -> Result<PathBuf, String> {
    let mine = fs::metadata(folder).is_ok_and(|found| found.uid() == process::effective_uid());
    let entries = fs::read_dir(folder).ok().filter(|_| mine);
    let mut live: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    live.sort();
    match live.len() {
        0 => Err(format!(
            "no server of this user runs (looked in {}); name its socket with --control",
            folder.display()
        )),
        1 => Ok(live.remove(0)),
        _ => {
            let names: Vec<String> = live.iter().map(|path| path.display().to_string()).collect();
            Err(format!("several servers run; choose one with --control: {}", names.join(", ")))
        }
    }
}

/// Asks a server; its answer without the leading `ok`.
///
/// # Errors
/// No server is there, it does not answer in time, or it answers `error …`: the message says which.
pub fn ask(path: &Path, command: &str, limit: Duration) -> Result<String, String> {
    let answer = exchange(path, command, limit)
        .map_err(|error| format!("no answer from {}: {error}", path.display()))?;
    match answer.split_once(['\n', ' ']) {
        Some(("ok", text)) => Ok(text.to_owned()),
        Some(("error", text)) => Err(text.trim_end().to_owned()),
        _ => Err(format!("no answer from {}: the server ended", path.display())),
    }
}

fn exchange(path: &Path, command: &str, limit: Duration) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(format!("{command}\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_only_living_server_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert!(find_in(folder.path()).unwrap_err().starts_with("no server of this user runs"));
        drop(UnixListener::bind(folder.path().join("80.sock")).unwrap()); // dead
        let _live = UnixListener::bind(folder.path().join("8080.sock")).unwrap();
        assert_eq!(find_in(folder.path()), Ok(folder.path().join("8080.sock")));
        let _another = UnixListener::bind(folder.path().join("8081.sock")).unwrap();
        let message = find_in(folder.path()).unwrap_err();
        assert!(message.contains("8080.sock, ") && message.contains("8081.sock"), "{message}");
    }

    #[test]
    fn answers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for answer in ["ok\na\nb\n", "error because\n", "ok generation 2 serves\n", ""] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = [0; 7];
                stream.read_exact(&mut line).unwrap();
                assert_eq!(&line, b"reload\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let ask = || ask(&path, "reload", Duration::from_secs(5));
        assert_eq!(ask(), Ok("a\nb\n".into()));
        assert_eq!(ask(), Err("because".into()));
        assert_eq!(ask(), Ok("generation 2 serves\n".into()));
        assert!(ask().unwrap_err().ends_with("the server ended"));
        server.join().unwrap();
    }
}
