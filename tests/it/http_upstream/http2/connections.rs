use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use http::Response;

use super::backend::{Application, Call, PATIENCE, raw};
use super::in_front_of;
use crate::harness::{Kind, Setup, free_address, get, in_parallel, in_threads, post};
use crate::http2::client::frame;
use crate::operate::status;

#[test]
fn requests_share_a_connection() {
    // Nobody is answered before all have come.
    let all = Arc::new(tokio::sync::Barrier::new(20));
    let application = Application::start(
        |_| {},
        move |call: Call| {
            let all = all.clone();
            async move {
                all.wait().await;
                let path = call.request.uri().path().to_owned();
                call.answer(Response::new(()), path).await
            }
        },
    );
    let server = in_front_of(&application.url(), "").line("loops = 1").start();
    in_threads(20, 20, |number| {
        let target = format!("/app/{number}");
        assert_eq!(server.text(&target), target);
    });
    assert_eq!(application.connections(), 1);
    assert_eq!(status(&server)["upstreams"][0]["addresses"][0]["connections"], "shared");
}

#[test]
fn an_application_gets_no_more_at_once_than_it_takes() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let application = Application::start(
        |builder| {
            builder.max_concurrent_streams(2);
        },
        move |call: Call| {
            let (now, seen) = (now.clone(), seen.clone());
            async move {
                seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                call.answer(Response::new(()), "ok").await
            }
        },
    );
    let server = in_front_of(&application.url(), "connections = 1").line("loops = 1").start();
    assert_eq!(server.text("/app"), "ok");
    in_parallel(40, |_| assert_eq!(server.send(&post("/app", "text/x", "a")).text(), "ok"));
    assert_eq!((most.load(Ordering::SeqCst), application.connections()), (2, 1));
}

/// What waits for longer than `queue_timeout` is told to come again.
#[test]
fn a_request_does_not_wait_for_ever_to_be_taken() {
    let (tell, told) = channel();
    let backend = raw(move |wire| {
        // One request at the same time.
        wire.send(&frame(4, 0, 0, &[0, 3, 0, 0, 0, 1]));
        let Some(first) = wire.request() else { return };
        wire.answer(first, "ok");
        while wire.request().is_some() {
            let _ = tell.send("asked");
        }
    });
    let lines = "connections = 1\nqueue_timeout = \"1s\"\nfailures = 0";
    let server = in_front_of(&backend.url, lines).line("loops = 1").start();
    // With its answer the setting has come.
    assert_eq!(server.text("/app"), "ok");
    let mut holding = server.connect();
    holding.send(get("/app/holding").bytes());
    assert_eq!(told.recv_timeout(PATIENCE), Ok("asked"));
    server.get("/app/waiting").expect(503);
    server.log_line(&["status=503", "became free in time"]);
    assert!(told.try_recv().is_err(), "it was not asked more");
}

#[test]
fn more_connections_are_opened_when_the_first_is_full() {
    let all = Arc::new(tokio::sync::Barrier::new(6));
    let application = Application::start(
        |builder| {
            builder.max_concurrent_streams(2);
        },
        move |call: Call| {
            let all = all.clone();
            async move {
                if call.request.uri().path() != "/app/first" {
                    all.wait().await;
                }
                call.answer(Response::new(()), "ok").await
            }
        },
    );
    let server = in_front_of(&application.url(), "connections = 3").line("loops = 1").start();
    // So that the setting is known.
    assert_eq!(server.text("/app/first"), "ok");
    in_parallel(6, |_| assert_eq!(server.text("/app"), "ok"));
    assert_eq!(application.connections(), 3);
}

/// GOAWAY: what the application has not looked at is asked again, also what may not be repeated.
#[test]
fn what_was_not_looked_at_is_asked_again() {
    for code in [7, 0] {
        let asked = Arc::new(AtomicU32::new(0));
        let seen = asked.clone();
        let backend = raw(move |wire| {
            let Some(stream) = wire.request() else { return };
            match seen.fetch_add(1, Ordering::SeqCst) {
                0 if code == 7 => {
                    // REFUSED_STREAM.
                    wire.send(&frame(3, 0, stream, &[0, 0, 0, 7]));
                    if let Some(stream) = wire.request() {
                        wire.answer(stream, "second");
                    }
                }
                0 => {
                    // The last one that was looked at is none.
                    wire.send(&frame(7, 0, 0, &[0; 8]));
                    wire.end();
                }
                _ => wire.answer(stream, "second"),
            }
            wire.end();
        });
        let lines = "request_buffering = false";
        let server = in_front_of(&backend.url, lines).line("loops = 1").start();
        let answer = server.send(&post("/app", "text/x", "once")).expect(200);
        assert_eq!(answer.text(), "second", "{code}");
    }
}

/// The requests that an application has when it says that it goes are answered there.
#[test]
fn a_connection_that_is_given_up_answers_what_it_has() {
    let backend = raw(|wire| {
        let Some(stream) = wire.request() else { return };
        let last = [&stream.to_be_bytes()[..], &[0; 4]].concat();
        wire.send(&frame(7, 0, 0, &last));
        wire.answer(stream, "answered");
        wire.end();
    });
    let server = in_front_of(&backend.url, "").line("loops = 1").start();
    for _ in 0..5 {
        assert_eq!(server.text("/app"), "answered");
    }
    assert_eq!(backend.connections(), 5);
}

#[test]
fn a_lost_connection_costs_no_request_that_may_be_repeated() {
    let asked = Arc::new(AtomicU32::new(0));
    let backend = raw(move |wire| {
        while let Some(stream) = wire.request() {
            // Every third one is lost.
            if asked.fetch_add(1, Ordering::SeqCst) % 3 == 2 {
                return;
            }
            wire.answer(stream, "ok");
        }
    });
    let server = in_front_of(&backend.url, "").line("loops = 1").start();
    for _ in 0..9 {
        assert_eq!(server.text("/app"), "ok");
    }
}

/// One that may not is sent once, and its client is told.
#[test]
fn a_lost_request_that_may_not_be_repeated_is_502() {
    let asked = Arc::new(AtomicU32::new(0));
    let seen = asked.clone();
    let backend = raw(move |wire| {
        if wire.request().is_some() {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    let server = in_front_of(&backend.url, "").line("loops = 1").start();
    server.send(&post("/app", "text/x", "a")).expect(502);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    server.log_line(&["status=502", "closed the connection unanswered"]);
}

/// A connection that has been silent for a while is asked whether it is there, before a request is
/// risked on it.
#[test]
fn a_silent_connection_is_asked_first() {
    let asked = Arc::new(AtomicU32::new(0));
    let backend = raw(move |wire| {
        let is_first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        let Some(stream) = wire.request() else { return };
        wire.answer(stream, "ok");
        while let Some((kind, flags, stream, payload)) = wire.next() {
            match (kind, flags) {
                (1, _) => wire.answer(stream, "again"),
                // The first connection answers nothing from now on.
                (6, 0) if !is_first => {
                    wire.send(&frame(6, 1, 0, &payload));
                }
                _ => {}
            }
        }
    });
    let server = in_front_of(&backend.url, "").line("loops = 1").start();
    assert_eq!(server.text("/app"), "ok");
    // Until it counts as silent: nothing else happens meanwhile.
    sleep(Duration::from_millis(1500));
    assert_eq!(server.send(&post("/app", "text/x", "a")).expect(200).text(), "ok");
    assert_eq!(backend.connections(), 2);
    sleep(Duration::from_millis(1500));
    assert_eq!(server.send(&post("/app", "text/x", "a")).expect(200).text(), "again");
    assert_eq!(backend.connections(), 2);
}

#[test]
fn another_address_is_asked_if_one_is_not_there() {
    let application = Application::start(|_| {}, |call| call.answer(Response::new(()), "there"));
    let nobody = free_address();
    let lines =
        format!("address = [\"http://{nobody}\", \"{}\"]\nprotocol = \"http2\"", application.url());
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&lines)
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    for _ in 0..4 {
        assert_eq!(server.send(&post("/app", "text/x", "a")).expect(200).text(), "there");
    }
}
