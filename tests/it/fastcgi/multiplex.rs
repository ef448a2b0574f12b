//! Several requests on one connection, where the application says that it can.

use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use tokamak_fastcgi::{ProtocolStatus, Values, encode};

use super::applications::{Application, answers, example};
use super::backend::{Asked, Backend, Client, Conversation, Heard, about, end, stdout, text};
use super::connections::connections;
use super::in_front_of;
use crate::harness::{
    Kind, Server, Setup, crc32, eventually, get, in_parallel, in_threads, numbered, post,
};

/// Above what a loaded machine needs for something that takes no time.
const SOON: Duration = Duration::from_secs(20);

/// How long an application may take to say what it can.
const LIMIT: Duration = Duration::from_secs(1);

fn says(max_reqs: Option<u32>) -> Values {
    Values { max_conns: None, max_reqs, mpxs_conns: Some(true) }
}

fn answer_to_the_question(values: Values) -> Vec<u8> {
    let mut out = Vec::new();
    encode::values(&mut out, values);
    out
}

/// An application that takes several requests at once; `hear` gets all that comes on a connection,
/// but for the question.
fn shared(
    values: Values,
    hear: impl Fn(&mut Client, Heard, &mut Vec<(u16, Asked)>) + Send + Sync + 'static,
) -> Backend {
    Backend::start(move |client| {
        let (mut conversation, mut held) = (Conversation::default(), Vec::new());
        while let Some(heard) = client.hear(&mut conversation) {
            match heard {
                Heard::Question => client.send(&answer_to_the_question(values)),
                heard => hear(client, heard, &mut held),
            }
        }
    })
}

/// One connection for all requests, beside the one for the question.
fn on_one_connection(backend: &Backend) -> Setup {
    in_front_of(backend, "multiplex = true\nconnections = 1")
}

/// All of them are there before the first is answered, and the answers come in pieces, in turn.
#[test]
fn requests_share_a_connection() {
    let backend = shared(says(None), |client, heard, held| {
        let Heard::Request(id, asked) = heard else { panic!("{heard:?}") };
        held.push((id, asked));
        if held.len() == 8 {
            let all: Vec<_> =
                held.drain(..).map(|(id, asked)| (id, asked.path().to_owned())).collect();
            for (id, _) in &all {
                client.send(&about(*id, stdout("Content-Type: text/plain\r\n\r\n")));
            }
            for (id, path) in all.iter().rev() {
                client.send(&about(*id, stdout(path)));
            }
            for (id, path) in &all {
                client.send(&about(*id, [stdout(path), end()].concat()));
            }
        }
    });
    let server = on_one_connection(&backend).line("loops = 2").start();
    for _ in 0..5 {
        in_parallel(8, |number| {
            assert_eq!(server.text(&format!("/app/{number}")), format!("/{number}/{number}"))
        });
    }
    assert_eq!(backend.connections(), 2);
    assert_eq!(connections(&server), "shared");
}

/// It is asked once. Another answer than "yes", or none, means one request a connection.
#[test]
fn applications_without_multiplexing_get_one_request_a_connection() {
    let no = |said: Option<Vec<u8>>, closes: bool| {
        Backend::start(move |client| {
            let (mut conversation, mut now) = (Conversation::default(), 0);
            while let Some(heard) = client.hear(&mut conversation) {
                match heard {
                    Heard::Question if closes => return,
                    Heard::Question => client.send(said.as_deref().unwrap_or_default()),
                    Heard::Request(id, _) => {
                        now += 1;
                        assert_eq!(id, 1);
                        client.send(&text("served"));
                    }
                    Heard::Abort(_) => panic!("it was not said that it understands this"),
                }
            }
            let _ = now;
        })
    };
    let answer = |mpxs_conns| Some(answer_to_the_question(Values { mpxs_conns, ..says(None) }));
    for (backend, is_slow) in [
        (no(answer(Some(false)), false), false),
        (no(answer(None), false), false),
        (no(Some(answer_to_the_question(says(Some(1)))), false), false),
        (no(Some(b"nonsense".to_vec()), false), false),
        (no(None, true), false),
        (no(None, false), true),
    ] {
        // Only a wait for the limit takes that long each time, however busy the machine.
        let attempts = if is_slow { 1 } else { 20 };
        let mut took = (1..=attempts).map(|attempt| {
            let server = in_front_of(&backend, "multiplex = true").line("loops = 1").start();
            let started = Instant::now();
            (0..5).for_each(|_| assert_eq!(server.text("/app"), "served"));
            let took = started.elapsed();
            assert_eq!(backend.connections(), 2 * attempt);
            let why = "does not say that it takes several requests";
            server.log_line(&[why]);
            let log = server.log();
            assert!(!log.contains("ERROR"), "{log}");
            assert_eq!(log.matches(why).count(), 1);
            took
        });
        assert_ne!(took.any(|took| took < LIMIT), is_slow);
    }
}

/// PHP knows the question, and says no.
#[test]
fn php_is_not_made_to() {
    let start = "umask 0; PHP_FCGI_CHILDREN=2 exec php-cgi -b \"$1\"";
    let application =
        Application::start(|_| ["/bin/sh", "-c", start, "php"].map(str::to_owned).to_vec());
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"unix:{}\"\nmultiplex = true", application.socket.display()))
        .site_line("upstream = \"app\"")
        .start();
    in_parallel(40, |_| assert_eq!(server.text("/hello.php"), "Hello from PHP"));
}

#[test]
fn no_more_requests_than_it_takes() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let backend = shared(says(Some(3)), move |client, heard, held| {
        let Heard::Request(id, asked) = heard else { panic!("{heard:?}") };
        held.push((id, asked));
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if held.len() == 3 {
            std::thread::sleep(Duration::from_millis(20));
            for (id, _) in held.drain(..) {
                now.fetch_sub(1, Ordering::SeqCst);
                client.send(&about(id, text("served")));
            }
        }
    });
    let server = in_front_of(&backend, "multiplex = true\nconnections = 1").start();
    in_parallel(48, |_| assert_eq!(server.text("/app"), "served"));
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}

/// What a client does not take is put aside, so that the others on the connection go on.
#[test]
fn a_slow_client_does_not_hold_up_others() {
    let body = numbered(24 << 20);
    let sent = body.clone();
    let backend = shared(says(None), move |client, heard, _| {
        let Heard::Request(id, asked) = heard else { panic!("{heard:?}") };
        client.send(&match asked.path() {
            "/large" => about(id, [stdout("A: b\r\n\r\n"), stdout(&sent), end()].concat()),
            _ => about(id, text("small")),
        });
    });
    let server = on_one_connection(&backend).line("limits.buffer = \"64KiB\"").start();
    let mut slow: Vec<_> = (0..3).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for stream in &mut slow {
        std::io::Write::write_all(stream, &get("/app/large").header("Connection", "close").bytes())
            .unwrap();
    }
    eventually(SOON, || (backend.requests() == 3).then_some(())).expect("all are answered at once");
    for _ in 0..20 {
        assert_eq!(server.text("/app/small"), "small");
    }
    for mut stream in slow {
        let mut all = Vec::new();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.len() > body.len());
    }
    let response = server.get("/app/large").expect(200);
    assert_eq!((response.body.len(), crc32(&response.body)), (body.len(), crc32(&body)));
    assert_eq!(backend.connections(), 2);
}

/// What is written in front of an application that is to be found out.
const BY_ITSELF: &str = "multiplex = \"auto\"";

/// As many connections to an address as there are where nobody says how many.
const CONNECTIONS: usize = 16;

/// Asks, one request after the other, until the status says this of the connections.
fn ask_until(server: &Server, word: &str) {
    let found = || {
        assert_eq!(server.text("/app"), "served");
        (connections(server) == word).then_some(())
    };
    eventually(SOON, found).unwrap_or_else(|| panic!("{word}: {}", server.log()));
}

/// More requests are there than there may be connections, and all before the first is answered:
/// those that wait for a connection go on as soon as it is known that they may share one.
#[test]
fn requests_share_connections_by_themselves() {
    let all = CONNECTIONS + 4;
    let held = Arc::new((Mutex::new(0), Condvar::new()));
    let backend = shared(says(None), move |client, heard, _| {
        let Heard::Request(id, asked) = heard else { panic!("{heard:?}") };
        if asked.path() != "/held" {
            client.send(&about(id, text("served")));
            return;
        }
        let (held, mut client) = (held.clone(), client.another());
        std::thread::spawn(move || {
            let (count, more) = &*held;
            *count.lock().unwrap() += 1;
            more.notify_all();
            let is_waited_for = |count: &mut usize| *count < all;
            let waited = more.wait_timeout_while(count.lock().unwrap(), SOON, is_waited_for);
            if !waited.unwrap().1.timed_out() {
                client.send(&about(id, text("served")));
            }
        });
    });
    let server = in_front_of(&backend, BY_ITSELF).start();
    (0..2).for_each(|_| assert_eq!(server.text("/app"), "served"));
    in_threads(all, all, |_| assert_eq!(server.text("/app/held"), "served"));
    ask_until(&server, "shared");
    server.log_line(&["says that it takes several requests on a connection"]);
    for _ in 0..3 {
        in_parallel(40, |_| assert_eq!(server.text("/app"), "served"));
    }
    assert!(backend.connections() <= 2 * CONNECTIONS + 1, "{}", backend.connections());
    let log = server.log();
    assert!(!log.contains("ERROR"), "{log}");
    assert_eq!(log.matches("says that it takes several").count(), 1, "{log}");
}

/// An application that closes each connection is not asked, and would say yes: what else were under
/// way on that connection would be lost.
#[test]
fn an_application_that_closes_its_connections_is_not_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let backend = Backend::start(move |client| {
        let mut conversation = Conversation::default();
        while let Some(heard) = client.hear(&mut conversation) {
            match heard {
                Heard::Question => {
                    count.fetch_add(1, Ordering::SeqCst);
                    client.send(&answer_to_the_question(says(None)));
                }
                Heard::Request(id, _) => {
                    client.send(&about(id, text("served")));
                    return;
                }
                Heard::Abort(_) => {}
            }
        }
    });
    let server = in_front_of(&backend, BY_ITSELF).line("loops = 1").start();
    ask_until(&server, "closed");
    in_parallel(40, |_| assert_eq!(server.text("/app"), "served"));
    assert_eq!((connections(&server).as_str(), asked.load(Ordering::SeqCst)), ("closed", 0));
}

/// What an application answers to the request of this id.
type Answer = fn(u16) -> Vec<u8>;

/// One that says yes and cannot is found out by its first answer that shows it. What it has refused
/// is asked again, alone. On a connection that is shared, the id of a request whose client has left
/// is not used again, so the next one has another than 1.
#[test]
fn an_application_that_says_so_and_cannot_is_found_out() {
    let refuses = |id: u16| {
        let mut out = Vec::new();
        encode::end(&mut out, id, 0, ProtocolStatus::CannotMultiplex);
        out
    };
    let confuses = |id: u16| about(id + 70, text("for another"));
    let cannot: [(Answer, usize); 2] = [(refuses, 0), (confuses, 1)];
    for (answer, lost) in cannot {
        let (sender, aborted) = mpsc::channel();
        let backend = shared(says(None), move |client, heard, _| match heard {
            Heard::Request(1, asked) if asked.path() == "/waiting" => {}
            Heard::Request(1, _) => client.send(&text("served")),
            Heard::Request(id, _) => client.send(&answer(id)),
            Heard::Abort(id) => {
                client.send(&about(id, end()));
                sender.send(id).unwrap();
            }
            Heard::Question => {}
        });
        let server = in_front_of(&backend, BY_ITSELF).line("loops = 1").start();
        ask_until(&server, "shared");
        let before = backend.requests();
        let mut connection = server.connect();
        connection.send(get("/app/waiting").bytes());
        eventually(SOON, || (backend.requests() > before).then_some(())).expect("it is asked");
        drop(connection);
        assert_eq!(aborted.recv_timeout(SOON), Ok(1));
        let mut failed = 0;
        let found = || {
            failed += usize::from(server.get("/app").status() != 200);
            (connections(&server) == "kept").then_some(())
        };
        eventually(SOON, found).unwrap_or_else(|| panic!("{}", server.log()));
        assert_eq!(failed, lost);
        in_parallel(40, |_| assert_eq!(server.text("/app"), "served"));
        assert_eq!(connections(&server), "kept", "it is not asked again");
        let line = "cannot have several requests on a connection, though it says so";
        server.log_line(&[line]);
        assert_eq!(server.log().matches(line).count(), 1);
    }
}

/// A process that is started with one connection gets several requests at once, if it says that it
/// takes them.
#[test]
fn a_process_that_is_started_gets_what_it_takes() {
    let server = Setup::new(Kind::Fastcgi)
        .site("../examples/fastcgi")
        // A user's own may name programs that the application's user may not start.
        .server_env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .upstream("spawn = [\"python3\", \"-B\", \"python/multiplex.py\"]\ndirectory = \"site\"")
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .start();
    let found = || {
        server.get("/app/count").expect(200);
        (connections(&server) == "shared").then_some(())
    };
    eventually(SOON, found).unwrap_or_else(|| panic!("{}", server.log()));
    answers(&server, "/app");
    in_parallel(50, |number| {
        let body = numbered(number * 1000);
        let sent = post("/app/echo", "text/plain", body.clone());
        assert!(server.send(&sent).expect(200).body == body);
    });
}

/// Large bodies take turns, so that a small request need not wait for their end.
#[test]
fn a_large_body_does_not_hold_up_others() {
    let backend = shared(says(None), |client, heard, _| {
        let Heard::Request(id, asked) = heard else { panic!("{heard:?}") };
        client.send(&about(id, text(&crc32(&asked.body).to_string())));
    });
    let server = on_one_connection(&backend).start();
    in_parallel(8, |number| {
        let body = numbered(if number % 2 == 0 { 3 << 20 } else { number });
        let sum = crc32(&body).to_string();
        assert_eq!(server.send(&post("/app", "text/plain", body)).expect(200).text(), sum);
    });
    assert_eq!(backend.connections(), 2);
}

#[test]
fn a_client_that_goes_away_aborts_its_request_alone() {
    let (sender, aborted) = mpsc::channel();
    let backend = shared(says(None), move |client, heard, _| match heard {
        Heard::Request(id, asked) => match asked.path() {
            "/waiting" => {}
            "/begun" => client.send(&about(id, stdout("A: b\r\n\r\nbegun"))),
            _ => client.send(&about(id, text("served"))),
        },
        Heard::Abort(id) => {
            // It may have been about to say this, and then ends the request once more.
            client.send(&about(id, [stdout("too late"), end(), end()].concat()));
            sender.send(id).unwrap();
        }
        Heard::Question => {}
    });
    let server = on_one_connection(&backend).start();
    for (number, path) in ["/app/waiting", "/app/begun", "/app/waiting"].into_iter().enumerate() {
        let mut connection = server.connect();
        connection.send(get(path).bytes());
        eventually(SOON, || (backend.requests() == 2 * number + 1).then_some(()))
            .expect("it is being served");
        if path == "/app/begun" {
            connection.head().expect("the head has come");
        }
        drop(connection);
        let id = aborted.recv_timeout(SOON).expect("the application is told");
        assert_eq!(usize::from(id), number + 1, "an aborted id is not used again");
        assert_eq!(server.text("/app/other"), "served");
    }
    assert_eq!(backend.connections(), 2);
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

/// An application that closes each connection behind its third answer, and reads nothing more on
/// it: what comes meanwhile is lost.
fn recycling() -> Backend {
    Backend::start(move |client| {
        let (mut conversation, mut answered) = (Conversation::default(), 0);
        while let Some(heard) = client.hear(&mut conversation) {
            match heard {
                Heard::Question => client.send(&answer_to_the_question(says(None))),
                Heard::Request(id, _) => client.send(&about(id, text("served"))),
                Heard::Abort(id) => client.send(&about(id, end())),
            }
            answered += usize::from(matches!(heard, Heard::Request(..)));
            if answered == 3 {
                return;
            }
        }
    })
}

/// A request that may not be repeated has a connection of its own. If there may be no more of them,
/// it shares one on which the application has just shown that it reads.
#[test]
fn what_may_not_be_repeated_is_not_lost_with_a_connection() {
    let backend = recycling();
    let server = in_front_of(&backend, "multiplex = true").start();
    in_parallel(8, |number| {
        for _ in 0..30 {
            match number % 2 {
                0 => server.send(&post("/app", "text/plain", "once")).expect(200),
                _ => server.get("/app").expect(200),
            };
        }
    });
    assert!(!server.log().contains("ERROR"), "{}", server.log());

    let backend = recycling();
    let server = on_one_connection(&backend).start();
    for _ in 0..30 {
        server.send(&post("/app", "text/plain", "once")).expect(200);
    }
    assert_eq!(backend.connections(), 11, "the one for the question, and one for three requests");
}

/// libfcgi answers the question only when another record follows.
#[test]
fn libfcgi_answers_the_question_at_once() {
    let application = Application::start(|_| vec!["perl".into(), example("perl/app.pl")]);
    let mut took = (0..20).map(|_| {
        let server = application.serve("multiplex = true\nconnections = 1");
        let started = Instant::now();
        server.get("/app/echo").expect(200);
        started.elapsed()
    });
    assert!(took.any(|took| took < LIMIT), "it is waited for");
}

/// What is wrong about one request is its own affair; what is wrong about the connection ends it,
/// and the next one is sound.
#[test]
fn lies_are_found_out() {
    for (name, lie, log, is_lost) in [
        ("a version", vec![2, 6, 0, 1, 0, 0, 0, 0], "a record of version 2", true),
        (
            "an unknown id",
            about(77, stdout("x")),
            "a record of a request that it does not have",
            true,
        ),
        (
            "the end of an unknown id",
            about(2, end()),
            "a record of a request that it does not have",
            true,
        ),
        (
            "a request",
            vec![1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            "only a web server sends",
            true,
        ),
        ("an id after its end", [end(), end()].concat(), "no response", true),
        (
            "more after the end",
            [stdout("A: b\r\n\r\n"), about(1, end())[..8].to_vec(), stdout("x"), end()].concat(),
            "more of its response",
            false,
        ),
        ("no headers", [stdout("nonsense\n\n"), end()].concat(), "a header without a colon", false),
    ] {
        let lie = Arc::new(lie);
        let backend = shared(says(None), move |client, heard, _| match heard {
            Heard::Request(id, asked) if asked.path() == "/lie" => {
                assert_eq!(id, 1);
                client.send(&lie);
            }
            Heard::Request(id, _) => client.send(&about(id, text("served"))),
            Heard::Abort(id) => client.send(&about(id, end())),
            Heard::Question => {}
        });
        let server = on_one_connection(&backend).line("loops = 1").start();
        for _ in 0..3 {
            let status = server.get("/app/lie").status();
            assert_eq!(status, 502, "{name}");
            assert_eq!(server.text("/app/other"), "served", "{name}");
        }
        server.log_line(&[log, "url=/app/lie"]);
        assert_eq!(backend.connections() > 2, is_lost, "{name}: {}", backend.connections());
    }
}

/// A lost connection costs no repeatable request, whoever shared it.
#[test]
fn a_lost_connection_is_replaced() {
    let backend = shared(says(None), |client, heard, held| {
        let Heard::Request(id, asked) = heard else { panic!("{heard:?}") };
        held.push((id, asked));
        if held.len() == 5 {
            client.close();
        } else {
            client.send(&about(id, text("served")));
        }
    });
    let server = on_one_connection(&backend).line("loops = 1").start();
    for _ in 0..20 {
        assert_eq!(server.text("/app"), "served");
    }
    assert!(backend.connections() > 4);
}

#[test]
fn an_unused_connection_is_closed_and_a_used_up_one_replaced() {
    let backend = shared(says(None), |client, heard, _| {
        let Heard::Request(id, _) = heard else { panic!("{heard:?}") };
        client.send(&about(id, text("served")));
    });
    let server = in_front_of(&backend, "multiplex = true\nconnections = 1\nrequests = 3")
        .line("loops = 1")
        .start();
    (0..9).for_each(|_| assert_eq!(server.text("/app"), "served"));
    assert_eq!(backend.connections(), 4);

    let (sender, ended) = mpsc::channel();
    let backend = Backend::start(move |client| {
        let mut conversation = Conversation::default();
        while let Some(heard) = client.hear(&mut conversation) {
            match heard {
                Heard::Question => client.send(&answer_to_the_question(says(None))),
                Heard::Request(id, _) => client.send(&about(id, text("served"))),
                Heard::Abort(_) => {}
            }
        }
        sender.send(()).unwrap();
    });
    let server = in_front_of(&backend, "multiplex = true\nidle = \"300ms\"").start();
    assert_eq!(server.text("/app"), "served");
    for _ in 0..2 {
        ended.recv_timeout(SOON).expect("the question's connection and the idle one are closed");
    }
}

#[test]
fn time_limits_hold_for_each_request() {
    let backend = shared(says(None), |client, heard, _| match heard {
        Heard::Request(id, asked) => match asked.path() {
            "/silent" => {}
            "/half" => client.send(&about(id, stdout("A: b\r\n\r\nhalf"))),
            _ => client.send(&about(id, text("served"))),
        },
        Heard::Abort(id) => client.send(&about(id, end())),
        Heard::Question => {}
    });
    let limits = "multiplex = true\nconnections = 1\nfirst_byte_timeout = \"300ms\"\nread_timeout \
        = \"300ms\"";
    let server = in_front_of(&backend, limits).start();
    server.get("/app/silent").expect(504);
    server.log_line(&["did not begin to answer in time", "url=/app/silent"]);
    let mut connection = server.connect();
    connection.send(get("/app/half").bytes());
    assert!(connection.try_response("GET").is_err(), "it is cut");
    server.log_line(&["stopped in the middle of its response", "url=/app/half"]);
    assert_eq!(server.text("/app/other"), "served");
    assert_eq!(backend.connections(), 2);
}

/// `tokamak fpm` says that it can, and means it: more requests than workers on one connection.
#[test]
fn in_php() {
    let fpm = Setup::new(Kind::Fpm).workers(2).start();
    let server = Setup::new(Kind::Fastcgi)
        .upstream(&format!(
            "address = \"unix:{}\"\nmultiplex = true\nconnections = 1",
            fpm.places.top().join("fpm.socket").display()
        ))
        .site_line("upstream = \"app\"")
        .start();
    in_parallel(100, |number| {
        let seen = server.get(&format!("/server.php?n={number}")).expect(200).json();
        assert_eq!(seen["QUERY_STRING"], format!("n={number}"));
    });
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

#[test]
fn in_python() {
    let application =
        Application::start(|_| vec!["python3".into(), "-B".into(), example("python/multiplex.py")]);
    for lines in [
        "multiplex = true\nconnections = 1",
        "multiplex = true\nconnections = 2",
        "multiplex = false",
        "requests = 1",
    ] {
        let server = application.serve(lines);
        answers(&server, "/app");
        let before: usize = server.text("/app/count").trim().parse().unwrap();
        in_parallel(100, |number| {
            let body = numbered(number * 1000);
            assert!(
                server.send(&post("/app/echo", "text/plain", body.clone())).expect(200).body
                    == body
            );
            server.get("/app/count").expect(200);
        });
        let after: usize = server.text("/app/count").trim().parse().unwrap();
        assert_eq!(after - before, 101, "each request was served once");
    }
}
