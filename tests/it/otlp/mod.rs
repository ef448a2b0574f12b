//! Spans of requests, as a collector gets them by OTLP.

pub mod collector;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::harness::{Kind, Request, Server, Setup, eventually, get, in_parallel};
use crate::metrics::{exemplars, samples, samples_when};
use crate::operate::{configure, operated, reload};
use crate::traces::{ASKER, TRACE, line, parent, parts, server_vars, traced};
use collector::{Collector, can_read};

/// The numbers of spans by their fates.
fn fates(server: &Server) -> BTreeMap<String, f64> {
    let all = samples(server).into_iter();
    let of_spans = all.filter_map(|(name, count)| {
        let result = name.strip_prefix("tokamak_trace_spans_total{result=\"")?;
        Some((result.trim_end_matches("\"}").to_owned(), count))
    });
    of_spans.collect()
}

/// A server that goes on with clients' traces, and exports them to this collector.
fn exporting(kind: Kind, collector: &Collector) -> Setup {
    traced(kind, "continue").line("admin = \"unix:admin.sock\"").line(&collector.line())
}

fn recorded(target: &str) -> Request {
    get(target).header("traceparent", &parent("01"))
}

/// PHP, the log and the collector are told the same of one request.
fn a_request_is_one_picture(kind: Kind) {
    if !can_read() {
        return;
    }
    let collector = Collector::start();
    let server = exporting(kind, &collector).start();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let request = recorded("/server.php?a=b").header("tracestate", "a=1");
    let vars = server_vars(
        &server,
        &request.header("User-Agent", "curl/1").header("Host", "localhost:4711"),
    );
    let (trace, id, _) = parts(&vars["HTTP_TRACEPARENT"]);
    let (span, steps) = collector.request("/server.php");
    let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();

    assert_eq!((&span["trace"], &span["span"]), (&trace.into(), &id.into()), "{span:#}");
    assert_eq!((&span["parent"], &span["state"]), (&ASKER.into(), &"a=1".into()));
    assert_eq!((&span["name"], &span["kind"]), (&"GET".into(), &"SPAN_KIND_SERVER".into()));
    assert_eq!((&span["status"], &span["flags"]), (&"STATUS_CODE_UNSET".into(), &0x301.into()));
    assert_eq!(span["resource"]["service.name"], "localhost");
    assert_eq!(span["resource"]["service.instance.id"].as_str().unwrap().len(), 32);
    let logged = line(&server, "/server.php");
    for (name, value) in [
        ("http.request.method", Value::from("GET")),
        ("http.response.status_code", 200.into()),
        ("http.response.body.size", logged["bytes"].clone()),
        ("url.path", "/server.php".into()),
        ("url.scheme", "http".into()),
        ("server.address", "localhost".into()),
        ("server.port", 4711.into()),
        ("client.address", "127.0.0.1".into()),
        ("network.protocol.version", "1.1".into()),
        ("user_agent.original", "curl/1".into()),
        ("tokamak.request.id", logged["id"].clone()),
    ] {
        let found = span["attributes"].get(name).unwrap_or(&Value::Null);
        // A FastCGI application does not learn the name by which PHP calls a request.
        assert_eq!(*found, value, "{name} in {span:#}");
    }
    let (begin, end) = (span["begin"].as_u64().unwrap(), span["end"].as_u64().unwrap());
    // The server reads the clock of the wall later, when it exports; that may have been set
    // meanwhile, by a little.
    let little = 10_000_000;
    let (before, after) = (before - little, after + little);
    assert!(before <= begin.into() && begin < end && u128::from(end) <= after, "{span:#}");

    // The steps cover the request without a gap, and are what the log says of the phases.
    let mut at = begin;
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for step in &steps {
        let (begin, end) = (step["begin"].as_u64().unwrap(), step["end"].as_u64().unwrap());
        assert_eq!((begin, &step["kind"]), (at, &"SPAN_KIND_INTERNAL".into()), "{steps:#?}");
        *sums.entry(step["name"].as_str().unwrap().into()).or_default() += end - begin;
        at = end;
    }
    assert_eq!(at, end, "{steps:#?}");
    let phases = logged["phases_us"].as_object().unwrap().iter();
    let phases: BTreeMap<String, u64> = phases
        .map(|(name, us)| (name.clone(), (us.as_f64().unwrap() * 1000.0).round() as u64))
        .collect();
    assert_eq!(sums, phases);
    let backend = if kind == Kind::Fastcgi { "upstream" } else { "php" };
    assert!(sums.contains_key(backend), "{sums:?}");
}

#[test]
fn a_request_in_classic_mode_is_one_picture() {
    a_request_is_one_picture(Kind::Classic);
}

#[test]
fn a_request_in_worker_mode_is_one_picture() {
    a_request_is_one_picture(Kind::Worker);
}

#[test]
fn a_request_in_async_mode_is_one_picture() {
    a_request_is_one_picture(Kind::Async);
}

#[test]
fn a_request_in_sealed_mode_is_one_picture() {
    a_request_is_one_picture(Kind::Sealed);
}

#[test]
fn a_request_to_a_fastcgi_application_is_one_picture() {
    a_request_is_one_picture(Kind::Fastcgi);
}

#[test]
fn errors_and_routes_are_named() {
    if !can_read() {
        return;
    }
    let collector = Collector::start();
    let server = exporting(Kind::Classic, &collector)
        .site_line("[[site.route]]\npath = \"/missing\"\ncache = true")
        .start();
    let script = "<?php echo 'begun'; flush(); posix_kill(getmypid(), 9);";
    std::fs::write(server.places.root().join("dies.php"), script).unwrap();
    std::fs::write(server.places.root().join("fails.php"), "<?php http_response_code(503);")
        .unwrap();
    server.send(&recorded("/missing/page")).expect(404);
    server.send(&recorded("/fails.php")).expect(503);
    let mut connection = server.connect();
    connection.send(recorded("/dies.php").bytes());
    assert!(connection.try_response("GET").is_err());
    server.send(&Request::new("BREW", "/brewed.txt").header("traceparent", &parent("01")));

    let (missing, _) = collector.request("/missing/page");
    assert_eq!(missing["status"], "STATUS_CODE_UNSET", "the client's mistake: {missing:#}");
    assert_eq!(missing["name"], "GET /missing");
    assert_eq!(missing["attributes"]["http.route"], "/missing");
    let (failed, _) = collector.request("/fails.php");
    let (broken, _) = collector.request("/dies.php");
    for (span, status, error) in [(failed, 503, "503"), (broken, 200, "broken_off")] {
        assert_eq!(span["status"], "STATUS_CODE_ERROR", "{span:#}");
        assert_eq!(span["attributes"]["error.type"], error, "{span:#}");
        assert_eq!(span["attributes"]["http.response.status_code"], status, "{span:#}");
    }
    let (brewed, _) = collector.request("/brewed.txt");
    assert_eq!(
        (&brewed["name"], &brewed["attributes"]["http.request.method"]),
        (&"HTTP".into(), &"_OTHER".into())
    );
}

/// What clients send is cut, is valid UTF-8, and becomes no name.
#[test]
fn hostile_texts_are_bounded() {
    if !can_read() {
        return;
    }
    let collector = Collector::start();
    let server = exporting(Kind::Classic, &collector).start();
    let path = format!("/{}.txt", "x".repeat(20_000));
    let mut request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\ntraceparent: {}\r\ntracestate: {}\r\nUser-Agent: ",
        "h".repeat(5_000),
        parent("01"),
        (0..33).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(","),
    )
    .into_bytes();
    request.extend([0xff; 3_000]);
    request.extend(b"\r\n\r\n");
    let mut connection = server.connect();
    connection.send(request);
    connection.response().expect(404);
    let spans = collector.spans_when("span", |spans| !spans.is_empty());
    let span = spans.iter().find(|span| span["kind"] == "SPAN_KIND_SERVER").expect("a span");
    assert_eq!((&span["trace"], &span["state"]), (&TRACE.into(), &"".into()));
    for name in ["url.path", "server.address", "user_agent.original"] {
        let length = span["attributes"][name].as_str().unwrap().chars().count();
        assert!((500..=1024).contains(&length), "{name}: {length}");
    }
}

#[test]
fn only_recorded_traces_are_exported() {
    if !can_read() {
        return;
    }
    for (context, sample, expected) in [
        ("continue", "0%", &["/asked.txt"][..]),
        ("continue", "100%", &["/asked.txt", "/alone.txt"]),
        ("begin", "0%", &[]),
        ("begin", "100%", &["/asked.txt", "/not.txt", "/alone.txt"]),
    ] {
        let collector = Collector::start();
        let mut server = traced(Kind::Classic, context)
            .line(&format!("trace.sample = \"{sample}\""))
            .line(&collector.line())
            .start();
        server.send(&recorded("/asked.txt")).expect(404);
        server.send(&get("/not.txt").header("traceparent", &parent("00"))).expect(404);
        server.get("/alone.txt").expect(404);
        // It sends what it has before it ends.
        server.main_process().signal("TERM");
        assert!(server.main_process().wait(Duration::from_secs(20)).is_some());
        let spans = collector.spans_when("spans", |_| true);
        let paths = spans.iter().filter_map(|span| span["attributes"]["url.path"].as_str());
        assert_eq!(paths.collect::<Vec<_>>(), expected, "{context} {sample}");
    }
}

/// Clients that say that their traces are recorded cannot make the export grow without bounds.
#[test]
fn a_flood_of_recorded_traces_is_bounded() {
    let collector = Collector::start();
    let server = exporting(Kind::Classic, &collector).line("trace.export_rate = 5").start();
    let began = Instant::now();
    let mut connection = server.connect();
    for _ in 0..20 {
        connection.send(recorded("/missing.txt").bytes().repeat(50));
        for _ in 0..50 {
            connection.response().expect(404);
        }
    }
    // The seconds that these requests have touched; the last one may end after its response.
    let seconds = began.elapsed().as_secs() + 3;
    samples_when(&server, "tokamak_requests_total{site=\"localhost\",status=\"4xx\"}", 1000.0);
    let is_over = || Some(fates(&server)).filter(|fates| fates["exported"] > 0.0);
    let fates = eventually(Duration::from_secs(20), is_over).expect("some are exported");
    // No request of these has more than eight steps, and each has one at least.
    assert!(fates["exported"] <= (seconds * 5 * 9) as f64, "{fates:?} in {seconds} s");
    assert!(fates["dropped"] >= 2.0 * (1000 - 5 * seconds) as f64, "{fates:?} in {seconds} s");
    let said = server.log_line(&["spans of traces were lost"]);
    assert!(said.contains("trace.export_rate"), "{said}");
}

#[test]
fn the_collector_gets_the_header_fields_and_nobody_else() {
    let collector = Collector::start();
    let secret = "Bearer s3cr3t-0123456789";
    let server = exporting(Kind::Classic, &collector)
        .line(&format!("trace.export_headers = {{ Authorization = \"{secret}\" }}"))
        .start();
    server.send(&recorded("/missing.txt")).expect(404);
    let exports = || Some(collector.exports()).filter(|exports| !exports.is_empty());
    let exports = eventually(Duration::from_secs(20), exports).expect("an export");
    let head = &exports[0].head;
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nauthorization: {secret}\r\n")), "{head}");
    assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
    assert!(!server.log().contains("s3cr3t"));
}

/// How a collector misbehaves: what it does with a request, and what the log says of it.
type Fault = (fn(&mut TcpStream) -> bool, &'static str);

fn say(stream: &mut TcpStream, answer: &str) -> bool {
    stream.write_all(answer.as_bytes()).is_ok()
}

const FAULTS: [Fault; 9] = [
    (|stream| say(stream, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"), "answered 400"),
    (|stream| say(stream, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), "answered 500"),
    (|stream| say(stream, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"), "answered 503"),
    (
        |stream| say(stream, "HTTP/1.1 301 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
        "answered 301",
    ),
    (|_| false, "connection broke"),
    (|stream| say(stream, "what?\r\n\r\n"), "the response is broken"),
    (|stream| !say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "it breaks off"),
    (endless, "has more than 65536 bytes"),
    (hang, "no response within 300ms"),
];

fn endless(stream: &mut TcpStream) -> bool {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
    while stream.write_all(&[b'x'; 4096]).is_ok() {}
    false
}

fn hang(_: &mut TcpStream) -> bool {
    sleep(Duration::from_secs(60));
    false
}

/// Sends requests as fast as they are answered, and waits until their spans are lost.
fn loses(export: &str, reason: &str) {
    let server = traced(Kind::Classic, "continue")
        .line("admin = \"unix:admin.sock\"")
        .line(export)
        .line("trace.export_timeout = \"300ms\"")
        .start();
    for _ in 0..20 {
        server.send(&recorded("/missing.txt")).expect(404);
    }
    // Each is tried again some times, with pauses.
    let are_lost = || Some(fates(&server)).filter(|fates| fates["undelivered"] >= 40.0);
    let lost = eventually(Duration::from_secs(30), are_lost);
    let lost = lost.unwrap_or_else(|| panic!("{reason}: {:?}", fates(&server)));
    assert_eq!((lost["exported"], lost["rejected"], lost["dropped"]), (0.0, 0.0, 0.0), "{reason}");
    server.get("/hello.php").expect(200);
    let said = server.log_line(&["spans of traces were lost", reason]);
    assert!(said.contains("could not be delivered"), "{said}");
    assert_eq!(server.log().matches("spans of traces were lost").count(), 1, "{}", server.log());
}

#[test]
fn collectors_that_misbehave_cost_spans_and_nothing_else() {
    in_parallel(FAULTS.len(), |nth| {
        let (answer, reason) = FAULTS[nth];
        loses(&Collector::answering(answer).line(), reason);
    });
}

#[test]
fn collectors_that_are_not_there_cost_spans_and_nothing_else() {
    // No test listens on a port this low.
    let refusing = "trace.export = \"http://127.0.0.1:1\"".to_owned();
    let unknown = "trace.export = \"http://collector.invalid:4318\"".to_owned();
    in_parallel(2, |nth| match nth {
        0 => loses(&refusing, "no connection to 127.0.0.1"),
        // The name servers may not answer at all.
        _ => loses(&unknown, ""),
    });
}

#[test]
fn what_a_collector_rejects_is_counted() {
    // A rejection of two spans: field 1 of the answer, with field 1 of it a number, 2 a text.
    let collector = Collector::answering(|stream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n";
        stream.write_all(&[&head[..], b"\x0a\x09\x08\x02\x12\x05stale"].concat()).is_ok()
    });
    let server = exporting(Kind::Classic, &collector).start();
    server.send(&recorded("/missing.txt")).expect(404);
    samples_when(&server, "tokamak_trace_spans_total{result=\"rejected\"}", 2.0);
    let said = server.log_line(&["spans of traces were lost"]);
    assert!(said.contains("the collector rejected 2 (stale)"), "{said}");
}

/// A collector that was away gets the spans when it is back.
#[test]
fn spans_are_sent_again() {
    if !can_read() {
        return;
    }
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let collector = Collector::answering(move |stream| {
        match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => false,
            1 => say(stream, "HTTP/1.1 429 Slow\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"),
            _ => stream.write_all(collector::TAKEN).is_ok(),
        }
    });
    let server = exporting(Kind::Classic, &collector).start();
    server.send(&recorded("/missing.txt")).expect(404);
    let exports = || Some(collector.exports()).filter(|exports| exports.len() == 3);
    let exports = eventually(Duration::from_secs(20), exports).expect("three attempts");
    assert!(exports[0].body == exports[1].body && exports[1].body == exports[2].body);
    let is_taken = || Some(fates(&server)).filter(|fates| fates["exported"] > 0.0);
    let fates = eventually(Duration::from_secs(20), is_taken).expect("exported");
    assert_eq!((fates["undelivered"], fates["dropped"]), (0.0, 0.0));
}

/// The old front sends what it has; a collector that hangs holds nobody up.
#[test]
fn reloads_and_stops_lose_nothing_and_hang_nowhere() {
    if !can_read() {
        return;
    }
    let (good, bad) = (Collector::start(), Collector::answering(hang));
    let mut server = operated(Kind::Classic)
        .line("trace.context = \"continue\"")
        .line("trace.export_timeout = \"60s\"")
        .line(&good.line())
        .start();
    server.send(&recorded("/before.txt")).expect(404);
    configure(&server, &good.address.to_string(), &bad.address.to_string());
    reload(&server).expect("the reload");
    good.request("/before.txt");
    server.send(&recorded("/after.txt")).expect(404);
    eventually(Duration::from_secs(20), || (!bad.exports().is_empty()).then_some(()))
        .expect("an export that hangs");
    server.main_process().signal("TERM");
    assert!(server.main_process().wait(Duration::from_secs(20)).is_some(), "it hangs");
    let log = server.log();
    assert!(log.contains("could not be delivered (the server ended first)"), "{log}");
}

/// A bucket of the durations leads to the trace of a request in it.
#[test]
fn durations_have_recorded_requests_as_exemplars() {
    let server = traced(Kind::Classic, "continue")
        .line("trace.sample = \"0%\"")
        .line("admin = \"unix:admin.sock\"")
        .start();
    let count = "tokamak_request_duration_seconds_count{site=\"localhost\"}";
    server.get("/hello.php?alone").expect(200);
    server.send(&get("/hello.php?not").header("traceparent", &parent("00"))).expect(200);
    samples_when(&server, count, 2.0);
    assert!(exemplars(&server).is_empty());
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let before = seconds();
    server.send(&recorded("/hello.php?recorded")).expect(200);
    samples_when(&server, count, 3.0);
    let found: Vec<_> = exemplars(&server).into_iter().collect();
    let [(bucket, exemplar)] = &found[..] else { panic!("{found:?}") };
    assert!(bucket.starts_with("tokamak_request_duration_seconds_bucket{"), "{bucket}");
    let line = line(&server, "/hello.php?recorded");
    let labels = &exemplar["labels"];
    assert_eq!((&labels["trace_id"], &labels["span_id"]), (&TRACE.into(), &line["span"]));
    let (value, at) =
        (exemplar["value"].as_f64().unwrap(), exemplar["timestamp"].as_f64().unwrap());
    // The log cuts it to microseconds.
    let cut = line["duration_us"].as_f64().unwrap();
    assert!((0.0..1.0).contains(&(value * 1e6 - cut + 1e-6)), "{exemplar} {line}");
    assert!(before - 0.01 <= at && at <= seconds() + 0.01, "{before} {exemplar}");
    let bound = bucket.split("le=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(value <= bound.parse().unwrap(), "{bucket} {exemplar}");
    // With the next one in its bucket, or beside it.
    server.send(&recorded("/hello.php?again")).expect(200);
    samples_when(&server, count, 4.0);
    assert!((1..=2).contains(&exemplars(&server).len()));
}
