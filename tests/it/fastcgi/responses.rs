//! What the application is told, what it may say in its headers, and files that it has sent.

use std::fs;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use super::backend::{Backend, end, stderr, stdout, text, whole};
use super::in_front_of;
use crate::harness::{Request, Server, check, get, post, row};

/// An application that answers with the header block and body that the request's body holds.
fn echo() -> Backend {
    Backend::answering(|asked| whole(&asked.body))
}

fn say(server: &Server, said: &str) -> crate::harness::Response {
    server.send(&post("/app", "text/plain", said))
}

#[test]
fn headers_pass() {
    let backend = echo();
    let server = in_front_of(&backend, "").start();
    let row = |name, said: &str| row(name, post("/app", "text/plain", said));
    check(
        &server,
        vec![
            row("plain", "Content-Type: text/x\r\n\r\nbody")
                .header("content-type", "text/x")
                .body("body"),
            row("length", "A: b\r\n\r\nbody").header("content-length", "4"),
            row("line feeds", "A: b\n\nbody").header("a", "b").body("body"),
            row("status", "Status: 404 Not Found\r\n\r\ngone").status(404).body("gone"),
            row("odd status", "Status: 799\r\n\r\n").status(799),
            row("location", "Location: /there\r\n\r\n").status(302).header("location", "/there"),
            row("location with status", "Status: 308\r\nLocation: /there\r\n\r\n").status(308),
            row("several", "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n")
                .headers("set-cookie", &["a=1", "b=2"]),
            row(
                "headers of the connection",
                "Connection: close\r\nKeep-Alive: x\r\nUpgrade: h2c\r\nTrailer: A\r\n\r\n",
            )
            .headers("connection", &[])
            .headers("keep-alive", &[])
            .headers("upgrade", &[])
            .headers("trailer", &[]),
            row("transfer-encoding", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
                .headers("transfer-encoding", &[])
                .body("5\r\nhello\r\n0\r\n\r\n"),
            row("a length too little", "Content-Length: 2\r\n\r\nbody")
                .header("content-length", "2")
                .body("bo"),
            row("a length beyond all numbers", "Content-Length: 99999999999999999999\r\n\r\nbody")
                .header("content-length", "4")
                .body("body"),
            row("two lengths", "Content-Length: 4\r\nContent-Length: 2\r\n\r\nbody")
                .header("content-length", "4"),
            row("no length", "Content-Length: 4, 4\r\n\r\nbody").header("content-length", "4"),
            row("no content", "Status: 204\r\nContent-Length: 0\r\n\r\n")
                .status(204)
                .headers("content-length", &[]),
            row("bytes above ASCII", "X: \u{e4}\r\n\r\n").header("x", "\u{e4}"),
        ],
    );
    let hinted = "Status: 103\r\nLink: </a>\r\n\r\nA: b\r\n\r\nbody";
    let response = say(&server, hinted);
    assert_eq!((response.interim.len(), response.header("a")), (0, Some("b")), "{response}");
    let server = in_front_of(&backend, "").line("early_hints = \"all\"").start();
    assert_eq!(say(&server, hinted).interim.len(), 1);
}

/// As nginx, Apache and lighttpd do: the first line may be the empty one.
#[test]
fn a_response_may_have_no_headers() {
    let backend = echo();
    let server = in_front_of(&backend, "").start();
    for said in ["\r\nbody", "\nbody"] {
        assert_eq!(say(&server, said).expect(200).text(), "body");
    }
}

#[test]
fn the_reason_phrase_is_the_applications() {
    let backend = echo();
    let server = in_front_of(&backend, "").start();
    for (said, expected) in [
        ("404 Gone Fishing", "Gone Fishing"),
        ("404", "Not Found"),
        ("299", ""),
        ("299 Fine", "Fine"),
    ] {
        let head = say(&server, &format!("Status: {said}\r\n\r\n")).head;
        assert_eq!(
            (head.status.to_string().as_str(), head.reason.as_str()),
            (&said[..3], expected)
        );
    }
}

/// A client is told clearly if nothing has been sent to it. Otherwise it gets what there is, and
/// not the end.
#[test]
fn a_response_that_is_shorter_than_its_length_is_no_whole_one() {
    let (go_on, turns) = mpsc::channel();
    let turns = Mutex::new(turns);
    let backend = Backend::start(move |client| {
        while let Some(asked) = client.request() {
            let begun = stdout("Content-Length: 9\r\n\r\nbegun");
            if asked.path() == "/whole" {
                client.send(&[begun, end()].concat());
            } else {
                client.send(&begun);
                turns.lock().unwrap().recv().expect("the test goes on");
                client.send(&end());
            }
        }
    });
    let server = in_front_of(&backend, "").start();
    server.get("/app/whole").expect(502);
    server.log_line(&["shorter than its Content-Length", "url=/app/whole"]);
    let mut connection = server.connect();
    connection.send(get("/app/late").bytes());
    assert_eq!(connection.head().expect("it has begun").status, 200);
    go_on.send(()).unwrap();
    for byte in b"begun" {
        assert_eq!(connection.read_byte().expect("what there is"), *byte);
    }
    assert!(connection.closes_within(Duration::from_secs(20)));
}

#[test]
fn a_head_has_no_body() {
    let backend = Backend::answering(|_| text("body"));
    let server = in_front_of(&backend, "").start();
    let response = server.send(&Request::new("HEAD", "/app"));
    assert_eq!((response.status(), response.header("content-length")), (200, Some("4")));
    assert!(response.body.is_empty());
    assert_eq!(server.text("/app"), "body");
}

#[test]
fn parameters_are_those_of_nginx() {
    let backend = Backend::answering(|asked| text(&serde_json::to_string(&asked.params).unwrap()));
    let server = in_front_of(
        &backend,
        "params = { HTTPS = \"on\", SERVER_SOFTWARE = \"\", ADDED = \"x y\" }",
    )
    .start();
    let mut old = server.connect();
    old.send("GET /app HTTP/1.0\r\n\r\n");
    let vars: serde_json::Value = serde_json::from_str(&old.response().text()).unwrap();
    assert_eq!(vars["SERVER_NAME"], "localhost", "the name of the site");
    let root = server.places.root();
    let root = root.to_str().unwrap();
    check(
        &server,
        vec![
            row("all of them", get("/app/a%20b/c?d=e&f"))
                .json("/DOCUMENT_URI", "/app/a b/c")
                .json("/REQUEST_METHOD", "GET")
                .json("/REQUEST_URI", "/app/a%20b/c?d=e&f")
                .json("/QUERY_STRING", "d=e&f")
                .json("/SCRIPT_NAME", "/app")
                .json("/PATH_INFO", "/a b/c")
                .json("/SCRIPT_FILENAME", format!("{root}/app"))
                .json("/DOCUMENT_ROOT", root)
                .json("/SERVER_PROTOCOL", "HTTP/1.1")
                .json("/GATEWAY_INTERFACE", "CGI/1.1")
                .json("/REDIRECT_STATUS", "200")
                .json("/REMOTE_ADDR", "127.0.0.1")
                .json("/SERVER_NAME", "localhost")
                .json("/CONTENT_LENGTH", ""),
            row("changed by the operator", get("/app"))
                .json("/HTTPS", "on")
                .json("/ADDED", "x y")
                .json("/SERVER_SOFTWARE", serde_json::Value::Null),
            row("a body", post("/app", "text/x", "12345"))
                .json("/CONTENT_LENGTH", "5")
                .json("/CONTENT_TYPE", "text/x"),
            row("a body in chunks", post("/app", "text/x", "12345").chunked(2))
                .json("/CONTENT_LENGTH", "5"),
            row("an empty body in chunks", post("/app", "text/x", "").chunked(2))
                .json("/CONTENT_LENGTH", "0"),
            row(
                "headers",
                get("/app")
                    .header("X-A-b", "1")
                    .header("x-a-B", "2")
                    .header("Cookie", "a")
                    .header("Cookie", "b"),
            )
            .json("/HTTP_X_A_B", "1, 2")
            .json("/HTTP_COOKIE", "a; b"),
            row("not Proxy", get("/app").header("Proxy", "evil"))
                .json("/HTTP_PROXY", serde_json::Value::Null),
            row(
                "no underscores",
                get("/app").header("X_Real_IP", "evil").header("X-Real-IP", "good"),
            )
            .json("/HTTP_X_REAL_IP", "good"),
            row("the user", get("/app").basic_auth("me:secret")).json("/REMOTE_USER", "me"),
            row(
                "not the operator's",
                get("/app").header("Script-Name", "evil").header("PHP-Value", "evil"),
            )
            .json("/SCRIPT_NAME", "/app")
            .json("/PHP_VALUE", serde_json::Value::Null),
        ],
    );
}

#[test]
fn parameters_of_any_length() {
    let backend = Backend::answering(|asked| {
        text(
            &asked
                .params
                .iter()
                .filter(|(name, _)| name.starts_with("HTTP_X"))
                .map(|(_, v)| v.len())
                .sum::<usize>()
                .to_string(),
        )
    });
    let server = in_front_of(&backend, "").line("limits.head = \"256KiB\"").start();
    let many = |count: usize, len: usize| {
        (0..count)
            .fold(get("/app"), |request, n| request.header(&format!("X-{n}"), &"v".repeat(len)))
    };
    for (count, len) in [(1, 127), (1, 128), (1, 60_000), (4, 50_000), (50, 4000)] {
        assert_eq!(server.send(&many(count, len)).expect(200).text(), (count * len).to_string());
    }
    server.send(&many(1, 70_000)).expect(431);
}

#[test]
fn complaints_are_in_the_log_with_the_url() {
    let backend = Backend::answering(|asked| match asked.path() {
        "/flood" => {
            [stderr(&format!("{}\n", "x".repeat(1000)).repeat(1000)), text("said")].concat()
        }
        _ => [
            stderr("first\nsec"),
            stdout("A: b\r\n\r\n"),
            stderr("ond\nlast \x1b[31m"),
            stdout("said"),
            end(),
        ]
        .concat(),
    });
    let server = in_front_of(&backend, "").start();
    assert_eq!(server.text("/app/x?y"), "said");
    for line in ["first", "second", "last \\x1B[31m"] {
        server.log_line(&["WARN", "[localhost]", line, "method=GET", "url=/app/x?y"]);
    }
    assert_eq!(server.text("/app/flood"), "said");
    server.log_line(&["(more is left out)", "url=/app/flood"]);
    assert!(server.log().len() < 200_000, "{} bytes of log", server.log().len());
}

#[test]
fn files_are_sent_in_the_place_of_a_body() {
    let backend = echo();
    let kept = tempfile::Builder::new().prefix("tokamak-internal-").tempdir().unwrap();
    fs::set_permissions(kept.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(kept.path().join("report.pdf"), "0123456789").unwrap();
    let directory = kept.path().display();
    let server = in_front_of(
        &backend,
        &format!("reuse = \"all\"\ninternal = {{ \"/kept\" = \"{directory}\" }}"),
    )
    .start();
    fs::write(server.places.root().join("public.txt"), "public").unwrap();
    fs::write(server.places.root().join("secret.php"), "<?php").unwrap();
    let root = server.places.root();
    let row = |name, said: String| row(name, post("/app", "text/plain", said));
    let accel = |name, path: &str| row(name, format!("X-Accel-Redirect: {path}\r\n\r\nignored"));
    let sendfile = |name, path: String| row(name, format!("X-Sendfile: {path}\r\n\r\nignored"));
    check(
        &server,
        vec![
            accel("a file", "/kept/report.pdf")
                .body("0123456789")
                .header("content-type", "application/pdf"),
            accel("encoded", "/kept/r%65port.pdf?x")
                .body("0123456789")
                .headers("x-accel-redirect", &[]),
            row(
                "its own type",
                "X-Accel-Redirect: /kept/report.pdf\r\nContent-Type: text/x\r\nA: b\r\n\r\n".into(),
            )
            .header("content-type", "text/x")
            .header("a", "b")
            .header("content-length", "10"),
            accel("of the site", "/public.txt").body("public"),
            accel("none", "/kept/none").status(404),
            accel("a directory", "/kept/").status(404),
            accel("source", "/secret.php").status(404),
            accel("out of it", "/kept/../../etc/passwd").status(404),
            accel("out of it, encoded", "/kept/%2e%2e/%2e%2e/etc/passwd").status(404),
            accel("beside it", "/keptreport.pdf").status(404),
            sendfile("a file by its path", format!("{directory}/report.pdf"))
                .body("0123456789")
                .headers("x-sendfile", &[]),
            sendfile("of the site by its path", format!("{}/public.txt", root.display()))
                .body("public"),
            sendfile("source by its path", format!("{}/secret.php", root.display())).status(404),
            sendfile("any file", "/etc/passwd".into()).status(404),
            sendfile("any file, by way of a good one", format!("{directory}/../../etc/passwd"))
                .status(404),
            sendfile("no path", "report.pdf".into()).status(404),
        ],
    );
    server.log_line(&["X-Sendfile: /etc/passwd", "url=/app"]);
    let part = post("/app", "text/plain", "X-Accel-Redirect: /kept/report.pdf\r\n\r\n")
        .header("Range", "bytes=2-4");
    assert_eq!(server.send(&part).expect(206).text(), "234");
    assert_eq!(backend.connections(), 1, "the connection is kept");
}
