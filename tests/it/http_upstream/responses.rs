//! What becomes of an application's answers.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderValue;

use super::backend::{Backend, text};
use super::in_front_of;
use crate::harness::{Request, Response, get};
use crate::http2::client::{Target, request, runtime};

/// An application that always answers so, and closes the connection if that ends the answer.
fn saying(answer: &str, closes: bool) -> Backend {
    let answer = answer.as_bytes().to_vec();
    Backend::start(move |client| {
        while client.request().is_some() {
            client.send(&answer);
            if closes {
                return;
            }
        }
    })
}

fn answer(said: &str, closes: bool, method: &str) -> Response {
    let backend = saying(said, closes);
    let server = in_front_of(&backend, "").start();
    server.send(&Request::new(method, "/app"))
}

#[test]
fn bodies_end_where_their_framing_says() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (said, closes) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
        (&format!("{chunked}2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n"), false),
        ("HTTP/1.1 200 OK\r\n\r\nhello", true),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", true),
    ] {
        let response = answer(said, closes, "GET");
        assert_eq!((response.status(), response.text()), (200, "hello".into()), "{said}");
        assert!(response.header("x").is_none(), "{said}");
    }
}

/// Fields behind the body reach clients of HTTP/2, and those of HTTP/1.1 that say that they take
/// them; not those that belong in the head.
#[test]
fn trailers_reach_clients_that_take_them() {
    let head =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Set-Cookie\r\n\r\n";
    let rest = "0\r\nX-Sum: 7\r\nSet-Cookie: a=b\r\nno field\r\nUnnamed: 1\r\n\r\n";
    for body in ["5\r\nhello\r\n", ""] {
        let backend = saying(&format!("{head}{body}{rest}"), false);
        let server = in_front_of(&backend, "").start();
        let answer = server.send(&get("/app").header("TE", "trailers")).expect(200);
        assert_eq!(answer.header("trailer"), Some("X-Sum, Set-Cookie"), "{body:?}");
        assert_eq!(answer.trailers, ["x-sum: 7"], "{body:?}");
        assert!(server.get("/app").expect(200).trailers.is_empty());
        let asked = async {
            let client = Target::plain(server.address).connect().await.expect("a connection");
            let mut client = client.ready().await?;
            let (response, _) =
                client.send_request(request("GET", "/app").body(()).unwrap(), true)?;
            let mut body = response.await?.into_body();
            let mut length = 0;
            while let Some(piece) = body.data().await {
                length += piece?.len();
            }
            Ok::<_, h2::Error>((length, body.trailers().await?.expect("they follow")))
        };
        let (length, fields) = runtime().block_on(asked).expect("an answer");
        assert_eq!(length, if body.is_empty() { 0 } else { 5 });
        assert_eq!((fields.len(), &fields["x-sum"]), (2, &HeaderValue::from_static("7")));
    }
}

#[test]
fn heads_pass_but_for_fields_of_the_connection() {
    let said = "HTTP/1.1 299 All Good\r\nContent-Length: 2\r\n\
        Set-Cookie: a=1\r\nset-cookie: b=2\r\n\
        X-Odd: \u{fc}\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n\
        Server: theirs\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nok";
    let response = answer(said, false, "GET");
    assert_eq!(response.status(), 299);
    assert_eq!(response.head.reason, "All Good");
    assert_eq!(response.head.all("set-cookie").collect::<Vec<_>>(), ["a=1", "b=2"]);
    assert_eq!(response.header("server"), Some("theirs"));
    assert_eq!(response.head.all("date").count(), 1);
    for name in ["x-hop", "keep-alive", "upgrade"] {
        assert_eq!(response.header(name), None, "{name}");
    }
}

#[test]
fn some_answers_have_no_body() {
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n";
    let response = answer(length, false, "HEAD");
    assert_eq!((response.header("content-length"), response.text()), (Some("1234"), "".into()));
    let same = "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 9\r\n\r\n";
    let response = answer(same, false, "GET");
    assert_eq!((response.status(), response.header("etag")), (304, Some("\"a\"")));
    let response = answer("HTTP/1.1 204 No Content\r\n\r\n", false, "DELETE");
    assert_eq!((response.status(), response.text()), (204, String::new()));
}

#[test]
fn interim_responses_go_to_clients_that_take_them() {
    let said = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nthe page";
    let backend = saying(said, false);
    let server = in_front_of(&backend, "").start();
    let asked = Command::new("curl")
        .args(["-sS", "-m", "30", "--http2-prior-knowledge", "-i"])
        .arg(format!("http://{}/app", server.address))
        .output()
        .expect("curl runs");
    let text = String::from_utf8_lossy(&asked.stdout).to_ascii_lowercase();
    assert!(text.starts_with("http/2 103") && text.contains("link: </a.css>"), "{text}");
    assert!(text.contains("http/2 200") && text.ends_with("the page"), "{text}");
    assert_eq!(server.text("/app"), "the page");
}

#[test]
fn a_large_answer_to_a_slow_client_frees_the_connection() {
    let body = "0123456789".repeat(1 << 20);
    let backend = Backend::answering(move |asked| match asked.target() {
        "/app/large" => text(&body),
        _ => text("small"),
    });
    let server = in_front_of(&backend, "connections = 1").start();
    let mut slow = server.connect();
    slow.send(get("/app/large").bytes());
    slow.head().unwrap();
    // It would wait for the one connection until the slow client has taken all.
    assert_eq!(server.text("/app/small"), "small");
    assert_eq!(slow.read_rest(10 << 20), 10 << 20);
}

#[test]
fn the_content_cache_keeps_what_may_be_kept() {
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let backend = Backend::answering(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nkept".to_vec()
    });
    let server =
        in_front_of(&backend, "").line("cache.memory = \"16MiB\"").site_line("cache = true");
    let server = server.start();
    for _ in 0..3 {
        assert_eq!(server.text("/app/x"), "kept");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn a_file_may_be_sent_in_place_of_an_answer() {
    let backend = saying(
        "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /files/a.txt\r\nContent-Length: 0\r\n\r\n",
        false,
    );
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.txt"), "from the disk").unwrap();
    open_to_all(directory.path());
    let lines = format!("internal = {{ \"/files\" = \"{}\" }}", directory.path().display());
    let server = in_front_of(&backend, &lines).start();
    assert_eq!(server.text("/app"), "from the disk");
}

fn open_to_all(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Its head and a part of it are there at once, however long the rest takes.
#[test]
fn what_comes_late_is_not_waited_for() {
    let (go, wait) = std::sync::mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let backend = Backend::start(move |client| {
        while client.request().is_some() {
            client.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
            wait.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
            client.send(b" last");
        }
    });
    let server = in_front_of(&backend, "").start();
    let mut client = server.connect();
    client.send(get("/app").bytes());
    assert_eq!(client.head().unwrap().status, 200);
    assert_eq!(client.read_rest(5), 5);
    go.send(()).unwrap();
    assert_eq!(client.read_rest(5), 5);
}
