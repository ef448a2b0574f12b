//! The other two roles of FastCGI: applications that say whether a request may be served, and
//! applications through which files are sent.

use tokamak_fastcgi::{Role, Stream, encode};

use super::applications::{Application, built, example};
use super::backend::{Asked, Backend, end, stdout, whole};
use crate::harness::{Kind, Setup, check, crc32, get, numbered, post, row};

/// Lets pass whoever says so, and answers everything else with 403.
fn authorizer() -> Backend {
    Backend::answering(|asked| {
        assert_eq!(asked.role, Role::Authorizer);
        match asked.params.get("HTTP_X_WORD").map(String::as_str) {
            Some("please") => whole(
                "Status: 200 OK\r\nVariable-AUTH_METHOD: a word\r\nVariable-REMOTE_USER: \
                    ada\r\nX-Other: lost\r\n\r\nlost",
            ),
            Some("half") => stdout("Status: 200 OK\r\n\r\n"),
            _ => whole("Status: 403 Forbidden\r\nX-Why: no word\r\n\r\nSay please."),
        }
    })
}

/// Answers with what the application has got, line by line.
fn echo(asked: &Asked) -> Vec<u8> {
    let params: String =
        asked.params.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    whole(format!(
        "Content-Type: text/plain\r\n\r\n{:?}\n{params}body={}",
        asked.role,
        asked.body.len()
    ))
}

/// A server with two upstreams, `app` and `guard`, at these addresses.
fn guarded(kind: Kind, app: &str, guard: &str) -> Setup {
    guarded_with(kind, app, &format!("address = \"{guard}\""))
}

/// The same, with these lines for `guard`.
fn guarded_with(kind: Kind, app: &str, guard: &str) -> Setup {
    Setup::new(kind).upstream(&format!(
        "address = \"{app}\"\n[[upstream]]\nname = \"guard\"\n{guard}\nmultiplex = false"
    ))
}

#[test]
fn an_authorizer_gets_the_request_without_its_body() {
    let guard = Backend::answering(|asked| {
        assert_eq!((asked.role, asked.body.len()), (Role::Authorizer, 0));
        whole([&b"Status: 401\r\nContent-Type: text/plain\r\n\r\n"[..], &echo(asked)].concat())
    });
    let server = guarded(Kind::Fastcgi, "unix:/nowhere", &guard.address)
        .site_line("authorizer = \"guard\"")
        .start();
    let seen = server
        .send(&post("/a//b%20c/?d=e", "text/plain", "hello").basic_auth("ada:x"))
        .expect(401)
        .text();
    for line in [
        "REQUEST_METHOD=POST",
        "REQUEST_URI=/a//b%20c/?d=e",
        "DOCUMENT_URI=/a/b c/",
        "QUERY_STRING=d=e",
        "CONTENT_TYPE=text/plain",
        "REMOTE_ADDR=127.0.0.1",
        "REMOTE_USER=ada",
    ] {
        assert!(seen.lines().any(|param| param == line), "{line}: {seen}");
    }
    for name in
        ["SCRIPT_NAME", "SCRIPT_FILENAME", "PATH_INFO", "CONTENT_LENGTH", "HTTP_CONTENT_LENGTH"]
    {
        assert!(!seen.contains(&format!("\n{name}=")), "{name}: {seen}");
    }
}

#[test]
fn an_application_is_asked_only_if_the_authorizer_allows_it() {
    let (app, guard) = (Backend::answering(echo), authorizer());
    let server = guarded(Kind::Fastcgi, &app.address, &guard.address)
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"\nauthorizer = \"guard\"")
        .start();
    let refused = server.get("/app/x").expect(403);
    assert_eq!(
        (refused.text().as_str(), refused.header("x-why")),
        ("Say please.", Some("no word"))
    );
    server.send(&post("/app/x", "text/plain", numbered(300_000))).expect(403);
    assert_eq!((app.requests(), guard.requests()), (0, 2));
    let allowed =
        server.send(&get("/app/x").header("X-Word", "please").basic_auth("eve:x")).expect(200);
    assert_eq!(allowed.header("x-other"), None);
    let text = allowed.text();
    for line in
        ["Responder", "AUTH_METHOD=a word", "REMOTE_USER=ada", "SCRIPT_NAME=/app", "PATH_INFO=/x"]
    {
        assert!(text.lines().any(|param| param == line), "{line}: {text}");
    }
    assert_eq!(text.matches("REMOTE_USER").count(), 1);
    let sent = post("/app/x", "text/plain", numbered(300_000)).header("X-Word", "please");
    assert!(server.send(&sent).expect(200).text().ends_with("body=300000"));
    assert_eq!(guard.connections(), 1, "its connection is kept, whatever it says");
}

/// Files, PHP in all modes, what is not there, and redirects.
#[test]
fn everything_of_a_site_can_be_guarded() {
    let guard = authorizer();
    for kind in [Kind::Classic, Kind::Worker, Kind::Sealed] {
        let server = guarded(kind, "unix:/nowhere", &guard.address)
            .site_line("authorizer = \"guard\"")
            .start();
        for path in ["/server.php", "/dir/file.txt", "/none", "/dir", "/", "/hello.php/x"] {
            assert_eq!(server.get(path).expect(403).text(), "Say please.", "{path}");
        }
        let seen = server.send(&get("/server.php").header("X-Word", "please")).expect(200).json();
        assert_eq!(seen["AUTH_METHOD"], "a word", "{kind:?}");
        assert_eq!(seen["REMOTE_USER"], "ada");
        assert_eq!(seen["HTTP_X_WORD"], "please");
        // The next request of the same process has none of it.
        let seen = server.send(&get("/hello.php").header("X-Word", "please")).expect(200).text();
        assert_eq!(seen, "Hello from PHP");
        server.send(&get("/none").header("X-Word", "please")).expect(404);
    }
}

#[test]
fn variables_do_not_stay_in_a_php_process() {
    let guard = authorizer();
    let server = guarded(Kind::Sealed, "unix:/nowhere", &guard.address)
        .workers(1)
        .site_line("[[site.route]]\npath = \"/server.php/in\"\nauthorizer = \"guard\"")
        .start();
    for _ in 0..3 {
        let seen =
            server.send(&get("/server.php/in").header("X-Word", "please")).expect(200).json();
        assert_eq!(seen["REMOTE_USER"], "ada");
        let seen = server.get("/server.php/out").expect(200).json();
        assert_eq!((&seen["REMOTE_USER"], seen.get("AUTH_METHOD")), (&"".into(), None));
    }
}

#[test]
fn no_spelling_of_a_path_goes_around_its_authorizer() {
    let (app, guard) = (Backend::answering(echo), authorizer());
    let server = guarded(Kind::Fastcgi, &app.address, &guard.address)
        .site_line("authorizer = \"guard\"")
        .site_line("[[site.route]]\npath = \"/open\"\nauthorizer = \"none\"\nupstream = \"app\"")
        .site_line(
            "[[site.route]]\npath = \"/open/in\"\nauthorizer = \"guard\"\nupstream = \"app\"",
        )
        .site_line("[[site.route]]\npath = \"/open/in/deep\"\nupstream = \"app\"")
        .start();
    for path in ["/open", "/open/", "/open/x", "/open/inn", "//open", "/closed/../open/x"] {
        server.get(path).expect(200);
    }
    for path in [
        "/open/in",
        "/open/in/x",
        "/open//in",
        "/open/./in/",
        "/open/%69n",
        "/open/x/../in",
        "/open/x/%2e%2e/in/",
        "/open%2Fin",
        "/open/in/deep/x",
        "/openx",
        "/",
    ] {
        server.get(path).expect(403);
    }
}

#[test]
fn an_authorizer_that_fails_allows_nothing() {
    let app = Backend::answering(echo);
    let closes = Backend::start(|client| drop(client.request()));
    let dies = Backend::start(|client| {
        client.request();
        client.send(&stdout("Status: 200 OK\r\n\r\n"));
    });
    let talks = Backend::answering(|_| {
        [stdout("Status: 200\r\n\r\n"), stdout(numbered(100_000)), end()].concat()
    });
    // Behind headers that name a file, which is not what an authorizer is for.
    let garbles = Backend::answering(|_| {
        let mut other = Vec::new();
        encode::stream(&mut other, 2, Stream::Stdout, b"x");
        [stdout("Status: 200\r\nX-Sendfile: /file\r\n\r\n"), other, end()].concat()
    });
    let silent = Backend::answering(|_| end());
    for (guard, status, log) in [
        ("unix:/nowhere", 502, "cannot be reached"),
        (&*closes.address, 502, "closed the connection unanswered"),
        (&*dies.address, 502, "in the middle of its response"),
        (&*talks.address, 502, "a body that is too long"),
        (&*garbles.address, 502, "a record of another request"),
        (&*silent.address, 502, "sent no response"),
    ] {
        let server = guarded(Kind::Fastcgi, &app.address, guard)
            .site_line(
                "authorizer = \"guard\"\n[[site.route]]\npath = \"/app\"\nupstream = \"app\"",
            )
            .start();
        server.get("/app").expect(status);
        server.log_line(&[log, "url=/app"]);
    }
    assert_eq!(app.requests(), 0);
}

#[test]
fn an_authorizer_in_perl() {
    let guard = Application::start(|_| vec!["/usr/bin/perl".into(), example("perl/authorizer.pl")]);
    let address = format!("address = \"unix:{}\"", guard.socket.display());
    for lines in ["", "requests = 1"] {
        let server = guarded_with(Kind::Classic, "unix:/nowhere", &format!("{address}\n{lines}"))
            .site_line("authorizer = \"guard\"")
            .start();
        for _ in 0..3 {
            let refused = server.get("/server.php").expect(401);
            assert_eq!(refused.header("www-authenticate"), Some("Basic realm=\"example\""));
            server.send(&get("/server.php").basic_auth("ada:moth")).expect(401);
            let seen = server.send(&get("/server.php").basic_auth("grace:moth")).expect(200).json();
            assert_eq!(
                (&seen["REMOTE_USER"], &seen["AUTH_TYPE"]),
                (&"grace".into(), &"Basic".into())
            );
        }
    }
}

/// A server whose files below `/dir` go through the filter; with lines of the upstream and more of
/// that route.
fn filtering(filter: &str, lines: &str) -> Setup {
    Setup::new(Kind::Fastcgi)
        .upstream(&format!("{filter}\nmultiplex = false"))
        .site_line(&format!("[[site.route]]\npath = \"/dir\"\nfilter = \"app\"\n{lines}"))
}

#[test]
fn a_filter_gets_the_file() {
    let filter = Backend::answering(|asked| {
        assert_eq!(asked.role, Role::Filter);
        assert_eq!(asked.params["FCGI_DATA_LENGTH"], asked.data.len().to_string());
        assert!(asked.params["FCGI_DATA_LAST_MOD"].parse::<u64>().unwrap() > 1_500_000_000);
        let text = String::from_utf8_lossy(&asked.data).to_uppercase();
        let name = &asked.params["SCRIPT_NAME"];
        whole(format!(
            "Content-Type: text/plain\r\nX-Sum: {}\r\n\r\n{name} {text}",
            crc32(&asked.data)
        ))
    });
    let server = filtering(&format!("address = \"{}\"", filter.address), "").start();
    let root = server.places.root();
    let large = numbered(3 << 20);
    std::fs::write(root.join("dir/small.txt"), "small").unwrap();
    std::fs::write(root.join("dir/empty.txt"), "").unwrap();
    std::fs::write(root.join("dir/large.txt"), &large).unwrap();
    check(
        &server,
        vec![
            row("a file", get("/dir/small.txt"))
                .body("/dir/small.txt SMALL")
                .header("content-type", "text/plain"),
            row("an empty one", get("/dir/empty.txt")).body("/dir/empty.txt "),
            row("not in the route", get("/hello.txt")).status(404),
            row("not there", get("/dir/none.txt")).status(404),
            row("no method for files", post("/dir/small.txt", "text/plain", "x")).status(405),
        ],
    );
    let response = server.get("/dir/large.txt").expect(200);
    assert_eq!(response.header("x-sum"), Some(crc32(&large).to_string().as_str()));
    assert_eq!(response.body.len(), large.len() + "/dir/large.txt ".len());
    // A range is for the filter to understand, and not for the file.
    server.send(&get("/dir/small.txt").header("Range", "bytes=0-1")).expect(200);
    assert_eq!(filter.connections(), 1);
}

#[test]
fn only_some_extensions_are_filtered() {
    let filter = Backend::answering(|_| whole("Content-Type: text/plain\r\n\r\nfiltered"));
    let address = format!("address = \"{}\"", filter.address);
    let server = filtering(&address, "filter_extensions = [\".html\", \".shtml\"]").start();
    for (name, expected) in [
        ("a.html", "filtered"),
        ("a.shtml", "filtered"),
        ("a.txt", "as it is"),
        ("html", "as it is"),
    ] {
        std::fs::write(server.places.root().join("dir").join(name), "as it is").unwrap();
        assert_eq!(server.text(&format!("/dir/{name}")), expected, "{name}");
    }
}

#[test]
fn a_filter_in_c() {
    let filter = Application::start(|directory| vec![built("c/filter.c", directory)]);
    for lines in ["", "requests = 1"] {
        let server =
            filtering(&format!("address = \"unix:{}\"\n{lines}", filter.socket.display()), "")
                .start();
        let page = "<p>$(REQUEST_METHOD) $(QUERY_STRING), $5 $(none) $(open".repeat(5_000);
        std::fs::write(server.places.root().join("dir/page.html"), &page).unwrap();
        std::fs::write(server.places.root().join("dir/empty.html"), "").unwrap();
        let expected = page
            .replace("$(REQUEST_METHOD)", "GET")
            .replace("$(QUERY_STRING)", "a=b")
            .replace("$(none)", "");
        for _ in 0..3 {
            let response = server.get("/dir/page.html?a=b").expect(200);
            assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
            assert!(response.text() == expected);
            assert_eq!(server.text("/dir/empty.html"), "");
        }
    }
}
