//! `examples/lua-fcgi`, as its README starts it, behind four web servers.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use super::PATIENCE;
use crate::harness::{
    Connection, Process, eventually, free_address, get, in_parallel, numbered, post, program, tests,
};

const FILES: [&str; 6] = [
    "nginx.conf",
    "apache.conf",
    "lighttpd.conf",
    "tokamak.toml",
    "public/hello.lua",
    "public/length.lua",
];

#[test]
fn nginx() {
    behind_a_socket("nginx", &["nginx", "-p", "$PWD", "-c", "nginx.conf"]);
}

#[test]
fn apache() {
    behind_a_socket("Apache", &["apache2", "-d", "$PWD", "-f", "apache.conf", "-DFOREGROUND"]);
}

fn behind_a_socket(name: &str, command: &[&str]) {
    let (folder, address) = copy();
    let tokamak = program().display().to_string();
    let lua = [&*tokamak, "lua-fcgi", "public", "--listen", "unix:lua.sock", "--mode", "666"];
    let _lua = start(&folder, &lua);
    let there = || folder.path().join("lua.sock").exists().then_some(());
    eventually(PATIENCE, there).unwrap_or_else(|| panic!("no socket: {}", log(&folder)));
    let _web_server = start(&folder, command);
    behaves(name, &folder, address);
}

#[test]
fn lighttpd() {
    let (folder, address) = copy();
    let _web_server = start(&folder, &["lighttpd", "-D", "-f", "lighttpd.conf"]);
    behaves("lighttpd", &folder, address);
}

#[test]
fn tokamak() {
    let (folder, address) = copy();
    let tokamak = program().display().to_string();
    let _web_server = start(&folder, &[&tokamak, "serve", "--control", "control"]);
    behaves("Tokamak", &folder, address);
}

fn behaves(name: &str, folder: &TempDir, address: SocketAddr) {
    let there = || TcpStream::connect(address).ok();
    eventually(PATIENCE, there)
        .unwrap_or_else(|| panic!("{name} does not listen: {}", log(folder)));
    let mut connection = Connection::open(address);
    for _ in 0..3 {
        let text = connection.exchange(&get("/hello.lua?name=Ada")).expect(200).text();
        assert_eq!(text, format!("Lua behind {name} says hello to Ada\n"));
        let response = connection.exchange(&post("/length.lua", "text/plain", numbered(300_000)));
        assert_eq!(response.expect(200).text(), "300000 bytes\n");
        let response = connection.exchange(&get("/length.lua"));
        assert_eq!(
            (response.status(), response.header("allow")),
            (405, Some("POST")),
            "{response}"
        );
    }
    assert_eq!(connection.exchange(&get("/no.lua")).status(), 404);
    in_parallel(64, |number| {
        let mut connection = Connection::open(address);
        for nth in 0..10 {
            let target = format!("/hello.lua?name=n{number}x{nth}");
            let text = connection.exchange(&get(&target)).expect(200).text();
            assert_eq!(text, format!("Lua behind {name} says hello to n{number}x{nth}\n"));
        }
    });
}

/// A copy of the example in which the web servers listen at the address.
fn copy() -> (TempDir, SocketAddr) {
    let address = free_address();
    let folder = tempfile::Builder::new().prefix("tokamak-example-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("public")).unwrap();
    let program = program().display().to_string();
    for name in FILES {
        let text = fs::read_to_string(tests().join("../examples/lua-fcgi").join(name)).unwrap();
        let text = text.replace("8080", &address.port().to_string());
        let text = text
            .replace("/usr/local/bin/tokamak", &program)
            .replace("\"tokamak\"", &format!("\"{program}\""));
        fs::write(folder.path().join(name), text).unwrap();
    }
    (folder, address)
}

fn log(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("log")).unwrap_or_default()
}

/// Starts a program in the folder, whose path takes the place of `$PWD`.
fn start(folder: &TempDir, command: &[&str]) -> Process {
    let folder = folder.path();
    let path = folder.display().to_string();
    let mut arguments = vec!["-C".to_owned(), path.clone()];
    arguments.extend(command.iter().map(|argument| argument.replace("$PWD", &path)));
    Process::start(Path::new("env"), &arguments, &[], &folder.join("log"))
}
