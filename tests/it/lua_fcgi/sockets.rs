//! Where it listens, and how it ends.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use super::{BEGINS, Launcher, PATIENCE, script};
use crate::fpm::client::{Client, Request};
use crate::harness::{eventually, free_address, program};

const HELLO: (&str, &str) = ("hello.lua", "print('A: b\\r\\n\\r\\nHello')");
/// Sleeps until there is a file of this name.
fn slow() -> String {
    format!(
        "{BEGINS} local go = os.getenv('DOCUMENT_ROOT') .. '/go' repeat tokamak.sleep(0.01) until \
            io.open(go) print('A: b\\r\\n\\r\\nslept')"
    )
}

/// A child that ends with its test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_socket_on_descriptor_0_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(HELLO.0), HELLO.1).unwrap();
    let start = |socket: OwnedFd| {
        let mut command = Command::new(program());
        Started(
            command.arg("lua-fcgi").arg(folder.path()).stdin(Stdio::from(socket)).spawn().unwrap(),
        )
    };
    let request = Request::below(folder.path(), "/hello.lua");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _tcp = start(listener.into());
    assert_eq!(Client::tcp(address).ask(&request).body(), "Hello");
    let path = folder.path().join("socket");
    let _unix = start(UnixListener::bind(&path).unwrap().into());
    assert_eq!(Client::unix(&path).ask(&request).body(), "Hello");
}

#[test]
fn it_listens_on_tcp() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(HELLO.0), HELLO.1).unwrap();
    let address = free_address();
    let mut command = Command::new(program());
    command.arg("lua-fcgi").arg(folder.path()).args(["--listen", &address.to_string()]);
    let _started = Started(command.spawn().unwrap());
    assert!(eventually(PATIENCE, || TcpStream::connect(address).ok()).is_some());
    assert_eq!(
        Client::tcp(address).ask(&Request::below(folder.path(), "/hello.lua")).body(),
        "Hello"
    );
}

#[test]
fn the_file_of_a_socket_has_the_mode_that_was_asked_for() {
    let launcher = Launcher::start(&["--mode", "606"], &[]);
    assert_eq!(fs::metadata(launcher.socket()).unwrap().permissions().mode() & 0o777, 0o606);
}

#[test]
fn mistakes_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let busy = folder.path().join("busy");
    let _listener = UnixListener::bind(&busy).unwrap();
    let busy = format!("unix:{}", busy.display());
    let root = folder.path().to_str().unwrap();
    for (arguments, said, status) in [
        (&[root][..], "descriptor 0 is no listening socket", 1),
        (&["/no/such/folder", "--listen", "127.0.0.1:0"], "/no/such/folder is no folder", 1),
        (&[root, "--listen", &busy], "cannot listen on ", 1),
        (&[root, "--listen", "somewhere"], "write unix:/path, or IP:PORT", 2),
        (&[root, "--threads", "0"], "0 is not in 1..=256", 2),
        (&[root, "--memory", "1MiB"], "scripts need at least 2 MiB", 2),
        (&[root, "--time", "0"], "a script needs some time", 2),
        (&[root, "--mode", "8"], "write three octal digits", 2),
        (&[root, "--shared", "x=1"], "a dictionary has at least 4096 bytes", 2),
    ] {
        let mut command = Command::new(program());
        let output = command
            .arg("lua-fcgi")
            .args(arguments)
            .stdin(File::open("/dev/null").unwrap())
            .output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(said), "{arguments:?}: {text}");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
    }
}

#[test]
fn a_signal_ends_it_after_its_requests() {
    for signal in ["TERM", "INT", "QUIT", "HUP", "USR1"] {
        let mut launcher = Launcher::start(&[], &[("slow.lua", &slow())]);
        let mut client = launcher.connect();
        client.send(&launcher.request("/slow.lua").bytes(1));
        launcher.runs();
        launcher.process.signal(signal);
        let stops = || (!launcher.socket().exists()).then_some(());
        assert!(eventually(PATIENCE, stops).is_some(), "{signal}");
        fs::write(script(&launcher, "go"), "").unwrap();
        assert_eq!(client.answer().body(), "slept", "{signal}");
        let ended = launcher.process.wait(PATIENCE).expect("it ends");
        assert_eq!(ended.code(), Some(0), "{signal}");
        assert!(!launcher.socket().exists());
    }
}

/// While the old one answers its last request, the new one listens at the same place.
#[test]
fn a_successor_takes_the_place_at_once() {
    let mut old = Launcher::start(&[], &[("slow.lua", &slow()), HELLO]);
    let mut client = old.connect();
    client.send(&old.request("/slow.lua").bytes(1));
    old.runs();
    old.process.signal("TERM");
    assert!(eventually(PATIENCE, || (!old.socket().exists()).then_some(())).is_some());
    let mut command = Command::new(program());
    command.arg("lua-fcgi").arg(old.root()).args(["--listen", old.socket().to_str().unwrap()]);
    let _new = Started(command.spawn().unwrap());
    assert!(eventually(PATIENCE, || old.socket().exists().then_some(())).is_some());
    fs::write(script(&old, "go"), "").unwrap();
    assert_eq!(client.answer().body(), "slept");
    assert!(old.process.wait(PATIENCE).is_some());
    assert_eq!(old.connect().ask(&old.request("/hello.lua")).body(), "Hello");
}

#[test]
fn a_second_signal_does_not_wait() {
    // The script sleeps for longer than the test waits for the end of the program.
    let endless = format!("{BEGINS} tokamak.sleep(25)");
    let mut launcher = Launcher::start(&[], &[("endless.lua", &endless)]);
    let mut client = launcher.connect();
    client.send(&launcher.request("/endless.lua").bytes(1));
    launcher.runs();
    launcher.process.signal("TERM");
    let stops = || (!launcher.socket().exists()).then_some(());
    assert!(eventually(PATIENCE, stops).is_some());
    assert!(launcher.process.ended().is_none());
    launcher.process.signal("TERM");
    assert_eq!(launcher.process.wait(PATIENCE).expect("it ends").code(), Some(1));
}
