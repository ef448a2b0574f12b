//! Header fields and status lines, in both directions.

use std::time::Duration;

use crate::harness::{
    Framing, Kind, Request, Setup, TOKAMAK, check, get, in_every_mode, in_parallel,
    on_every_server, row,
};

on_every_server! {
    response_fields, status_lines, request_fields, injection, announced_lengths, headers_do_not_mix,
}
in_every_mode! {
    early_hints, early_hints_to_an_old_client, statuses_that_end_no_request, a_status_without_a_body,
    response_headers_function, many_response_fields,
}

fn response_fields(kind: Kind) {
    let server = Setup::new(kind).start();
    check(
        &server,
        vec![
            row("everything", get("/headers.php"))
                .status(201)
                .header("X-One", "1")
                .header("X-NoSpace", "value")
                .header("x-lower", "1")
                .headers("X-Many", &["a", "b"])
                .headers("X-Gone", &[])
                .header("X-Replaced", "2")
                .header("X-Colon", "a:b")
                .header("Content-Type", "text/plain;charset=UTF-8")
                .headers("Set-Cookie", &["first=a%20b; path=/; HttpOnly", "second=c; SameSite=Lax"])
                .contains("X-Many: a\nX-Many: b\n")
                .contains("x-replaced: 2\n")
                .contains("X-NoSpace:value\n"),
            row("nothing of it stays", get("/hello.php"))
                .headers("X-One", &[])
                .headers("Set-Cookie", &[])
                .header("Content-Type", "text/html; charset=UTF-8"),
            row("HEAD has the fields", Request::new("HEAD", "/headers.php"))
                .status(201)
                .header("X-One", "1"),
            row("redirect", get("/header.php?line[]=Location:%20/elsewhere"))
                .status(302)
                .header("Location", "/elsewhere"),
            row(
                "redirect with a status",
                get("/header.php?line[]=HTTP/1.1%20301%20Gone%20on&line[]=Location:%20/x"),
            )
            .status(301),
            row(
                "Location keeps 201",
                get("/header.php?line[]=HTTP/1.1%20201&line[]=Location:%20/x"),
            )
            .status(201),
            row("authentication", get("/header.php?line[]=WWW-Authenticate:%20Basic%20realm=x"))
                .status(401)
                .header("WWW-Authenticate", "Basic realm=x"),
            row(
                "type with a charset",
                get("/header.php?line[]=Content-Type:%20text/css;charset=latin1"),
            )
            .header("Content-Type", "text/css;charset=latin1"),
            row("type that is no text", get("/header.php?line[]=Content-Type:%20image/png"))
                .header("Content-Type", "image/png"),
            row("no type at all", get("/header.php?line[]=Content-Type:"))
                .headers("Content-Type", &[]),
            row("too late", get("/header_after_output.php"))
                .headers("X-Late", &[])
                .contains("headers already sent")
                .contains(" sent"),
        ],
    );
}

fn status_lines(kind: Kind) {
    let server = Setup::new(kind).start();
    check(
        &server,
        vec![
            row("own reason", get("/header.php?line[]=HTTP/1.1%20420%20Enhance%20Your%20Calm"))
                .status(420)
                .body("420"),
            row("short", get("/header.php?line[]=HTTP/1.1%20404")).status(404).body("404"),
            row("older version", get("/header.php?line[]=HTTP/1.0%20503%20Busy"))
                .status(503)
                .body("503"),
            row("newer version", get("/header.php?line[]=HTTP/2%20410")).status(410).body("410"),
            row("Status field", get("/header.php?line[]=Status:%20404%20Not%20Found")).status(404),
            row("number", get("/status.php?code=299")).status(299).body("status 299"),
            row("304 has no body", get("/status.php?code=304")).status(304).body(""),
        ],
    );
    for (line, reason) in [
        ("HTTP/1.1%20420%20Enhance%20Your%20Calm", "Enhance Your Calm"),
        ("HTTP/1.0%20404%20Gone%20Fishing", "Gone Fishing"),
        ("HTTP/1.1%20404%20Not%20Found", "Not Found"),
        ("Status:%20404%20No%20Such%20Thing", "No Such Thing"),
        ("Status:%20299%20Fine", "Fine"),
    ] {
        let head = server.get(&format!("/header.php?line[]={line}")).head;
        assert_eq!(head.reason, reason, "{line}");
    }
    for code in
        [200, 201, 202, 203, 206, 300, 303, 307, 400, 403, 409, 422, 451, 500, 502, 507, 599]
    {
        assert_eq!(
            server.get(&format!("/status.php?code={code}")).expect(code).text(),
            format!("status {code}")
        );
    }
}

fn request_fields(kind: Kind) {
    let server = Setup::new(kind).start();
    let long = "x".repeat(5000);
    check(
        &server,
        vec![
            row(
                "as fields and as variables",
                get("/request_headers.php")
                    .header("X-Custom", "a value")
                    .header("Accept", "text/*;q=0.5")
                    .header("X-Empty", "")
                    .header("x-lower-case", "1")
                    .header("X-Long", &long),
            )
            .json("/headers/X-Custom", "a value")
            .json("/headers/Accept", "text/*;q=0.5")
            .json("/headers/Host", "localhost")
            .json("/headers/X-Empty", "")
            .json("/server/HTTP_X_CUSTOM", "a value")
            .json("/server/HTTP_X_EMPTY", "")
            .json("/server/HTTP_X_LOWER_CASE", "1")
            .json("/server/HTTP_X_LONG", long.as_str())
            .json("/same", true),
            row(
                "type and length",
                Request::new("POST", "/request_headers.php")
                    .header("Content-Type", "a/b")
                    .body("12"),
            )
            .json("/headers/Content-Type", "a/b")
            .json("/headers/Content-Length", "2"),
            row("nothing of it stays", get("/request_headers.php"))
                .json("/server/HTTP_X_CUSTOM", serde_json::Value::Null)
                .json("/headers/X-Custom", serde_json::Value::Null),
            // `X_Real` and `X-Real` would be the same variable: the underscore is how one spoofs
            // the other.
            row(
                "underscores cannot spoof",
                get("/request_headers.php").header("X_Real", "spoofed").header("X-Other", "1"),
            )
            .json("/server/HTTP_X_REAL", serde_json::Value::Null)
            .json("/server/HTTP_X_OTHER", "1"),
            row(
                "nor replace",
                get("/request_headers.php")
                    .header("X_Real", "before")
                    .header("X-Real", "real")
                    .header("X_Real", "after"),
            )
            .json("/server/HTTP_X_REAL", "real"),
        ],
    );
}

/// A line break in a header value would start a header, or a body, of somebody else's choice.
fn injection(kind: Kind) {
    let server = Setup::new(kind).start();
    for evil in [
        "%0d%0aX-Injected:%20yes",
        "%0aX-Injected:%20yes",
        "%0dX-Injected:%20yes",
        "%00X-Injected:%20yes",
    ] {
        let response = server.get(&format!("/header.php?line[]=X-Start:%20a{evil}")).expect(200);
        assert_eq!(response.header("X-Injected"), None, "{evil}: {response}");
        assert_eq!(response.header("X-Start"), None, "{evil}: {response}");
        assert!(
            response.text().contains("Warning"),
            "{evil}: PHP does not say that it refused: {response}"
        );
    }
    let split = "%0d%0a%0d%0a%3Cscript%3E";
    let response = server.get(&format!("/header.php?line[]=Location:%20/{split}")).expect(200);
    assert_eq!(response.header("Location"), None, "{response}");
}

/// A script may announce a length; a wrong one spoils no other response on the connection.
fn announced_lengths(kind: Kind) {
    let server = Setup::new(kind).start();
    let right = server.get("/content_length.php?length=12").expect(200);
    assert_eq!((right.framing, right.text()), (Framing::Length(12), "twelve bytes".into()));

    for wrong in ["5", "20"] {
        let mut connection = server.connect();
        let target = format!("/content_length.php?length={wrong}");
        connection.patience(Duration::from_secs(20));
        connection.send(get(&target).bytes());
        if connection.try_response("GET").is_err() {
            continue; // The connection was closed, which is what a cut response has to look like.
        }
        // If the connection stays open, it must be in step.
        if connection.try_send(get("/hello.php").bytes()).is_ok()
            && let Ok(next) = connection.try_response("GET")
        {
            assert_eq!(next.text(), "Hello from PHP", "after an announced length of {wrong}");
        }
    }
}

fn headers_do_not_mix(kind: Kind) {
    let server = Setup::new(kind).start();
    in_parallel(100, |number| {
        let own = format!("value-{number}");
        let target =
            format!("/header.php?line[]=X-Own:%20{own}&line[]=HTTP/1.1%20{}", 400 + number % 50);
        let response = server.send(&get(&target));
        assert_eq!(usize::from(response.status()), 400 + number % 50);
        assert_eq!(response.head.all("X-Own").collect::<Vec<_>>(), [own.as_str()]);
        let seen = server.send(&get("/request_headers.php").header("X-Own", &own)).json();
        assert_eq!(seen["server"]["HTTP_X_OWN"], own);
    });
}

/// A client of HTTP/1.0 would take an interim response for the response.
fn early_hints_to_an_old_client(kind: Kind) {
    let server = Setup::new(kind).line("early_hints = \"all\"").start();
    let mut connection = server.connect();
    connection.send("GET /early_hints.php HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!(connection.head().unwrap().status, 200);
}

/// A script that sets an interim status sends no response with it: 101 would end HTTP on the
/// connection, and behind any other the next response would be taken for this one's.
fn statuses_that_end_no_request(kind: Kind) {
    let server = Setup::new(kind).start();
    for code in [100, 101] {
        let mut connection = server.connect();
        connection.send(get(&format!("/status.php?code={code}")).bytes());
        assert_eq!(connection.head().unwrap().status, 502, "{code}");
    }
}

fn a_status_without_a_body(kind: Kind) {
    let server = Setup::new(kind).start();
    std::fs::write(
        server.places.root().join("announced.php"),
        "<?php http_response_code(204); header('Content-Length: 12');",
    )
    .unwrap();
    let mut connection = server.connect();
    let response = connection.exchange(&get("/announced.php")).expect(204);
    assert_eq!(response.header("Content-Length"), None, "{response}");
    assert_eq!(connection.exchange(&get("/hello.php")).expect(200).text(), "Hello from PHP");
}

fn early_hints(kind: Kind) {
    let server = Setup::new(kind).line("early_hints = \"all\"").start();
    let mut connection = server.connect();
    for _ in 0..2 {
        connection.send(get("/early_hints.php").bytes());
        let hints = connection.head().unwrap();
        let arrived = std::time::Instant::now();
        assert_eq!(hints.status, 103);
        assert_eq!(hints.header("X-Hint-Only"), Some("1"));
        assert_eq!(hints.header("Link"), Some("</style.css>; rel=preload; as=style"));
        let response = connection.response().expect(200);
        let ahead = response.started.duration_since(arrived);
        assert!(
            ahead > Duration::from_millis(200),
            "the hints came only {ahead:?} before the response"
        );
        assert_eq!(response.text(), "final 200 int");
        assert_eq!(response.header("X-Final"), Some("1"));
        assert_eq!(
            response.header("Link"),
            hints.header("Link"),
            "the fields are still set: {response}"
        );
        assert_eq!(response.header("X-Hint-Only"), None, "{response}");
    }
}

fn response_headers_function(kind: Kind) {
    let server = Setup::new(kind).start();
    for code in ["200", "418", "599"] {
        check(
            &server,
            vec![
                row("apache_response_headers", get(&format!("/response_headers.php?code={code}")))
                    .status(code.parse().unwrap())
                    .json("/X-One", "1")
                    .json("/Content-Type", "application/json")
                    .only(TOKAMAK),
            ],
        );
    }
}

fn many_response_fields(kind: Kind) {
    let server = Setup::new(kind).start();
    for (count, size) in [(150, 100), (20, 4000), (1, 30_000)] {
        let response =
            server.get(&format!("/many_headers.php?count={count}&size={size}")).expect(200);
        assert_eq!(response.text(), "done");
        let last = format!("X-Number-{}", count - 1);
        assert_eq!(response.header(&last).map(str::len), Some(size), "{count} fields of {size}");
    }
}
