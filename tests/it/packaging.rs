//! What `make install` puts in place works from there.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Connection, Process, eventually, free_address, get, program};
use crate::layers::root;

/// Runs `scripts/install` for a fresh destination.
fn install(arguments: &[&str]) {
    let output =
        Command::new(root().join("scripts/install")).args(arguments).output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn files(below: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(below).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn an_installed_server_serves_and_can_be_taken_away() {
    let place = tempfile::tempdir().expect("a folder");
    let built = program().parent().expect("a program has a folder").display().to_string();
    let destination = place.path().join("destination");
    let (to, prefix) = (destination.display().to_string(), "/opt/tokamak");
    install(&[&built, &to, prefix]);

    let installed = destination.join("opt/tokamak");
    let page = fs::read_to_string(installed.join("share/man/man1/tokamak.1")).expect("the manual");
    assert!(page.contains(".SH") && page.contains("serve"), "{page}");
    let unit = fs::read_to_string(destination.join("etc/systemd/system/tokamak.service"))
        .expect("the unit");
    assert!(unit.contains("ExecStart=/opt/tokamak/bin/tokamak serve"), "{unit}");
    for shell in ["bash-completion/completions/tokamak", "zsh/site-functions/_tokamak"] {
        let completions =
            fs::read_to_string(installed.join("share").join(shell)).expect("completions");
        assert!(completions.contains("--listen"), "{shell}");
    }

    // The other programs are found where they were installed, not beside the server.
    let site = place.path().join("site.conf");
    fs::write(&site, "server { listen 127.0.0.1:81; root /srv; }\n").expect("a configuration");
    let mut import = Command::new(installed.join("bin/tokamak"));
    let imported = import.args(["import", "nginx"]).arg(&site).output().expect("it runs");
    let text = String::from_utf8_lossy(&imported.stdout);
    assert!(text.contains("127.0.0.1:81"), "{imported:?}");
    let script = place.path().join("hello.php");
    fs::write(&script, "<?php echo 'installed';").expect("a script");
    let address = free_address();
    let arguments =
        ["serve".into(), script.display().to_string(), "--listen".into(), address.to_string()];
    let control =
        ("TOKAMAK_CONTROL".to_string(), place.path().join("control").display().to_string());
    let log = place.path().join("log");
    let server = Process::start(&installed.join("bin/tokamak"), &arguments, &[control], &log);
    let up = eventually(Duration::from_secs(20), || TcpStream::connect(address).ok());
    assert!(up.is_some(), "{}", fs::read_to_string(&log).unwrap_or_default());
    assert_eq!(Connection::open(address).exchange(&get("/")).expect(200).text(), "installed");
    drop(server);

    let settings = destination.join("etc/tokamak/tokamak.toml");
    fs::write(&settings, "# mine\n").expect("a configuration");
    install(&[&built, &to, prefix]);
    assert_eq!(fs::read_to_string(&settings).expect("it stays"), "# mine\n");
    install(&["--remove", &to, prefix]);
    let mut left = Vec::new();
    files(&destination, &mut left);
    assert_eq!(left, [settings.display().to_string()], "only the operator's own file stays");
}
