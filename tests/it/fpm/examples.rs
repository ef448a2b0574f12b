//! `examples/fpm`, as its README starts it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Connection, Process, eventually, free_address, get, program, tests};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn nginx() {
    greets("nginx", &["nginx", "-p", "$PWD", "-c", "nginx.conf"]);
}

#[test]
fn apache() {
    greets("Apache", &["apache2", "-d", "$PWD", "-f", "apache.conf", "-DFOREGROUND"]);
}

#[test]
fn lighttpd() {
    greets("lighttpd", &["lighttpd", "-D", "-f", "lighttpd.conf"]);
}

fn greets(name: &str, command: &[&str]) {
    let address = free_address();
    let folder = copy(address);
    let tokamak = program().display().to_string();
    let _fpm = start(
        &folder,
        &[&tokamak, "fpm", "--nodaemonize", "--prefix", "$PWD", "--fpm-config", "fpm.conf"],
    );
    let there = |name: &str| folder.path().join(name).exists().then_some(());
    let said = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    eventually(PATIENCE, || there("php.sock")).unwrap_or_else(|| panic!("no socket: {}", said()));
    let _web_server = start(&folder, command);
    eventually(PATIENCE, || TcpStream::connect(address).ok())
        .unwrap_or_else(|| panic!("{}", said()));
    let mut connection = Connection::open(address);
    for target in ["/?name=Ada", "/index.php?name=Ada"] {
        let text = connection.exchange(&get(target)).expect(200).text();
        assert_eq!(text, format!("fpm-fcgi behind {name} says hello to Ada\n"));
    }
}

/// A copy of the example in which the web servers listen at `address`.
fn copy(address: SocketAddr) -> TempDir {
    let folder = tempfile::Builder::new().prefix("tokamak-example-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let example = tests().join("../examples/fpm");
    fs::create_dir(folder.path().join("public")).unwrap();
    for name in ["fpm.conf", "nginx.conf", "apache.conf", "lighttpd.conf", "public/index.php"] {
        let text = fs::read_to_string(example.join(name)).unwrap();
        fs::write(folder.path().join(name), text.replace("8080", &address.port().to_string()))
            .unwrap();
    }
    folder
}

/// Starts a program in the folder, whose path takes the place of `$PWD`.
fn start(folder: &TempDir, command: &[&str]) -> Process {
    let folder = folder.path();
    let path = folder.display().to_string();
    let mut arguments = vec!["-C".to_owned(), path.clone()];
    arguments.extend(command.iter().map(|argument| argument.replace("$PWD", &path)));
    Process::start(Path::new("env"), &arguments, &[], &folder.join("log"))
}
