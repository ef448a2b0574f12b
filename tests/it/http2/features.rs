//! What the server does to requests and responses by itself, asked over HTTP/2 with the same rows
//! as over HTTP/1.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use crate::fastcgi::backend::{Backend, whole};
use crate::harness::{
    Head, Kind, Request, Response, Row, Server, Setup, check_by, get, numbered, post, row,
};
use crate::http3;

use crate::tls::Secured;

use super::client::{self, PATIENCE, Target, runtime};
use super::curl;

/// Sends a request over HTTP/2, on a connection of its own.
pub fn ask(target: &Target, scheme: &str, request: &Request) -> Result<Response, String> {
    let given = |name: &str| {
        let mut fields = request.headers.iter();
        fields.find(|(has, _)| has.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    let url = format!("{scheme}://{}{}", given("host").unwrap_or("localhost"), request.target);
    let mut asked = http::Request::builder().method(&*request.method).uri(url);
    for (name, value) in request.headers.iter().filter(|(name, _)| *name != "Host") {
        asked = asked.header(name, value);
    }
    let asked = asked.body(()).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let answer = async {
        let connection = target.connect().await.map_err(|error| error.to_string())?;
        let sent = client::send(connection, asked, request.body.clone());
        sent.await.map_err(|error| error.to_string())
    };
    let answer = runtime().block_on(async { tokio::time::timeout(PATIENCE, answer).await });
    let (parts, body) = answer.map_err(|error| error.to_string())??.into_parts();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = parts.headers.iter();
    let head = Head {
        version: "HTTP/2".into(),
        status: parts.status.as_u16(),
        reason: String::new(),
        headers: fields.map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect(),
    };
    let mut response = Response::new(head, Vec::new(), &request.method, started);
    response.arrived(&body);
    Ok(response)
}

/// The rows hold over both protocols.
#[track_caller]
fn check_both(server: &Server, rows: &[Row]) {
    check_by(server.kind, rows, |request| Ok(server.send(request)));
    over_http2(server, rows);
}

#[track_caller]
fn over_http2(server: &Server, rows: &[Row]) {
    let target = Target::plain(server.address);
    check_by(server.kind, rows, |request| ask(&target, "http", request));
}

/// The rows hold over three protocols.
#[track_caller]
fn check_all((secured, target): &(Secured, http3::client::Target), rows: &[Row]) {
    check_both(&secured.server, rows);
    check_by(secured.server.kind, rows, |request| target.ask(request));
}

fn wiki_setup(lines: &str) -> Setup {
    let setup = Setup::new(Kind::Classic).site("sites/rules/wiki").front_controller("index.php");
    setup.site_line(lines)
}

fn wiki(lines: &str) -> Server {
    wiki_setup(lines).start()
}

/// The same, with HTTP/3, too.
fn secured_wiki(lines: &str) -> (Secured, http3::client::Target) {
    http3::with_lines(wiki_setup(lines), &[])
}

#[test]
fn compression() {
    let both = http3::with_lines(Setup::new(Kind::Classic), &[]);
    let server = &both.0.server;
    let file = server.places.root().join("style.css");
    fs::write(&file, numbered(5000)).unwrap();
    let plain = server.get("/style.css").expect(200);
    let tag = plain.header("etag").expect("a file has a tag").to_owned();
    let weak = format!("W/{tag}");
    let ask = |target: &str, codings: &str| get(target).header("Accept-Encoding", codings);
    let compressed = |name, target: &str, codings: &str, coding: &str| {
        let row = row(name, ask(target, codings)).header("content-encoding", coding);
        row.header("vary", "Accept-Encoding")
    };
    check_all(
        &both,
        &[
            compressed("a file", "/style.css", "gzip", "gzip").header("etag", &weak),
            compressed("by preference", "/style.css", "gzip, br, zstd", "zstd"),
            compressed("by weight", "/style.css", "zstd;q=0.1, br;q=0.9", "br"),
            compressed("a page", "/large.php?bytes=60000", "gzip", "gzip").headers("etag", &[]),
            row("as it is", get("/style.css"))
                .header("etag", &tag)
                .header("vary", "Accept-Encoding")
                .headers("content-encoding", &[])
                .header("content-length", "5000"),
            row("known", ask("/style.css", "gzip").header("If-None-Match", &weak))
                .status(304)
                .header("etag", &weak)
                .body(""),
            row("a part", ask("/style.css", "gzip").header("Range", "bytes=16-31"))
                .status(206)
                .headers("content-encoding", &[])
                .body("000000000000001\n"),
            row("a small page", ask("/large.php?bytes=511", "gzip"))
                .headers("content-encoding", &[]),
        ],
    );
    // And it is what it was, for a client of another make.
    for target in ["/style.css", "/large.php?bytes=5000"] {
        let text = curl(server, target, &["--compressed"]);
        assert!(text.as_bytes() == numbered(5000), "{target}");
    }
}

#[test]
fn rules() {
    let server = wiki(
        r#"
        canonical_host = "localhost"
        [[site.rule]]
        remove_headers = ["X-Told"]
        set_headers = { X-Frame-Options = "DENY" }
        always = true
        [[site.rule]]
        pattern = "^/_media/(.*)$"
        rewrite = "/fetch.php?media=$1"
        [[site.rule]]
        pattern = "^/old/(.*)$"
        redirect = "/wiki/$1"
        [[site.rule]]
        path = "/maintenance"
        deny = "all"
        [[site.rule]]
        path = "/images"
        serve = "files"
        expires = "24h"
        cache_control = "public, max-age=86400"
        [[site.rule]]
        path = "/other.php"
        deny = "127.0.0.1"
        status = 404
        "#,
    );
    let framed = |name, target: &str, status| {
        let row = row(name, get(target)).status(status).headers("x-told", &[]);
        row.header("x-frame-options", "DENY")
    };
    check_both(
        &server,
        &[
            framed("a page", "/", 200).contains("index /"),
            framed("rewritten", "/_media/a/b%20c.png?w=1", 200)
                .contains("media=a/b%20c.png&w=1 /fetch.php"),
            framed("moved", "/old/a%20b?c=d", 301).header("location", "/wiki/a%20b?c=d"),
            framed("denied", "/maintenance/update.php", 403),
            framed("denied in other words", "/x/..//%6daintenance/update.php", 403),
            framed("denied by address", "/other.php", 404),
            framed("a file", "/images/a.png", 200)
                .header("cache-control", "public, max-age=86400")
                .body("a picture\n"),
            framed("an uploaded script", "/images/x.php", 403),
            row("another host", get("/a?c").header("Host", "a.test"))
                .status(301)
                .header("location", "http://localhost/a?c"),
            row("another host, posted", post("/a", "text/x", "x").header("Host", "a.test"))
                .status(308)
                .header("location", "http://localhost/a"),
        ],
    );
}

/// `max` has the password `geheim` (bcrypt).
const USERS: &str = "max:$2y$05$r2uYtzZYLB9.fPf7vIW1QuY.uUva3eOoNmAc2R/JZSA.t21zpzJ16\n";

#[test]
fn passwords() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("staff.htpasswd");
    fs::write(&users, USERS).unwrap();
    let rule = format!(
        "[[site.rule]]\npath = \"/server.php\"\nauth_users = \"{}\"\nauth_realm = \"The staff\"",
        users.display()
    );
    let both = http3::with_lines(Setup::new(Kind::Classic).site_line(&rule), &[]);
    let refused = |name, request: Request| {
        let row = row(name, request).status(401).header("cache-control", "no-store");
        row.header("www-authenticate", "Basic realm=\"The staff\", charset=\"UTF-8\"")
    };
    check_all(
        &both,
        &[
            refused("nobody", get("/server.php")),
            refused("a wrong password", get("/server.php").basic_auth("max:no")),
            refused("nobody's", get("/server.php").basic_auth("eva:geheim")),
            row("the user", get("/server.php").basic_auth("max:geheim"))
                .json("/REMOTE_USER", "max")
                .json("/AUTH_TYPE", "Basic"),
            row("elsewhere", get("/hello.php")),
        ],
    );
}

#[test]
fn error_pages() {
    let both = secured_wiki(
        r#"
        error_pages.404 = "/errors/missing.php"
        error_pages.4xx = "/errors/refused.html"
        front_controller_for = []
        [[site.rule]]
        path = ["/maintenance", "/errors"]
        deny = "all"
        "#,
    );
    let missing = |method: &str, target: &str| row("missing", Request::new(method, target));
    check_all(
        &both,
        &[
            missing("GET", "/none.php/a?b=c")
                .status(404)
                .body("our own: 404 GET /none.php/a?b=c")
                .header("x-own", "yes")
                .header("cache-control", "no-store"),
            missing("HEAD", "/none.php").status(404).body(""),
            row("refused", get("/maintenance/update.php"))
                .status(403)
                .body("<h1>our own: refused</h1>\n")
                .header("content-type", "text/html"),
            row("malformed", get("/%00")).status(400).contains("our own: refused"),
            row("the application's own", get("/?status=404")).status(404).contains("index /"),
        ],
    );
    let both = secured_wiki(
        r#"
        error_pages.404 = "/errors/missing.php"
        error_pages.4xx = "/errors/refused.html"
        intercept_errors = true
        "#,
    );
    let failing = |method: &str, status: u16| {
        let target = format!("/failing.php?status={status}&times=10000");
        row("the application's", Request::new(method, &target)).status(status)
    };
    check_all(
        &both,
        &[
            failing("GET", 404).contains("our own: 404 GET").headers("x-told", &[]),
            failing("HEAD", 404).body("").headers("x-told", &[]),
            failing("GET", 403).body("<h1>our own: refused</h1>\n").headers("set-cookie", &[]),
        ],
    );
}

/// A folder with a report that only scripts may have sent.
fn private() -> tempfile::TempDir {
    let private = tempfile::tempdir().unwrap();
    fs::write(private.path().join("report.txt"), "a private report").unwrap();
    fs::set_permissions(private.path(), PermissionsExt::from_mode(0o755)).unwrap();
    private
}

#[test]
fn files_in_the_place_of_a_body() {
    let private = private();
    let both = secured_wiki(&format!("internal.\"/protected\" = \"{}\"", private.path().display()));
    let ask = |query: &str| get(&format!("/send.php?{query}"));
    let sent = |name, request: Request| {
        let row = row(name, request).headers("x-accel-redirect", &[]).headers("x-sendfile", &[]);
        row.header("x-told", "yes")
    };
    let path = private.path().join("report.txt").display().to_string();
    check_all(
        &both,
        &[
            sent("by its URL", ask("accel=/protected/report.txt"))
                .header("content-length", "16")
                .body("a private report"),
            sent("by its path", ask(&format!("file={path}"))).body("a private report"),
            sent("a part", ask("accel=/protected/report.txt").header("Range", "bytes=2-8"))
                .status(206)
                .body("private"),
            row("none", ask("accel=/protected/none")).status(404),
            row("out of it", ask("accel=/protected/../../etc/passwd")).status(404),
            row("from outside", get("/protected/report.txt")).contains("index /protected"),
        ],
    );
}

fn trusting(proxy: &str) -> Server {
    Setup::new(Kind::Classic)
        .line(&format!("trusted_proxies = [\"{proxy}\"]\nrequest_ids = true"))
        .line(
            "trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\", \"x-forwarded-host\", \
             \"x-forwarded-port\", \"x-request-id\"]",
        )
        .also("shop.example", "php")
        .start()
}

/// What a balancer that speaks HTTP/2 says of its clients.
#[test]
fn proxies() {
    let asked = get("/server.php")
        .header("X-Forwarded-For", "203.0.113.9, 192.0.2.1")
        .header("X-Forwarded-Proto", "https")
        .header("X-Forwarded-Host", "shop.example")
        .header("X-Forwarded-Port", "8443")
        .header("X-Request-Id", "balancer-7");
    check_both(
        &trusting("127.0.0.1"),
        &[row("a trusted proxy", asked.clone())
            .json("/REMOTE_ADDR", "192.0.2.1")
            .json("/REQUEST_SCHEME", "https")
            .json("/HTTPS", "on")
            .json("/HTTP_HOST", "shop.example")
            .json("/SERVER_NAME", "shop.example")
            .json("/SERVER_PORT", "8443")
            .json("/HTTP_X_REQUEST_ID", "balancer-7")],
    );
    let server = trusting("10.0.0.1");
    check_both(
        &server,
        &[row("nobody", asked)
            .json("/REMOTE_ADDR", "127.0.0.1")
            .json("/REQUEST_SCHEME", "http")
            .json("/HTTPS", serde_json::Value::Null)
            .json("/HTTP_HOST", "localhost")
            .json("/SERVER_NAME", "localhost")],
    );
    // Such a name is replaced by one of the server's own, another one for each request.
    let target = Target::plain(server.address);
    let name = || {
        let request = get("/server.php").header("X-Request-Id", "mine");
        let vars = ask(&target, "http", &request).expect("a response").expect(200).json();
        vars["HTTP_X_REQUEST_ID"].as_str().unwrap_or_default().to_owned()
    };
    let names = [name(), name()];
    assert!(names.iter().all(|name| name.len() == 32), "{names:?}");
    assert_ne!(names[0], names[1]);
}

/// As an application sends them that is no PHP of the server's own.
#[test]
fn early_hints_of_a_fastcgi_application() {
    let hints = "Status: 103\r\nLink: </style.css>; rel=preload\r\n\r\nX-Final: 1\r\n\r\nbody";
    let backend = Backend::answering(move |_| whole(hints.as_bytes()));
    let server = crate::fastcgi::in_front_of(&backend, "").start();
    let text = curl(&server, "/app", &["-D", "-"]);
    let (hint, rest) = text.split_once("\r\n\r\n").expect("two heads");
    assert!(hint.starts_with("HTTP/2 103"), "{text}");
    assert!(hint.contains("link: </style.css>; rel=preload"), "{text}");
    assert!(!hint.contains("x-final"), "{text}");
    assert!(rest.starts_with("HTTP/2 200") && rest.contains("x-final: 1"), "{text}");
    assert!(rest.ends_with("\r\n\r\nbody") && !rest.contains("link:"), "{text}");
}
