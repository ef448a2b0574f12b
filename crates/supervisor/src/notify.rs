//! Words for the service manager (`sd_notify`), when there is one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::watch::since;

/// What the service manager may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Requests are served.
    Ready,
    /// A reload has begun; [`Notice::Ready`] follows.
    Reloading,
    /// The end has begun.
    Stopping,
}

/// The signs of life that the service manager has asked for (`WatchdogSec`): without them it starts
/// the server anew.
#[derive(Debug)]
pub struct Watchdog {
    path: OsString,
    every: Duration,
    notified_at: u64,
}

impl Watchdog {
    /// What the environment asks for, if it is meant for this process.
    pub fn from_environment() -> Option<Watchdog> {
        let text = |name: &str| env::var(name).ok();
        let path = env::var_os("NOTIFY_SOCKET")?;
        let every = watchdog_interval(
            text("WATCHDOG_USEC").as_deref(),
            text("WATCHDOG_PID").as_deref(),
            std::process::id(),
        )?;
        Some(Watchdog { path, every, notified_at: 0 })
    }

    /// Time between two of them.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Gives one if it is due.
    pub fn tick(&mut self, now: u64) {
        if since(self.notified_at, now) >= self.every {
            self.notified_at = now;
            // As in `notify`.
            let _ = send(&self.path, "WATCHDOG=1\n");
        }
    }
}

/// Half of the time that the manager waits, if it waits for this process: as its manual says.
fn watchdog_interval(microseconds: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    let microseconds: u64 = microseconds?.parse().ok().filter(|&microseconds| microseconds > 0)?;
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(own));
    is_ours.then(|| Duration::from_micros(microseconds) / 2)
}

/// Tells the manager named by `NOTIFY_SOCKET`. Without one, or if it does not listen, nothing
/// happens.
pub fn notify(state: Notice, status: &str) {
    if let Some(path) = env::var_os("NOTIFY_SOCKET") {
        // A manager that is gone is no reason to stop serving.
        let _ = send(&path, &text(state, status, tokamak_cost::now() / 1000));
    }
}

/// Tells the manager that another process is the service's main process from now on.
pub fn hand_over(pid: u32) {
    if let Some(path) = env::var_os("NOTIFY_SOCKET") {
        // As in `notify`.
        let _ = send(&path, &format!("MAINPID={pid}\n"));
    }
}

fn text(state: Notice, status: &str, now_us: u64) -> String {
    let state = match state {
        Notice::Ready => "READY=1".to_owned(),
        // systemd (Type=notify-reload) wants to know which of two overlapping reloads this answers.
        Notice::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={now_us}"),
        Notice::Stopping => "STOPPING=1".to_owned(),
    };
    format!("{state}\nMAINPID={}\nSTATUS={status}\n", std::process::id())
}

fn send(path: &OsStr, text: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    // A name that begins with @ is in the abstract namespace.
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    socket.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("tokamak-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (listener, name) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().to_owned()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{abstract_name}").into()),
        ] {
            send(&name, &text(Notice::Ready, "all well", 0)).unwrap();
            let mut buffer = [0; 200];
            let count = listener.recv(&mut buffer).unwrap();
            let expected = format!("READY=1\nMAINPID={}\nSTATUS=all well\n", std::process::id());
            assert_eq!(std::str::from_utf8(&buffer[..count]).unwrap(), expected);
        }
    }

    #[test]
    fn signs_of_life_are_given_twice_as_often_as_they_are_waited_for() {
        let second = Some(Duration::from_millis(500));
        assert_eq!(watchdog_interval(Some("1000000"), None, 7), second);
        assert_eq!(watchdog_interval(Some("1000000"), Some("7"), 7), second);
        for (microseconds, pid) in
            [(None, None), (Some("0"), None), (Some("soon"), None), (Some("1000000"), Some("8"))]
        {
            assert_eq!(watchdog_interval(microseconds, pid, 7), None);
        }
    }

    #[test]
    fn a_reload_has_its_time() {
        assert!(text(Notice::Reloading, "", 12).starts_with("RELOADING=1\nMONOTONIC_USEC=12\n"));
        assert!(text(Notice::Stopping, "", 12).starts_with("STOPPING=1\nMAINPID="));
    }
}
