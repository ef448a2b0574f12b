//! What is wrong with the machine: its disk is full, its clock is wrong, its ports are another
//! program's.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::authority::{Pebble, Traits};
use super::ways::Way;
use super::{NAME, PATIENCE, Plan, count, logged};
use crate::harness::{Server, Setup, eventually, free_address, get, program};

fn trusted(plan: &Plan) -> PathBuf {
    plan.folder.path().join("localhost.pem")
}

/// A disk of its own for a state directory, of 64 KiB. It is taken away at the end.
struct Disk(PathBuf);

impl Disk {
    /// `None` if this user may not mount.
    fn at(path: PathBuf) -> Option<Disk> {
        fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"])
            .arg(&path)
            .output()
            .expect("mount runs");
        if !mounted.status.success() {
            let why = String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
            eprintln!("not tested: a small disk cannot be mounted: {why}");
            return None;
        }
        Some(Disk(path))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Fills it to the last byte.
    fn fill(&self) {
        let mut file = fs::File::create(self.filler()).unwrap();
        let full = eventually(PATIENCE, || file.write_all(&[0; 4096]).err());
        assert_eq!(full.unwrap().kind(), std::io::ErrorKind::StorageFull);
    }

    fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a server that the test could not end may still have files there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A disk that is full when a certificate is renewed: the site goes on with the old one, and the
/// new one is used as soon as there is room, without another order.
#[test]
fn a_full_disk_at_a_renewal() {
    let plan = Plan::new();
    let Some(disk) = Disk::at(plan.state()) else { return };
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let setup = || plan.setup(&pebble.directory(), &trusted(&plan));
    let server = setup().start();
    plan.is_served(&server, NAME, &pebble);
    drop(server);
    plan.is_free();
    let old = fs::read_to_string(plan.certificate()).unwrap();
    pebble.wants_renewal(&old);
    disk.fill();
    let server = setup().start();
    let line = logged(&server, "no new certificate for shop.example");
    for part in [
        &*format!("{} cannot be written: No space left on device", plan.certificate().display()),
        "the old one stays in use",
        "the next try is in ",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    // A crash meanwhile would be a reason to ask too soon.
    let line = logged(&server, "a restart would ask the authorities too soon");
    assert!(line.contains("No space left on device"), "{line}");
    assert!(plan.curl(NAME, &pebble.root()).status.success(), "the old one is in use");
    assert_eq!(fs::read_to_string(plan.certificate()).unwrap(), old);
    let names = fs::read_dir(plan.certificate().parent().unwrap()).unwrap();
    assert_eq!(names.count(), 1, "nothing half written is left");
    disk.make_room();
    logged(&server, "new certificate in use");
    assert_ne!(fs::read_to_string(plan.certificate()).unwrap(), old);
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
}

/// A disk that is full from the start, as on a machine that was set up too small: the site is
/// served over HTTP, and the authority is asked for one account and one certificate in all.
#[test]
fn a_full_disk_at_the_first_start() {
    let plan = Plan::new();
    let Some(disk) = Disk::at(plan.state()) else { return };
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    disk.fill();
    // Without a local name, whose certificate the server would have to write before it starts.
    let site = "[[site]]\nhost = ['shop.example']\nroot = '$ROOT'\nhttps_redirect = true\n";
    let server = plan.setup(&pebble.directory(), &trusted(&plan)).sites(site).start();
    let line = logged(&server, "no new certificate for shop.example");
    let accounts = plan.state().join("acme/accounts");
    for part in [
        accounts.to_str().unwrap(),
        "cannot be written: No space left on device",
        "there is none, and the next try is in ",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!(server.send(&get("/hello.php")).status(), 308);
    disk.make_room();
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(count(&server, "new account at "), 1, "{}", server.log());
    assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
}

/// The clock of a server, which can be set while it runs (Debian's package `faketime`).
struct Clock(PathBuf);

impl Clock {
    fn new(plan: &Plan) -> Clock {
        let clock = Clock(plan.folder.path().join("clock"));
        clock.set("+0");
        clock
    }

    /// How far it is from the real one, as libfaketime writes it.
    fn set(&self, offset: &str) {
        let new = self.0.with_extension("new");
        fs::write(&new, offset).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(&new, &self.0).unwrap();
    }

    fn of(&self, setup: Setup) -> Setup {
        // The program knows where its library is.
        let library = Command::new("faketime")
            .args(["-f", "+0", "printenv", "LD_PRELOAD"])
            .output()
            .expect("faketime runs (Debian's package faketime)");
        let library = String::from_utf8(library.stdout).unwrap();
        setup
            .server_env("LD_PRELOAD", library.trim())
            .server_env("FAKETIME_TIMESTAMP_FILE", self.0.to_str().unwrap())
            .server_env("FAKETIME_NO_CACHE", "1")
            .server_env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }
}

impl Drop for Clock {
    /// The library leaves a little shared memory behind when a program is started by another one.
    fn drop(&mut self) {
        for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let pid = ["faketime_shm_", "sem.faketime_sem_"]
                .iter()
                .find_map(|start| name.strip_prefix(start));
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// That handshakes for the name are refused, with an alert.
#[track_caller]
fn is_refused(plan: &Plan, server: &Server, pebble: &Pebble) {
    let alert = || {
        let answer = plan.curl(NAME, &pebble.root());
        let wrong = String::from_utf8_lossy(&answer.stderr).into_owned();
        (!answer.status.success() && wrong.contains("alert")).then_some(())
    };
    assert!(eventually(PATIENCE, alert).is_some(), "a certificate is shown: {}", server.log());
}

/// A clock that is set ahead while the server runs, and back: a certificate that has ended is not
/// shown, and is shown again when it has not.
#[test]
fn a_clock_that_is_set_while_the_server_runs() {
    let plan = Plan::new();
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let clock = Clock::new(&plan);
    let server = clock.of(plan.setup(&pebble.directory(), &trusted(&plan))).start();
    plan.is_served(&server, NAME, &pebble);
    clock.set("+100d");
    let line = logged(&server, "shop.example: the certificate has expired");
    assert!(line.contains("ERROR") && line.contains("not used any more"), "{line}");
    assert!(line.contains("or the clock of this machine is wrong"), "{line}");
    is_refused(&plan, &server, &pebble);
    clock.set("+0");
    logged(&server, "shop.example: the clock was set back: the certificate is used again");
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
}

/// A clock that is wrong when the server starts: what comes has ended already, is not used, and the
/// log asks for the clock.
#[test]
fn a_clock_that_is_ahead_from_the_start() {
    let plan = Plan::new();
    lasting(plan.folder.path());
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let clock = Clock::new(&plan);
    clock.set("+100d");
    let setup = || clock.of(plan.setup(&pebble.directory(), &trusted(&plan)));
    let server = setup().start();
    let line = logged(&server, "no new certificate for shop.example");
    for part in ["the certificate that came is not used: it ended ", "is the clock of this machine"]
    {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    is_refused(&plan, &server, &pebble);
    assert!(!plan.certificate().exists());
    assert_eq!(server.send(&get("/hello.php")).status(), 308, "HTTP goes on");
    drop(server);
    plan.is_free();
    // What was planned by the wrong clock is no reason to wait.
    clock.set("+0");
    let server = setup().start();
    plan.is_served(&server, NAME, &pebble);
}

/// A clock by which the certificate of the authority itself is not valid: there is no telling apart
/// who is wrong, but the log asks for the clock.
#[test]
fn a_clock_that_authorities_do_not_share() {
    for (offset, wrong) in [("+100d", "certificate expired"), ("-100d", "not valid yet")] {
        let plan = Plan::new();
        let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
        let clock = Clock::new(&plan);
        clock.set(offset);
        let server = clock.of(plan.setup(&pebble.directory(), &trusted(&plan))).start();
        let line = logged(&server, "no new certificate for shop.example");
        for part in [wrong, "is the clock of this machine right?"] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        clock.set("+0");
        plan.is_served(&server, NAME, &pebble);
    }
}

/// A clock that is behind, as that of a machine whose battery is empty: a certificate that begins
/// tomorrow, says the clock, is good for clients whose clocks are right.
#[test]
fn a_clock_that_is_behind() {
    let plan = Plan::new();
    lasting(plan.folder.path());
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    let clock = Clock::new(&plan);
    clock.set("-100d");
    let server = clock.of(plan.setup(&pebble.directory(), &trusted(&plan))).start();
    plan.is_served(&server, NAME, &pebble);
    clock.set("+0");
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
}

/// A certificate for the authority itself that is valid by all the clocks of these tests.
fn lasting(folder: &Path) {
    let made = Command::new("faketime")
        .args(["-f", "-1000d", "openssl"])
        .args(["req", "-x509", "-nodes", "-days", "9000", "-subj", "/CN=authority"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "localhost.key", "-out", "localhost.pem"])
        .current_dir(folder)
        .output()
        .expect("faketime runs (Debian's package faketime)");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Port 80 leads to another server: the log says so, the next try is not at once, not after a
/// restart either, and goes another way.
#[test]
fn another_server_has_port_80() {
    let mut plan = Plan::new();
    lasting(plan.folder.path());
    let astray = Way::astray();
    let real = std::mem::replace(&mut plan.plain, astray.address);
    let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
    plan.plain = real;
    let clock = Clock::new(&plan);
    let setup = || {
        let setup = plan.setup(&pebble.directory(), &trusted(&plan));
        clock.of(setup.line("acme.challenge = [\"http-01\", \"tls-alpn-01\"]"))
    };
    let server = setup().start();
    let line = logged(&server, "no new certificate for shop.example");
    for part in [
        "does not find that shop.example is this server's: ",
        "404",
        "its port 80 has to lead here; there is none, and the next try is in ",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!((55..=75).contains(&next_try(&line)), "{line}");
    astray.is_used();
    assert_eq!(server.send(&get("/hello.php")).status(), 308, "no challenge changes that");
    drop(server);
    plan.is_free();
    let server = setup().start();
    let line = logged(&server, "no new certificate yet for shop.example");
    assert!(line.contains("its port 80 has to lead here"), "{line}");
    assert_eq!(count(&server, "is ordered"), 0, "{}", server.log());
    drop(server);
    plan.is_free();
    clock.set("+120");
    let server = setup().start();
    plan.is_served(&server, NAME, &pebble);
    assert_eq!(count(&server, "is ordered"), 1, "{}", server.log());
    assert_eq!(count(&server, "no new certificate"), 0, "{}", server.log());
}

/// Port 443 leads to a server that speaks no TLS, or to nobody.
#[test]
fn another_server_or_none_has_port_443() {
    for is_there in [true, false] {
        let mut plan = Plan::new();
        let astray = Way::astray();
        let there = if is_there { astray.address } else { free_address() };
        let real = std::mem::replace(&mut plan.tls, there);
        let Some(pebble) = Pebble::start(&plan, Traits::default()) else { return };
        plan.tls = real;
        let setup = plan.setup(&pebble.directory(), &trusted(&plan));
        let server = setup.line("acme.challenge = [\"tls-alpn-01\"]").start();
        let line = logged(&server, "no new certificate for shop.example");
        let advice = "its port 443 has to lead here, without a proxy that ends TLS";
        for part in ["Failed to connect", advice] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!((55..=75).contains(&next_try(&line)), "{line}");
    }
}

/// Seconds until the next try, as the log says them.
#[track_caller]
fn next_try(line: &str) -> u64 {
    let rest = line.split("the next try is in ").nth(1).expect(line);
    rest.split(' ').next().and_then(|seconds| seconds.parse().ok()).expect(line)
}

/// Another program has the port when the server starts: it ends with a message that says which port
/// and what to do, and has asked no authority.
#[test]
fn another_program_has_a_port_at_the_start() {
    let plan = Plan::new();
    let authority = TcpListener::bind("127.0.0.1:0").unwrap();
    authority.set_nonblocking(true).unwrap();
    for taken in [plan.plain, plan.tls] {
        let _other = TcpListener::bind(taken).unwrap();
        let text = format!(
            "listen = ['{}']\nlisten_tls = ['{}']\nstate_dir = '{}'\nuser = 'www-data'\n\
             [tls]\nauto = true\n[acme]\ndirectory = ['https://{}/dir']\n\
             [[site]]\nhost = ['{NAME}']\nroot = '.'\n",
            plan.plain,
            plan.tls,
            plan.state().display(),
            authority.local_addr().unwrap(),
        );
        fs::write(plan.folder.path().join("tokamak.toml"), text).unwrap();
        fs::write(plan.folder.path().join("index.php"), "<?php").unwrap();
        let ended = Command::new("timeout")
            .arg("30")
            .arg(program())
            .arg("serve")
            .current_dir(plan.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        let expected = format!("cannot listen on {taken}: Address already in use");
        assert!(said.contains(&expected), "{said}");
        assert!(said.contains("Another server is running there; stop it or "), "{said}");
        assert_eq!(ended.status.code(), Some(1), "{said}");
    }
    assert!(authority.accept().is_err(), "an authority was asked");
}
