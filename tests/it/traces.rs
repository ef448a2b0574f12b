//! The place of requests in traces over several services: taken from clients, told to PHP, FastCGI
//! applications and services that scripts call, and written into the logs.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::harness::{Kind, Request, Response, Server, Setup, eventually, get};

/// The trace that clients ask in.
pub const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
/// The span that asks.
pub const ASKER: &str = "b7ad6b7169203331";

/// A `traceparent` with these flags.
pub fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{ASKER}-{flags}")
}

/// A server with this trace context, whose access log is JSON.
pub fn traced(kind: Kind, context: &str) -> Setup {
    Setup::new(kind)
        .line("log.access = \"state/access.log\"")
        .line("log.access_format = \"json\"")
        .line(&format!("trace.context = \"{context}\""))
}

/// The line of the access log for a target that was asked for once.
pub fn line(server: &Server, target: &str) -> Value {
    let read = || {
        let text = fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        // The last line may still be in writing.
        let (whole, _) = text.rsplit_once('\n')?;
        let line = whole.lines().find(|line| line.contains(target))?;
        Some(serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
    };
    eventually(Duration::from_secs(20), read).unwrap_or_else(|| panic!("no line of {target}"))
}

/// The variables that an application gets with a request.
pub fn server_vars(server: &Server, request: &Request) -> Value {
    serde_json::from_str(&server.send(request).expect(200).text()).unwrap()
}

/// The trace, the span and the flags of a `traceparent` that a server has written.
pub fn parts(parent: &Value) -> (String, String, String) {
    let parts: Vec<&str> = parent.as_str().unwrap_or_default().split('-').collect();
    let [version, trace, span, flags] = parts[..] else { panic!("{parent}") };
    assert_eq!((version, trace.len(), span.len()), ("00", 32, 16), "{parent}");
    (trace.into(), span.into(), flags.into())
}

fn goes_on(kind: Kind) {
    let server = traced(kind, "continue").line("trace.sample = \"0%\"").start();
    for flags in ["00", "01"] {
        let target = format!("/server.php?{flags}");
        let request = get(&target).header("traceparent", &parent(flags));
        let request = request.header("Tracestate", "a=1").header("tracestate", "b=2");
        let vars = server_vars(&server, &request);
        let (trace, span, decision) = parts(&vars["HTTP_TRACEPARENT"]);
        assert_eq!((&trace[..], &decision[..]), (TRACE, flags));
        assert_ne!(span, ASKER);
        assert_eq!(vars["HTTP_TRACESTATE"], "a=1,b=2");
        let line = line(&server, &target);
        assert_eq!((&line["trace"], &line["span"]), (&trace.into(), &span.into()), "{line}");
    }
    // Files, and errors.
    for (name, target) in [("traceparent", "/missing.txt"), ("TraceParent", "/other.txt")] {
        server.send(&get(target).header(name, &parent("01"))).expect(404);
        assert_eq!(line(&server, target)["trace"], TRACE);
        let text = server.log_line(&[target]);
        assert!(text.contains(&format!(" trace={TRACE}")), "{text}");
    }
}

#[test]
fn a_trace_goes_on_in_php() {
    goes_on(Kind::Classic);
}

#[test]
fn a_trace_goes_on_in_fastcgi_applications() {
    goes_on(Kind::Fastcgi);
}

#[test]
fn what_is_not_valid_begins_a_trace() {
    let server = traced(Kind::Classic, "continue").start();
    let bad = [
        String::new(),
        "00".into(),
        parent("01").replace("00-", "ff-"),
        parent("01").to_uppercase(),
        parent("01").replace(ASKER, "0000000000000000"),
        parent("01").replace(TRACE, &"0".repeat(32)),
        format!("{}-more", parent("01")),
        format!("{}, {}", parent("01"), parent("01")),
        format!("{}\u{e9}", parent("01")),
        "0".repeat(20_000),
        "-".repeat(55),
    ];
    for value in &bad {
        let request = get("/server.php").header("traceparent", value).header("tracestate", "a=1");
        let vars = server_vars(&server, &request);
        let (trace, _, flags) = parts(&vars["HTTP_TRACEPARENT"]);
        assert!(trace != TRACE && flags == "03", "{value}: {vars}");
        assert!(vars.get("HTTP_TRACESTATE").is_none(), "{value}: {vars}");
    }
    // Two are as bad, also if they are the same.
    let twice = get("/server.php").header("traceparent", &parent("01"));
    let vars = server_vars(&server, &twice.header("traceparent", &parent("01")));
    assert_ne!(parts(&vars["HTTP_TRACEPARENT"]).0, TRACE);
}

#[test]
fn a_hostile_state_is_bounded() {
    let server = traced(Kind::Classic, "continue").start();
    let many = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
    for (state, expected) in [
        (many(32), Some(many(32))),
        (many(33), None),
        (many(3_000), None),
        (",".repeat(20_000), None),
        ("a=1,a=2".into(), None),
        ("a=1,\u{1F4A9}=2".into(), None),
        (format!("a=1,b={}", "x".repeat(20_000)), None),
        (
            format!("a=1,b={},c=3,d={0}", "x".repeat(250)),
            Some(format!("a=1,b={},c=3", "x".repeat(250))),
        ),
    ] {
        let request = get("/server.php").header("traceparent", &parent("00"));
        let vars = server_vars(&server, &request.header("tracestate", &state));
        assert_eq!(parts(&vars["HTTP_TRACEPARENT"]).0, TRACE);
        assert_eq!(vars.get("HTTP_TRACESTATE").and_then(Value::as_str), expected.as_deref());
    }
}

#[test]
fn an_edge_begins_all_traces() {
    let server = traced(Kind::Classic, "begin").line("trace.sample = \"0%\"").start();
    let request = get("/server.php").header("traceparent", &parent("01"));
    let vars = server_vars(&server, &request.header("tracestate", "a=1"));
    let (trace, _, flags) = parts(&vars["HTTP_TRACEPARENT"]);
    assert!(trace != TRACE && flags == "02", "{vars}");
    assert!(vars.get("HTTP_TRACESTATE").is_none(), "{vars}");
}

#[test]
fn without_traces_the_header_is_any_header() {
    let server = traced(Kind::Classic, "off").start();
    let vars = server_vars(&server, &get("/server.php").header("traceparent", "what it says"));
    assert_eq!(vars["HTTP_TRACEPARENT"], "what it says");
    server.send(&get("/missing.txt").header("traceparent", &parent("01"))).expect(404);
    assert_eq!(line(&server, "/missing.txt").get("trace"), None);
    assert!(!server.log_line(&["/missing.txt"]).contains("trace="));
}

#[test]
fn calls_of_scripts_belong_to_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("call.lua");
    let script = "local env, query = lighty.env, lighty.r.req_attr['uri.query']\n\
                  if not query then return 0 end\n\
                  local here = env['request.server-addr'] .. ':' .. env['request.server-port']\n\
                  local own = { headers = { Traceparent = query } }\n\
                  local answer = query == 'fetch' and tokamak.fetch('/server.php')\n\
                      or query == 'call' and tokamak.http.get('http://' .. here .. '/server.php')\n\
                      or tokamak.http.get('http://' .. here .. '/server.php', own)\n\
                  print('asked')\n\
                  lighty.r.resp_body.set(answer.body)\n\
                  return 200";
    fs::write(&path, script).unwrap();
    let server = traced(Kind::Classic, "continue")
        .site_line(&format!("lua_raw_url = [\"{}\"]", path.display()))
        .start();
    for query in ["fetch", "call"] {
        let target = format!("/here?{query}");
        let request = get(&target).header("traceparent", &parent("01"));
        let vars = server_vars(&server, &request.header("tracestate", "a=1"));
        let (trace, span, flags) = parts(&vars["HTTP_TRACEPARENT"]);
        assert_eq!(
            (&trace[..], &flags[..], &vars["HTTP_TRACESTATE"]),
            (TRACE, "01", &"a=1".into())
        );
        // A call arrives as a request of its own.
        let caller = &line(&server, &target)["span"];
        assert_eq!(*caller == span.as_str(), query == "fetch", "{vars}");
        let text = server.log_line(&["asked", &target]);
        assert!(text.contains(&format!(" trace={TRACE}")), "{text}");
    }
    let other = parent("00").replace(TRACE, &TRACE.replace('0', "1"));
    let request = get(&format!("/here?{other}")).header("traceparent", &parent("01"));
    let vars = server_vars(&server, &request.header("tracestate", "a=1"));
    assert_eq!(parts(&vars["HTTP_TRACEPARENT"]).0, other[3..35]);
    assert!(vars.get("HTTP_TRACESTATE").is_none(), "{vars}");
}

#[test]
fn a_script_s_own_trace_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.lua");
    let script = "local query = lighty.r.req_attr['uri.query']\n\
                  if not query then return 0 end\n\
                  local way, name, value, there = query:match('(.-)&(.-)&(.-)&(.+)')\n\
                  local own = { headers = { [name] = value } }\n\
                  local answer = way == 'fetch' and tokamak.fetch('/server.php', own)\n\
                      or tokamak.http.get('http://' .. there .. '/server.php', own)\n\
                  lighty.r.resp_body.set(answer.body)\n\
                  return 200";
    let own = parent("00").replace(TRACE, &TRACE.replace('0', "1"));
    fs::write(&path, script).unwrap();
    let service = traced(Kind::Classic, "off").start();
    let server = traced(Kind::Classic, "continue")
        .site_line(&format!("lua_raw_url = [\"{}\"]", path.display()))
        .start();
    for way in ["fetch", "call"] {
        for (name, value) in [("traceparent", &own[..]), ("TraceState", "own=1")] {
            let target = format!("/own?{way}&{name}&{value}&{}", service.address);
            let request = get(&target).header("traceparent", &parent("01"));
            let vars = server_vars(&server, &request.header("tracestate", "a=1"));
            let (present, absent) = match name {
                "traceparent" => ("HTTP_TRACEPARENT", "HTTP_TRACESTATE"),
                _ => ("HTTP_TRACESTATE", "HTTP_TRACEPARENT"),
            };
            assert_eq!(vars[present], value, "{target}: {vars}");
            assert!(vars.get(absent).is_none(), "{target}: {vars}");
        }
    }
}

/// Lines of the error log since it had so many, that are not of a stack.
fn lines_since(server: &Server, count: usize) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().skip(count).filter(|line| !line.starts_with("    "));
    lines.map(str::to_owned).collect()
}

/// An operator who looks for a request in the log finds all lines about it: by scripts, by PHP, by
/// the slow log, by the server when its worker dies.
#[test]
fn every_line_about_a_request_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("says.lua");
    fs::write(&path, "print('a script has said this')\nreturn 0").unwrap();
    let server = traced(Kind::Classic, "continue")
        .site_line(&format!("lua_raw_url = [\"{}\"]", path.display()))
        .site_line("pool.slow = \"100ms\"")
        .start();
    let code = "<?php error_log('PHP has said this'); echo $undefined; flush();
        while (!file_exists(__DIR__ . '/go')) { usleep(10000); }
        posix_kill(getmypid(), SIGKILL);";
    fs::write(server.places.root().join("dies.php"), code).unwrap();
    server.get("/hello.php").expect(200);
    server.log_line(&["a script has said this", "/hello.php"]);
    // It may answer before the line that says so.
    server.log_line(&["tokamak: serving"]);
    let before = server.log().lines().count();
    let mut connection = server.connect();
    connection.send(get("/dies.php").header("traceparent", &parent("01")).bytes());
    server.log_line(&["slow request seconds=", "/dies.php"]);
    fs::write(server.places.root().join("go"), "").unwrap();
    assert!(connection.try_response("GET").is_err());
    server.log_line(&["a worker died"]);

    let said = server.log_line(&["PHP has said this"]);
    let id = said.split(" id=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    assert!(said.contains(&format!(" trace=\"{TRACE}\"")), "{said}");
    // The first request of a cold worker may be slow, too, and be told of late.
    let mut lines = lines_since(&server, before);
    lines.retain(|line| !line.contains("/hello.php"));
    for what in ["a script has said", "PHP has said", "undefined", "seconds=", "died"] {
        assert!(lines.iter().any(|line| line.contains(what)), "{what}: {lines:#?}");
    }
    for line in lines {
        assert!(line.contains(TRACE) || line.contains(id), "{line}");
    }
}

/// The same of what a FastCGI application complains of, and of what the server says of it.
#[test]
fn every_line_about_a_request_to_an_application_names_it() {
    let server = traced(Kind::Fastcgi, "continue").start();
    // What dies before its client has read anything is asked again.
    let code = "<?php error_log('PHP has said this'); echo 'begun'; flush();
        while (!file_exists(__DIR__ . '/read')) { usleep(1000); clearstatcache(); }
        posix_kill(getmypid(), 9);";
    fs::write(server.places.root().join("dies.php"), code).unwrap();
    let before = server.log().lines().count();
    let mut connection = server.connect();
    connection.send(get("/dies.php").header("traceparent", &parent("01")).bytes());
    assert_eq!(connection.head().unwrap().status, 200);
    fs::write(server.places.root().join("read"), "").unwrap();
    while connection.read_byte().is_ok() {}
    for what in ["PHP has said this", "ERROR"] {
        server.log_line(&[" [localhost] ", what, "url=/dies.php"]);
    }
    // php-fpm's own log is here, too.
    let lines = lines_since(&server, before);
    for line in lines.iter().filter(|line| line.contains(" [localhost] ")) {
        assert!(line.contains(TRACE), "{line}");
    }
}

/// What a response says of its phases, in milliseconds as text.
fn timing(response: &Response) -> Vec<(String, String)> {
    let value = response.header("server-timing").unwrap_or_default();
    let phases = value.split(", ").filter_map(|phase| phase.split_once(";dur="));
    phases.map(|(name, time)| (name.to_owned(), time.to_owned())).collect()
}

#[test]
fn header_and_log_have_the_same_times() {
    let server = traced(Kind::Classic, "off").site_line("server_timing = true").start();
    for target in ["/hello.php?timed", "/missing.txt?timed"] {
        let times = timing(&server.get(target));
        let line = line(&server, target);
        let logged = line["phases_us"].as_object().unwrap();
        let expected: &[&str] =
            if target.contains("hello") { &["route", "queue", "php"] } else { &["route"] };
        let mut names: Vec<&str> = times.iter().map(|(name, _)| &name[..]).collect();
        names.retain(|name| expected.contains(name));
        assert_eq!(names, expected, "{times:?}");
        for (name, time) in &times {
            // Both to the nanosecond: milliseconds here, microseconds there.
            let nanos = |text: &str| text.replace('.', "").parse::<u64>().unwrap();
            let micros = format!("{:.3}", logged[name].as_f64().unwrap());
            assert_eq!(nanos(time), nanos(&micros), "{name}: {times:?} {line}");
        }
    }
}

/// The times are exact for their own sake, not for the log's.
#[test]
fn without_a_log_no_response_took_longer_than_its_client_waited() {
    let server = Setup::new(Kind::Classic).site_line("server_timing = true").start();
    let mut connection = server.connect();
    for _ in 0..100 {
        let began = Instant::now();
        connection.send("GET /missing.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let times = timing(&connection.response().expect(404));
        let waited = began.elapsed().as_secs_f64() * 1000.0;
        let sum: f64 = times.iter().map(|(_, time)| time.parse::<f64>().unwrap()).sum();
        assert!(sum > 0.0 && sum <= waited, "{times:?} {waited}");
    }
}

#[test]
fn only_a_signed_request_is_timed() {
    let secret = "0123456789abcdef";
    let server =
        traced(Kind::Classic, "off").line(&format!("trace.timing_secret = \"{secret}\"")).start();
    let sign = |secret: &str, seconds: u64| {
        let text = format!("printf {seconds} | openssl dgst -sha256 -hmac '{secret}'");
        let output = Command::new("sh").args(["-c", &text]).output().expect("openssl");
        let code = String::from_utf8(output.stdout).unwrap();
        format!("{seconds}:{}", code.trim().rsplit(' ').next().unwrap())
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for (value, is_timed) in [
        (sign(secret, now), true),
        (sign(secret, now - 3_600), false),
        (sign(secret, now + 3_600), false),
        (sign("another secret..", now), false),
        (String::new(), false),
    ] {
        let response = server.send(&get("/hello.php").header("Tokamak-Timing", &value)).expect(200);
        assert_eq!(!timing(&response).is_empty(), is_timed, "{value}");
    }
    assert!(timing(&server.get("/hello.php")).is_empty());
}
