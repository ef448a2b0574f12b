//! `$_SERVER`: what nginx and php-fpm put there, Tokamak puts there.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{
    Connection, Kind, Request, Server, Setup, check, form, get, in_every_mode, on_every_server,
    post, row,
};

on_every_server! { path_matrix, authentication, request_time, hostile_fields }
in_every_mode! { ipv6, quotes_and_backticks, same_as_the_peer, same_as_the_peer_with_a_front_controller }

#[test]
fn php_fpm_gets_the_same() {
    same_as_the_peer(Kind::Fastcgi);
    same_as_the_peer_with_a_front_controller(Kind::Fastcgi);
}

fn path_matrix(kind: Kind) {
    let server = Setup::new(kind).start();
    let root = server.places.root();
    let root = root.to_str().unwrap();
    check(
        &server,
        vec![
            row("script", get("/server.php?a=1&b=%20"))
                .json("/SCRIPT_NAME", "/server.php")
                .json("/SCRIPT_FILENAME", format!("{root}/server.php"))
                .json("/PHP_SELF", "/server.php")
                .json("/REQUEST_URI", "/server.php?a=1&b=%20")
                .json("/QUERY_STRING", "a=1&b=%20")
                .json("/DOCUMENT_ROOT", root)
                .json("/DOCUMENT_URI", "/server.php")
                .json("/REQUEST_METHOD", "GET")
                .json("/SERVER_PROTOCOL", "HTTP/1.1")
                .json("/REQUEST_SCHEME", "http")
                .json("/GATEWAY_INTERFACE", "CGI/1.1")
                .json("/REMOTE_ADDR", "127.0.0.1")
                .json("/SERVER_ADDR", "127.0.0.1")
                .json("/SERVER_PORT", server.address.port().to_string())
                .json("/HTTPS", Value::Null),
            row("path info", get("/server.php/extra/path%20x?q"))
                .json("/SCRIPT_NAME", "/server.php")
                .json("/PATH_INFO", "/extra/path x")
                .json("/PHP_SELF", "/server.php/extra/path x")
                .json("/REQUEST_URI", "/server.php/extra/path%20x?q"),
            row("directory", get("/dir/"))
                .json("/SCRIPT_NAME", "/dir/index.php")
                .json("/REQUEST_URI", "/dir/")
                .json("/PHP_SELF", "/dir/index.php"),
            row("root", get("/")).json("/SCRIPT_NAME", "/index.php").json("/REQUEST_URI", "/"),
            row("escaped script", get("/serve%72.php?x")).json("/SCRIPT_NAME", "/server.php"),
            row("doubled slash", get("//server.php")).json("/SCRIPT_NAME", "/server.php"),
            row("dots inside", get("/dir/../server.php")).json("/SCRIPT_NAME", "/server.php"),
            row("upper case is another name", get("/server.PHP")).status(404),
            row("missing script", get("/missing.php")).status(404),
            row("missing script with path info", get("/missing.php/x")).status(404),
            row("missing path", get("/missing/path")).status(404),
            row("NUL in the path", get("/server.php%00.txt")).status(400),
        ],
    );
}

fn authentication(kind: Kind) {
    let server = Setup::new(kind).start();
    check(
        &server,
        vec![
            row("basic", get("/server.php").basic_auth("user:pass:word"))
                .json("/PHP_AUTH_USER", "user")
                .json("/PHP_AUTH_PW", "pass:word")
                .json("/REMOTE_USER", "user")
                .json("/HTTP_AUTHORIZATION", "Basic dXNlcjpwYXNzOndvcmQ="),
            row("none after it", get("/server.php"))
                .json("/PHP_AUTH_USER", Value::Null)
                .json("/PHP_AUTH_PW", Value::Null),
            row("digest", get("/server.php").header("Authorization", "Digest username=\"x\""))
                .json("/PHP_AUTH_DIGEST", "username=\"x\"")
                .json("/PHP_AUTH_USER", Value::Null),
            row("bearer", get("/server.php").header("Authorization", "Bearer token"))
                .json("/HTTP_AUTHORIZATION", "Bearer token")
                .json("/PHP_AUTH_USER", Value::Null),
            row("no Base64", get("/server.php").header("Authorization", "Basic !!!"))
                .json("/PHP_AUTH_USER", Value::Null),
            row("no password", get("/server.php").basic_auth("user:"))
                .json("/PHP_AUTH_USER", "user"),
        ],
    );
}

fn request_time(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let mut last = 0.0;
    for _ in 0..3 {
        let seen = server.get("/time.php").expect(200).json();
        for what in ["int", "float", "recent", "agree"] {
            assert_eq!(seen[what], true, "{what} in {seen}");
        }
        let time = seen["time"].as_f64().unwrap();
        assert!(time > last, "each request has its own time: {time} after {last}");
        last = time;
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Values that clients choose arrive as they are and change nothing else.
fn hostile_fields(kind: Kind) {
    let server = Setup::new(kind).start();
    check(
        &server,
        vec![
            row("host with markup", get("/server.php").header("Host", "localhost:1234"))
                .json("/HTTP_HOST", "localhost:1234")
                .json("/SERVER_NAME", "localhost"),
            row("query with everything", get("/server.php?a[b]=c&%00=1&%3C&'&|{}=2"))
                .json("/QUERY_STRING", "a[b]=c&%00=1&%3C&'&|{}=2"),
            row("names of variables", get("/server.php").header("Script-Filename", "/etc/passwd"))
                .json("/HTTP_SCRIPT_FILENAME", "/etc/passwd")
                .json("/SCRIPT_NAME", "/server.php"),
            row("many parameters", get(&format!("/server.php?{}", "a=b&".repeat(1000))))
                .json("/SCRIPT_NAME", "/server.php"),
        ],
    );
}

/// Clients send quotes and backticks as they are, in paths and in queries. What the HTTP library
/// does not take there arrives percent-encoded, and means the same.
fn quotes_and_backticks(kind: Kind) {
    let server = Setup::new(kind).start();
    let encoded = get("/server.php/\"`?\"`=`\"");
    check(
        &server,
        vec![
            row("as they are", get("/server.php/\"?`=`"))
                .json("/PATH_INFO", "/\"")
                .json("/QUERY_STRING", "`=`")
                .json("/REQUEST_URI", "/server.php/\"?`=`"),
            row("encoded", encoded.clone())
                .json("/PATH_INFO", "/\"`")
                .json("/QUERY_STRING", "%22`=`%22")
                .json("/REQUEST_URI", "/server.php/\"%60?%22`=`%22"),
        ],
    );
    // In reads of any size, and with another request behind.
    let bytes = [encoded.bytes(), get("/hello.php").bytes()].concat();
    for size in [1, 2, 3, 30] {
        let mut connection = server.connect();
        for piece in bytes.chunks(size) {
            connection.send(piece);
        }
        let seen = connection.response().expect(200).json();
        assert_eq!(seen["QUERY_STRING"], "%22`=`%22", "pieces of {size} bytes");
        assert_eq!(connection.response().expect(200).text(), "Hello from PHP");
    }
}

/// Addresses of the other family are written as they are.
fn ipv6(kind: Kind) {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("nothing to see: this machine has no IPv6");
        return;
    }
    let setup = Setup::new(kind).line("listen = [\"127.0.0.1:$PORT\", \"[::1]:$PORT\"]");
    let server = setup.start();
    let address = (std::net::Ipv6Addr::LOCALHOST, server.address.port()).into();
    let request = get("/server.php").header("Host", "[::1]:8080");
    let seen = Connection::open(address).exchange(&request).expect(200).json();
    assert_eq!((&seen["REMOTE_ADDR"], &seen["SERVER_ADDR"]), (&"::1".into(), &"::1".into()));
    assert_eq!(seen["HTTP_HOST"], "[::1]:8080");
}

/// The requests whose `$_SERVER` must be the same.
fn requests() -> Vec<Request> {
    vec![
        get("/server.php"),
        get("/server.php?"),
        get("/server.php?a=1&b[]=2&c"),
        get("/server.php/a\"b?c=`d"),
        get("/server.php/path/info"),
        get("/server.php/path%2Finfo/%C3%A4?x=%C3%A4"),
        get("/server.php/"),
        get("/"),
        get("/?query"),
        get("/dir/"),
        get("/dir/?query"),
        get("/dir/index.php/more"),
        get("/./dir/../server.php"),
        get("/index.php"),
        get("http://localhost/server.php?absolute"),
        get("/server.php").header("Host", "localhost:8080"),
        get("/server.php")
            .header("Accept-Language", "de")
            .header("User-Agent", "test")
            .header("X-A-b-C", "1"),
        get("/server.php").header("Cookie", "a=b; c=d"),
        get("/server.php").basic_auth("me:secret"),
        get("/server.php").header("X-Forwarded-For", "10.0.0.1").header("X-Empty", ""),
        get("/server.php").header("Connection", "close"),
        form("/server.php?q=1", "a=1&b=2"),
        post("/server.php", "application/json; charset=utf-8", "{}"),
        Request::new("PUT", "/server.php/item").header("Content-Type", "text/plain").body("text"),
        Request::new("DELETE", "/server.php/item"),
        Request::new("OPTIONS", "/server.php"),
        Request::new("PATCH", "/server.php").body("x"),
    ]
}

fn same_as_the_peer(kind: Kind) {
    let peer = Setup::new(Kind::Peer).start();
    let server = Setup::new(kind).site_line("inherit_env = false").start();
    compare(&server, &peer, requests());
}

fn same_as_the_peer_with_a_front_controller(kind: Kind) {
    let peer = Setup::new(Kind::Peer).front_controller("index.php").start();
    let server =
        Setup::new(kind).front_controller("index.php").site_line("inherit_env = false").start();
    let pretty =
        ["/pretty", "/pretty/url?x=1", "/pretty%20url/", "/a/b/c.html?d", "/dir", "/no.php/x?y"];
    let requests: Vec<Request> = pretty.into_iter().map(get).chain(requests()).collect();
    compare(&server, &peer, requests);
}

/// Variables that differ for a good reason: they name the server, its ports or the time, or belong
/// to the FastCGI protocol or to php-fpm's own environment.
const DIFFERENT: [&str; 9] = [
    "SERVER_SOFTWARE",
    "SERVER_PORT",
    "REMOTE_PORT",
    "REQUEST_TIME",
    "REQUEST_TIME_FLOAT",
    "FCGI_ROLE",
    "HOME",
    "USER",
    "STATE",
];

fn compare(server: &Server, peer: &Server, requests: Vec<Request>) {
    let mut wrong = Vec::new();
    for request in requests {
        let (ours, theirs) = (variables(server, &request), variables(peer, &request));
        let names: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let (ours, theirs) = (ours.get(name), theirs.get(name));
            if ours != theirs {
                wrong.push(format!(
                    "{} {}: {name} is {ours:?}, not {theirs:?}",
                    request.method, request.target
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

/// The variables of a response; the document root is written `ROOT`. A response that is not the
/// script's is its status alone.
fn variables(server: &Server, request: &Request) -> BTreeMap<String, String> {
    let response = server.send(request);
    let Ok(Value::Object(dump)) = serde_json::from_slice(&response.body) else {
        return BTreeMap::from([("status".into(), response.status().to_string())]);
    };
    let root = server.places.root();
    let root = root.to_str().unwrap();
    dump.into_iter()
        .filter(|(name, _)| !DIFFERENT.contains(&name.as_str()))
        .map(|(name, value)| (name, value.to_string().replace(root, "ROOT")))
        .collect()
}
