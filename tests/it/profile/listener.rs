//! Profiles that the admin listener gives.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;
use crate::harness::free_address;

const TOKEN: &str = "0123456789abcdef";

/// A server with its admin listener on this port, of which a token is asked.
fn listening(setup: Setup) -> (Server, u16) {
    let port = free_address().port();
    let lines = format!("admin = \"127.0.0.1:{port}\"\nadmin_token = \"{TOKEN}\"");
    (setup.workers(2).line(&lines).start(), port)
}

/// Sends a request with the token.
fn begin(port: u16, method: &str, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the admin listener");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer {TOKEN}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Status, head and body of the answer.
fn end(mut stream: TcpStream) -> (u16, String, Vec<u8>) {
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("a response");
    let at = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(response[..at].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, response[at + 4..].to_vec())
}

fn asked(port: u16, target: &str) -> (u16, String, Vec<u8>) {
    end(begin(port, "GET", target))
}

/// Status and text of the answer.
fn refused(port: u16, target: &str) -> (u16, String) {
    let (status, _, body) = asked(port, target);
    (status, String::from_utf8(body).unwrap())
}

/// A profile of this length that is being taken: until the answer is read, or this is dropped.
fn held(port: u16) -> TcpStream {
    let mut first = begin(port, "GET", "/profile?seconds=60");
    // The one that is asked for here may have been ahead of the first.
    eventually(PATIENCE, || {
        let (status, text) = refused(port, "/profile?seconds=1");
        if status == 200 {
            first = begin(port, "GET", "/profile?seconds=60");
            return None;
        }
        assert_eq!((status, &text[..24]), (409, "a profile is being taken"), "{text}");
        Some(())
    })
    .expect("a refusal");
    first
}

in_every_mode!(each_form_has_the_hot_function);

fn each_form_has_the_hot_function(kind: Kind) {
    let (server, port) = listening(Setup::new(kind));
    let get = |form: &str| {
        let (status, head, body) =
            asked(port, &format!("/profile?seconds=2&url=/hot&format={form}"));
        assert_eq!(status, 200, "{head} {}", String::from_utf8_lossy(&body));
        (head, body)
    };
    under_load(&server, ask("/hot.php"), |_| {
        let (head, folded) = get("folded");
        let folded = String::from_utf8(folded).unwrap();
        assert!(samples_with(&folded, ";spend_most ") > 20.0, "{folded}");
        let quality = head.lines().find_map(|line| line.strip_prefix("tokamak-profile: "));
        let quality = quality.unwrap_or_else(|| panic!("{head}"));
        let samples = quality.split(' ').next().unwrap().parse::<f64>().unwrap();
        assert_eq!(samples, samples_with(&folded, ""), "{quality} {folded}");
        let (head, page) = get("html");
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains(">spend_most</b>"), "{page}");
        assert!(head.contains("content-security-policy: sandbox allow-scripts"), "{head}");
        let (head, pprof) = get("pprof");
        assert!(head.contains("filename=\"profile.pb.gz\""), "{head}");
        assert_eq!(pprof[..2], [0x1f, 0x8b]);
    });
}

#[test]
fn an_invalid_query_gets_400_with_the_valid_values() {
    let (_server, port) = listening(Setup::new(Kind::Classic));
    for (query, status, part) in [
        ("?seconds=61", 400, "`seconds` is a whole number, 1 to 60"),
        ("?format=svg", 400, "`format` is html, folded or pprof"),
        ("?url=shop", 400, "`url` is the beginning of a path"),
        ("?rate=1", 400, "/profile takes `seconds`, `site`, `url` and `format`"),
        ("?site=nowhere", 400, "no site nowhere has PHP workers; those are: localhost"),
    ] {
        let (found, text) = refused(port, &format!("/profile{query}"));
        assert!(found == status && text.contains(part), "{query}: {found} {text}");
    }
    let (_, head, _) = end(begin(port, "POST", "/profile"));
    assert!(head.starts_with("HTTP/1.1 405") && head.contains("allow: GET"), "{head}");
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.write_all(b"GET /profile HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(end(stranger).0, 401);
}

#[test]
fn one_is_taken_at_a_time_and_ends_with_its_client() {
    let (server, port) = listening(Setup::new(Kind::Classic));
    // Also for those who ask at the control socket, unless they come first.
    let refused_there = || {
        let first = held(port);
        let output = command(&server, &["profile", "--for", "1ms"]);
        (!output.status.success()).then(|| (first, refusal(&output)))
    };
    let (first, why) = eventually(PATIENCE, refused_there).expect("a refusal");
    assert!(why.contains("a profile of this site is being taken already"), "{why}");
    drop(first);
    let next = || (refused(port, "/profile?seconds=1").0 == 200).then_some(());
    eventually(PATIENCE, next).expect("the next profile");
}

/// A profile of one site is being taken at the control socket: the others are shown.
#[test]
fn a_site_that_refuses_takes_no_profile_of_others_away() {
    let (server, port) = listening(Setup::new(Kind::Classic).also("other.example", "php"));
    let (_first, _) = super::held(&server, &["--site", "other.example"]);
    let (status, head, _) = asked(port, "/profile?seconds=1");
    assert_eq!(status, 200, "{head}");
    assert!(head.contains("no profile of site other.example: a profile of this site is"), "{head}");
    let (status, text) = refused(port, "/profile?seconds=1&site=other.example");
    assert!(status == 503 && text.contains("is being taken already"), "{status} {text}");
}

/// A front that has to end waits for no profile, and its client is told.
#[test]
fn a_reload_ends_it() {
    let (server, port) = listening(Setup::new(Kind::Classic).line("timeouts.drain = \"30s\""));
    let first = held(port);
    let (status, _, body) = end(begin(port, "POST", "/reload"));
    assert_eq!((status, &body[..]), (200, &b"generation 2 serves\n"[..]));
    let (status, _, body) = end(first);
    let text = String::from_utf8(body).unwrap();
    assert!(status == 503 && text.contains("the server reloads or stops"), "{status} {text}");
    let next = || (refused(port, "/profile?seconds=1").0 == 200).then_some(());
    eventually(PATIENCE, next).expect("a profile of the next generation");
    server.text("/hello.php");
}
