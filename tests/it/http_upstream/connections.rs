//! Connections: kept, lost, bounded; and what fails when.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::backend::{Backend, text};
use super::in_front_of;
use crate::harness::{Kind, Setup, get, in_parallel, post};
use crate::operate::status;

#[test]
fn a_connection_serves_many_requests() {
    let backend = Backend::answering(|asked| text(asked.target()));
    let server = in_front_of(&backend, "").line("loops = 1").start();
    for number in 0..20 {
        let target = format!("/app/{number}");
        assert_eq!(server.text(&target), target);
    }
    assert_eq!(backend.connections(), 1);
    // One that may do something twice gets a new one, which is kept as well.
    server.send(&post("/app", "text/x", "a")).expect(200);
    server.get("/app").expect(200);
    assert_eq!(backend.connections(), 2);
}

#[test]
fn only_so_many_are_open_at_once() {
    let open = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, seen) = (open.clone(), most.clone());
    let backend = Backend::start(move |client| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        while let Some(asked) = client.request() {
            client.send(&text(asked.target()));
        }
        now.fetch_sub(1, Ordering::SeqCst);
    });
    let server = in_front_of(&backend, "connections = 2").start();
    in_parallel(100, |number| {
        let target = format!("/app/{number}");
        assert_eq!(server.text(&target), target);
    });
    assert!(most.load(Ordering::SeqCst) <= 2);
}

/// It has answered on the connection before, and closes it when the next request comes.
#[test]
fn a_kept_connection_that_is_lost_costs_no_request() {
    let backend = Backend::start(|client| {
        if client.request().is_some() {
            client.send(&text("first"));
            client.request();
        }
    });
    let server = in_front_of(&backend, "").line("loops = 1").start();
    for _ in 0..6 {
        assert_eq!(server.text("/app"), "first");
    }
    // It may have acted on it, so it is not sent twice; a new connection is used from the start.
    server.send(&post("/app", "text/x", "a")).expect(200);
}

#[test]
fn what_the_application_says_of_a_connection_holds() {
    let closing = |head: &'static str| {
        Backend::answering(move |_| format!("HTTP/1.{head}\r\nContent-Length: 1\r\n\r\nx").into())
    };
    for (head, connections) in [
        ("1 200 OK\r\nConnection: close", 3),
        ("0 200 OK", 3),
        ("0 200 OK\r\nConnection: keep-alive", 1),
    ] {
        let backend = closing(head);
        let server = in_front_of(&backend, "").line("loops = 1").start();
        for _ in 0..3 {
            assert_eq!(server.text("/app"), "x");
        }
        assert_eq!(backend.connections(), connections, "{head}");
    }
    let backend = Backend::answering(|asked| text(&asked.field("connection").unwrap_or_default()));
    let server = in_front_of(&backend, "requests = 1").start();
    assert_eq!(server.text("/app"), "close");
}

#[test]
fn what_does_not_answer_has_its_status() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"http://{nobody}\""))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    server.get("/app").expect(502);
    server.log_line(&["status=502", "cannot be reached"]);

    let silent = Backend::start(|client| {
        client.request();
        client.is_closed();
    });
    let server = in_front_of(&silent, "first_byte_timeout = \"200ms\"").start();
    server.get("/app").expect(504);
    server.log_line(&["status=504", "did not begin to answer in time"]);

    let waiting = Backend::start(|client| {
        client.request();
        client.is_closed();
    });
    let lines = "connections = 1\nqueue_timeout = \"200ms\"\nfirst_byte_timeout = \"30s\"";
    let server = in_front_of(&waiting, lines).start();
    let mut first = server.connect();
    first.send(get("/app").bytes());
    crate::harness::eventually(std::time::Duration::from_secs(20), || {
        (waiting.connections() == 1).then_some(())
    });
    server.get("/app").expect(503);
}

/// Requests with one cookie go to one address, and a bad one is left out by its checks.
#[test]
fn several_addresses_share_the_requests() {
    let named = |name: &'static str, is_well: Arc<AtomicBool>| {
        Backend::answering(move |asked| match asked.target() {
            "/health?full" if is_well.load(Ordering::Relaxed) => text("well"),
            "/health?full" => b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n".to_vec(),
            _ => text(name),
        })
    };
    let is_well = Arc::new(AtomicBool::new(true));
    let (a, b) = (named("a", is_well.clone()), named("b", Arc::new(AtomicBool::new(true))));
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!(
            "address = [\"{}\", \"{}\"]\naffinity = \"cookie:id\"\ncheck = \"/health?full\"\n\
             check_interval = \"100ms\"\ncheck_fall = 1",
            a.url, b.url
        ))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    let of = |id: usize| server.send(&get("/app").header("Cookie", &format!("id={id}"))).text();
    let first: Vec<String> = (0..20).map(of).collect();
    assert!(first.contains(&"a".into()) && first.contains(&"b".into()), "{first:?}");
    assert_eq!((0..20).map(of).collect::<Vec<_>>(), first);
    is_well.store(false, Ordering::Relaxed);
    server.log_line(&["is left out until it is well again", "status 500"]);
    assert!((0..20).all(|id| of(id) == "b"));
    let shown = status(&server);
    assert_eq!(shown["upstreams"][0]["addresses"][0]["state"], "down", "{shown}");
}
