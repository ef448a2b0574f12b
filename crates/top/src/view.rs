//! The lines that show a server.

use std::cmp::Reverse;

use serde_json::Value;

use crate::Address;
use crate::figures::{Counts, samples, sum, times, with_site};
use crate::table::{sentence, table};
use crate::text::{Style, TextLine, age, bytes, few, share, time};

/// Slow URLs that are shown, and so many errors, so that the workers below them are seen on a usual
/// screen.
const REQUESTS: usize = 8;

/// Columns of the bar of a phase that takes all the time.
const WIDEST_BAR: usize = 40;
/// Columns that the figures of a phase take before its bar.
const FIGURES: usize = 40;

/// In which order workers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Busy ones first, and those first that are busy the longest.
    State,
    /// By their requests.
    Requests,
    /// By their memory.
    Memory,
}

impl Order {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Order::State => "busy first",
            Order::Requests => "by requests",
            Order::Memory => "by memory",
        }
    }

    /// The one after it.
    pub fn next(self) -> Order {
        match self {
            Order::State => Order::Requests,
            Order::Requests => Order::Memory,
            Order::Memory => Order::State,
        }
    }
}

/// A server between two documents.
pub struct View<'a> {
    /// Where it was asked.
    pub address: &'a Address,
    /// Of the same front; without one, counts are those since its start.
    pub early: Option<&'a Value>,
    /// The present.
    pub late: &'a Value,
    /// The site that is shown; all if there is none.
    pub site: Option<&'a str>,
    /// In which order workers stand.
    pub order: Order,
    /// Columns that there are; a row that is wider takes more lines.
    pub room: usize,
}

/// Columns of text that is no screen's: no row is divided.
pub const ANY: usize = usize::MAX;

impl View<'_> {
    /// All lines; `lost` says that the server does not answer any more.
    pub fn lines(&self, lost: Option<&str>) -> Vec<TextLine> {
        let document = self.late;
        let early = self.early.filter(|early| {
            early["began"] == document["began"] && early["at"].as_f64() < document["at"].as_f64()
        });
        let counts = Counts::of(document, self.site);
        let counts =
            early.map_or(counts.clone(), |early| counts.since(&Counts::of(early, self.site)));
        let at = |document: &Value| document["at"].as_f64().unwrap_or(0.0);
        let seconds = early.map(|early| at(document) - at(early));
        let mut lines = Vec::new();
        self.title(&mut lines);
        if let Some(lost) = lost {
            lines.push(TextLine::new(&format!("the figures are old: {lost}"), Style::Bad));
        }
        self.summary(&counts, seconds, &mut lines);
        phases(document, &counts, self.room, &mut lines);
        calls(&counts, self.room, &mut lines);
        self.sites(&mut lines);
        self.requests(">SLOWEST", &document["slowest"]["urls"], &mut lines);
        self.requests(">LAST ERRORS", &document["errors"], &mut lines);
        upstreams(document, self.room, &mut lines);
        self.workers(&mut lines);
        lines
    }

    fn title(&self, lines: &mut Vec<TextLine>) {
        let document = self.late;
        let version = document["version"].as_str().unwrap_or("?");
        let number = |name| sum(document, name, &[]);
        let known = if document["status"].is_null() {
            "the supervisor does not answer".to_owned()
        } else {
            let up = age(number("tokamak_uptime_seconds"));
            format!("generation {}, up {up}", number("tokamak_generation"))
        };
        let parts = [format!("tokamak {version}"), known, self.address.to_string()];
        sentence(&parts, self.room, Style::Head, lines);
    }

    fn summary(&self, counts: &Counts, seconds: Option<f64>, lines: &mut Vec<TextLine>) {
        let document = self.late;
        let bounds = document["bounds"].as_array().into_iter().flatten();
        let bounds: Vec<f64> = bounds.filter_map(Value::as_f64).collect();
        let p = |share| time(counts.duration.quantile(share, &bounds));
        let a_second = |count: f64| seconds.map(|seconds| count / seconds);
        let number = |name, labels: &[(&str, &str)]| sum(document, name, labels);
        let own = |labels: &[(&'static str, &'static str)]| with_site(self.site, labels);
        let rate = a_second(counts.requests).map_or("-".to_owned(), few);
        let sent = a_second(counts.bytes).map_or("-".to_owned(), bytes);
        let parts = [
            format!("requests {rate}/s"),
            format!("p50 {}", p(0.5)),
            format!("p90 {}", p(0.9)),
            format!("p99 {}", p(0.99)),
            format!("5xx {}", share(counts.errors, counts.requests)),
            format!("sent {sent}/s"),
        ];
        sentence(&parts, self.room, Style::Plain, lines);
        let waiting = number("tokamak_queue_length", &own(&[]));
        let busy = number("tokamak_workers", &own(&[("state", "busy")]));
        let parts = [
            format!("workers {busy} of {} busy", number("tokamak_workers_limit", &own(&[]))),
            format!("{waiting} requests wait"),
            format!("connections {}", number("tokamak_connections", &[])),
            format!("event loops {}", number("tokamak_event_loops", &[("state", "serving")])),
        ];
        let style = if waiting > 0.0 { Style::Bad } else { Style::Plain };
        sentence(&parts, self.room, style, lines);
        let limit = number("tokamak_cache_limit_bytes", &[]);
        if limit > 0.0 {
            let (lookups, answered) = counts.cache;
            let used = bytes(number("tokamak_cache_bytes", &[]));
            let parts = [
                format!("cache {} answered", share(answered, lookups)),
                format!("{used} of {}", bytes(limit)),
            ];
            sentence(&parts, self.room, Style::Plain, lines);
        }
    }

    /// Whether the site with this name is shown.
    fn shows(&self, site: &Value) -> bool {
        self.site.is_none_or(|wanted| *site == *wanted)
    }

    /// The pools of workers that are shown.
    fn pools(&self) -> impl Iterator<Item = &Value> {
        let pools = self.late["status"]["pools"].as_array().into_iter().flatten();
        pools.filter(|pool| self.shows(&pool["site"]))
    }

    fn sites(&self, lines: &mut Vec<TextLine>) {
        let document = self.late;
        let rows = self.pools().map(|pool| {
            let ended = samples(document, "tokamak_worker_endings_total").filter_map(|one| {
                let count = one["value"].as_f64().filter(|count| *count > 0.0)?;
                let is_own = one["labels"]["site"] == pool["site"];
                is_own.then(|| format!("{} {count}", word(&one["labels"], "reason")))
            });
            let ended = ended.collect::<Vec<_>>().join(", ");
            let failure = pool["failure"].as_str().map_or(ended, str::to_owned);
            let hot = times(document, "tokamak_roll_back_pages", &[("site", &word(pool, "site"))]);
            let mean = (hot.count() > 0.0).then(|| few(hot.sum / hot.count()));
            let counted = |key: &str| pool[key].to_string();
            let fixed = ["max", "idle", "busy", "queue", "requests"].map(counted);
            let names = [word(pool, "site"), word(pool, "mode")];
            names
                .into_iter()
                .chain(fixed)
                .chain([mean.unwrap_or("-".to_owned()), failure])
                .collect()
        });
        let heads = [
            "SITE",
            "MODE",
            ">MOST",
            ">IDLE",
            ">BUSY",
            ">WAITING",
            ">REQUESTS",
            ">HOT PAGES",
            "ENDED WORKERS, FAILURES",
        ];
        table(&heads, rows.collect(), self.room, lines);
    }

    /// Single requests; `head` says which.
    fn requests(&self, head: &str, all: &Value, lines: &mut Vec<TextLine>) {
        let all = all.as_array().into_iter().flatten();
        let rows = all.filter(|url| self.shows(&url["site"])).take(REQUESTS).map(|url| {
            let status = url["status"].as_u64().unwrap_or(0);
            vec![
                time(url["seconds"].as_f64()),
                word(url, "phase"),
                if status == 0 { "none".to_owned() } else { status.to_string() },
                age(url["ago"].as_f64().unwrap_or(0.0)),
                word(url, "site"),
                word(url, "path"),
            ]
        });
        let heads = [head, "MOST OF IT", "STATUS", ">AGO", "SITE", "URL"];
        table(&heads, rows.collect(), self.room, lines);
    }

    fn workers(&self, lines: &mut Vec<TextLine>) {
        let mut all: Vec<(&Value, &Value)> = self
            .pools()
            .flat_map(|pool| {
                let workers = pool["workers"].as_array().into_iter().flatten();
                workers.map(move |worker| (pool, worker))
            })
            .collect();
        let number = |worker: &Value, key: &str| Reverse(worker[key].as_u64().unwrap_or(0));
        all.sort_by_key(|(_, worker)| match self.order {
            Order::State => {
                let tenths = worker["seconds"].as_f64().unwrap_or(0.0) * 10.0;
                (worker["state"] != "busy", Reverse(tenths as u64))
            }
            Order::Requests => (false, number(worker, "requests")),
            Order::Memory => (false, number(worker, "memory")),
        });
        let rows = all.into_iter().map(|(pool, worker)| {
            let request = format!("{} {}", word(worker, "method"), word(worker, "uri"));
            vec![
                worker["pid"].to_string(),
                word(pool, "site"),
                word(worker, "state"),
                age(worker["seconds"].as_f64().unwrap_or(0.0)),
                worker["requests"].to_string(),
                bytes(worker["memory"].as_f64().unwrap_or(0.0)),
                request,
            ]
        });
        let heads = [">PID", "SITE", "STATE", ">FOR", ">REQUESTS", ">MEMORY", "REQUEST"];
        table(&heads, rows.collect(), self.room, lines);
    }
}

fn phases(document: &Value, counts: &Counts, room: usize, lines: &mut Vec<TextLine>) {
    let whole: f64 = counts.phases.iter().map(|(_, times)| times.sum).sum();
    let bounds = document["bounds"].as_array().into_iter().flatten();
    let bounds: Vec<f64> = bounds.filter_map(Value::as_f64).collect();
    let there = counts.phases.iter().filter(|(_, times)| times.sum > 0.0);
    let widest = WIDEST_BAR.min(room.saturating_sub(FIGURES));
    let rows = there.map(|(name, times)| {
        let part = times.sum / whole;
        vec![
            name.clone(),
            share(times.sum, whole),
            time(Some(times.sum / times.count().max(1.0))),
            time(times.quantile(0.9, &bounds)),
            "█".repeat((part * widest as f64).round() as usize),
        ]
    });
    table(&["PHASE", ">SHARE", ">MEAN", ">90 % BELOW", ""], rows.collect(), room, lines);
}

/// What PHP has called, if a site counts that and PHP has called anything.
fn calls(counts: &Counts, room: usize, lines: &mut Vec<TextLine>) {
    let there = counts.calls.iter().filter(|(_, _, times)| times.count() > 0.0);
    let rows = there.map(|(kind, calls, times)| {
        vec![
            (*kind).to_owned(),
            calls.to_string(),
            times.count().to_string(),
            few(calls / times.count()),
            time(Some(times.sum / times.count())),
        ]
    });
    let heads = ["CALLS", ">NUMBER", ">REQUESTS", ">OF ONE", ">TIME OF ONE"];
    table(&heads, rows.collect(), room, lines);
}

fn upstreams(document: &Value, room: usize, lines: &mut Vec<TextLine>) {
    let rows = samples(document, "tokamak_upstream_up").map(|one| {
        let [upstream, address] = ["upstream", "address"].map(|key| word(&one["labels"], key));
        let labels = [("upstream", &upstream[..]), ("address", &address[..])];
        let names = ["requests_total", "failures_total", "waiting"];
        let counted = names
            .map(|name| sum(document, &format!("tokamak_upstream_{name}"), &labels).to_string());
        let state = if one["value"].as_f64() == Some(1.0) { "up" } else { "down" };
        let head = [upstream.clone(), address.clone(), state.to_owned()];
        head.into_iter().chain(counted).collect()
    });
    let heads = ["UPSTREAM", "ADDRESS", "STATE", ">REQUESTS", ">FAILURES", ">WAITING"];
    table(&heads, rows.collect(), room, lines);
}

fn word(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reading(at: f64, requests: f64) -> Value {
        json!({
            "version": "1.2.3", "at": at, "began": 7.5, "bounds": [0.001, 0.002],
            "phases": [{"name": "php", "meaning": "in PHP"}],
            "metrics": {
                "tokamak_requests_total":
                    [{"labels": {"site": "a", "status": "2xx"}, "value": requests}],
                "tokamak_request_duration_seconds":
                    [{"labels": {"site": "a"}, "buckets": [0, requests, 0], "sum": 1.0}],
                "tokamak_request_phase_seconds": [{"labels": {"site": "a", "phase": "php"},
                    "buckets": [0, requests, 0], "sum": requests * 0.0015}],
            },
            "slowest": {"urls": [{"site": "a", "path": "/\u{9b}2J", "seconds": 0.2,
                "phase": "php", "status": 200, "ago": 3.0}]},
            "status": {"pools": [{"site": "a\u{1b}", "mode": "classic", "max": 2, "idle": 1,
                "busy": 1, "queue": 0, "requests": 9, "failure": null, "workers": [
                    {"pid": 1, "state": "idle", "seconds": 9.0, "requests": 8, "memory": 1024,
                        "method": "GET", "uri": "/idle"},
                    {"pid": 2, "state": "busy", "seconds": 0.5, "requests": 1, "memory": 4096,
                        "method": "GET", "uri": "/busy\nevil"}]}]},
        })
    }

    fn text(early: Option<&Value>, late: &Value, order: Order) -> String {
        of_site(None, early, late, order)
    }

    fn of_site(site: Option<&str>, early: Option<&Value>, late: &Value, order: Order) -> String {
        let address = "127.0.0.1:1".parse().unwrap();
        let lines = View { address: &address, early, late, site, order, room: ANY }.lines(None);
        lines.iter().map(|line| line.plain() + "\n").collect()
    }

    #[test]
    fn rates_are_those_between_two_readings() {
        let (early, late) = (reading(10.0, 100.0), reading(12.0, 400.0));
        let shown = text(Some(&early), &late, Order::State);
        assert!(shown.contains("requests 150/s, p50 1.50 ms, p90 1.90 ms"), "{shown}");
        assert!(shown.contains("php    100.0 %  1.50 ms"), "{shown}");
        // Another front counts from zero.
        let mut other = reading(9.0, 500.0);
        other["began"] = 8.5.into();
        assert!(text(Some(&other), &late, Order::State).contains("requests -/s"));
    }

    #[test]
    fn workers_stand_in_the_chosen_order_and_names_are_clean() {
        let late = reading(1.0, 1.0);
        let place = |order, uri| text(None, &late, order).find(uri).unwrap();
        assert!(place(Order::State, "/busy") < place(Order::State, "/idle"));
        assert!(place(Order::Requests, "/idle") < place(Order::Requests, "/busy"));
        assert!(place(Order::Memory, "/busy") < place(Order::Memory, "/idle"));
        let shown = text(None, &late, Order::State);
        let is_hostile = |c: char| c.is_control() && c != '\n';
        assert!(!shown.contains(is_hostile) && shown.contains("/busy?evil"), "{shown}");
    }

    #[test]
    fn a_site_is_shown_alone() {
        let mut late = reading(12.0, 400.0);
        let mut more = |name: &str, sample: Value| {
            late["metrics"][name].as_array_mut().unwrap().push(sample);
        };
        let labels = json!({"site": "b", "status": "2xx"});
        more("tokamak_requests_total", json!({"labels": labels, "value": 7}));
        let labels = json!({"site": "b", "phase": "php"});
        more(
            "tokamak_request_phase_seconds",
            json!({"labels": labels, "buckets": [7, 0, 0], "sum": 0.0007}),
        );
        late["metrics"]["tokamak_calls_total"] =
            json!([{"labels": {"site": "b", "kind": "sql"}, "value": 21}]);
        late["metrics"]["tokamak_request_calls_seconds"] =
            json!([{"labels": {"site": "b", "kind": "sql"}, "buckets": [7, 0, 0], "sum": 0.0014}]);
        assert_eq!(crate::figures::sites(&late), ["a", "b"]);
        let shown = of_site(Some("b"), None, &late, Order::State);
        assert!(shown.contains("php    100.0 %  100 µs"), "{shown}");
        let calls = shown.lines().find(|line| line.starts_with("sql")).expect("a row");
        let calls: Vec<_> = calls.split_whitespace().collect();
        assert_eq!(calls, ["sql", "21", "7", "3.00", "200", "µs"], "{shown}");
        assert!(!shown.contains("/?2J") && !shown.contains("/busy"), "{shown}");
        let shown = of_site(Some("a"), None, &late, Order::State);
        assert!(shown.contains("/?2J") && !shown.contains("CALLS"), "{shown}");
    }

    #[test]
    fn an_empty_document_is_shown_as_such() {
        assert!(text(None, &Value::Null, Order::State).contains("the supervisor does not answer"));
    }
}
