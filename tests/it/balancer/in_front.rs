//! Real proxies in front: nginx and HAProxy, set up as `docs/behind-a-balancer.md` says.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::balancer::{some, with};
use crate::harness::{
    Connection, Kind, Process, Server, Setup, eventually, free_address, get, installed,
};

/// Starts a proxy with these arguments, and waits until it accepts.
pub fn start(program: &Path, arguments: &[&str], server: &Server, at: SocketAddr) -> Process {
    let name = program.file_name().unwrap().display();
    let arguments: Vec<String> = arguments.iter().map(|word| word.to_string()).collect();
    let log = server.places.top().join(format!("{name}.log"));
    let mut process = Process::start(program, &arguments, &[], &log);
    let accepts = || {
        assert!(process.ended().is_none(), "{}", fs::read_to_string(&log).unwrap_or_default());
        TcpStream::connect(at).ok()
    };
    assert!(eventually(Duration::from_secs(20), accepts).is_some(), "{name} does not accept");
    process
}

fn haproxy(server: &Server, at: SocketAddr, text: &str) -> Process {
    let file = server.places.top().join("haproxy.cfg");
    let defaults = "defaults\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n";
    fs::write(&file, format!("{defaults}{text}")).unwrap();
    start(
        &installed("haproxy").expect("HAProxy"),
        &["-db", "-f", file.to_str().unwrap()],
        server,
        at,
    )
}

fn nginx(server: &Server, at: SocketAddr, text: &str) -> Process {
    let (top, file) = (server.places.top(), server.places.top().join("front.conf"));
    let top = top.to_str().unwrap();
    let text = format!(
        "pid {top}/front.pid;\ndaemon off;\nevents {{}}\nhttp {{\naccess_log off;\n\
         client_body_temp_path {top}/t1;\nproxy_temp_path {top}/t2;\nfastcgi_temp_path {top}/t3;\n\
         uwsgi_temp_path {top}/t4;\nscgi_temp_path {top}/t5;\n{text}\n}}\n"
    );
    fs::write(&file, text).unwrap();
    let arguments = ["-p", top, "-c", file.to_str().unwrap(), "-e", "stderr"];
    start(&installed("nginx").expect("nginx"), &arguments, server, at)
}

/// A server that believes what both proxies are told to set.
fn trusting() -> Server {
    Setup::new(Kind::Classic)
        .line("trusted_proxies = [\"127.0.0.1\"]")
        .line("trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\"]")
        .start()
}

const NAMES: [&str; 5] =
    ["REMOTE_ADDR", "REQUEST_SCHEME", "SERVER_PORT", "HTTP_HOST", "HTTP_FORWARDED"];

/// What PHP is told of two requests through the proxy at this address, the second one with fields
/// that a hostile client makes up.
fn through(at: SocketAddr) -> String {
    let mut connection = Connection::open(at);
    let forged = [
        ("Host", "shop.example"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Proto", "gopher"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Request-Id", "forged name"),
    ];
    let plain = with(&[("Host", "shop.example")]);
    let first = some(&connection.exchange(&plain).expect(200).json(), &NAMES);
    let second = some(&connection.exchange(&with(&forged)).expect(200).json(), &NAMES);
    assert_eq!(first, second, "what clients make up changes nothing");
    first
}

/// The address that clients of these tests come from, for the proxy.
const CLIENT: &str = "127.0.0.1";

#[test]
fn nginx_forwards_clients() {
    let server = trusting();
    let (at, inner, to) = (free_address(), free_address(), server.address);
    let front = |at: SocketAddr, client: &str| {
        format!(
            "server {{ listen {at}; location / {{ proxy_pass http://tokamak; \
             proxy_http_version 1.1; proxy_set_header Connection \"\"; \
             proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For {client}; \
             proxy_set_header X-Forwarded-Proto https; }} }}\n"
        )
    };
    let text = format!(
        "upstream tokamak {{ server {to}; keepalive 8; }}\n{}{}",
        front(at, "$remote_addr"),
        front(inner, "$proxy_add_x_forwarded_for")
    );
    let _nginx = nginx(&server, at, &text);
    assert_eq!(through(at), format!("{CLIENT} https 443 shop.example -"));
    // Behind another proxy it appends the address of that one.
    let outer = free_address();
    let text = format!(
        "frontend f\n  mode http\n  bind {outer}\n  http-request set-header X-Forwarded-For \
         192.0.2.7\n  default_backend b\nbackend b\n  mode http\n  server s {inner}\n"
    );
    let _outer = haproxy(&server, outer, &text);
    assert_eq!(through(outer), "192.0.2.7 https 443 shop.example -");
}

#[test]
fn haproxy_forwards_clients() {
    let server = trusting();
    let (at, to) = (free_address(), server.address);
    let _haproxy = haproxy(
        &server,
        at,
        &format!(
            "frontend f\n  mode http\n  bind {at}\n  http-request del-header X-Forwarded-For\n  \
             option forwardfor\n  http-request set-header X-Forwarded-Proto https\n  \
             default_backend b\nbackend b\n  mode http\n  server s {to}\n"
        ),
    );
    assert_eq!(through(at), format!("{CLIENT} https 443 shop.example -"));
}

/// HAProxy with the PROXY protocol of a version, over TCP, with health checks.
fn by_proxy_protocol(version: &str) {
    let proxied = free_address();
    let server = Setup::new(Kind::Classic)
        .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{proxied}\"]"))
        .line(&format!("proxy_protocol = [\"{proxied}\"]\ntrusted_proxies = [\"127.0.0.1\"]"))
        .line("log.access = \"state/access.log\"")
        .start();
    let at = free_address();
    let _haproxy = haproxy(
        &server,
        at,
        &format!(
            "frontend f\n  mode tcp\n  bind {at}\n  default_backend b\nbackend b\n  mode tcp\n  \
             option httpchk GET /hello.php\n  server s {proxied} check inter 200ms {version}\n"
        ),
    );
    let mut connection = Connection::open(at);
    let seen = connection.exchange(&with(&[])).expect(200).json();
    // The address that the client connected to is HAProxy's.
    assert_eq!(some(&seen, &["REMOTE_ADDR", "SERVER_PORT"]), format!("{CLIENT} {}", at.port()));
    // Its health checks are requests of its own, and pass.
    let log = server.state_file("access.log");
    let checks = || fs::read_to_string(&log).unwrap_or_default().matches("/hello.php").count();
    let checked = eventually(Duration::from_secs(20), || (checks() > 4).then_some(()));
    assert!(checked.is_some(), "{}", server.log());
    Connection::open(at).exchange(&get("/hello.php")).expect(200);
    assert!(!server.log().contains("connection closed: "), "{}", server.log());
}

#[test]
fn haproxy_speaks_the_proxy_protocol_in_version_1() {
    by_proxy_protocol("send-proxy");
}

#[test]
fn haproxy_speaks_the_proxy_protocol_in_version_2() {
    by_proxy_protocol("send-proxy-v2 check-send-proxy");
}

/// HAProxy that ends TLS and passes bytes on says so, and the redirect to `https` does not loop.
#[test]
fn haproxy_ends_tls_and_says_so() {
    let proxied = free_address();
    let server = Setup::new(Kind::Classic)
        .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{proxied}\"]"))
        .line(&format!("proxy_protocol = [\"{proxied}\"]\ntrusted_proxies = [\"127.0.0.1\"]"))
        .site_line("https_redirect = true")
        .start();
    let folder = crate::tls::Folder::new();
    folder.certificate("localhost", &["localhost"]);
    let read = |file: &str| fs::read_to_string(folder.path(file)).unwrap();
    fs::write(folder.path("both.pem"), read("localhost.pem") + &read("localhost.key")).unwrap();
    let at = free_address();
    let both = folder.path("both.pem").display().to_string();
    let _haproxy = haproxy(
        &server,
        at,
        &format!(
            "frontend f\n  mode tcp\n  bind {at} ssl crt {both}\n  default_backend b\n\
             backend b\n  mode tcp\n  server s {proxied} send-proxy-v2-ssl\n"
        ),
    );
    let asked = std::process::Command::new("curl")
        .args(["-sS", "-m", "20", "--cacert"])
        .arg(folder.path("localhost.pem"))
        .args(["--resolve", &format!("localhost:{}:127.0.0.1", at.port())])
        .arg(format!("https://localhost:{}/server.php", at.port()))
        .output()
        .expect("curl runs");
    let seen: serde_json::Value = serde_json::from_slice(&asked.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&asked.stderr)));
    assert_eq!(some(&seen, &["REMOTE_ADDR", "HTTPS"]), format!("{CLIENT} on"));
    assert_eq!(server.get("/hello.php").status(), 308, "without a proxy it is plain HTTP");
}
