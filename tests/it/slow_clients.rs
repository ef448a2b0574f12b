//! Slow clients are the front's burden: they hold no worker. And a queue that is full says so.

use std::time::{Duration, Instant};

use crate::harness::{Kind, Setup, get, in_every_mode, in_parallel, numbered, post};
use crate::operate::status_when;

in_every_mode! {
    slow_reader_holds_no_worker, many_slow_readers, slow_sender_holds_no_worker, full_queue_is_refused,
    long_wait_is_refused, queue_is_served_in_order,
}

/// A connection that has been idle for a second gives its buffers back, and serves on.
#[test]
fn an_idle_connection_serves_on() {
    let server = Setup::new(Kind::Classic).start();
    let rest = || std::thread::sleep(Duration::from_millis(1500));
    let mut client = server.connect();
    // Before the first request, too.
    rest();
    for _ in 0..2 {
        // Some old clients send a line end more than they should, which belongs to no request.
        client.send([&get("/hello.php").bytes()[..], b"\r\n"].concat());
        assert_eq!(client.response().expect(200).text(), "Hello from PHP");
        rest();
    }
    let request = post("/input.php", "text/plain", numbered(100_000));
    client.send(request.head_bytes());
    // A request under way does not rest.
    rest();
    client.send(&request.body);
    client.response().expect(200);
    rest();
    client.send(get("/hello.php").bytes());
    client.response().expect(200);
}

/// A client that reads one byte a second of 900 KB does not keep the only worker.
fn slow_reader_holds_no_worker(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let mut slow = server.connect();
    slow.send(get("/large.php?bytes=900000").bytes());
    let head = slow.head().unwrap();
    assert_eq!(head.status, 200);
    for _ in 0..3 {
        slow.read_byte().unwrap();
        let started = Instant::now();
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
        let took = started.elapsed();
        assert!(took < Duration::from_secs(20), "the second client waited {took:?}");
        std::thread::sleep(Duration::from_secs(1));
    }
    // Nothing is lost for the slow one when it hurries at last.
    let mut fast = server.connect();
    fast.send(get("/large.php?bytes=900000").bytes());
    assert!(fast.response().expect(200).body == numbered(900_000));
}

fn many_slow_readers(kind: Kind) {
    let server = Setup::new(kind).workers(2).start();
    let mut readers: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for reader in &mut readers {
        reader.send(get("/large.php?bytes=900000").bytes());
    }
    for reader in &mut readers {
        reader.head().unwrap();
    }
    let started = Instant::now();
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
    assert!(started.elapsed() < Duration::from_secs(20), "waited {:?}", started.elapsed());
}

fn slow_sender_holds_no_worker(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let request = post("/input.php", "text/plain", numbered(900_000));
    let mut slow = server.connect();
    slow.send(request.head_bytes());
    let (first, rest) = request.body.split_at(450_000);
    slow.send(first);
    for _ in 0..5 {
        let started = Instant::now();
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
        let took = started.elapsed();
        assert!(took < Duration::from_secs(20), "the second client waited {took:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    slow.send(rest);
    let seen = slow.response().expect(200).json();
    assert_eq!(seen["length"], 900_000);
    assert_eq!(seen["crc32"], crate::harness::crc32(&numbered(900_000)));
}

/// One request runs, one waits, the third is told to come back later, at once. (The places in the
/// queue are shared out among the event loops, so the test has one.)
fn full_queue_is_refused(kind: Kind) {
    let setup = Setup::new(kind).workers(1).one_at_a_time();
    let server = setup.line("loops = 1").site_line("pool.queue = 1").start();
    let [mut running, mut waiting] = [server.connect(), server.connect()];
    running.send(get("/hold.php?name=running").bytes());
    server.holds("running");
    waiting.send(get("/echo.php").bytes());
    status_when(&server, "a request that waits", |status| status["pools"][0]["queue"] == 1);
    // The worker is still held.
    let started = Instant::now();
    let refused = server.get("/hello.php");
    assert_eq!(refused.status(), 503, "{refused}");
    assert!(refused.header("Retry-After").is_some(), "{refused}");
    assert!(started.elapsed() < Duration::from_secs(20), "after {:?}", started.elapsed());
    server.let_go("running");
    assert_eq!(running.response().expect(200).text(), "held");
    waiting.response().expect(200);
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
}

fn long_wait_is_refused(kind: Kind) {
    let setup = Setup::new(kind).workers(1).one_at_a_time();
    let server = setup.site_line("pool.queue_timeout = \"500ms\"").start();
    let mut running = server.connect();
    running.send(get("/hold.php?name=running").bytes());
    server.holds("running");
    let started = Instant::now();
    let refused = server.get("/abort.php?name=waited");
    let took = started.elapsed();
    assert_eq!(refused.status(), 503, "{refused}");
    assert!(refused.header("Retry-After").is_some(), "{refused}");
    assert!(took.as_millis() > 400, "refused after {took:?}");
    server.let_go("running");
    assert_eq!(running.response().expect(200).text(), "held");
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
    assert!(
        !server.state_file("status-waited").exists(),
        "a request that was refused ran all the same"
    );
}

/// First come, first served: with one worker, the answers come in the order of the requests.
fn queue_is_served_in_order(kind: Kind) {
    let server = Setup::new(kind).workers(1).one_at_a_time().start();
    let mut first = server.connect();
    first.send(get("/hold.php?name=first").bytes());
    server.holds("first");
    let mut waiting = Vec::new();
    for number in 1..=10 {
        let mut connection = server.connect();
        connection.send(get("/time.php").bytes());
        waiting.push(connection);
        status_when(&server, "it in the queue", |status| status["pools"][0]["queue"] == number);
    }
    server.let_go("first");
    first.response().expect(200);
    let times: Vec<f64> = waiting
        .iter_mut()
        .map(|connection| connection.response().expect(200).json()["time"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted(), "served in another order: {times:?}");
    in_parallel(50, |_| assert_eq!(server.text("/hello.php"), "Hello from PHP"));
}

/// An event loop that always has something to do for some clients still sees what PHP has answered
/// to others.
#[test]
fn a_loop_that_never_rests_sees_answers() {
    use std::io::{Read, Write};
    let server = Setup::new(Kind::Classic).line("loops = 1").start();
    std::fs::write(server.places.root().join("static.txt"), "static").unwrap();
    let busy = server.address;
    let request = get("/static.txt").bytes();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut clients: Vec<_> = (0..400)
                .map(|_| {
                    let mut stream = std::net::TcpStream::connect(busy).unwrap();
                    stream.set_nonblocking(true).unwrap();
                    stream.write_all(&request).unwrap();
                    stream
                })
                .collect();
            let mut sink = [0; 16 * 1024];
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for stream in &mut clients {
                    if stream.read(&mut sink).is_ok() {
                        stream.write_all(&request).unwrap();
                    }
                }
            }
        });
        std::thread::sleep(Duration::from_secs(1));
        let mut connection = server.connect();
        connection.patience(Duration::from_secs(20));
        let answers: Vec<_> = (0..20)
            .map_while(|_| {
                connection.send(get("/hello.php").bytes());
                connection.try_response("GET").ok()
            })
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(answers.len(), 20, "no answer while the loop is busy");
    });
}
