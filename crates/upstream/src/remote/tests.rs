use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tempfile::TempDir;
use tokamak_fastcgi::{ProtocolStatus, Stream, encode};
use tokio::time::sleep;

use super::request::Written;
use super::*;
use crate::body::Body;
use crate::spool::tests::quota;

/// An application whose connections the test has in its hands.
struct Application {
    connections: mpsc::Receiver<UnixStream>,
    endpoint: Endpoint,
    _directory: TempDir,
}

impl Application {
    fn new() -> Application {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let (sender, connections) = mpsc::channel();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if sender.send(stream).is_err() {
                    return;
                }
            }
        });
        Application { connections, endpoint: Endpoint::Unix(path), _directory: directory }
    }

    fn next(&self) -> UnixStream {
        self.connections.recv_timeout(Duration::from_secs(10)).expect("a connection")
    }
}

fn bounds(connections: usize) -> Bounds {
    let second = Duration::from_secs(10);
    Bounds {
        connections,
        multiplex: Multiplex::Never,
        http2: None,
        requests: 0,
        idle: second,
        reuse_for_all: false,
        queue: 10,
        queue_timeout: second,
        connect_timeout: second,
        send_timeout: second,
        first_byte_timeout: second,
        read_timeout: second,
    }
}

/// An application with these addresses.
fn upstream(applications: &[&Application], bounds: Bounds) -> Upstream {
    let second = Duration::from_secs(1);
    let rules = Rules { failures: 3, window: 10 * second, pause: second, rise: 1, fall: 1 };
    let settings = Settings { policy: Balancing::RoundRobin, stays: true, rules, bounds };
    let address =
        |application: &&Application| Address { endpoint: application.endpoint.clone(), weight: 1 };
    Upstream::new(
        settings,
        None,
        applications.iter().map(address).collect(),
        Vec::new(),
        LogSink::by(|_| {}),
    )
}

fn call(is_repeatable: bool) -> Arc<Call> {
    let describe = |params: &mut Params<'_>| params.pair(b"A", b"b");
    Arc::new(Call::fastcgi(Role::Responder, true, is_repeatable, Body::Empty, describe).unwrap())
}

async fn ask(upstream: &Upstream, is_repeatable: bool) -> Result<ResponseStart, UpstreamError> {
    upstream.attempts(0, call(is_repeatable), None).answer().await
}

/// Answers the one request that is on its way.
fn answer(stream: &mut UnixStream) {
    let mut ignored = [0; 4096];
    assert!(stream.read(&mut ignored).unwrap() > 0);
    let mut out = Vec::new();
    encode::stream(&mut out, 1, Stream::Stdout, b"answer");
    encode::end(&mut out, 1, 0, ProtocolStatus::Complete);
    stream.write_all(&out).unwrap();
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// Asks, is answered on `stream` or on a new connection, and gives that.
async fn served(
    upstream: &Upstream,
    application: &Application,
    kept: Option<UnixStream>,
) -> UnixStream {
    let (asked, stream) = tokio::join!(ask(upstream, true), async {
        sleep(Duration::from_millis(20)).await;
        let mut stream = kept.unwrap_or_else(|| application.next());
        answer(&mut stream);
        stream
    });
    let mut exchange = asked.unwrap().exchange;
    while !matches!(exchange.next().await.unwrap(), Event::End(_)) {}
    stream
}

#[test]
fn an_idle_connection_is_used_again() {
    run(async {
        let application = Application::new();
        let upstream = upstream(&[&application], bounds(4));
        let stream = served(&upstream, &application, None).await;
        assert_eq!(upstream.idle_count(), 1);
        let stream = served(&upstream, &application, Some(stream)).await;
        assert_eq!(upstream.idle_count(), 1);
        assert!(application.connections.try_recv().is_err(), "there was no second one");
        drop(stream);
        sleep(Duration::from_millis(20)).await;
        upstream.tick(1, tokamak_cost::now());
        assert_eq!(upstream.idle_count(), 1, "another event loop's");
        upstream.tick(0, tokamak_cost::now());
        assert_eq!(upstream.idle_count(), 0, "closed by the application");
    });
}

#[test]
fn a_dropped_exchange_closes_its_connection() {
    run(async {
        let application = Application::new();
        let upstream = upstream(&[&application], bounds(1));
        let asking = tokio::time::timeout(Duration::from_millis(50), ask(&upstream, true));
        assert!(asking.await.is_err(), "nobody answers");
        let mut stream = application.next();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(!all.is_empty());
        // Its permit is free again.
        served(&upstream, &application, None).await;
    });
}

#[test]
fn a_request_that_starves_has_idle_connections_closed() {
    run(async {
        let application = Application::new();
        let upstream = upstream(&[&application], bounds(4));
        let kept = served(&upstream, &application, None).await;
        // The kept one is in use, so the next request has a new one, which the application does not
        // serve.
        let (first, second) = (ask(&upstream, true), ask(&upstream, true));
        tokio::join!(
            async { first.await.map(drop).unwrap() },
            async { second.await.map(drop).unwrap() },
            async {
                sleep(Duration::from_millis(20)).await;
                let mut kept = kept;
                answer(&mut kept);
                sleep(Duration::from_millis(300)).await;
                assert_eq!(upstream.idle_count(), 0, "none is idle while somebody starves");
                answer(&mut application.next());
            }
        );
    });
}

#[test]
fn what_cannot_be_repeated_is_not_sent_into_a_closed_connection() {
    run(async {
        let application = Application::new();
        let upstream = upstream(&[&application], bounds(1));
        let kept = served(&upstream, &application, None).await;
        // Closed without the event loop having had a chance to notice.
        drop(kept);
        let (asked, ()) = tokio::join!(ask(&upstream, false), async {
            sleep(Duration::from_millis(20)).await;
            answer(&mut application.next());
        });
        assert!(matches!(asked.unwrap().event, Event::Output(bytes) if bytes == "answer"));
    });
}

fn status(upstream: &Upstream, nth: usize) -> (AddressState, u32, u32) {
    let status = upstream.address_statuses().swap_remove(nth);
    (status.state, status.in_use, status.idle)
}

#[test]
fn an_address_that_leaves_answers_what_it_has() {
    run(async {
        let (one, other) = (Application::new(), Application::new());
        let upstream = upstream(&[&one], bounds(1));
        let (first, waiting, ()) = tokio::join!(
            ask(&upstream, true),
            async {
                sleep(Duration::from_millis(20)).await;
                ask(&upstream, true).await
            },
            async {
                sleep(Duration::from_millis(40)).await;
                assert_eq!(upstream.address_statuses()[0].waiting, 1);
                upstream.add(Address { endpoint: other.endpoint.clone(), weight: 1 });
                assert!(upstream.drain(&one.endpoint));
                assert_eq!(status(&upstream, 0), (AddressState::Draining, 1, 0));
                sleep(Duration::from_millis(20)).await;
                answer(&mut other.next());
                answer(&mut one.next());
            }
        );
        for asked in [first, waiting] {
            let mut exchange = asked.unwrap().exchange;
            while !matches!(exchange.next().await.unwrap(), Event::End(_)) {}
        }
        assert_eq!(
            status(&upstream, 0),
            (AddressState::Drained, 0, 0),
            "its connection is not kept"
        );
        assert_eq!(status(&upstream, 1), (AddressState::Up, 0, 1));
        assert!(upstream.remove(&other.endpoint) && !upstream.remove(&other.endpoint));
        assert!(matches!(ask(&upstream, true).await, Err(UpstreamError::NoAddress)));
        upstream.add(Address { endpoint: one.endpoint.clone(), weight: 2 });
        assert_eq!(upstream.address_statuses().len(), 1);
        served(&upstream, &one, None).await;
        assert_eq!(status(&upstream, 0), (AddressState::Up, 0, 1));
        assert_eq!(upstream.address_statuses()[0].weight, 2);
        upstream.keep_none();
        assert_eq!(status(&upstream, 0), (AddressState::Up, 0, 0));
        served(&upstream, &one, None).await;
        assert_eq!(status(&upstream, 0), (AddressState::Up, 0, 0));
    });
}

#[test]
fn a_kept_connection_ends_without_an_error() {
    run(async {
        let application = Application::new();
        let upstream = upstream(&[&application], bounds(1));
        let mut stream = served(&upstream, &application, None).await;
        drop(upstream);
        assert_eq!(stream.read(&mut [0; 8]).expect("the end, and no reset"), 0);
    });
}

#[test]
fn a_full_backlog_is_waited_for() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let _fills_it = UnixStream::connect(&path).unwrap();
        let upstream = upstream(&[], bounds(1));
        upstream.add(Address { endpoint: Endpoint::Unix(path), weight: 1 });
        let (asked, ()) = tokio::join!(ask(&upstream, true), async {
            sleep(Duration::from_millis(50)).await;
            let listener = UnixListener::from(listener);
            drop(listener.accept().unwrap());
            sleep(Duration::from_millis(50)).await;
            listener.set_nonblocking(true).unwrap();
            let (mut stream, _) = listener.accept().expect("it has come again");
            answer(&mut stream);
        });
        asked.expect("it is served when there is room");
    });
}

/// What is held for a client that reads nothing is bounded, though each byte of it comes in a
/// record of its own.
#[test]
fn a_response_in_single_bytes_takes_no_more_memory() {
    run(async {
        let application = Application::new();
        let upstream = upstream(&[&application], bounds(1));
        let (asked, mut stream) = tokio::join!(ask(&upstream, true), async {
            sleep(Duration::from_millis(20)).await;
            let mut stream = application.next();
            let mut out = Vec::new();
            encode::stream(&mut out, 1, Stream::Stdout, b"a");
            stream.write_all(&out).unwrap();
            stream
        });
        let most = 64 * 1024;
        let _relay = Relay::start(asked.unwrap().exchange, Vec::new(), most, quota(0), |_| {});
        stream.set_nonblocking(true).unwrap();
        let mut records = Vec::new();
        (0..256).for_each(|_| encode::stream(&mut records, 1, Stream::Stdout, b"a"));
        let (mut taken, mut pauses) = (0, 0);
        while pauses < 20 {
            match stream.write(&records) {
                Ok(n) => (taken, pauses) = (taken + n, 0),
                Err(_) => {
                    pauses += 1;
                    sleep(Duration::from_millis(5)).await;
                }
            }
        }
        assert!(taken / 16 < most / 4, "{taken} bytes of records");
    });
}

/// A filter's request: what is short goes with the head, and each stream is ended once, in its
/// order.
#[test]
fn streams_follow_each_other() {
    use tokamak_fastcgi::{Message, Messages};
    let small = Body::Memory(vec![b'a'; 10].into());
    let large = || Body::Memory(vec![b'b'; 100_000].into());
    for (body, data, expected) in [
        (Body::Empty, Body::Empty, [0, 0]),
        (small, large(), [10, 100_000]),
        (large(), Body::Empty, [100_000, 0]),
        (large(), large(), [100_000, 100_000]),
        (large(), Body::Memory(vec![b'c'; 5].into()), [100_000, 5]),
    ] {
        let describe = |params: &mut Params<'_>| params.pair(b"A", b"b");
        let call = Call::fastcgi(Role::Filter, true, true, body, describe).unwrap().with_data(data);
        let (mut written, mut all) = (Written::default(), Vec::new());
        loop {
            let rest = call.rest(&mut written).unwrap();
            let n = rest.len().min(777);
            if n == 0 {
                break;
            }
            all.extend_from_slice(&rest[..n]);
            written.advance(&call, n);
        }
        let (mut messages, mut rest, mut seen, mut ended) =
            (Messages::new(), &all[..], [0, 0], Vec::new());
        while let Some(message) = messages.next(&mut rest).unwrap() {
            match message {
                Message::Stream { stream: Stream::Stdin, bytes, .. } => seen[0] += bytes.len(),
                Message::Stream { stream: Stream::Data, bytes, .. } => seen[1] += bytes.len(),
                Message::StreamEnd { stream, .. } => ended.push(stream),
                _ => {}
            }
        }
        assert_eq!((seen, ended), (expected, vec![Stream::Params, Stream::Stdin, Stream::Data]));
    }
}
