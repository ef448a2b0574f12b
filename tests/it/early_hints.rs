//! Interim responses of applications: who gets them, and that the clients that people use get the
//! page where one is sent to others.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use crate::fastcgi::backend::{Backend, whole};
use crate::harness::{Connection, Kind, Request, Server, Setup, free_address, get, in_parallel};

/// Sends an interim response at once, and then the page.
const HINTS: &str =
    "<?php header('Link: </a.css>; rel=preload'); headers_send(103); echo 'the page';";

const HINTS_AT: &str = "/hints.php";

fn hinting(setup: Setup) -> Server {
    let server = setup.start();
    fs::write(server.places.root().join("hints.php"), HINTS).unwrap();
    server
}

/// How many interim responses come before the page.
#[track_caller]
fn interims(at: SocketAddr, request: &Request) -> usize {
    let response = Connection::open(at).exchange(request).expect(200);
    assert_eq!(response.text(), "the page");
    response.interim.len()
}

/// The same over HTTP/2, of a client that adds these arguments.
#[track_caller]
fn interims_over_http2(at: SocketAddr, target: &str, arguments: &[&str]) -> usize {
    let asked = Command::new("curl")
        .args(["-sS", "-m", "30", "--http2-prior-knowledge", "-i"])
        .args(arguments)
        .arg(format!("http://{at}{target}"))
        .output()
        .expect("curl runs");
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(text.ends_with("the page") && text.contains("HTTP/2 200"), "{text}");
    text.matches("HTTP/2 103").count()
}

/// What shows that a request comes through a proxy.
const SIGNS: [(&str, &str); 3] =
    [("Via", "1.1 varnish"), ("X-Forwarded-For", "192.0.2.1"), ("Forwarded", "for=192.0.2.1")];

#[test]
fn clients_of_http2_get_them() {
    let server = hinting(Setup::new(Kind::Classic));
    assert_eq!(interims_over_http2(server.address, HINTS_AT, &[]), 1);
    assert_eq!(interims(server.address, &get(HINTS_AT)), 0);
    for (name, value) in SIGNS {
        assert_eq!(
            interims_over_http2(server.address, HINTS_AT, &["-H", &format!("{name}: {value}")]),
            0
        );
    }
    let server = hinting(Setup::new(Kind::Classic).line("early_hints = \"off\""));
    assert_eq!(interims_over_http2(server.address, HINTS_AT, &[]), 0);
}

#[test]
fn clients_of_http1_get_them_if_the_operator_says_so() {
    let server = hinting(Setup::new(Kind::Classic).line("early_hints = \"all\""));
    assert_eq!(interims(server.address, &get(HINTS_AT)), 1);
    assert_eq!(interims_over_http2(server.address, HINTS_AT, &[]), 1);
    for (name, value) in SIGNS {
        assert_eq!(interims(server.address, &get(HINTS_AT).header(name, value)), 0, "{name}");
    }
    let mut old = server.connect();
    old.send("GET /hints.php HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!(old.head().unwrap().status, 200);
}

#[test]
fn proxies_never_get_them() {
    let setup = Setup::new(Kind::Classic).line("early_hints = \"all\"");
    let server = hinting(setup.line("trusted_proxies = [\"127.0.0.1\"]"));
    assert_eq!(interims(server.address, &get(HINTS_AT)), 0);
    assert_eq!(interims_over_http2(server.address, HINTS_AT, &[]), 0);
    // A PROXY header makes the client's address that of the connection.
    let proxied = free_address();
    let _server = hinting(
        Setup::new(Kind::Classic)
            .line("early_hints = \"all\"")
            .line(&format!("listen = [\"127.0.0.1:$PORT\", \"{proxied}\"]"))
            .line(&format!("proxy_protocol = [\"{proxied}\"]\ntrusted_proxies = [\"127.0.0.1\"]")),
    );
    for header in ["PROXY TCP4 192.0.2.1 198.51.100.7 4711 443\r\n", "PROXY UNKNOWN\r\n"] {
        let mut connection = Connection::open(proxied);
        connection.send([header.as_bytes(), &get(HINTS_AT).bytes()].concat());
        let response = connection.response().expect(200);
        assert_eq!(response.interim.len(), 0, "{header}");
    }
    assert_eq!(interims_over_http2(proxied, HINTS_AT, &["--haproxy-protocol"]), 0);
}

/// Those of scripts in Lua and of FastCGI applications, which come by other ways.
#[test]
fn those_of_lua_and_of_applications_are_for_the_same_clients() {
    let hints = "Status: 103\r\nLink: </a.css>; rel=preload\r\n\r\nA: 1\r\n\r\nthe page";
    let backend = Backend::answering(move |_| whole(hints.as_bytes()));
    let script = "lighty.r.resp_header['Link'] = '</a.css>; rel=preload' return 103";
    for (option, over) in [("http2", [0, 1]), ("all", [1, 1]), ("off", [0, 0])] {
        let line = format!("early_hints = \"{option}\"");
        let server = crate::fastcgi::in_front_of(&backend, "").line(&line).start();
        let seen = [
            interims(server.address, &get("/app")),
            interims_over_http2(server.address, "/app", &[]),
        ];
        assert_eq!(seen, over, "an application, {option}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hint.lua");
        fs::write(&path, script).unwrap();
        let lua = format!("lua_raw_url = [\"{}\"]", path.display());
        let server = Setup::new(Kind::Classic).line(&line).site_line(&lua).start();
        fs::write(server.places.root().join("hints.php"), "the page").unwrap();
        let seen = [
            interims(server.address, &get(HINTS_AT)),
            interims_over_http2(server.address, HINTS_AT, &[]),
        ];
        assert_eq!(seen, over, "a script in Lua, {option}\n{}", server.log());
    }
}

/// Programs of Debian that take an interim response for the response, or fail, and some that do
/// not. Each fetches the URLs in its arguments, over one connection if it can.
const CLIENTS: [(&str, &[&str]); 11] = [
    ("curl", &["curl", "-sS", "-m", "30"]),
    ("wget", &["wget", "-qO-", "-T", "30", "-t", "1"]),
    ("wget2", &["wget2", "-qO-", "-T", "30", "--tries=1", "--max-threads=1"]),
    ("python3", &["python3", "-c", PYTHON]),
    ("libwww-perl", &["perl", "-MLWP::UserAgent", "-e", PERL]),
    ("lua-socket", &["lua5.1", "client.lua"]),
    ("tcl", &["tclsh", "client.tcl"]),
    ("ruby", &["ruby", "-rnet/http", "-e", RUBY]),
    ("php", &["php", "-r", "foreach (array_slice($argv, 1) as $url) readfile($url);"]),
    ("elinks", &["elinks", "-no-home", "-source"]),
    ("lftp", &["sh", "-c", "exec lftp -c \"set net:max-retries 1; cat $*\"", "sh"]),
];

const PYTHON: &str = "
import http.client, sys, urllib.parse
urls = [urllib.parse.urlsplit(url) for url in sys.argv[1:]]
connection = http.client.HTTPConnection(urls[0].netloc, timeout=30)
for url in urls:
    connection.request('GET', url.path)
    print(connection.getresponse().read().decode())";

const PERL: &str = "my $client = LWP::UserAgent->new(keep_alive => 1, timeout => 30); \
                    print $client->get($_)->content for @ARGV";

const LUA: &str = "for n = 1, #arg do print((require('socket.http').request(arg[n]))) end";

const TCL: &str = "package require http
foreach url $argv { puts [http::data [http::geturl $url -timeout 30000 -keepalive 1]] }";

const RUBY: &str = "urls = ARGV.map { |url| URI(url) }
Net::HTTP.start(urls[0].host, urls[0].port) { |http| urls.each { |url| puts http.get(url.path).body } }";

#[test]
fn clients_get_the_page() {
    let server = hinting(Setup::new(Kind::Classic));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("client.lua"), LUA).unwrap();
    fs::write(folder.path().join("client.tcl"), TCL).unwrap();
    let [hints, next] =
        ["hints", "hello"].map(|name| format!("http://{}/{name}.php", server.address));
    in_parallel(CLIENTS.len(), |index| {
        let (name, command) = CLIENTS[index];
        let fetch = |urls: &[&String]| {
            let asked = Command::new(command[0])
                .args(&command[1..])
                .args(urls)
                .current_dir(folder.path())
                .env("HOME", folder.path())
                .output()
                .unwrap_or_else(|_| panic!("{name} is missing: run scripts/setup test"));
            let text = String::from_utf8_lossy(&asked.stdout).into_owned();
            (text, String::from_utf8_lossy(&asked.stderr).into_owned())
        };
        // This one shows a single page.
        let urls = if name == "elinks" { vec![&hints] } else { vec![&hints, &next] };
        let (text, complaint) = fetch(&urls);
        assert!(text.contains("the page"), "{name}: {text:?} {complaint}");
        assert!(urls.len() == 1 || text.contains("Hello from PHP"), "{name}: {text:?} {complaint}");
    });
}
