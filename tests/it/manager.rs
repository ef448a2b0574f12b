//! The service manager: sockets from it, words to it, a file with the process id.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::extensions::{SCAN_DIRECTORY, scan_directory};
use crate::harness::{Connection, Kind, Setup, eventually, get, program};
use crate::operate::{operated, reload};

/// A server that the test started itself; it ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = Command::new("sh").args(["-c", &format!("kill -s TERM {}", self.0.id())]).status();
        let ended = eventually(Duration::from_secs(20), || self.0.try_wait().ok().flatten());
        if ended.is_none() {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

#[test]
fn serves_on_a_socket_that_was_passed() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("index.php"), "<?php echo 'passed';").unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // The shell puts the socket where the manager would, and keeps its process id through `exec`.
    let script = r#"exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@""#;
    let child = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(program())
        .args(["serve", "--listen", "192.0.2.1:1", "--control"])
        .arg(folder.path().join("control"))
        .arg(folder.path())
        .env(SCAN_DIRECTORY, scan_directory())
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(fs::File::create(folder.path().join("out")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _started = Started(child);
    let response = Connection::open(address).exchange(&get("/")).expect(200);
    assert_eq!(response.text(), "passed");
    // A front may answer a moment before the supervisor has said where it serves.
    let said = || fs::read_to_string(folder.path().join("out")).unwrap();
    let is_said = || said().contains(&format!("at http://{address}/ ")).then_some(());
    eventually(Duration::from_secs(20), is_said).unwrap_or_else(|| panic!("{}", said()));
}

#[test]
fn a_passed_socket_is_what_its_port_says() {
    let folder = TempDir::new().unwrap();
    for name in ["all", "own"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("index.html"), name).unwrap();
    }
    let [one, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [public, proxied] = [&one, &other].map(|socket| socket.local_addr().unwrap());
    let port = proxied.port();
    let text = format!(
        "listen = [':{}', ':{port}']\nproxy_protocol = ':{port}'\ntrusted_proxies = 'private'\n\
         [[site]]\nmode = 'fastcgi'\nroot = 'all'\n\
         [[site]]\nmode = 'fastcgi'\nroot = 'own'\nlisten = ':{port}'\n",
        public.port()
    );
    fs::write(folder.path().join("tokamak.toml"), text).unwrap();
    let script =
        r#"exec 3<&0 4<&1 0</dev/null 1>/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2; exec "$@""#;
    let child = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(program())
        .args(["serve", "--config"])
        .arg(folder.path().join("tokamak.toml"))
        .arg("--control")
        .arg(folder.path().join("control"))
        .stdin(Stdio::from(OwnedFd::from(one)))
        .stdout(Stdio::from(OwnedFd::from(other)))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _started = Started(child);
    assert_eq!(Connection::open(public).exchange(&get("/")).expect(200).text(), "all");
    let mut connection = Connection::open(proxied);
    let header = "PROXY TCP4 192.0.2.1 198.51.100.7 4711 443\r\n";
    connection.send([header.as_bytes(), &get("/").bytes()].concat());
    assert_eq!(connection.response().expect(200).text(), "own");
}

#[test]
fn a_passed_socket_without_a_site_is_an_error_at_the_start() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("index.html"), "").unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let text = "listen = ['127.0.0.1:1']\n\
        [[site]]\nmode = 'fastcgi'\nroot = '.'\nlisten = '127.0.0.1:1'\n";
    fs::write(folder.path().join("tokamak.toml"), text).unwrap();
    let script = r#"exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@""#;
    let output = Command::new("timeout")
        .args(["20", "sh", "-c", script, "sh"])
        .arg(program())
        .args(["serve", "--config"])
        .arg(folder.path().join("tokamak.toml"))
        .arg("--control")
        .arg(folder.path().join("control"))
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches(&format!("no site is served on {address}")).count(), 1, "{said}");
}

#[test]
fn notifies_the_manager_of_each_state() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut buffer = [0; 500];
        let count = loop {
            match manager.recv(&mut buffer) {
                // The machine was paused meanwhile.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                heard => break heard.expect("the manager hears something"),
            }
        };
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let mut server =
        operated(Kind::Classic).server_env("NOTIFY_SOCKET", path.to_str().unwrap()).start();
    let ready = hear();
    let pid = server.main_process().pid();
    assert!(
        ready.starts_with("READY=1\n") && ready.contains(&format!("MAINPID={pid}\n")),
        "{ready}"
    );
    reload(&server).unwrap();
    let reloading = hear();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert!(hear().starts_with("READY=1\n"));
    server.main_process().signal("TERM");
    assert!(hear().starts_with("STOPPING=1\n"));
}

#[test]
fn writes_its_process_id() {
    let mut server = Setup::new(Kind::Classic).line("pid_file = \"tokamak.pid\"").start();
    let path = server.places.top().join("tokamak.pid");
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(written.trim(), server.main_process().pid().to_string());
    server.main_process().signal("TERM");
    assert!(server.main_process().wait(Duration::from_secs(20)).is_some());
    assert!(!path.exists());
}

#[test]
fn says_why_it_cannot_start() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("index.php"), "<?php").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = |address: &str| {
        let output = Command::new(program())
            .args(["serve", "--listen", address, "--control"])
            .arg(folder.path().join("control"))
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let address = taken.local_addr().unwrap().to_string();
    let said = serve(&address);
    assert!(
        said.contains(&format!("cannot listen on {address}: Address already in use")),
        "{said}"
    );
    assert!(said.contains("--listen"), "{said}");
    let said = serve("192.0.2.1:8080");
    assert!(
        said.contains("cannot listen on 192.0.2.1:8080") && said.contains("does not have"),
        "{said}"
    );
}
