//! Words for the service manager (`sd_notify`), when there is one.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What the service manager may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Requests are served.
    Ready,
    /// A reload has begun; [`State::Ready`] follows.
    Reloading,
    /// The end has begun.
    Stopping,
}

/// Tells the manager named by `NOTIFY_SOCKET`. Without one, or if it does not listen, nothing happens.
pub fn tell(state: State, status: &str) {
    if let Some(path) = env::var_os("NOTIFY_SOCKET") {
        // A manager that is gone is no reason to stop serving.
        let _ = send(&path, &text(state, status, tokamak_cost::now() / 1000));
    }
}

fn text(state: State, status: &str, now_us: u64) -> String {
    let state = match state {
        State::Ready => "READY=1".to_owned(),
        // systemd (Type=notify-reload) wants to know which of two overlapping reloads this answers.
        State::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={now_us}"),
        State::Stopping => "STOPPING=1".to_owned(),
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
            send(&name, &text(State::Ready, "all well", 0)).unwrap();
            let mut buffer = [0; 200];
            let count = listener.recv(&mut buffer).unwrap();
            let expected = format!("READY=1\nMAINPID={}\nSTATUS=all well\n", std::process::id());
            assert_eq!(std::str::from_utf8(&buffer[..count]).unwrap(), expected);
        }
    }

    #[test]
    fn a_reload_has_its_time() {
        assert!(text(State::Reloading, "", 12).starts_with("RELOADING=1\nMONOTONIC_USEC=12\n"));
        assert!(text(State::Stopping, "", 12).starts_with("STOPPING=1\nMAINPID="));
    }
}
