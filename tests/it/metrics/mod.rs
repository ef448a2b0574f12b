//! The metrics, as a real scraper reads them.

mod agree;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{Kind, Server, Setup, eventually};
use crate::http2::client::{Raw, exchange, request};
use crate::layers::root;
use crate::operate::{kill, operated, status, status_when, worker_pids};

const OPEN: &str = "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5";

/// Samples by name and labels.
pub type Samples = BTreeMap<String, f64>;

/// With an admin listener.
pub fn start(setup: Setup) -> Server {
    setup.line("admin = \"unix:admin.sock\"").start()
}

fn connect(server: &Server) -> UnixStream {
    UnixStream::connect(server.places.top().join("admin.sock")).expect("the admin listener")
}

/// Media type and text.
pub fn scrape(server: &Server, accept: &str) -> (String, String) {
    ask(server, "/metrics", accept)
}

/// The same of another page of the admin listener.
fn ask(server: &Server, path: &str, accept: &str) -> (String, String) {
    let mut stream = connect(server);
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let (head, text) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response:?}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let media_type = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    (media_type.unwrap_or_else(|| panic!("{head}")).to_owned(), text.to_owned())
}

/// The samples as the parser of the Prometheus project reads them.
fn parsed(scraped: (String, String)) -> Samples {
    serde_json::from_value(parsed_to("samples", scraped)).expect("numbers")
}

/// What the parser finds of this kind.
fn parsed_to(what: &str, (media_type, text): (String, String)) -> serde_json::Value {
    // Debian's own: its packages are not those of another Python.
    let mut parser = Command::new("/usr/bin/python3")
        .arg(root().join("tests/it/metrics/parse.py"))
        .args([&media_type, what])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "{media_type}\n{text}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The exemplars now, by the names and labels of their buckets.
pub fn exemplars(server: &Server) -> BTreeMap<String, serde_json::Value> {
    let (_, plain) = scrape(server, "*/*");
    assert!(!plain.contains("trace_id"), "only OpenMetrics has exemplars: {plain}");
    serde_json::from_value(parsed_to("exemplars", scrape(server, OPEN))).expect("a table")
}

/// The samples now.
pub fn samples(server: &Server) -> Samples {
    parsed(scrape(server, OPEN))
}

/// The samples once this one has the value: a request counts when its response is over, which its
/// client may see a moment earlier.
pub fn samples_when(server: &Server, name: &str, value: f64) -> Samples {
    let look = || Some(samples(server)).filter(|samples| samples.get(name) == Some(&value));
    eventually(Duration::from_secs(20), look)
        .unwrap_or_else(|| panic!("{name} is not {value}: {:#?}", samples(server)))
}

fn requests(site: &str, status: &str) -> String {
    format!("tokamak_requests_total{{site=\"{site}\",status=\"{status}\"}}")
}

#[test]
fn a_real_parser_reads_the_same_in_both_formats() {
    let server = start(Setup::new(Kind::Classic));
    server.get("/hello.php").expect(200);
    server.get("/missing.txt").expect(404);
    samples_when(&server, &requests("localhost", "4xx"), 1.0);
    let mut open = parsed(scrape(&server, OPEN));
    let mut plain = parsed(scrape(&server, "*/*"));
    assert_eq!(open[&requests("localhost", "2xx")], 1.0);
    assert_eq!(open["tokamak_failures_total{kind=\"NotFound\",side=\"client\"}"], 1.0);
    assert_eq!(open["tokamak_event_loops{state=\"serving\"}"], 1.0);
    // What is another number a moment later.
    let moving = ["_cpu_", "_admin_requests", "_uptime_", "_process_memory_"];
    for samples in [&mut open, &mut plain] {
        samples.retain(|name, _| !moving.iter().any(|part| name.contains(part)));
    }
    assert!(open == plain, "{open:#?}\n{plain:#?}");
}

/// Nothing that a client chooses becomes a label: 100 000 URLs below two routes and beside them, of
/// as many hosts.
#[test]
fn urls_and_hosts_make_no_new_series() {
    const BATCHES: usize = 40;
    const TOTAL: usize = 20_000;
    let routes = "route = [{ path = \"/a\", cache = true }, { path = \"/b\", cache = true }]";
    let server = start(Setup::new(Kind::Classic).site_line(routes));
    let name =
        |route: &str| format!("tokamak_requests_total{{{route}site=\"localhost\",status=\"4xx\"}}");
    let mut connection = server.connect();
    let mut ask = |targets: &[String]| {
        let head = |target: &String| {
            format!("GET {target} HTTP/1.1\r\nHost: h{}.example\r\n\r\n", target.replace('/', "-"))
        };
        connection.send(targets.iter().map(head).collect::<String>());
        targets.iter().for_each(|_| drop(connection.response().expect(404)));
    };
    ask(&["/a/missing".into(), "/b/missing".into(), "/missing".into()]);
    let before = samples_when(&server, &name(""), 1.0);
    for batch in 0..BATCHES {
        let target = |nth: usize| match nth % 4 {
            0 => format!("/a/{batch}-{nth}"),
            1 => format!("/b/{batch}-{nth}"),
            _ => format!("/{batch}-{nth}"),
        };
        ask(&(0..TOTAL / BATCHES).map(target).collect::<Vec<_>>());
    }
    let after = samples_when(&server, &name(""), (TOTAL / 2 + 1) as f64);
    for route in ["/a", "/b"] {
        assert_eq!(after[&name(&format!("route=\"{route}\","))], (TOTAL / 4 + 1) as f64);
    }
    let names = |samples: &Samples| samples.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&before), names(&after));
}

/// The route is that of the URL, in the log too.
#[test]
fn requests_count_for_their_route() {
    let routes =
        ["/dir", "/dir/deep", "/"].map(|path| format!("{{ path = \"{path}\", cache = true }}"));
    let routes = format!("route = [{}]", routes.join(", "));
    let setup = Setup::new(Kind::Classic).line("log.access = \"state/access.log\"");
    let setup = setup.line("log.access_format = \"json\"").site_line(&routes);
    let server = start(setup);
    let asked = [
        ("/dir/missing", "/dir"),
        ("/dir%2Fdeep/../deep/x", "/dir/deep"),
        ("/directory", "/"),
        ("/hello.php", "/"),
    ];
    asked.iter().for_each(|(target, _)| drop(server.get(target)));
    let name = |route: &str, status: &str| {
        format!(
            "tokamak_requests_total{{route=\"{route}\",site=\"localhost\",status=\"{status}\"}}"
        )
    };
    let samples = samples_when(&server, &name("/", "2xx"), 1.0);
    for route in ["/", "/dir", "/dir/deep"] {
        assert_eq!(samples[&name(route, "4xx")], 1.0, "{route}");
    }
    assert_eq!(
        samples["tokamak_request_duration_seconds_count{route=\"/\",site=\"localhost\"}"],
        2.0
    );
    let lines = eventually(Duration::from_secs(20), || {
        let text = std::fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        (text.lines().count() == asked.len()).then_some(text)
    });
    for (line, (target, route)) in lines.expect("four lines").lines().zip(asked) {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&line["target"], &line["route"]), (&target.into(), &route.into()));
    }
}

#[test]
fn connections_are_accepted_refused_and_closed() {
    let server = start(Setup::new(Kind::Classic).line("limits.connections = 2"));
    // Those with which the harness has looked whether the server is there.
    let before = samples_when(&server, "tokamak_connections", 0.0);
    let ends = ["accepted", "refused", "closed"];
    let since = |samples: &Samples| {
        let name = |end| format!("tokamak_connections_{end}_total");
        ends.map(|end| samples[&name(end)] - before[&name(end)])
    };
    let mut held: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for connection in &mut held {
        connection.send("GET /hello.php HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.response().expect(200);
    }
    server.connect().response().expect(503);
    assert_eq!(since(&samples(&server)), [3.0, 1.0, 0.0]);
    held.pop();
    let samples = samples_when(&server, "tokamak_connections", 1.0);
    assert_eq!(since(&samples), [3.0, 1.0, 1.0]);
}

#[test]
fn http_2_is_counted() {
    let server = start(Setup::new(Kind::Classic).line("http2.resets = 20"));
    let gets = (0..3).map(|_| (request("GET", "/hello.php"), Vec::new()));
    assert!(exchange(&server, gets.collect()).iter().all(|answer| answer.status() == 200));
    let counted = samples_when(&server, "tokamak_http2_requests_total", 3.0);
    assert_eq!(counted["tokamak_http2_connections_total"], 1.0);
    let mut cancelling = Raw::open(&server, b"");
    for stream in (1..400).step_by(2) {
        cancelling.get(stream, "/hello.php");
        cancelling.frame(3, 0, stream, &8_u32.to_be_bytes());
    }
    cancelling.end();
    let mut wrong = Raw::open(&server, b"");
    // DATA that belongs to no request.
    wrong.frame(0, 0, 0, b"data");
    wrong.end();
    let closed = |reason| format!("tokamak_http2_connections_closed_total{{reason=\"{reason}\"}}");
    samples_when(&server, &closed("resets"), 1.0);
    let counted = samples_when(&server, &closed("protocol"), 1.0);
    assert_eq!(counted[&closed("control_frames")], 0.0);
    assert_eq!(counted["tokamak_http2_connections_total"], 3.0);
}

/// The status of such a response says nothing of it.
#[test]
fn responses_that_break_off_are_failures() {
    let server = start(Setup::new(Kind::Classic));
    let script = "<?php echo 'begun'; flush(); posix_kill(getmypid(), 9);";
    std::fs::write(server.places.root().join("dies.php"), script).unwrap();
    let mut connection = server.connect();
    connection.send("GET /dies.php HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(connection.try_response("GET").is_err());
    samples_when(&server, "tokamak_failures_total{kind=\"WorkerGone\",side=\"backend\"}", 1.0);
}

/// Scrapers that do not read take some of the connections, for some time.
#[test]
fn scrapers_that_never_read_are_cut_off_and_counted() {
    let server = start(Setup::new(Kind::Classic));
    let held: Vec<UnixStream> = (0..15)
        .map(|nth| {
            let mut stream = connect(&server);
            if nth > 5 {
                // Their answers are larger than what the system keeps for a reader.
                let asked = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
                stream.write_all(asked.as_bytes()).unwrap();
            }
            stream
        })
        .collect();
    samples(&server);
    samples_when(&server, "tokamak_admin_connections_cut_total", 15.0);
    server.get("/hello.php").expect(200);
    drop(held);
}

#[test]
fn the_supervisor_exports_figures_of_workers() {
    let server = start(operated(Kind::Worker));
    let booted = status_when(&server, "booted workers", |status| status["pools"][0]["idle"] == 2);
    server.get("/index.php").expect(200);
    samples_when(&server, "tokamak_worker_requests_total{site=\"localhost\"}", 1.0);
    // The worker counts its request before it says that it is idle again.
    let idle = "tokamak_workers{site=\"localhost\",state=\"idle\"}";
    let samples = samples_when(&server, idle, 2.0);
    for (name, value) in [
        ("tokamak_workers{site=\"localhost\",state=\"leaving\"}", 0.0),
        ("tokamak_workers_limit{site=\"localhost\"}", 2.0),
        ("tokamak_queue_length{site=\"localhost\"}", 0.0),
        ("tokamak_generation", 1.0),
        ("tokamak_supervisor_answered", 1.0),
    ] {
        assert_eq!(samples[name], value, "{name}");
    }
    for process in ["supervisor", "front"] {
        let bytes = samples[&format!("tokamak_process_memory_bytes{{process=\"{process}\"}}")];
        assert!(bytes > 1e6, "{process}: {bytes}");
    }
    kill("KILL", worker_pids(&booted)[0]);
    let crashed = "tokamak_worker_endings_total{reason=\"crashed\",site=\"localhost\"}";
    samples_when(&server, crashed, 1.0);
}

/// The front's figures are there all the same.
#[test]
fn a_supervisor_that_hangs_is_waited_for_a_moment() {
    let server = start(operated(Kind::Classic));
    server.get("/index.php").expect(200);
    let supervisor = status(&server)["pid"].as_u64().unwrap();
    kill("STOP", supervisor);
    let stopped = std::panic::catch_unwind(|| samples(&server));
    kill("CONT", supervisor);
    let samples = stopped.expect("a scrape");
    assert_eq!(samples["tokamak_supervisor_answered"], 0.0);
    assert_eq!(samples[&requests("localhost", "2xx")], 1.0);
    assert!(!samples.contains_key("tokamak_generation"));
    samples_when(&server, "tokamak_supervisor_answered", 1.0);
}

/// The expressions of all panels, and of those in rows.
fn expressions(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    // A variable's query may also be the kind of a data source.
                    Some("prometheus") => {}
                    Some(text) if matches!(&name[..], "expr" | "query") => {
                        found.push(text.to_owned());
                    }
                    _ => expressions(value, found),
                }
            }
        }
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| expressions(value, found));
        }
        _ => {}
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let file = root().join("packaging/grafana/tokamak.json");
    let dashboard = std::fs::read_to_string(file).expect("the dashboard");
    let mut asked = Vec::new();
    expressions(&serde_json::from_str(&dashboard).expect("JSON"), &mut asked);
    let server = start(Setup::new(Kind::Classic));
    let (_, text) = scrape(&server, "*/*");
    let mut known = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        known.insert(name.to_owned());
        if kind == "histogram" {
            known.extend(["_bucket", "_sum", "_count"].map(|ending| format!("{name}{ending}")));
        }
    }
    let is_part =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let mut names = BTreeSet::new();
    for expression in &asked {
        let words = expression.split(|letter| !is_part(letter));
        let found: Vec<_> = words.filter(|word| word.starts_with("tokamak_")).collect();
        assert!(!found.is_empty(), "{expression}");
        for name in found {
            assert!(known.contains(name), "{name} in {expression}");
            names.insert(name);
        }
    }
    assert!(names.len() > 15, "{names:?}");
}
