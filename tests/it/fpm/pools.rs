//! What a pool has of its own: sockets, user, processes, access log.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::thread::sleep;
use std::time::Duration;

use super::client::{Client, Request};
use super::{pool, socket};
use crate::harness::{Setup, eventually, free_address, is_root};

/// A second pool that listens on TCP, with these lines.
pub fn with_second(setup: Setup, address: SocketAddr, lines: &[&str]) -> Setup {
    let user = if is_root() { "user = nobody\ngroup = nogroup" } else { "" };
    let own = format!("listen = {address}\npm = static\npm.max_children = 1\n{user}\n");
    let setup = setup.fpm_line("[second]").fpm_line(&own);
    lines.iter().fold(setup, |setup, line| setup.fpm_line(line)).fpm_line("[tests]")
}

#[test]
fn pools_have_sockets_and_users_of_their_own() {
    let address = free_address();
    let server = with_second(pool(1), address, &[]).start();
    let (mut first, mut second) = (Client::connect(&server), Client::tcp(address));
    let pid = |client: &mut Client| -> u32 {
        client.ask(&Request::new(&server, "/pid.php")).body().parse().expect("a process id")
    };
    let (one, other) = (pid(&mut first), pid(&mut second));
    assert_ne!(one, other);
    let user = |pid| fs::metadata(format!("/proc/{pid}")).unwrap().uid();
    if is_root() {
        assert_ne!(user(one), user(other), "each has the user that it says");
        assert!(user(one) != 0 && user(other) != 0);
    }
}

#[test]
fn only_allowed_clients_connect() {
    let (allowed, refused) = (free_address(), free_address());
    let setup = with_second(pool(1), allowed, &["listen.allowed_clients = 127.0.0.9,127.0.0.1"]);
    let third = format!("listen = {refused}\npm = ondemand\npm.max_children = 1");
    let user = if is_root() { "user = nobody\ngroup = nogroup" } else { "" };
    let setup = setup.fpm_line("[third]").fpm_line(&third).fpm_line(user);
    let server = setup.fpm_line("listen.allowed_clients = 127.0.0.9").fpm_line("[tests]").start();
    assert_eq!(
        Client::tcp(allowed).ask(&Request::new(&server, "/hello.php")).body(),
        "Hello from PHP"
    );
    let mut client = Client::tcp(refused);
    client.send(&Request::new(&server, "/hello.php").bytes(1));
    assert!(client.is_closed());
    server.log_line(&["third", "Connection disallowed: IP address '127.0.0.1' has been dropped."]);
}

#[test]
fn the_file_of_a_socket_has_the_mode_that_is_said() {
    for (line, mode) in [("listen.mode = 0600", 0o600), ("listen.mode = 0622", 0o622)] {
        // The harness has said one, the last one counts; so nginx may not be able to connect.
        let server = pool(1).fpm_line(line).start();
        assert_eq!(fs::metadata(socket(&server)).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn a_pool_on_demand_has_processes_when_they_are_needed() {
    let server = pool(3).fpm_line("pm = ondemand").fpm_line("pm.process_idle_timeout = 1s").start();
    let mut client = Client::connect(&server);
    let pid = client.ask(&Request::new(&server, "/pid.php")).body();
    let process = format!("/proc/{pid}");
    assert!(fs::exists(&process).unwrap());
    let gone =
        eventually(Duration::from_secs(20), || (!fs::exists(&process).unwrap()).then_some(()));
    assert!(gone.is_some(), "it rests no longer than a second");
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
}

#[test]
fn a_request_that_takes_too_long_is_ended() {
    let server = pool(1).fpm_line("request_terminate_timeout = 1s").start();
    let mut client = Client::connect(&server);
    let answer = client.ask(&Request::new(&server, "/sleep.php?ms=20000"));
    assert!(answer.head().starts_with("Status: 504 Gateway Time"), "{answer:?}");
    assert_eq!(client.ask(&Request::new(&server, "/hello.php")).body(), "Hello from PHP");
}

#[test]
fn the_access_log_has_the_format_that_is_said() {
    let address = free_address();
    let format = r#"access.format = "%R %u %m %r%Q%q %s %l %n %{X-Answer}o %{HTTP_X_ASKED}e %f""#;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("access.log");
    let lines = [
        &*format!("access.log = {}", file.display()),
        format,
        "access.suppress_path[] = /hello.php",
    ];
    let server = with_second(pool(1), address, &lines).start();
    let mut client = Client::tcp(address);
    let script = server.places.root().join("echo.php");
    client.ask(&Request::new(&server, "/echo.php?a=b").post(b"12345").param("HTTP_X_ASKED", "yes"));
    client.ask(&Request::new(&server, "/hello.php"));
    client.ask(&Request::new(&server, "/status.php?code=418"));
    let said = || fs::read_to_string(&file).unwrap_or_default();
    eventually(Duration::from_secs(20), || (said().lines().count() >= 2).then_some(()));
    let said = said();
    let lines: Vec<&str> = said.lines().collect();
    let first = format!("127.0.0.1  POST /echo.php?a=b 200 5 second - yes {}", script.display());
    assert_eq!(lines[0], first);
    assert!(
        lines[1].starts_with("127.0.0.1  GET /status.php?code=418 418 0 second - - "),
        "{}",
        lines[1]
    );
    assert_eq!(lines.len(), 2, "{said}");
}

#[test]
fn a_silent_connection_costs_nothing() {
    let address = free_address();
    let server = with_second(pool(1), address, &[]).start();
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    sleep(Duration::from_millis(100));
    assert_eq!(
        Client::tcp(address).ask(&Request::new(&server, "/hello.php")).body(),
        "Hello from PHP"
    );
    drop(silent);
}

#[test]
fn the_status_is_served_even_when_all_workers_are_busy() {
    let setup = pool(1).fpm_line("pm.status_path = /pool-status").fpm_line("ping.path = /ping");
    let server = setup.fpm_line("ping.response = here").start();
    let mut client = Client::connect(&server);
    client.ask(&Request::new(&server, "/hello.php"));
    client.send(&Request::new(&server, "/hold.php?name=busy").bytes(9));
    server.holds("busy");
    let ping = client.ask(&Request::new(&server, "/ping"));
    assert_eq!(ping.body(), "here");
    assert!(ping.head().contains("Content-type: text/plain;charset=UTF-8"), "{}", ping.head());
    assert!(ping.head().contains("Cache-Control: no-cache"), "{}", ping.head());
    let page = client.ask(&Request::new(&server, "/pool-status?json&full")).body();
    let status: serde_json::Value = serde_json::from_str(&page).unwrap();
    let number =
        |name: &str| status[name].as_u64().unwrap_or_else(|| panic!("{name} is missing in {page}"));
    assert_eq!(
        (status["pool"].as_str(), status["process manager"].as_str()),
        (Some("tests"), Some("static"))
    );
    let seen = [
        "accepted conn",
        "idle processes",
        "active processes",
        "total processes",
        "max active processes",
    ];
    assert_eq!(seen.map(number), [4, 0, 1, 1, 1], "{page}");
    let process = &status["processes"][0];
    assert_eq!(process["state"], "Running");
    assert_eq!(process["request uri"], "/hold.php?name=busy");
    for (query, kind) in [
        ("", "text/plain"),
        ("?html", "text/html"),
        ("?xml", "text/xml"),
        ("?openmetrics", "application/openmetrics-text"),
    ] {
        let page = client.ask(&Request::new(&server, &format!("/pool-status{query}")));
        assert!(page.head().contains(&format!("Content-type: {kind}")), "{}", page.head());
        assert!(page.body().len() > 100, "{}", page.body());
    }
    let head = client.ask(&Request::new(&server, "/ping").param("REQUEST_METHOD", "HEAD"));
    assert_eq!(head.body(), "");
    server.let_go("busy");
    assert_eq!(client.answer().body(), "held");
}

#[test]
fn the_status_may_have_a_socket_of_its_own() {
    let address = free_address();
    let listen = format!("pm.status_listen = {address}");
    let server = pool(1).fpm_line("pm.status_path = /pool-status").fpm_line(&listen).start();
    let mut client = Client::tcp(address);
    assert!(client.ask(&Request::new(&server, "/pool-status")).body().contains("accepted conn:"));
    let other = client.ask(&Request::new(&server, "/hello.php"));
    assert!(other.head().starts_with("Status: 404"), "no script runs here: {}", other.head());
}
