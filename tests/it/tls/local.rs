//! Certificates for local names, which the server makes by itself.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use super::Folder;
use crate::harness::{Kind, Server, Setup, free_address, is_root, program};

/// A server that makes its certificates, in this state directory, with these lines of its
/// configuration.
pub fn automatic(state: &Path, lines: &[&str]) -> (Server, SocketAddr) {
    let address = free_address();
    let mut setup = Setup::new(Kind::Classic)
        .line(&format!("listen_tls = [\"{address}\"]"))
        .line(&format!("state_dir = '{}'", state.display()))
        .line("tls.auto = true")
        .also("shop.localhost", "php");
    for line in lines {
        setup = setup.line(line);
    }
    (setup.start(), address)
}

/// Runs curl, which trusts the authority of this state directory only.
fn curl(state: &Path, address: SocketAddr, host: &str) -> Output {
    let port = address.port();
    Command::new("curl")
        .args(["-sS", "-m", "30", "--resolve", &format!("{host}:{port}:127.0.0.1"), "--cacert"])
        .arg(state.join("local/root.pem"))
        .arg(format!("https://{host}:{port}/hello.php"))
        .output()
        .expect("curl runs")
}

#[test]
fn curl_accepts_local_names_of_a_server_whose_authority_it_trusts() {
    let folder = Folder::new();
    let state = folder.path("state");
    let (server, address) = automatic(&state, &[]);
    for host in ["localhost", "shop.localhost", "127.0.0.1"] {
        let output = curl(&state, address, host);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("Hello"), "{host}: {output:?}");
    }
    let log = server.log();
    assert!(log.contains("new authority for local names") && log.contains("tokamak trust"));
    assert!(log.contains("local certificate made for shop.localhost"), "{log}");
    assert!(!log.contains("PRIVATE KEY"), "{log}");
    // Another server on this machine has the same authority.
    let (other, address) = automatic(&state, &[]);
    assert!(curl(&state, address, "localhost").status.success());
    assert!(!other.log().contains("new authority"), "{}", other.log());
    // Nobody else trusts it, and for other names nobody does.
    let (_stranger, address) = automatic(&folder.path("other"), &[]);
    let output = curl(&state, address, "localhost");
    assert_eq!(output.status.code(), Some(60), "{output:?}");
}

#[test]
fn the_authority_is_for_local_names_only() {
    let folder = Folder::new();
    let state = folder.path("state");
    let (_server, _) = automatic(&state, &[]);
    // With the key of the authority somebody signs a certificate for another name.
    fs::copy(state.join("local/root.key"), folder.path("root.key")).unwrap();
    fs::copy(state.join("local/root.pem"), folder.path("root.pem")).unwrap();
    let verified = |name: &str| {
        fs::write(folder.path("names"), format!("subjectAltName=DNS:{name}\n")).unwrap();
        let request =
            ["req", "-new", "-nodes", "-newkey", "rsa:2048", "-subj", "/O=x", "-keyout", "k"];
        folder.openssl(&[&request[..], &["-out", "csr"]].concat());
        let sign = ["x509", "-req", "-in", "csr", "-CA", "root.pem", "-CAkey", "root.key"];
        folder.openssl(&[&sign[..], &["-extfile", "names", "-out", "leaf.pem"]].concat());
        let verify = ["verify", "-CAfile", "root.pem", "leaf.pem"];
        let output = Command::new("openssl").args(verify).current_dir(folder.path("")).output();
        output.unwrap().status.success()
    };
    assert!(verified("other.localhost"));
    assert!(!verified("bank.example"));
}

#[test]
fn a_state_directory_that_cannot_be_used_is_reported() {
    let folder = Folder::new();
    fs::write(folder.path("index.html"), "").unwrap();
    fs::write(folder.path("file"), "").unwrap();
    let text = "listen_tls = [\"127.0.0.1:1\"]\nstate_dir = 'file'\ntls.auto = true\n\
        [[site]]\nhost = 'localhost'\n";
    fs::write(folder.path("tokamak.toml"), text).unwrap();
    let run = |command: &str| {
        let output =
            Command::new(program()).arg(command).current_dir(folder.path("")).output().unwrap();
        let all = [&output.stdout[..], &output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&all).into_owned())
    };
    // A check makes nothing.
    let (is_good, all) = run("check");
    assert!(is_good && !all.contains("warning"), "{all}");
    let (is_good, all) = run("serve");
    assert!(!is_good && all.contains("state folder") && all.contains("state_dir"), "{all}");
}

/// Runs `tokamak trust` for the system below `image` of a folder.
pub fn trust(folder: &Folder, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program())
        .args(["trust", "--root", "image"])
        .args(arguments)
        .env("TOKAMAK_STATE_DIR", "state")
        .current_dir(folder.path(""))
        .output()
        .unwrap();
    let all = [&output.stdout[..], &output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&all).into_owned())
}

#[test]
fn a_system_trusts_the_authority_and_forgets_it() {
    let folder = Folder::new();
    let store = folder.path("image/usr/local/share/ca-certificates");
    let (_, all) = trust(&folder, &[]);
    assert!(all.contains("image is no system"), "{all}");
    fs::create_dir_all(&store).unwrap();
    // Of others, and to stay: Debian's program leaves its file alone if there is no certificate.
    folder.certificate("others", &["others.localhost"]);
    fs::copy(folder.path("others.pem"), store.join("others.crt")).unwrap();
    // Before a server has made the authority, or after.
    let (is_done, all) = trust(&folder, &[]);
    assert!(is_done && all.contains("added") && all.contains("update-ca-certificates"), "{all}");
    assert!(all.contains("certutil") && !all.contains("PRIVATE"), "{all}");
    let (_server, address) = automatic(&folder.path("state"), &[]);
    let made: Vec<_> = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(made.len(), 2, "{made:?}");
    // What Debian's program makes of it is what programs read.
    let debian = folder.path("image/etc/ssl/certs");
    fs::create_dir_all(&debian).unwrap();
    fs::write(folder.path("none"), "").unwrap();
    let update = || {
        let output = Command::new("update-ca-certificates")
            .arg("--localcertsdir")
            .arg(&store)
            .arg("--etccertsdir")
            .arg(&debian)
            .arg("--certsconf")
            .arg(folder.path("none"))
            .args(["--hooksdir", "/nonexistent", "--fresh"])
            .output()
            .expect("update-ca-certificates runs");
        assert!(output.status.success(), "{output:?}");
    };
    let is_accepted = || {
        let output = Command::new("curl")
            .args(["-sS", "-m", "30", "--cacert"])
            .arg(debian.join("ca-certificates.crt"))
            .arg(format!("https://127.0.0.1:{}/hello.php", address.port()))
            .output()
            .expect("curl runs");
        output.status.success()
    };
    update();
    assert!(is_accepted());
    assert!(trust(&folder, &[]).1.contains("is there already"));
    let (is_done, all) = trust(&folder, &["--remove"]);
    assert!(is_done && all.contains("removed") && all.contains("--fresh"), "{all}");
    assert!(store.join("others.crt").exists());
    update();
    assert!(!is_accepted());
    assert!(trust(&folder, &["--remove"]).1.contains("is not there"));
}

#[test]
fn the_authority_is_that_of_the_configuration() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("image/usr/local/share/ca-certificates")).unwrap();
    fs::write(folder.path("index.php"), "").unwrap();
    fs::write(folder.path("own.toml"), "state_dir = 'of-own'\n").unwrap();
    fs::write(folder.path("tokamak.toml"), "state_dir = 'of-default'\n").unwrap();
    let trust = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.args(["trust", "--root", "image"]).args(arguments);
        let output = command.current_dir(folder.path("")).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(trust(&["--config", "own.toml"]).0);
    assert!(folder.path("of-own/local/root.pem").exists());
    assert!(!folder.path("of-default").exists());
    assert!(trust(&[]).0);
    assert!(folder.path("of-default/local/root.pem").exists());
    fs::write(folder.path("own.toml"), "state_dri = 'x'\n").unwrap();
    let (is_done, said) = trust(&["--config", "own.toml"]);
    assert!(!is_done && said.contains("own.toml:1: state_dri: unknown key"), "{said}");
}

#[test]
fn root_trusts_nothing_else_of_another_user_and_makes_nothing_there() {
    let folder = Folder::new();
    let store = folder.path("image/usr/local/share/ca-certificates");
    fs::create_dir_all(&store).unwrap();
    // Another authority in the place of ours.
    folder.certificate("others", &["others.localhost"]);
    fs::create_dir_all(folder.path("state/local")).unwrap();
    fs::copy(folder.path("others.pem"), folder.path("state/local/root.pem")).unwrap();
    let (is_done, all) = trust(&folder, &[]);
    assert!(!is_done && all.contains("no certificate of a local authority"), "{all}");
    assert_eq!(fs::read_dir(&store).unwrap().count(), 0);
    if is_root() {
        fs::remove_dir_all(folder.path("state")).unwrap();
        fs::create_dir(folder.path("home")).unwrap();
        std::os::unix::fs::chown(folder.path("home"), Some(65534), None).unwrap();
        let (is_done, all) = trust(&folder, &["--state-dir", "home/state"]);
        assert!(!is_done && all.contains("start the server first"), "{all}");
        assert_eq!(fs::read_dir(folder.path("home")).unwrap().count(), 0);
    }
}
