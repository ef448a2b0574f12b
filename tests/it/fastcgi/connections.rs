//! Connections: kept, shared, bounded, lost.

use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::backend::{Backend, end, stderr, stdout, text};
use super::balance::wait_for_load;
use super::in_front_of;
use crate::harness::{Kind, Server, Setup, eventually, get, in_parallel, numbered, post};
use crate::http2::client::{exchange, request};
use crate::operate::status;

/// Above what a loaded machine needs for something that takes no time.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_connection_serves_many_requests() {
    let backend = Backend::answering(|asked| text(asked.path()));
    let server = in_front_of(&backend, "").line("loops = 1").start();
    for number in 0..20 {
        assert_eq!(server.text(&format!("/app/{number}")), format!("/{number}"));
    }
    assert_eq!(backend.connections(), 1);
}

/// A client's connection may be on any event loop; the connection to the application follows it.
#[test]
fn event_loops_share_connections() {
    let backend = Backend::answering(|asked| text(asked.path()));
    let server = in_front_of(&backend, "connections = 1").line("loops = 4").start();
    in_parallel(200, |number| {
        assert_eq!(server.text(&format!("/app/{number}")), format!("/{number}"));
    });
    assert_eq!(backend.connections(), 1);
}

#[test]
fn connections_end_as_configured() {
    let backend = Backend::answering(|asked| text(if asked.keep { "keep" } else { "close" }));
    let server = in_front_of(&backend, "requests = 3").start();
    (0..9).for_each(|_| assert_eq!(server.text("/app"), "keep"));
    assert_eq!(backend.connections(), 3);

    let backend = Backend::answering(|asked| text(if asked.keep { "keep" } else { "close" }));
    let server = in_front_of(&backend, "requests = 1").start();
    (0..3).for_each(|_| assert_eq!(server.text("/app"), "close"));
    assert_eq!(backend.connections(), 3);

    let (sender, ends) = mpsc::channel();
    let backend = Backend::start(move |client| {
        while client.request().is_some() {
            client.send(&text("kept"));
        }
        sender.send(Instant::now()).unwrap();
    });
    let server = in_front_of(&backend, "idle = \"300ms\"").start();
    assert_eq!(server.text("/app"), "kept");
    let asked = Instant::now();
    let ended = ends.recv_timeout(SOON).expect("the idle connection is closed");
    assert!(ended - asked > Duration::from_millis(200), "not before its time");
}

/// What becomes of the connections to the application, as `tokamak status` says.
pub(super) fn connections(server: &Server) -> String {
    status(server)["upstreams"][0]["addresses"][0]["connections"].as_str().unwrap().to_owned()
}

#[test]
fn an_application_that_keeps_no_connection_is_found_out() {
    let backend = Backend::start(|client| {
        if client.request().is_some() {
            client.send(&text("once"));
        }
    });
    let server = in_front_of(&backend, "").line("loops = 1").start();
    assert_eq!(connections(&server), "unknown");
    let found = eventually(SOON, || {
        assert_eq!(server.text("/app"), "once");
        (connections(&server) == "closed").then_some(())
    });
    assert!(found.is_some(), "{}", server.log());
    (0..9).for_each(|_| assert_eq!(server.text("/app"), "once"));
    let told = server.log().matches("closes each connection after its response").count();
    assert_eq!(told, 1, "{}", server.log());
}

#[test]
fn processes_that_end_now_and_then_are_not_taken_for_one_that_keeps_no_connection() {
    let count = AtomicUsize::new(0);
    let backend = Backend::start(move |client| {
        // Every other connection has two requests.
        let most = 1 + count.fetch_add(1, Ordering::Relaxed) % 2;
        for _ in 0..most {
            let Some(_) = client.request() else { return };
            client.send(&text("one of some"));
        }
    });
    let server = in_front_of(&backend, "").line("loops = 1").start();
    (0..20).for_each(|_| assert_eq!(server.text("/app"), "one of some"));
    assert_eq!(connections(&server), "kept");
    assert!(!server.log().contains("closes each connection"), "{}", server.log());
}

/// Where in its life a kept connection is closed by the application.
#[derive(Clone, Copy, PartialEq)]
enum Close {
    BehindTheResponse,
    AtTheNextRequest,
    InTheNextRequest,
    BehindTheNextRequest,
    InTheNextHeaders,
}

/// The first request on a connection is answered, the second finds it closed in one way or another.
fn closing(close: Close) -> Backend {
    Backend::start(move |client| {
        let Some(_) = client.request() else { return };
        client.send(&text("answered"));
        match close {
            Close::BehindTheResponse => {}
            // Nothing is read, so the socket is reset with the request in it.
            Close::AtTheNextRequest => thread::sleep(Duration::from_millis(50)),
            Close::InTheNextRequest => client.taste(),
            Close::BehindTheNextRequest => drop(client.request()),
            Close::InTheNextHeaders => {
                drop(client.request());
                client.send(&[stderr("help\n"), stdout("Status: 201\r\n")].concat());
            }
        }
    })
}

#[test]
fn a_lost_connection_costs_no_repeatable_request() {
    for close in [
        Close::BehindTheResponse,
        Close::AtTheNextRequest,
        Close::InTheNextRequest,
        Close::BehindTheNextRequest,
        Close::InTheNextHeaders,
    ] {
        let backend = closing(close);
        let server = in_front_of(&backend, "").start();
        for _ in 0..20 {
            assert_eq!(server.text("/app"), "answered");
        }
        assert!(!server.log().contains("ERROR"), "{}", server.log());
    }
}

#[test]
fn what_may_not_be_repeated_gets_a_new_connection() {
    for close in [Close::AtTheNextRequest, Close::BehindTheNextRequest, Close::InTheNextHeaders] {
        let backend = closing(close);
        let server = in_front_of(&backend, "").start();
        for number in 1..=4 {
            server.get("/app").expect(200);
            server.send(&post("/app", "text/plain", "once")).expect(200);
            assert!(backend.connections() >= 2 * number);
        }
    }

    // The one that is kept gives up its place.
    let process = Mutex::new(());
    let backend = Backend::start(move |client| {
        let _process = process.lock().unwrap();
        while client.request().is_some() {
            client.send(&text("served"));
        }
    });
    let server = in_front_of(&backend, "idle = \"1h\"").start();
    for _ in 0..20 {
        server.get("/app").expect(200);
        server.send(&post("/app", "text/plain", "once")).expect(200);
    }
}

#[test]
fn what_may_have_been_acted_on_is_not_repeated() {
    for (close, reason) in [
        (Close::BehindTheNextRequest, "closed the connection unanswered"),
        (Close::InTheNextHeaders, "closed the connection in the middle of its response"),
    ] {
        let backend = closing(close);
        let server = in_front_of(&backend, "reuse = \"all\"").start();
        let ask = || server.send(&post("/app", "text/plain", "once")).status();
        assert_eq!([ask(), ask(), ask(), ask()], [200, 502, 200, 502]);
        assert_eq!(backend.requests(), 4, "each was seen once");
        server.log_line(&[reason, "method=POST"]);
    }

    // One that is known to be closed is not used, so nothing is lost.
    let backend = closing(Close::BehindTheResponse);
    let server = in_front_of(&backend, "reuse = \"all\"").start();
    for _ in 0..10 {
        server.send(&post("/app", "text/plain", "once")).expect(200);
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(backend.requests(), 10);
}

#[test]
fn what_is_lost_twice_is_502() {
    for said in [Vec::new(), stdout("Status: 201\r\n")] {
        let backend = Backend::start(move |client| {
            drop(client.request());
            client.send(&said);
        });
        let server = in_front_of(&backend, "").start();
        server.get("/app").expect(502);
        assert_eq!(backend.requests(), 2);
        server.send(&post("/app", "text/plain", "once")).expect(502);
        assert_eq!(backend.requests(), 3);
    }
}

#[test]
fn connections_are_bounded_and_requests_wait_for_them() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let backend = Backend::start(move |client| {
        while client.request().is_some() {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
            client.send(&text("served"));
        }
    });
    let server = in_front_of(&backend, "connections = 3").start();
    in_parallel(48, |_| assert_eq!(server.text("/app"), "served"));
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}

#[test]
fn a_full_queue_and_a_long_wait_are_503() {
    let release = Arc::new(AtomicBool::new(false));
    let may_answer = release.clone();
    let backend = Backend::start(move |client| {
        while client.request().is_some() {
            eventually(SOON, || may_answer.load(Ordering::SeqCst).then_some(()));
            client.send(&text("served"));
        }
    });
    let server =
        in_front_of(&backend, "connections = 1\nqueue = 1\nqueue_timeout = \"200ms\"").start();
    thread::scope(|scope| {
        let first = scope.spawn(|| server.get("/app").status());
        eventually(SOON, || (backend.requests() == 1).then_some(()))
            .expect("the first is being served");
        let waited = scope.spawn(|| server.get("/app").status());
        server.log_line(&["no connection to the application became free in time"]);
        assert_eq!(waited.join().unwrap(), 503);
        release.store(true, Ordering::SeqCst);
        assert_eq!(first.join().unwrap(), 200);
    });
    release.store(false, Ordering::SeqCst);
    let server = in_front_of(&backend, "connections = 1\nqueue = 1").start();
    let refused = AtomicUsize::new(0);
    let ask = || {
        let status = server.get("/app").status();
        refused.fetch_add(usize::from(status == 503), Ordering::SeqCst);
        status
    };
    let statuses: Vec<u16> = thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
        eventually(SOON, || (refused.load(Ordering::SeqCst) == 4).then_some(()));
        release.store(true, Ordering::SeqCst);
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 2, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 4, "{statuses:?}");
    server.log_line(&["too many requests wait for a connection"]);
}

/// A connection with many requests at the same time, as HTTP/2 has them, does not stand with all of
/// them before another client.
#[test]
fn the_requests_of_one_http2_connection_take_turns_with_those_of_others() {
    let (go_on, turns) = mpsc::sync_channel(0);
    let turns = Mutex::new(turns);
    let backend = Backend::answering(move |asked| {
        turns.lock().unwrap().recv().expect("the test goes on");
        text(asked.path())
    });
    let server = in_front_of(&backend, "connections = 1").line("loops = 1").start();
    let of_one = || (0..20).map(|number| (request("GET", &format!("/app/{number}")), Vec::new()));
    thread::scope(|scope| {
        let one = scope.spawn(|| exchange(&server, of_one().collect()));
        // One is served, the rest waits.
        wait_for_load(&server, 1, 19);
        let other = scope.spawn(|| server.text("/app/other"));
        wait_for_load(&server, 1, 20);
        // The one that is served, and at most the one that is before it.
        for _ in 0..3 {
            go_on.send(()).unwrap();
        }
        assert_eq!(other.join().unwrap(), "/other");
        drop(scope.spawn(move || (0..18).for_each(|_| go_on.send(()).unwrap())));
        for (number, answer) in one.join().unwrap().iter().enumerate() {
            assert_eq!(answer.body(), format!("/{number}").as_bytes());
        }
    });
}

/// An application with one process that listens only when nobody holds it.
#[test]
fn an_idle_connection_does_not_hold_the_only_process() {
    let one = Mutex::new(());
    let backend = Backend::start(move |client| {
        let _process = one.lock().unwrap();
        while client.request().is_some() {
            thread::sleep(Duration::from_millis(5));
            client.send(&text("served"));
        }
    });
    let server = in_front_of(&backend, "idle = \"1h\"").start();
    in_parallel(32, |_| assert_eq!(server.text("/app"), "served"));
}

#[test]
fn silent_applications_time_out() {
    let backend = Backend::start(|client| {
        if let Some(asked) = client.request() {
            if asked.path() == "/half" {
                client.send(&stdout("A: b\r\n\r\nhalf"));
            }
            assert!(client.is_closed());
        }
    });
    let limits = "first_byte_timeout = \"300ms\"\nread_timeout = \"300ms\"";
    let server = in_front_of(&backend, limits).start();
    let started = Instant::now();
    server.get("/app/silent").expect(504);
    server.log_line(&["did not begin to answer in time", "url=/app/silent"]);
    let mut connection = server.connect();
    connection.send(get("/app/half").bytes());
    assert!(connection.try_response("GET").is_err(), "it is cut");
    server.log_line(&["stopped in the middle of its response", "url=/app/half"]);
    assert!(started.elapsed() < SOON);
}

#[test]
fn an_unread_body_is_given_up() {
    let (sender, closed) = mpsc::channel();
    let backend = Backend::start(move |client| {
        client.taste();
        thread::sleep(Duration::from_secs(1));
        sender.send(client.is_closed()).unwrap();
    });
    let server = in_front_of(&backend, "send_timeout = \"300ms\"").start();
    server.send(&post("/app", "text/plain", numbered(4 << 20))).expect(504);
    server.log_line(&["did not take the request in time"]);
    assert!(closed.recv_timeout(SOON).unwrap());
}

/// It answers without having read the body, and then neither side waits for the other.
#[test]
fn an_answer_may_come_before_the_end_of_the_body() {
    let backend = Backend::start(|client| {
        client.taste();
        client.send(&text("too large for me"));
        client.is_closed();
    });
    let server = in_front_of(&backend, "").start();
    for _ in 0..3 {
        let response = server.send(&post("/app", "text/plain", numbered(4 << 20)));
        assert_eq!(response.expect(200).text(), "too large for me");
    }
}

#[test]
fn an_application_that_is_not_there_is_502() {
    let server = Setup::new(Kind::Fastcgi)
        .upstream("address = \"unix:/nowhere/socket\"")
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    server.get("/app").expect(502);
    server.log_line(&["the application cannot be reached: No such file", "url=/app"]);
}

#[test]
fn one_of_several_addresses_may_be_gone() {
    let one = Backend::answering(|_| text("one"));
    let two = Backend::answering(|_| text("two"));
    let addresses =
        format!("address = [\"{}\", \"unix:/nowhere\", \"{}\"]", one.address, two.address);
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&addresses)
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    let answers: Vec<String> = (0..30).map(|_| server.text("/app")).collect();
    for name in ["one", "two"] {
        let share = answers.iter().filter(|answer| *answer == name).count();
        assert!((10..=20).contains(&share), "{name}: {answers:?}");
    }
}

#[test]
fn a_client_that_goes_away_ends_the_request() {
    let (sender, closed) = mpsc::channel();
    let backend = Backend::start(move |client| {
        if let Some(asked) = client.request() {
            if asked.path() == "/begun" {
                client.send(&stdout("A: b\r\n\r\nbegun"));
            }
            sender.send(client.is_closed()).unwrap();
        }
    });
    let server = in_front_of(&backend, "").start();
    for (number, path) in ["/app/waiting", "/app/begun"].into_iter().enumerate() {
        let mut connection = server.connect();
        connection.send(get(path).bytes());
        eventually(SOON, || (backend.requests() == number + 1).then_some(()))
            .expect("it is being served");
        if path == "/app/begun" {
            connection.head().expect("the head has come");
        }
        drop(connection);
        assert!(closed.recv_timeout(SOON).expect("the application is told"), "{path}");
    }
}

/// The application is done with a large response long before its client is.
#[test]
fn a_slow_client_holds_no_connection() {
    let body = numbered(700_000);
    let sent = body.clone();
    let backend = Backend::answering(move |asked| match asked.path() {
        "/large" => [stdout("A: b\r\n\r\n"), stdout(&sent), end()].concat(),
        _ => text("small"),
    });
    let server = in_front_of(&backend, "connections = 1").start();
    let mut slow: Vec<_> = (0..5).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for stream in &mut slow {
        std::io::Write::write_all(stream, &get("/app/large").header("Connection", "close").bytes())
            .unwrap();
    }
    eventually(SOON, || (backend.requests() == 5).then_some(()))
        .expect("none waits for another's client");
    assert_eq!(server.text("/app/small"), "small");
    for mut stream in slow {
        let mut all = Vec::new();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.len() > body.len(), "{} bytes", all.len());
    }
    assert_eq!(backend.connections(), 1);
}

/// A response that is larger than what is held for a client is sent as the client takes it.
#[test]
fn a_large_response_flows() {
    let body = numbered(8 << 20);
    let sent = body.clone();
    let backend =
        Backend::answering(move |_| [stdout("A: b\r\n\r\n"), stdout(&sent), end()].concat());
    let server = in_front_of(&backend, "").line("limits.buffer = \"64KiB\"").start();
    for _ in 0..2 {
        assert!(server.get("/app").expect(200).body == body);
    }
    assert_eq!(backend.connections(), 1);
}
