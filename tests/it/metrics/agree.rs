//! All that shows the figures of one request shows the same figures:
//!
//! ```text
//! metrics    the difference of two scrapes: sums in nanoseconds, and the buckets; calls of PHP
//! dashboard  the document that it is drawn from: the sums and counts of the second scrape
//! log        the access log as JSON: phases and calls in nanoseconds, the duration cut to
//!            microseconds, the site if there are several
//! header     Server-Timing: in nanoseconds the phases that are over when the head is sent; calls
//! trace      the spans that a collector gets: the steps of each phase, in nanoseconds; calls
//! client     the status, the bytes of the body, and those of its own request
//! ```

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::harness::{Request, Response, form, get};
use crate::otlp::collector::{Collector, can_read};
use crate::traces::parent;

/// Nanoseconds by phase.
type Phases = BTreeMap<String, u64>;

/// What PHP may call.
const KINDS: [&str; 2] = ["sql", "http"];

/// How many calls of each kind, and their nanoseconds; none if calls are not counted.
type Calls = [Option<(u64, u64)>; 2];

/// A server, and the collector of its spans.
struct Shown {
    server: Server,
    collector: Collector,
    /// The paths that have been asked for.
    asked: Vec<String>,
    /// What the log calls the site.
    site: serde_json::Value,
}

impl Shown {
    fn start(setup: Setup) -> Shown {
        let collector = Collector::start();
        let server = setup.line(&collector.line()).start();
        Shown { server, collector, asked: Vec::new(), site: serde_json::Value::Null }
    }

    /// The last request for a path: its steps, and its calls.
    fn in_trace(&self, path: &str) -> (Phases, Calls) {
        let number = |value: &serde_json::Value| value.as_u64().expect("a time");
        let is_it = |span: &&serde_json::Value| span["attributes"]["url.path"] == *path;
        let asked = self.asked.iter().filter(|asked| *asked == path).count();
        let is_there = |spans: &[serde_json::Value]| spans.iter().filter(is_it).count() == asked;
        let spans = self.collector.spans_when(path, is_there);
        let of_path = spans.iter().filter(is_it);
        let last = of_path.max_by_key(|span| number(&span["begin"])).expect("a span");
        let mut steps = Phases::new();
        for step in spans.iter().filter(|span| span["parent"] == last["span"]) {
            let name = step["name"].as_str().expect("a name").to_owned();
            *steps.entry(name).or_default() += number(&step["end"]) - number(&step["begin"]);
        }
        let of =
            |kind: &str, what: &str| last["attributes"][format!("tokamak.{kind}.{what}")].as_u64();
        let calls = KINDS.map(|kind| Some((of(kind, "calls")?, of(kind, "nanoseconds")?)));
        (steps, calls)
    }
}

fn setup(kind: Kind) -> Setup {
    Setup::new(kind)
        .line("admin = \"unix:admin.sock\"")
        .line("trace.context = \"continue\"")
        .line("log.access = \"state/access.log\"")
        .line("log.access_format = \"json\"")
        .site_line("server_timing = true")
}

/// The lines of the access log, once there are so many.
fn lines(server: &Server, count: usize) -> Vec<serde_json::Value> {
    let read = || {
        let text = fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<_>, _>>().ok()?;
        (lines.len() == count).then_some(lines)
    };
    eventually(Duration::from_secs(20), read).expect("a line for each request")
}

/// The digits of a number with three behind the point: thousandths.
fn thousandths(number: &serde_json::Value) -> u64 {
    let text = format!("{:.3}", number.as_f64().expect("a number"));
    text.replace('.', "").parse().expect("digits")
}

fn in_log(line: &serde_json::Value) -> Phases {
    let phases = line["phases_us"].as_object().expect("phases").iter();
    phases.map(|(name, us)| (name.clone(), thousandths(us))).collect()
}

/// Phases, and calls.
fn in_header(response: &Response) -> (Phases, Calls) {
    let value = response.header("server-timing").expect("Server-Timing");
    let digits = |ms: &str| ms.replace('.', "").parse::<u64>().expect("digits");
    let sent = value.split(", ").filter_map(|part| part.split_once(";dur="));
    let (calls, phases): (Vec<_>, Vec<_>) = sent.partition(|(_, rest)| rest.contains(";desc="));
    let call = |kind| {
        let (_, rest) = calls.iter().find(|(name, _)| *name == kind)?;
        let (ms, count) = rest.split_once(";desc=\"calls: ").expect("a number of calls");
        Some((count.trim_end_matches('"').parse().expect("a number"), digits(ms)))
    };
    (phases.into_iter().map(|(name, ms)| (name.into(), digits(ms))).collect(), KINDS.map(call))
}

fn calls_in_log(line: &serde_json::Value) -> Calls {
    KINDS.map(|kind| {
        let count = line.get(format!("{kind}_calls"))?.as_u64().expect("a number");
        Some((count, thousandths(&line[format!("{kind}_us")])))
    })
}

/// The figures of requests that the dashboard is drawn from, named as in the metrics.
fn in_dashboard(server: &Server) -> Samples {
    let (_, text) = ask(server, "/dashboard.json", "*/*");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut samples = Samples::new();
    for (name, rows) in document["metrics"].as_object().expect("metrics") {
        for row in rows.as_array().expect("samples").iter().filter(|_| is_of_requests(name)) {
            let labels = row["labels"].as_object().expect("labels").iter();
            let labels: Vec<_> = labels.map(|(name, value)| format!("{name}={value}")).collect();
            let mut add = |end: &str, value: f64| {
                samples.insert(format!("{name}{end}{{{}}}", labels.join(",")), value)
            };
            if let Some(buckets) = row["buckets"].as_array() {
                add("_count", buckets.iter().filter_map(serde_json::Value::as_f64).sum());
                add("_sum", row["sum"].as_f64().expect("a sum"));
            } else {
                add("", row["value"].as_f64().expect("a number"));
            }
        }
    }
    samples
}

fn is_of_requests(name: &str) -> bool {
    ["tokamak_request", "tokamak_response", "tokamak_calls"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// What was added between two scrapes.
struct Grown {
    before: Samples,
    after: Samples,
}

impl Grown {
    fn by(&self, name: &str) -> f64 {
        let of = |samples: &Samples| samples.get(name).copied().unwrap_or(0.0);
        of(&self.after) - of(&self.before)
    }

    /// A sum of seconds, in nanoseconds: each scrape has it to the nanosecond.
    fn nanoseconds(&self, name: &str) -> u64 {
        let of = |samples: &Samples| samples.get(name).map_or(0, |it| (it * 1e9).round() as u64);
        of(&self.after) - of(&self.before)
    }

    /// A histogram has one time more, of so many nanoseconds, in all buckets that it fits into.
    fn has_one_more(&self, name: &str, labels: &str, nanoseconds: u64) {
        assert_eq!(self.by(&format!("{name}_count{{{labels}}}")), 1.0, "{name} {labels}");
        let sum = self.nanoseconds(&format!("{name}_sum{{{labels}}}"));
        assert_eq!(sum, nanoseconds, "{name} {labels}");
        let start = format!("{name}_bucket{{");
        let mut buckets = 0;
        for sample in self.after.keys() {
            let Some(all) = sample.strip_prefix(&start) else { continue };
            let (before, rest) = all.split_once("le=\"").expect("a bound");
            let (bound, behind) = rest.split_once("\",").expect("another label");
            if format!("{before}{behind}") != format!("{labels}}}") {
                continue;
            }
            let bound = bound.replace("+Inf", "inf");
            let fits = nanoseconds as f64 / 1e9 <= bound.parse::<f64>().expect("a bound");
            assert_eq!(self.by(sample), f64::from(u8::from(fits)), "{sample}: {nanoseconds} ns");
            buckets += 1;
        }
        assert_eq!(buckets, 23, "{name} {labels}");
    }
}

/// Sends a request to a server that has answered others; `over` are phases that it must have had.
fn agree(shown: &mut Shown, request: Request, over: &[&str]) {
    let request = &request.header("traceparent", &parent("01"));
    let (server, earlier) = (&shown.server, shown.asked.len());
    shown.asked.push(request.target.clone());
    let count = "tokamak_request_duration_seconds_count{site=\"localhost\"}";
    let before = samples_when(server, count, earlier as f64);
    let response = server.send(request);
    let after = samples_when(server, count, earlier as f64 + 1.0);
    let line = &lines(server, earlier + 1)[earlier];
    let mut same = after.clone();
    same.retain(|name, _| is_of_requests(name) && !name.contains("_bucket{"));
    assert_eq!(in_dashboard(server), same);
    let (grown, logged) = (Grown { before, after }, in_log(line));

    for phase in over {
        assert!(logged.contains_key(*phase), "{phase} in {logged:?}");
    }
    let histograms = grown.after.keys().filter_map(|name| {
        let labels = name.strip_prefix("tokamak_request_phase_seconds_count{phase=\"")?;
        (grown.by(name) > 0.0).then(|| labels.split('"').next().unwrap().to_owned())
    });
    assert_eq!(histograms.collect::<Vec<_>>(), logged.keys().cloned().collect::<Vec<_>>());
    for (phase, nanoseconds) in &logged {
        let labels = format!("phase=\"{phase}\",site=\"localhost\"");
        grown.has_one_more("tokamak_request_phase_seconds", &labels, *nanoseconds);
    }
    let total = logged.values().sum::<u64>();
    grown.has_one_more("tokamak_request_duration_seconds", "site=\"localhost\"", total);
    assert_eq!(line["duration_us"], total / 1000, "the log cuts it: {line}");

    let calls = calls_in_log(line);
    for (kind, calls) in KINDS.iter().zip(calls) {
        let labels = format!("kind=\"{kind}\",site=\"localhost\"");
        let (count, nanoseconds) = calls.unwrap_or_default();
        assert_eq!(grown.by(&format!("tokamak_calls_total{{{labels}}}")), count as f64);
        if count > 0 {
            grown.has_one_more("tokamak_request_calls_seconds", &labels, nanoseconds);
        }
    }
    assert_eq!(line["site"], shown.site, "{line}");

    if can_read() {
        assert_eq!(shown.in_trace(&request.target), (logged.clone(), calls));
    }
    let (sent, sent_calls) = in_header(&response);
    assert_eq!(sent_calls, calls, "{line}");
    for (phase, nanoseconds) in &sent {
        assert_eq!(logged.get(phase), Some(nanoseconds), "{phase}: {sent:?} {line}");
    }
    let later: Vec<&String> = logged.keys().filter(|phase| !sent.contains_key(*phase)).collect();
    assert!(later.is_empty() || later == ["send"], "{later:?} are not over: {sent:?} {line}");

    let status = response.status();
    assert_eq!(line["status"], status);
    assert_eq!(grown.by(&requests("localhost", &format!("{}xx", status / 100))), 1.0);
    let sent = response.body.len();
    assert_eq!(line["bytes"], sent);
    let site = "{site=\"localhost\"}";
    assert_eq!(grown.by(&format!("tokamak_response_body_bytes_total{site}")), sent as f64);
    let received = request.bytes().len() as f64;
    assert_eq!(grown.by(&format!("tokamak_request_bytes_total{site}")), received);
}

/// A page, and a form that it reads.
fn in_php(kind: Kind) {
    let mut shown = Shown::start(setup(kind));
    let over: &[&str] = if kind == Kind::Fastcgi { &["upstream"] } else { &["queue", "php"] };
    agree(&mut shown, get("/hello.php"), over);
    let body = format!("a={}", "b".repeat(20_000));
    agree(&mut shown, form("/echo.php", &body), over);
}

#[test]
fn of_a_page_in_classic_mode() {
    in_php(Kind::Classic);
}

#[test]
fn of_a_page_in_worker_mode() {
    in_php(Kind::Worker);
}

#[test]
fn of_a_page_in_sealed_mode() {
    in_php(Kind::Sealed);
}

#[test]
fn of_a_page_in_async_mode() {
    in_php(Kind::Async);
}

#[test]
fn of_a_page_of_a_fastcgi_application() {
    in_php(Kind::Fastcgi);
}

/// Calls of a page, in one of several sites; what a request calls after its response is nobody's.
fn of_a_page_that_calls(kind: Kind) {
    let setup = setup(kind).site_line("count_calls = true").also("other.example", "php");
    let mut shown = Shown::start(setup);
    shown.site = "localhost".into();
    let page = "<?php $base = new PDO('sqlite::memory:'); $base->exec('CREATE TABLE a (b INT)');
        for ($n = 0; $n < 6; $n++) $base->query('SELECT * FROM a')->fetchAll(); echo 'done';";
    fs::write(shown.server.places.root().join("calls.php"), page).unwrap();
    agree(&mut shown, get("/calls.php"), &["queue", "php"]);
    let calls = calls_in_log(&lines(&shown.server, 1)[0]);
    assert!(matches!(calls, [Some((7, 1..)), Some((0, 0))]), "{calls:?}");
    agree(&mut shown, get("/hello.php"), &["queue", "php"]);
}

#[test]
fn of_a_page_that_calls_in_classic_mode() {
    of_a_page_that_calls(Kind::Classic);
}

#[test]
fn of_a_page_that_calls_in_sealed_mode() {
    of_a_page_that_calls(Kind::Sealed);
}

#[test]
fn of_files() {
    let mut shown = Shown::start(setup(Kind::Classic));
    fs::write(shown.server.places.root().join("page.html"), "a".repeat(300_000)).unwrap();
    agree(&mut shown, get("/page.html"), &["head", "route"]);
    agree(&mut shown, Request::new("HEAD", "/page.html"), &["head", "route"]);
    agree(&mut shown, get("/missing.html"), &["head", "route"]);
}

#[test]
fn of_a_page_from_the_cache() {
    let mut shown = Shown::start(setup(Kind::Classic).site_line("cache = true"));
    let page = "<?php header('Cache-Control: max-age=60'); echo 'kept ', hrtime(true);";
    fs::write(shown.server.places.root().join("kept.php"), page).unwrap();
    agree(&mut shown, get("/kept.php"), &["cache", "php"]);
    agree(&mut shown, get("/kept.php"), &["cache"]);
    assert!(!in_log(&lines(&shown.server, 2)[1]).contains_key("php"), "the cache has answered");
}

#[test]
fn of_an_answer_of_a_script_in_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("answer.lua");
    fs::write(&script, "lighty.r.resp_body.set('from Lua')\nreturn 200\n").unwrap();
    let line = format!("lua_raw_url = [\"{}\"]", script.display());
    let mut shown = Shown::start(setup(Kind::Classic).site_line(&line));
    agree(&mut shown, get("/any"), &["script"]);
}
