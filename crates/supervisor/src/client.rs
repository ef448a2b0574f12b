//! The other end of the control socket: finding a running server and asking it.

use std::fs;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokamak_sys::process;

pub use crate::control_socket::{LONGEST_PROFILE, MOST_SAMPLES_A_SECOND};

/// Time that a server has to say where it listens. It answers at once, unless it is stopped.
const FIND_LIMIT: Duration = Duration::from_secs(2);

/// Where a server that listens on `address` has its control socket, unless the configuration says
/// otherwise.
pub fn default_path(address: SocketAddr) -> PathBuf {
    folder().join(format!("{}.sock", address.port()))
}

/// Where a server that stands in for php-fpm has its control socket: several may listen on no port
/// at all. A process id alone is not enough, since containers that share the folder have the same
/// ones.
pub fn fpm_path() -> PathBuf {
    folder().join(format!("fpm-{}-{:x}.sock", std::process::id(), tokamak_cost::now()))
}

/// Whether another user owns the directory of a default path. In `/tmp` anybody could have made it
/// before us.
pub(crate) fn is_foreign(path: &Path) -> bool {
    path.parent()
        .and_then(|folder| fs::metadata(folder).ok())
        .is_some_and(|found| found.uid() != process::effective_uid())
}

/// `/run/tokamak` for root; else in the user's runtime directory; else a directory of one's own in
/// `/tmp`.
fn folder() -> PathBuf {
    if process::is_root() {
        return "/run/tokamak".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => Path::new(&folder).join("tokamak"),
        _ => format!("/tmp/tokamak-{}", process::effective_uid()).into(),
    }
}

/// Which of this user's running servers is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one with this control socket.
    Socket(PathBuf),
    /// The server that listens on this address.
    Listening(SocketAddr),
    /// The only server that runs.
    Only,
}

impl Target {
    /// Its control socket.
    ///
    /// # Errors
    /// Fails if no server fits, or several do; the message names them.
    pub fn socket(&self) -> Result<PathBuf, String> {
        match self {
            Target::Socket(path) => Ok(path.clone()),
            Target::Listening(address) => listening_in(&folder(), *address),
            Target::Only => only_in(&folder()),
        }
    }
}

fn only_in(folder: &Path) -> Result<PathBuf, String> {
    one_of(live_in(folder), || {
        format!("no server of this user runs (looked in {})", folder.display())
    })
}

fn listening_in(folder: &Path, address: SocketAddr) -> Result<PathBuf, String> {
    let mut found = live_in(folder);
    found.retain(|path| listens_on(path, address));
    one_of(found, || {
        format!("no server of this user listens on {address} (looked in {})", folder.display())
    })
}

/// The only one of these, or a message that tells how to name one.
fn one_of(mut found: Vec<PathBuf>, none: impl Fn() -> String) -> Result<PathBuf, String> {
    match found.len() {
        0 => Err(format!("{}; name its socket with --control", none())),
        1 => Ok(found.remove(0)),
        _ => {
            let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
            Err(format!(
                "several servers run; choose one with --control or --listen: {}",
                names.join(", ")
            ))
        }
    }
}

/// The control sockets in `folder` that a server answers on. A folder of another user has none that
/// count.
fn live_in(folder: &Path) -> Vec<PathBuf> {
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
    live
}

/// Whether the server behind this control socket says that it listens on the address. A server on
/// every address of the machine (`0.0.0.0`, `[::]`) listens on each of them.
pub fn listens_on(socket: &Path, wanted: SocketAddr) -> bool {
    let report = ask(socket, "status json", FIND_LIMIT).ok();
    let report = report.and_then(|json| serde_json::from_str::<serde_json::Value>(&json).ok());
    let urls = report.as_ref().and_then(|report| report["listen"].as_array());
    urls.into_iter().flatten().filter_map(serde_json::Value::as_str).any(|url| {
        let address =
            url.split("://").last().and_then(|rest| rest.trim_end_matches('/').parse().ok());
        address.is_some_and(|address: SocketAddr| {
            let same = address.ip() == wanted.ip();
            let any = address.ip().is_unspecified() || wanted.ip().is_unspecified();
            address.port() == wanted.port() && (same || any)
        })
    })
}

/// The sites of a server that have PHP workers.
///
/// # Errors
/// As [`ask`].
pub fn sites(socket: &Path) -> Result<Vec<String>, String> {
    let report = ask(socket, "status json", FIND_LIMIT)?;
    let report: serde_json::Value =
        serde_json::from_str(&report).map_err(|error| format!("the status: {error}"))?;
    let pools = report["pools"].as_array().into_iter().flatten();
    Ok(pools.filter_map(|pool| pool["site"].as_str().map(str::to_owned)).collect())
}

/// Where a server's admin listener is, if it has one.
///
/// # Errors
/// As [`ask`].
pub fn admin(socket: &Path) -> Result<Option<String>, String> {
    let report = ask(socket, "status json", FIND_LIMIT)?;
    let report: serde_json::Value =
        serde_json::from_str(&report).map_err(|error| format!("the status: {error}"))?;
    Ok(report["admin"].as_str().map(str::to_owned))
}

/// Asks a server; its answer without the leading `ok`.
///
/// # Errors
/// Fails if no server is there, it does not answer in time, or it answers `error …`.
pub fn ask(path: &Path, command: &str, limit: Duration) -> Result<String, String> {
    let answer = exchange(path, command, limit)
        .map_err(|error| format!("no answer from {}: {error}", path.display()))?;
    match answer.split_once(['\n', ' ']) {
        Some(("ok", text)) => Ok(text.to_owned()),
        Some(("error", text)) => Err(text.trim_end().to_owned()),
        _ => Err(format!(
            "no answer from {}: it was closed; if the server still runs, its error log says why",
            path.display()
        )),
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
        assert!(only_in(folder.path()).unwrap_err().starts_with("no server of this user runs"));
        drop(UnixListener::bind(folder.path().join("80.sock")).unwrap()); // dead
        let _live = UnixListener::bind(folder.path().join("8080.sock")).unwrap();
        assert_eq!(only_in(folder.path()), Ok(folder.path().join("8080.sock")));
        let _another = UnixListener::bind(folder.path().join("8081.sock")).unwrap();
        let message = only_in(folder.path()).unwrap_err();
        assert!(message.contains("8080.sock, ") && message.contains("8081.sock"), "{message}");
    }

    /// A server that answers every question with this status.
    fn server(path: PathBuf, listen: &'static str) {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = [0; 12];
                // A client that only looks whether somebody is here asks nothing.
                if stream.read_exact(&mut line).is_ok() {
                    stream.write_all(format!("ok\n{{\"listen\":{listen}}}").as_bytes()).unwrap();
                }
            }
        });
    }

    #[test]
    fn a_server_is_found_by_its_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        server(path("a.sock"), r#"["http://127.0.0.1:1/", "http://[::1]:2/"]"#);
        server(path("b.sock"), r#"["http://0.0.0.0:3/"]"#);
        server(path("c.sock"), r#"["http://127.0.0.2:1/"]"#);
        let find = |address: &str| listening_in(folder.path(), address.parse().unwrap());
        assert_eq!(find("127.0.0.1:1"), Ok(path("a.sock")));
        assert_eq!(find("[::1]:2"), Ok(path("a.sock")));
        assert_eq!(find("127.0.0.2:1"), Ok(path("c.sock")));
        assert_eq!(find("127.0.0.9:3"), Ok(path("b.sock")));
        assert_eq!(find("0.0.0.0:2"), Ok(path("a.sock")));
        assert!(
            find("127.0.0.1:2")
                .unwrap_err()
                .starts_with("no server of this user listens on 127.0.0.1:2")
        );
        assert!(find("0.0.0.0:1").unwrap_err().contains("a.sock, "));
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
        assert!(ask().unwrap_err().ends_with("its error log says why"));
        server.join().unwrap();
    }
}
