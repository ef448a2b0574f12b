//! What `tokamak status` shows: a report for programs, and the same as a table for people.

mod cache;
mod certificates;
mod metrics;
mod requests;
mod upstreams;

use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokamak_config::{Mode, PoolSize};
use tokamak_metrics::CacheFigures;
use tokamak_sys::control::AddressStatus;
use tokamak_sys::process;
use tokamak_sys::queue::ShownRequest;

use self::cache::CacheReport;
use self::certificates::{CertificateReport, write_certificates};
pub use self::certificates::{add_certificates, certificates};
pub use self::metrics::samples as metrics;
use self::requests::{RequestReport, write_requests};
pub use self::upstreams::upstreams;
use self::upstreams::{UpstreamReport, write_upstreams};
use crate::application::{Application, ProcessState};
use crate::generation::Generation;
use crate::log;
use crate::pool::{Pool, doing};
use crate::watch::since;

/// The server now.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The supervisor's process id.
    pub pid: u32,
    /// The front's process id; 0 while none runs.
    pub front_pid: u32,
    /// Counts the reloads, from 1.
    pub generation: u32,
    /// Seconds since this generation began.
    pub generation_seconds: u64,
    /// Seconds since the server started.
    pub seconds: u64,
    /// Addresses with connections.
    pub listen: Vec<String>,
    /// The admin listener's address, if there is one.
    pub admin: Option<String>,
    /// Older generations that still answer requests.
    pub draining: usize,
    /// Lines that were lost, but for those of sites' processes.
    pub lost_lines: LostReport,
    /// The pools in the order of the configuration.
    pub pools: Vec<PoolReport>,
    /// The applications that the server starts, in the order of the configuration.
    pub applications: Vec<ApplicationReport>,
    /// The FastCGI applications, in the order of the configuration; without addresses if the front
    /// does not answer.
    pub upstreams: Vec<UpstreamReport>,
    /// The content cache; absent if no site wants it, or the front does not answer.
    pub cache: Option<CacheReport>,
    /// The names for which the server gets certificates by itself.
    pub certificates: Vec<CertificateReport>,
}

/// Lines of supervisor and front that were lost, because a disk or a reader was too slow.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LostReport {
    /// Of access logs, since this generation began.
    pub access: u64,
    /// Of the error log; those of the front since this generation began.
    pub error: u64,
}

impl LostReport {
    fn of(generation: &Generation) -> LostReport {
        let front = generation.front().map(|front| front.lost_lines()).unwrap_or_default();
        LostReport { access: front.access, error: front.error + log::all_lost() }
    }
}

/// One application now.
#[derive(Debug, Serialize)]
pub struct ApplicationReport {
    /// The upstream's name.
    pub upstream: String,
    /// Processes that there should be.
    pub wanted: usize,
    /// Processes that run.
    pub running: usize,
    /// Processes that were started in place of others.
    pub restarts: u64,
    /// Why they do not live, if they do not.
    pub failure: Option<String>,
    /// Each process.
    pub processes: Vec<ProcessReport>,
}

/// One process of an application now.
#[derive(Debug, Serialize)]
pub struct ProcessReport {
    /// Process id; 0 for none.
    pub pid: u32,
    /// `running`, `stopping` or `down`.
    pub state: &'static str,
    /// Since it was started.
    pub seconds: u64,
    /// Its private resident memory, in bytes.
    pub memory: u64,
    /// Where it listens.
    pub address: String,
}

/// One pool now.
#[derive(Debug, Serialize)]
pub struct PoolReport {
    /// Site name.
    pub site: String,
    /// Document root.
    pub root: String,
    /// `classic`, `worker`, `sealed` or `async`.
    pub mode: &'static str,
    /// `static`, `dynamic` or `ondemand`.
    pub size: &'static str,
    /// Most workers.
    pub max: usize,
    /// PHP's version, once it runs.
    pub php: Option<String>,
    /// Workers that boot.
    pub starting: usize,
    /// Workers that wait for a request.
    pub idle: usize,
    /// Workers that serve one.
    pub busy: usize,
    /// Workers that take no more requests and finish those that they have. Async mode.
    pub draining: usize,
    /// Workers that end.
    pub leaving: usize,
    /// Requests that wait for a worker.
    pub queue: usize,
    /// Requests served since this generation began.
    pub requests: u64,
    /// How often it got other processes since this generation began, because its image was outdated
    /// or something was wrong.
    pub renewals: u32,
    /// Lines of its processes that were lost, because the reader of the error log was too slow.
    pub lost_lines: u64,
    /// Why workers do not boot, if they do not.
    pub failure: Option<String>,
    /// Each worker.
    pub workers: Vec<WorkerReport>,
}

/// One worker now.
#[derive(Debug, Serialize)]
pub struct WorkerReport {
    /// Process id; 0 while it is not known.
    pub pid: u32,
    /// `starting`, `idle`, `busy`, `draining` or `leaving`.
    pub state: &'static str,
    /// For so long.
    pub seconds: f64,
    /// Requests served.
    pub requests: u64,
    /// Its private resident memory, in bytes.
    pub memory: u64,
    /// Duration of the last roll-back in microseconds; absent without one. Sealed mode.
    pub roll_back_us: Option<f64>,
    /// Pages that it copied.
    #[serde(rename = "hot_pages")]
    pub dirty_pages: u32,
    /// Requests that it serves at once; absent in other modes than async. The one below began
    /// first.
    pub under_way: Option<u32>,
    /// Waits of a millisecond and more that held all of them; absent in other modes than async.
    pub held: Option<u32>,
    /// The current or last request.
    pub method: String,
    /// Its target.
    pub uri: String,
    /// The requests that it has under way, the oldest first. Not those that go on after their
    /// response.
    pub in_flight: Vec<RequestReport>,
}

impl Report {
    /// Looks at a generation; `draining` others are older.
    pub fn new(
        generation: &Generation,
        addresses: &[(u16, AddressStatus)],
        cache: Option<CacheFigures>,
        listen: Vec<String>,
        started: u64,
        draining: usize,
        now: u64,
    ) -> Report {
        Report {
            pid: std::process::id(),
            front_pid: generation.front().map_or(0, |front| front.pid()),
            generation: generation.number,
            generation_seconds: since(generation.begun, now).as_secs(),
            seconds: since(started, now).as_secs(),
            listen,
            admin: None,
            draining,
            lost_lines: LostReport::of(generation),
            pools: generation.pools().map(|pool| pool_report(generation, pool, now)).collect(),
            applications: generation
                .applications()
                .iter()
                .map(|one| application_report(one, now))
                .collect(),
            upstreams: upstreams(generation.server(), None, addresses).upstreams,
            cache: cache.map(CacheReport),
            certificates: Vec::new(),
        }
    }

    fn write_applications(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.applications.is_empty() {
            return Ok(());
        }
        let mut table = vec![row(["UPSTREAM", "PID", "STATE", "SECONDS", "MEMORY", "ADDRESS"])];
        for application in &self.applications {
            for process in &application.processes {
                table.push(vec![
                    application.upstream.clone(),
                    process.pid.to_string(),
                    process.state.to_owned(),
                    process.seconds.to_string(),
                    mebibytes(process.memory),
                    process.address.clone(),
                ]);
            }
        }
        f.write_char('\n')?;
        write_table(f, &table)?;
        for application in &self.applications {
            if application.restarts > 0 {
                let ApplicationReport { upstream, restarts, .. } = application;
                writeln!(
                    f,
                    "\nupstream {upstream}: {restarts} process(es) started in place of others"
                )?;
            }
            if let Some(failure) = &application.failure {
                writeln!(f, "\n{failure}")?;
            }
        }
        Ok(())
    }
}

/// As JSON.
pub fn json(report: &impl Serialize) -> String {
    // Only maps with foreign keys and failing writers can fail; there is neither.
    serde_json::to_string(report).unwrap_or_default()
}

fn application_report(application: &Application, now: u64) -> ApplicationReport {
    let processes = application.processes();
    ApplicationReport {
        upstream: application.name.clone(),
        wanted: processes.len(),
        running: processes
            .iter()
            .filter(|process| process.state() == ProcessState::Running)
            .count(),
        restarts: application.restarts(),
        failure: application.failure().map(str::to_owned),
        processes: processes
            .iter()
            .enumerate()
            .map(|(nth, process)| ProcessReport {
                pid: process.pid().unwrap_or(0),
                state: process.state().name(),
                seconds: process.started().map_or(0, |started| since(started, now).as_secs()),
                memory: process.pid().map_or(0, own_memory),
                address: format!("unix:{}", application.path(nth).display()),
            })
            .collect(),
    }
}

/// The private resident memory of a process.
fn own_memory(pid: u32) -> u64 {
    process::memory(pid).map_or(0, |memory| memory.resident.saturating_sub(memory.shared))
}

fn pool_report(generation: &Generation, pool: &Pool, now: u64) -> PoolReport {
    let count = pool.count(now);
    let (history, requests) = generation.history(pool);
    let site = &pool.site;
    let is_async = site.mode == Mode::Async;
    let mut in_flight = pool.in_flight(now);
    PoolReport {
        site: site.name.clone(),
        root: site.root.display().to_string(),
        mode: site.mode.name(),
        size: match site.pool.size {
            PoolSize::Auto { .. } => "auto",
            PoolSize::Static { .. } => "static",
            PoolSize::Dynamic { .. } => "dynamic",
            PoolSize::Ondemand { .. } => "ondemand",
        },
        max: site.pool.size.max(),
        php: pool.version().map(str::to_owned),
        starting: count.starting,
        idle: count.idle,
        busy: count.busy,
        draining: count.draining,
        leaving: count.leaving,
        queue: count.waiting,
        requests,
        renewals: history.renewals,
        lost_lines: pool.segment().lost_lines(),
        failure: pool.failure().map(str::to_owned),
        workers: pool
            .workers()
            .map(|(index, place, entry)| {
                let ShownRequest { method, uri, .. } = pool.segment().shown_request(index);
                let state = doing(place.worker, entry.state).name();
                WorkerReport {
                    pid: place.pid.unwrap_or(0),
                    state,
                    seconds: (since(entry.since, now).as_secs_f64() * 10.0).round() / 10.0,
                    requests: entry.requests,
                    memory: place.pid.map_or(0, own_memory),
                    roll_back_us: (entry.roll_back > 0).then(|| entry.roll_back as f64 / 1e3),
                    dirty_pages: entry.dirty_pages,
                    under_way: is_async.then_some(entry.under_way),
                    held: is_async.then_some(entry.held),
                    method,
                    uri,
                    in_flight: in_flight
                        .extract_if(.., |one| one.instance == place.instance)
                        .map(|one| RequestReport::new(one, now))
                        .collect(),
                }
            })
            .collect(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "tokamak pid {}, up {}, generation {} for {}, {}",
            self.pid,
            Age(self.seconds),
            self.generation,
            Age(self.generation_seconds),
            self.listen.join(" ")
        )?;
        if self.draining > 0 {
            writeln!(f, "{} older generation(s) still answer requests", self.draining)?;
        }
        let LostReport { access, error } = self.lost_lines;
        if access + error > 0 {
            writeln!(f, "{error} line(s) for the error log were lost, {access} for access logs")?;
        }
        let mut table = vec![row([
            "SITE", "MODE", "SIZE", "STARTING", "IDLE", "BUSY", "LEAVING", "QUEUE", "REQUESTS",
        ])];
        for pool in &self.pools {
            table.push(vec![
                pool.site.clone(),
                pool.mode.to_owned(),
                format!("{} {}", pool.size, pool.max),
                pool.starting.to_string(),
                pool.idle.to_string(),
                pool.busy.to_string(),
                (pool.draining + pool.leaving).to_string(),
                pool.queue.to_string(),
                pool.requests.to_string(),
            ]);
        }
        f.write_char('\n')?;
        write_table(f, &table)?;
        for PoolReport { site, renewals, lost_lines, failure, .. } in &self.pools {
            if *renewals > 0 {
                writeln!(f, "\n{site}: got other processes {renewals} time(s)")?;
            }
            if *lost_lines > 0 {
                writeln!(f, "\n{site}: {lost_lines} line(s) for the error log were lost")?;
            }
            if let Some(failure) = failure {
                writeln!(f, "\n{site}: {failure}")?;
            }
        }
        let mut table = vec![row([
            "SITE",
            "PID",
            "STATE",
            "SECONDS",
            "REQUESTS",
            "MEMORY",
            "ROLL-BACK",
            "REQUEST",
        ])];
        for pool in &self.pools {
            for worker in &pool.workers {
                table.push(vec![
                    pool.site.clone(),
                    worker.pid.to_string(),
                    worker.state.to_owned(),
                    format!("{:.1}", worker.seconds),
                    worker.requests.to_string(),
                    mebibytes(worker.memory),
                    worker.roll_back_us.map_or("-".to_owned(), |us| {
                        format!("{us:.1} µs, {} pages", worker.dirty_pages)
                    }),
                    worker.request(),
                ]);
            }
        }
        if table.len() > 1 {
            f.write_char('\n')?;
            write_table(f, &table)?;
        }
        write_requests(&self.pools, f)?;
        self.write_applications(f)?;
        write_upstreams(&self.upstreams, f)?;
        self.cache.iter().try_for_each(|cache| cache.write(f))?;
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        write_certificates(&self.certificates, clock.as_secs(), f)
    }
}

impl WorkerReport {
    /// What it serves, for people.
    fn request(&self) -> String {
        let mut shown = format!("{} {}", self.method, self.uri).trim().to_owned();
        if let Some(count @ 2..) = self.under_way {
            let _ = write!(shown, ", {} more", count - 1);
        }
        if let Some(count @ 1..) = self.held {
            let _ = write!(shown, "; held {count} times");
        }
        shown
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Columns as wide as their widest cell, two blanks between them.
fn write_table(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            write!(line, "{cell:width$}  ")?;
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Seconds as people say them.
struct Age(u64);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..60 => write!(f, "{} s", self.0),
            60..3600 => write!(f, "{} min", self.0 / 60),
            3600..86_400 => write!(f, "{} h", self.0 / 3600),
            _ => write!(f, "{} d", self.0 / 86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::upstreams::AddressReport;
    use super::*;

    fn report() -> Report {
        let worker = |pid, state, uri: &str| WorkerReport {
            pid,
            state,
            seconds: 1.25,
            requests: 12,
            memory: 3 << 20,
            roll_back_us: (pid == 201).then_some(11.84),
            dirty_pages: 101,
            under_way: None,
            held: None,
            method: "GET".into(),
            uri: uri.into(),
            in_flight: Vec::new(),
        };
        let process = |pid, state, nth| ProcessReport {
            pid,
            state,
            seconds: 61,
            memory: 5 << 19,
            address: format!("unix:/run/x/app-{nth}.sock"),
        };
        Report {
            pid: 100,
            front_pid: 101,
            generation: 2,
            generation_seconds: 61,
            seconds: 7300,
            listen: vec!["http://127.0.0.1:8080/".into()],
            admin: None,
            draining: 1,
            lost_lines: LostReport { access: 0, error: 2 },
            pools: vec![PoolReport {
                renewals: 0,
                lost_lines: 0,
                site: "example.org".into(),
                root: "/srv".into(),
                mode: "worker",
                size: "dynamic",
                max: 8,
                php: Some("8.2.0".into()),
                starting: 0,
                idle: 1,
                busy: 1,
                draining: 0,
                leaving: 0,
                queue: 3,
                requests: 24,
                failure: Some("because".into()),
                workers: vec![worker(200, "idle", "/a"), worker(201, "busy", "/long/b")],
            }],
            applications: vec![ApplicationReport {
                upstream: "app".into(),
                wanted: 2,
                running: 1,
                restarts: 3,
                failure: Some("upstream app: because".into()),
                processes: vec![process(300, "running", 0), process(0, "down", 1)],
            }],
            upstreams: vec![
                UpstreamReport {
                    name: "app".into(),
                    addresses: vec![AddressReport {
                        address: "unix:/run/app.sock".into(),
                        weight: 2,
                        state: "out",
                        seconds: 1.5,
                        requests: 1000,
                        failures: 3,
                        in_use: 4,
                        idle: 5,
                        waiting: 6,
                        connections: "kept",
                    }],
                },
                UpstreamReport { name: "none".into(), addresses: Vec::new() },
            ],
            certificates: Vec::new(),
            cache: Some(CacheReport(CacheFigures {
                entries: 7,
                bytes: 3 << 20,
                memory: 64 << 20,
                hits: 90,
                stale: 5,
                misses: 10,
                coalesced: 4,
                revalidated: 3,
                bypassed: 2,
                stored: 8,
            })),
        }
    }

    #[test]
    fn the_table() {
        let expected = "\
tokamak pid 100, up 2 h, generation 2 for 1 min, http://127.0.0.1:8080/
1 older generation(s) still answer requests
2 line(s) for the error log were lost, 0 for access logs

SITE         MODE    SIZE       STARTING  IDLE  BUSY  LEAVING  QUEUE  REQUESTS
example.org  worker  dynamic 8  0         1     1     0        3      24

example.org: because

SITE         PID  STATE  SECONDS  REQUESTS  MEMORY   ROLL-BACK           REQUEST
example.org  200  idle   1.2      12        3.0 MiB  -                   GET /a
example.org  201  busy   1.2      12        3.0 MiB  11.8 µs, 101 pages  GET /long/b

UPSTREAM  PID  STATE    SECONDS  MEMORY   ADDRESS
app       300  running  61       2.5 MiB  unix:/run/x/app-0.sock
app       0    down     61       2.5 MiB  unix:/run/x/app-1.sock

upstream app: 3 process(es) started in place of others

upstream app: because

UPSTREAM  ADDRESS             WEIGHT  STATE  SECONDS  REQUESTS  FAILURES  IN USE  IDLE  WAITING  CONNECTIONS
app       unix:/run/app.sock  2       out    1.5      1000      3         4       5     6        kept
none      (none)

CACHE    OF        ENTRIES  HITS  STALE  MISSES  COALESCED  REVALIDATED  BYPASSED  STORED
3.0 MiB  64.0 MiB  7        90    5      10      4          3            2         8
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn the_json_says_the_same() {
        let json: serde_json::Value = serde_json::from_str(&json(&report())).unwrap();
        assert_eq!(json["pools"][0]["workers"][1]["uri"], "/long/b");
        assert_eq!(json["pools"][0]["queue"], 3);
        assert_eq!(json["generation"], 2);
        assert_eq!(json["applications"][0]["processes"][0]["pid"], 300);
        assert_eq!(json["upstreams"][0]["addresses"][0]["state"], "out");
        assert_eq!(json["cache"]["coalesced"], 4);
    }
}
