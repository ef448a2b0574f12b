//! The programs are replaced on disk while the server runs.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::{Kind, Server, Setup, eventually, free_address, in_every_mode, program};
use crate::operate::{command, configuration, configure, kill, operated, reload, status_when};
use crate::reload::under_load;
use crate::supervise::children;

in_every_mode! { loses_no_request }

/// Another version, which knows nothing of this one's memory: what it does when it notices.
const OTHER: &str = "#!/bin/sh\nexit 104\n";

#[test]
fn a_server_goes_on_with_the_program_that_it_was_started_with() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let php = folder.path().join("tokamak-php");
    fs::copy(program().with_file_name("tokamak-php"), &php).unwrap();
    let setup = operated(Kind::Sealed).workers(1).boot("boot.php");
    let mut server = setup.server_env("TOKAMAK_PHP", php.to_str().unwrap()).start();
    let script = "<?php echo PHP_BINARY, ' ', file_get_contents('/proc/self/comm');";
    fs::write(server.places.root().join("program.php"), script).unwrap();
    let expected = format!("{} tokamak-php\n", php.display());
    assert_eq!(server.text("/program.php"), expected);

    // As package managers do: a new file takes the name of the old one.
    let new = php.with_extension("new");
    fs::write(&new, OTHER).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, &php).unwrap();
    let main = server.main_process().pid().into();
    let zygote = children(main, "tokamak-php")[0];
    kill("KILL", zygote);
    status_when(&server, "another zygote", |_| {
        children(main, "tokamak-php").iter().any(|pid| *pid != zygote)
    });
    let served = || Some(server.get("/program.php")).filter(|response| response.status() == 200);
    let response = eventually(Duration::from_secs(60), served);
    assert_eq!(response.unwrap_or_else(|| panic!("{}", server.log())).text(), expected);

    reload(&server).unwrap();
    assert_eq!(server.text("/program.php"), expected);
    server.log_line(&[
        "WARN",
        "tokamak-php has been replaced since the start",
        "`tokamak upgrade`",
    ]);

    fs::remove_file(&php).unwrap();
    reload(&server).unwrap();
    assert_eq!(server.text("/program.php"), expected);
    server.log_line(&["WARN", "tokamak-php has been removed since the start", "install it again"]);
}

/// A server from a copy of the program, which can be replaced.
fn replaceable(kind: Kind, folder: &Path) -> (Setup, PathBuf) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let copy = folder.join("tokamak");
    install(&program(), &copy);
    let php = program().with_file_name("tokamak-php");
    let setup = operated(kind).server_env("TOKAMAK_PHP", php.to_str().expect("text"));
    (setup.program(copy.clone()), copy)
}

/// Puts a program in the place of another one, as package managers do.
fn install(new: &Path, place: &Path) {
    let beside = place.with_extension("new");
    fs::copy(new, &beside).expect("a copy");
    fs::rename(&beside, place).expect("it takes the place");
}

/// Servers that have taken over from the one that the harness knows.
#[derive(Default)]
pub struct Successors(Vec<u64>);

impl Successors {
    /// Lets the installed program take over.
    #[track_caller]
    pub fn upgrade(&mut self, server: &Server) -> Result<u64, String> {
        let output = command(server, &["upgrade"]);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        let pid =
            text.strip_prefix("process ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        self.0.extend(pid);
        pid.ok_or(text)
    }
}

impl Drop for Successors {
    fn drop(&mut self) {
        for pid in self.0.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            kill("KILL", *pid);
        }
    }
}

fn loses_no_request(kind: Kind) {
    let folder = tempfile::tempdir().expect("a folder");
    let (setup, copy) = replaceable(kind, folder.path());
    let pid_file = folder.path().join("pid");
    let line = format!("pid_file = \"{}\"", pid_file.display());
    let mut server = setup.line(&line).line("admin = \"unix:admin\"").start();
    let mut successors = Successors::default();
    under_load(&server, 0..3, |_| {
        install(&program(), &copy);
        let pid = successors.upgrade(&server).unwrap_or_else(|wrong| panic!("{wrong}"));
        let is_written = || {
            let text = fs::read_to_string(&pid_file).unwrap_or_default();
            (text == format!("{pid}\n")).then_some(())
        };
        assert!(eventually(Duration::from_secs(20), is_written).is_some(), "its pid");
        // The control socket is its own, too.
        status_when(&server, "the new server", |status| status["generation"] == 1);
    });
    let ended = server.main_process().wait(Duration::from_secs(60));
    assert!(ended.is_some_and(|status| status.success()), "the first one has ended: {ended:?}");
    assert!(pid_file.exists() && configuration(&server).with_file_name("admin").exists());
    let problems: Vec<String> =
        server.log().lines().filter(|line| line.contains(" ERROR ")).map(str::to_owned).collect();
    assert_eq!(problems, [""; 0]);
}

#[test]
fn a_version_that_does_not_serve_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (setup, copy) = replaceable(Kind::Sealed, folder.path());
    let manager = UnixDatagram::bind(folder.path().join("manager")).expect("a socket");
    manager.set_nonblocking(true).expect("it does not wait");
    let socket = folder.path().join("manager");
    let setup = setup.server_env("NOTIFY_SOCKET", socket.to_str().expect("text"));
    let server = setup.boot("boot.php").start();
    let mut successors = Successors::default();

    let broken = folder.path().join("broken");
    fs::write(&broken, "#!/bin/sh\nexit 1\n").expect("a file");
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).expect("it can be run");
    install(&broken, &copy);
    let wrong = successors.upgrade(&server).expect_err("it ends at once");
    assert!(wrong.contains("the new version does not serve"), "{wrong}");
    assert!(wrong.contains("the log says why"), "{wrong}");

    install(&program(), &copy);
    configure(&server, "mode = \"sealed\"", "mode = \"sealled\"");
    let wrong = successors.upgrade(&server).expect_err("the configuration is wrong");
    assert!(wrong.contains("sealled"), "{wrong}");
    server.log_line(&["sealled"]);
    server.log_line(&["ERROR", "upgrade failed, this version goes on"]);
    configure(&server, "mode = \"sealled\"", "mode = \"sealed\"");

    let boot = server.places.root().join("boot.php");
    let good = fs::read(&boot).expect("the boot script");
    fs::write(&boot, "<?php throw new Exception('no database');").expect("a file");
    let wrong = successors.upgrade(&server).expect_err("the application does not boot");
    assert!(wrong.contains("the boot script failed"), "{wrong}");
    server.log_line(&["no database"]);
    fs::write(&boot, good).expect("a file");

    assert!(server.text("/index.php").contains("version 1"), "the old one serves");
    let mut notifications = || {
        let mut buffer = [0; 1000];
        let count = manager.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..count]).into_owned())
    };
    assert!(std::iter::from_fn(&mut notifications).count() >= 1, "the manager hears of the start");

    let pid = successors.upgrade(&server).expect("now it does");
    assert!(server.text("/index.php").contains("version 1"));
    let ready = format!("READY=1\nMAINPID={pid}\nSTATUS=serving\n");
    let mut all = Vec::new();
    let is_notified = || {
        all.extend(notifications());
        all.contains(&ready).then_some(())
    };
    assert!(eventually(Duration::from_secs(20), is_notified).is_some(), "it is the main process");
    // It may say so only once the old one has said that it is: systemd listens to no other.
    let handed_over = all.iter().position(|text| *text == format!("MAINPID={pid}\n"));
    let says = all.iter().rposition(|text| *text == ready);
    assert!(handed_over.is_some() && handed_over < says, "{all:?}");
    assert!(all.iter().all(|text| !text.contains("STOPPING")), "{all:?}");
}

/// What the configuration does not name any more goes with the old version.
#[test]
fn what_has_changed_goes_with_the_old_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let (setup, _) = replaceable(Kind::Classic, folder.path());
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    let second = free_address();
    let mut server = setup
        .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{second}\"]"))
        .line(&format!("pid_file = \"{}\"", old.display()))
        .start();
    let mut successors = Successors::default();
    TcpStream::connect(second).expect("it listens");
    configure(&server, &format!(", \"{second}\""), "");
    configure(&server, &old.display().to_string(), &new.display().to_string());
    let pid = successors.upgrade(&server).expect("it takes over");
    assert!(server.main_process().wait(Duration::from_secs(60)).is_some(), "the first one ends");
    let is_settled = || {
        let text = fs::read_to_string(&new).unwrap_or_default();
        let is_closed = TcpStream::connect(second).is_err();
        (text == format!("{pid}\n") && !old.exists() && is_closed).then_some(())
    };
    assert!(eventually(Duration::from_secs(20), is_settled).is_some(), "{}", server.log());
    assert_eq!(command(&server, &["status"]).status.code(), Some(0));
}

/// A link is turned from one version's folder to the next, as deployments do: the program is the
/// one that the link leads to now, and goes on with the log of the one before.
#[test]
fn a_program_is_found_by_the_name_that_it_was_started_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let (setup, copy) = replaceable(Kind::Classic, folder.path());
    let link = folder.path().join("current");
    let turn = |version: &str| {
        let next = folder.path().join("next");
        fs::create_dir(folder.path().join(version)).expect("a folder");
        fs::copy(&copy, folder.path().join(version).join("tokamak")).expect("a copy");
        symlink(version, &next).expect("a link");
        fs::rename(&next, &link).expect("it takes the place");
    };
    turn("one");
    let server = setup.program(link.join("tokamak")).start();
    let mut successors = Successors::default();
    turn("two");
    fs::remove_dir_all(folder.path().join("one")).expect("it is ours");
    let pid = successors.upgrade(&server).unwrap_or_else(|wrong| panic!("{wrong}"));
    let program = fs::read_link(format!("/proc/{pid}/exe")).expect("it runs");
    assert_eq!(program, folder.path().join("two/tokamak"));
    server.log_line(&[&format!("started pid={pid}")]);
}

/// A server that is told to stop does not leave another one behind, and is not ready any more.
#[test]
fn a_server_that_stops_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (setup, _) = replaceable(Kind::Classic, folder.path());
    let mut server = setup.line("timeouts.drain_delay = \"300s\"").start();
    let mut successors = Successors::default();
    let main = server.main_process().pid().into();
    let ready = || {
        let output = command(&server, &["status", "--ready"]);
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()))
    };
    let is_ready = || (ready() == (Some(0), Ok("ready\n".into()))).then_some(());
    assert!(eventually(Duration::from_secs(20), is_ready).is_some(), "{:?}", ready());
    kill("TERM", main);
    server.log_line(&["stopping in 300.0 s"]);
    let wrong = successors.upgrade(&server).expect_err("it stops");
    assert!(wrong.contains("the server is stopping"), "{wrong}");
    assert_eq!(ready(), (Some(1), Ok("tokamak: the server is stopping\n".into())));
    server.main_process().signal("TERM");
    assert!(server.main_process().wait(Duration::from_secs(60)).is_some(), "it ends");
}
