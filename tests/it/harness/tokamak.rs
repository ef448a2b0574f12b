//! Starts Tokamak itself.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::peer;
use super::ports::free_address;
use super::process::Process;
use super::server::Server;
use super::setup::{Image, Kind, Places, Service, Setup, is_root};

/// The server program that this test program was built with.
pub fn program() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_tokamak"));
    let worker = program.with_file_name("tokamak-php");
    assert!(
        worker.exists(),
        "{} is missing: run `cargo build -p tokamak-php` first",
        worker.display()
    );
    program
}

pub(super) fn start(setup: &Setup, places: Places) -> Server {
    let address = free_address();
    let wants_fpm = setup.kind == Kind::Fastcgi && setup.upstream.is_none();
    let fpm = wants_fpm.then(|| peer::start_fpm(setup, &places));
    let configuration = places.top().join("tokamak.toml");
    let socket = fpm.as_ref().map(|(_, socket)| socket.as_path());
    let text = configuration_text(setup, &places, address.port(), socket);
    fs::write(&configuration, text).unwrap();
    let arguments = ["serve".into(), "--config".into(), configuration.to_str().unwrap().into()];
    let (program, arguments) = match setup.open_files {
        None => (setup.program.clone().unwrap_or_else(program), arguments.to_vec()),
        Some(most) => {
            let own = [format!("--nofile={most}:{most}"), program().to_str().unwrap().into()];
            ("prlimit".into(), own.into_iter().chain(arguments).collect())
        }
    };
    let (program, arguments) = match &setup.service {
        None => (program, arguments),
        Some(service) => as_service(service, &places, &program, arguments),
    };
    let process = Process::start(&program, &arguments, &setup.server_environment, &places.log());
    let processes = fpm.into_iter().map(|(fpm, _)| fpm).chain([process]).collect();
    Server::new(setup.kind, address, processes, places)
}

/// The command that starts a program as a service's user, who owns the folder of the test.
fn as_service(
    service: &Service,
    places: &Places,
    program: &Path,
    arguments: Vec<String>,
) -> (PathBuf, Vec<String>) {
    let (uid, gid) = tokamak_sys::process::find_user(service.user).expect("a user of every Debian");
    std::os::unix::fs::chown(places.top(), Some(uid), Some(gid)).expect("root may do that");
    let list = service.capabilities.iter().map(|name| format!("+{name}"));
    let list = list.collect::<Vec<_>>().join(",");
    let mut all = vec![
        format!("--reuid={}", service.user),
        format!("--regid={}", service.user),
        "--clear-groups".to_owned(),
        "--no-new-privs".to_owned(),
    ];
    if !list.is_empty() {
        all.extend([format!("--inh-caps={list}"), format!("--ambient-caps={list}")]);
    }
    all.extend(["--".to_owned(), program.to_str().expect("a program's path is text").to_owned()]);
    all.extend(arguments);
    ("setpriv".into(), all)
}

fn configuration_text(setup: &Setup, places: &Places, port: u16, fpm: Option<&Path>) -> String {
    let mut text = String::new();
    writeln!(text, "control = {}", quoted_path(&places.top().join("control"))).unwrap();
    let listen = "listen = [\"127.0.0.1:$PORT\"]";
    let user = (is_root() && !setup.is_root).then_some("user = \"www-data\"");
    let defaults = [listen, "loops = 2", "timeouts.drain = \"1s\""].into_iter().chain(user);
    let defaults = defaults.filter(|line| !overridden(line, &setup.lines));
    for line in defaults.chain(setup.lines.iter().map(String::as_str)) {
        writeln!(text, "{}", line.replace("$PORT", &port.to_string())).unwrap();
    }
    if let Some(tables) = &setup.own_sites {
        let tables = tables.replace("$ROOT", &places.root().display().to_string());
        text.push_str(&tables.replace("$STATE", &places.state().display().to_string()));
        return text;
    }
    if let Some(socket) = fpm {
        let address = quoted(&format!("unix:{}", socket.display()));
        writeln!(text, "\n[[upstream]]\nname = \"php-fpm\"\naddress = {address}").unwrap();
    }
    if let Some(lines) = &setup.upstream {
        writeln!(text, "\n[[upstream]]\nname = \"app\"\n{lines}").unwrap();
    }
    let root = setup.document_root(places);
    write_site(&mut text, setup, setup.kind, places, "localhost", &root, &setup.worker);
    if let Some(host) = &setup.fallback {
        write_site(&mut text, setup, Kind::Classic, places, host, &root, "");
    }
    for (position, more) in setup.more_sites.iter().enumerate() {
        write_site(
            &mut text,
            setup,
            setup.kind,
            places,
            &more.host,
            &places.more_root(position),
            "worker.php",
        );
    }
    text.push_str(&setup.more_tables);
    text
}

fn write_site(
    text: &mut String,
    setup: &Setup,
    kind: Kind,
    places: &Places,
    host: &str,
    root: &Path,
    worker: &str,
) {
    writeln!(text, "\n[[site]]\nhost = [{}]\nroot = {}", quoted(host), quoted_path(root)).unwrap();
    if let Some(fallback) = setup.fallback.as_ref().filter(|fallback| *fallback != host) {
        writeln!(text, "fallback = {}", quoted(fallback)).unwrap();
    }
    match kind {
        Kind::Worker | Kind::Async => {
            let mode = if kind == Kind::Worker { "worker" } else { "async" };
            writeln!(text, "mode = \"{mode}\"\nworker = {}", quoted_path(&root.join(worker)))
                .unwrap();
        }
        Kind::Sealed => {
            text.push_str("mode = \"sealed\"\n");
            match &setup.image {
                Image::Worker => {
                    writeln!(text, "worker = {}", quoted_path(&root.join(worker))).unwrap()
                }
                Image::Boot(script) => {
                    writeln!(text, "boot = {}", quoted_path(&root.join(script))).unwrap()
                }
                Image::Bare => {}
            }
            let warm: Vec<String> = setup.warm.iter().map(|target| quoted(target)).collect();
            writeln!(text, "warm = [{}]", warm.join(", ")).unwrap();
        }
        Kind::Fastcgi if setup.upstream.is_some() => text.push_str("mode = \"fastcgi\"\n"),
        Kind::Fastcgi => text.push_str("upstream = \"php-fpm\"\n"),
        Kind::Classic | Kind::Fpm | Kind::FpmSealed | Kind::Peer => {
            text.push_str("mode = \"classic\"\n")
        }
    }
    let front_controller = setup.front_controller.as_deref().unwrap_or("none");
    writeln!(text, "front_controller = {}", quoted(front_controller)).unwrap();
    if let Some(workers) = setup.workers {
        writeln!(text, "pool.workers = {workers}").unwrap();
    }
    for line in &setup.site_lines {
        writeln!(text, "{line}").unwrap();
    }
    write_table(text, "php_value", &setup.all_php_values(places));
    write_table(text, "php_admin_value", &setup.all_php_admin_values(places));
    write_table(text, "env", &setup.all_environment(places));
}

/// Whether a line of the test sets the same key.
fn overridden(line: &str, by: &[String]) -> bool {
    let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_string();
    by.iter().any(|other| key(other) == key(line))
}

fn write_table(text: &mut String, name: &str, entries: &[(String, String)]) {
    writeln!(text, "[site.{name}]").unwrap();
    for (key, value) in entries {
        writeln!(text, "{} = {}", quoted(key), quoted(value)).unwrap();
    }
}

pub(super) fn quoted_path(path: &Path) -> String {
    quoted(path.to_str().expect("a test's path is text"))
}

/// A TOML basic string; JSON's strings are a subset of them.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}
