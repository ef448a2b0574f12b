//! The status page (`pm.status_path`) in php-fpm's five formats, and the ping page.
//!
//! Everything that comes from requests is escaped for the format in which it is shown: a visitor
//! a request for a strange path must not inject text into an administrator's page.

use std::fmt::Write;
use std::time::Duration;

use tokamak_sys::time;

mod openmetrics;

/// What a pool is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The pool's name.
    pub pool: String,
    /// `static`, `dynamic` or `ondemand`.
    pub manager: &'static str,
    /// When it began, in seconds since 1970.
    pub started: i64,
    /// What time it is, likewise.
    pub now: i64,
    /// Requests accepted so far.
    pub accepted: u64,
    /// Requests that wait.
    pub listen_queue: u64,
    /// The most that ever waited at once.
    pub max_listen_queue: u64,
    /// How many can wait.
    pub listen_queue_len: u64,
    /// Workers that wait.
    pub idle: u64,
    /// Workers that work.
    pub active: u64,
    /// The most that ever worked at once.
    pub max_active: u64,
    /// How often there should have been more workers than `pm.max_children`.
    pub max_children_reached: u64,
    /// Requests that took longer than `request_slowlog_timeout`.
    pub slow_requests: u64,
    /// The workers, for the full page.
    pub processes: Vec<Process>,
}

/// What a worker is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Its process.
    pub pid: u32,
    /// What it is at.
    pub state: RequestStage,
    /// When it was started, in seconds since 1970.
    pub started: i64,
    /// Requests so far.
    pub requests: u64,
    /// How long the current request has taken, or the last one took.
    pub duration: Duration,
    /// Method of that request; empty if there was none.
    pub method: Vec<u8>,
    /// Its path without the query; empty if there was none.
    pub uri: Vec<u8>,
    /// Its query.
    pub query: Vec<u8>,
    /// The length of its body.
    pub body_length: u64,
    /// The user that has logged in; may be empty.
    pub user: Vec<u8>,
    /// Its script; empty if there was none.
    pub script: Vec<u8>,
    /// The share of a processor that the last request took, in percent. Shown of an idle worker
    /// only.
    pub cpu: f64,
    /// The most memory that it had. Shown of an idle worker only.
    pub memory: u64,
}

/// What a worker is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestStage {
    /// Nothing.
    #[default]
    Idle,
    /// A request that is coming in.
    ReadingHeaders,
    /// Finding out what it asks for.
    GettingInformation,
    /// A script.
    Running,
    /// The end of a request.
    Ending,
    /// What comes after `fastcgi_finish_request()`.
    Finishing,
}

impl RequestStage {
    /// In php-fpm's words.
    pub const fn name(self) -> &'static str {
        match self {
            RequestStage::Idle => "Idle",
            RequestStage::ReadingHeaders => "Reading headers",
            RequestStage::GettingInformation => "Getting request information",
            RequestStage::Running => "Running",
            RequestStage::Ending => "Ending",
            RequestStage::Finishing => "Finishing",
        }
    }
}

/// How the page is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people with `curl`.
    #[default]
    Text,
    /// For people with a browser.
    Html,
    /// For programs.
    Xml,
    /// For programs.
    Json,
    /// For Prometheus.
    OpenMetrics,
}

/// What the query of a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusQuery {
    /// The format.
    pub format: Format,
    /// With every worker.
    pub full: bool,
}

impl StatusQuery {
    /// Reads a query, such as `full&json`.
    pub fn of(query: &[u8]) -> StatusQuery {
        let names = || {
            query
                .split(|byte| *byte == b'&')
                .filter_map(|part| part.split(|byte| *byte == b'=').next())
        };
        let has = |name: &str| names().any(|found| found == name.as_bytes());
        let formats = [
            ("html", Format::Html),
            ("xml", Format::Xml),
            ("json", Format::Json),
            ("openmetrics", Format::OpenMetrics),
        ];
        let format = formats.into_iter().find(|(name, _)| has(name));
        StatusQuery { format: format.map_or(Format::Text, |(_, format)| format), full: has("full") }
    }
}

/// An answer that no worker has to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// `Content-Type`
    pub content_type: &'static str,
    /// The body, left out for HEAD.
    pub body: Vec<u8>,
}

/// The other fields of such an answer: no cache may keep it.
pub const FIELDS: [(&str, &str); 2] = [
    ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("Cache-Control", "no-cache, no-store, must-revalidate, max-age=0"),
];

/// The ping page.
pub fn ping(response: &str) -> Page {
    Page { content_type: "text/plain", body: response.as_bytes().to_vec() }
}

/// A value of the page.
enum Value<'a> {
    Number(u64),
    Share(f64),
    Moment(i64),
    Text(Vec<u8>),
    Word(&'a str),
}

type Rows<'a> = Vec<(&'static str, Value<'a>)>;

impl Snapshot {
    /// The page.
    pub fn page(&self, query: StatusQuery) -> Page {
        let full = query.full;
        let (content_type, text) = match query.format {
            Format::Text => ("text/plain", self.text(full)),
            Format::Html => ("text/html", self.html(full)),
            Format::Xml => ("text/xml", self.xml(full)),
            Format::Json => ("application/json", self.json(full)),
            Format::OpenMetrics => (
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                openmetrics::page(self),
            ),
        };
        Page { content_type, body: text.into_bytes() }
    }

    fn since_start(&self) -> u64 {
        u64::try_from(self.now - self.started).unwrap_or(0)
    }

    fn rows(&self) -> Rows<'_> {
        use Value::{Moment, Number, Word};
        vec![
            ("pool", Word(&self.pool)),
            ("process manager", Word(self.manager)),
            ("start time", Moment(self.started)),
            ("start since", Number(self.since_start())),
            ("accepted conn", Number(self.accepted)),
            ("listen queue", Number(self.listen_queue)),
            ("max listen queue", Number(self.max_listen_queue)),
            ("listen queue len", Number(self.listen_queue_len)),
            ("idle processes", Number(self.idle)),
            ("active processes", Number(self.active)),
            ("total processes", Number(self.idle + self.active)),
            ("max active processes", Number(self.max_active)),
            ("max children reached", Number(self.max_children_reached)),
            ("slow requests", Number(self.slow_requests)),
        ]
    }

    fn rows_of(&self, process: &Process) -> Rows<'_> {
        use Value::{Moment, Number, Share, Text, Word};
        let or_dash =
            |text: &[u8]| Text(if text.is_empty() { b"-".to_vec() } else { text.to_vec() });
        let idle = process.state == RequestStage::Idle;
        let mut uri = process.uri.clone();
        if uri.is_empty() {
            uri.push(b'-');
        }
        if !process.query.is_empty() {
            uri.push(b'?');
            uri.extend_from_slice(&process.query);
        }
        vec![
            ("pid", Number(process.pid.into())),
            ("state", Word(process.state.name())),
            ("start time", Moment(process.started)),
            ("start since", Number(u64::try_from(self.now - process.started).unwrap_or(0))),
            ("requests", Number(process.requests)),
            (
                "request duration",
                Number(u64::try_from(process.duration.as_micros()).unwrap_or(u64::MAX)),
            ),
            ("request method", or_dash(&process.method)),
            ("request uri", Text(uri)),
            ("content length", Number(process.body_length)),
            ("user", or_dash(&process.user)),
            ("script", or_dash(&process.script)),
            ("last request cpu", Share(if idle { process.cpu } else { 0.0 })),
            ("last request memory", Number(if idle { process.memory } else { 0 })),
        ]
    }

    fn shown(&self, full: bool) -> &[Process] {
        if full { &self.processes } else { &[] }
    }

    fn text(&self, full: bool) -> String {
        let mut page = lines(self.rows());
        for process in self.shown(full) {
            page.push_str("\n************************\n");
            page.push_str(&lines(self.rows_of(process)));
        }
        page
    }

    fn html(&self, full: bool) -> String {
        let mut page = String::from(
            "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\" \
             \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd\">\n\
             <html xmlns=\"http://www.w3.org/1999/xhtml\" xml:lang=\"en\" lang=\"en\">\n\
             <head><title>PHP-FPM Status Page</title></head>\n<body>\n<table>\n",
        );
        for (name, value) in self.rows() {
            let _ =
                writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", value.shown(markup, local));
        }
        page.push_str("</table>\n");
        if full {
            page.push_str("<table border=\"1\">\n<tr>");
            for (name, _) in self.rows_of(&Process::default()) {
                let _ = write!(page, "<th>{name}</th>");
            }
            page.push_str("</tr>\n");
            for process in &self.processes {
                page.push_str("<tr>");
                for (_, value) in self.rows_of(process) {
                    let _ = write!(page, "<td>{}</td>", value.shown(markup, local));
                }
                page.push_str("</tr>\n");
            }
            page.push_str("</table>");
        }
        page.push_str("</body></html>");
        page
    }

    fn xml(&self, full: bool) -> String {
        let mut page = String::from("<?xml version=\"1.0\" ?>\n<status>\n");
        let element = |name: &str, value: &Value<'_>| {
            let name = name.replace(' ', "-");
            format!("<{name}>{}</{name}>", value.shown(markup, epoch))
        };
        for (name, value) in self.rows() {
            let _ = writeln!(page, "{}", element(name, &value));
        }
        if full {
            page.push_str("<processes>\n");
            for process in &self.processes {
                page.push_str("<process>");
                for (name, value) in self.rows_of(process) {
                    page.push_str(&element(name, &value));
                }
                page.push_str("</process>\n");
            }
            page.push_str("</processes>\n");
        }
        page.push_str("</status>");
        page
    }

    fn json(&self, full: bool) -> String {
        let object = |rows: Rows<'_>| {
            let members: Vec<String> = rows
                .iter()
                .map(|(name, value)| format!("\"{name}\":{}", value.shown(quoted, epoch)))
                .collect();
            members.join(",")
        };
        let mut page = format!("{{{}", object(self.rows()));
        if full {
            let all: Vec<String> = self
                .processes
                .iter()
                .map(|process| format!("{{{}}}", object(self.rows_of(process))))
                .collect();
            let _ = write!(page, ", \"processes\":[{}]", all.join(","));
        }
        page.push('}');
        page
    }
}

impl Value<'_> {
    fn shown(&self, text: fn(&str) -> String, moment: fn(i64) -> String) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Share(share) => format!("{share:.2}"),
            Value::Moment(seconds) => moment(*seconds),
            Value::Text(bytes) => text(&String::from_utf8_lossy(bytes)),
            Value::Word(word) => text(word),
        }
    }
}

/// The rows of the text format.
fn lines(rows: Rows<'_>) -> String {
    let line = |(name, value): (&str, Value<'_>)| {
        let name = if name == "request uri" { "request URI:".into() } else { format!("{name}:") };
        format!("{name:<21} {}\n", value.shown(plain, local))
    };
    rows.into_iter().map(line).collect()
}

fn local(seconds: i64) -> String {
    time::local(seconds, "%d/%b/%Y:%H:%M:%S %z")
}

fn epoch(seconds: i64) -> String {
    seconds.to_string()
}

/// Text on a line of its own.
fn plain(text: &str) -> String {
    text.replace(|char: char| char.is_control(), "?")
}

/// Text between tags.
fn markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#039;"),
            // XML has no way to write most of these.
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}')
            }
            char => escaped.push(char),
        }
    }
    escaped
}

/// A JSON string, as PHP writes one.
fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' | '/' => json.extend(['\\', char]),
            ' '..='~' => json.push(char),
            char => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _ = write!(json, "\\u{unit:04x}");
                }
            }
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests;
