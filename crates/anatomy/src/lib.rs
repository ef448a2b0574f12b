//! Where the time of a request goes in a running server of any make: without this crate one reads
//! strace by hand.
//!
//! A load is driven several times (`runs`): under strace, without a tracer, and with the kernel
//! noting calls (`light`). The calls are assigned to requests and phases (`follow`), the tracer's
//! time is taken off (`account`), and what is avoidable is named (`findings`).

mod account;
mod backends;
mod driver;
mod findings;
mod follow;
mod html;
mod json;
mod light;
mod line;
mod phase;
mod processes;
mod runs;
mod text;
mod trace;
mod tracer;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

pub use account::{Count, Row, Spread};
pub use driver::{Load, Url};
pub use findings::Finding;
pub use html::html;
pub use json::json;
pub use line::event;
pub use text::text;
pub use trace::Trace;

/// Why there is no table, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Which server is measured, and how.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// What is asked for.
    pub url: Url,
    /// Processes beside those that listen on the URL's port, such as php-fpm's.
    pub pids: Vec<u32>,
    /// systemd units whose processes are watched too.
    pub units: Vec<String>,
    /// The load.
    pub load: Load,
}

/// A step of the typical request.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Whose it is.
    pub phase: phase::Phase,
    /// The program and the call, or that the client has its response.
    pub what: String,
    /// Nanoseconds after the request's start at which it begins, without the tracer's time.
    pub start: f64,
    /// Nanoseconds, without the tracer's.
    pub length: f64,
    /// Whether the client has its response already.
    pub is_after: bool,
}

/// What was found about one server.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was asked for.
    pub url: String,
    /// The watched processes.
    pub programs: BTreeMap<u32, String>,
    /// How it was asked for.
    pub load: Load,
    /// What clients measured without the tracer.
    pub untraced: Spread,
    /// What they measured before any tracer was there.
    pub before: Spread,
    /// What clients measured under it.
    pub traced: Spread,
    /// What is taken off each call of the trace, in nanoseconds, so that it adds up.
    pub overhead: f64,
    /// What a call of a program that does nothing else costs under the tracer, in nanoseconds.
    pub loop_cost: u64,
    /// What the kernel's note of a call costs, in nanoseconds, if the times of the phases are from
    /// such notes; or why they are strace's.
    pub noted_cost: Result<f64, String>,
    /// The phases.
    pub rows: Vec<Row>,
    /// How often each program made each call, in all.
    pub calls: BTreeMap<(String, String), Count>,
    /// Calls that belong to no request, in all.
    pub of_nobody: usize,
    /// What is avoidable.
    pub findings: Vec<Finding>,
    /// The steps that most requests have.
    pub typical: Vec<Step>,
    /// What the reader should know before believing the table.
    pub notes: Vec<String>,
}

impl Report {
    /// The sum of the phases, in nanoseconds.
    pub fn sum(&self) -> f64 {
        self.rows.iter().map(|row| row.mean).sum()
    }

    /// By how much the sum differs from the mean without a tracer, as a part of that.
    pub fn difference(&self) -> f64 {
        self.sum() / self.untraced.mean - 1.0
    }
}

/// The kernel's notes count if they have at least this part of the calls that strace saw.
const NOTED: f64 = 0.8;
/// A sum further from the measured mean than this is reported.
const AGREES: f64 = 0.10;
/// A larger part of a program's calls than this without a known request is reported.
const UNASSIGNED: f64 = 0.2;
/// A fitted overhead this many times larger or smaller than the known loop's is reported: then the
/// tracer has changed what the server does, and not only slowed it down.
const PLAUSIBLE: f64 = 4.0;

/// Measures a server.
pub fn measure(measurement: &Measurement) -> Result<Report, Error> {
    let runs = runs::all(measurement)?;
    let runs::Runs { trace, exchanges, threads, untraced, .. } = &runs;
    let seen = follow::Seen {
        calls: &trace.calls,
        processes: threads,
        exchanges,
        listeners: &runs.listeners,
    };
    let mut purposes = follow::follow(&seen);
    let mut names = runs.programs.clone();
    let all = tokamak_observe::processes::all();
    for process in threads.values() {
        let name = || all.get(process).map_or("a child".to_owned(), |it| it.name.clone());
        names.entry(*process).or_insert_with(name);
    }
    let program = |thread: u32| {
        let process = threads.get(&thread).copied().unwrap_or(thread);
        names.get(&process).map_or("a child", String::as_str)
    };
    let backends = backends::merge(&trace.calls, &mut purposes, exchanges.len(), program);
    let pieces = account::pieces(&trace.calls, &purposes, exchanges);
    let steps = account::steps(&trace.calls, &pieces, program);
    let overhead = account::overhead(&steps, untraced.quiet);
    let tracer = account::Tracer::of(&steps, overhead);
    let noted = noted(&runs, &purposes, &steps, program);
    let timed = match &noted {
        Ok((steps, cost)) => account::Timed { steps, overhead: *cost, scale: None },
        Err(_) => {
            let scale = Some(untraced.mean / untraced.quiet.max(1.0));
            account::Timed { steps: &steps, overhead, scale }
        }
    };
    let computed = match &noted {
        Ok(_) => computed(&runs, &purposes, &steps, program),
        Err(_) => Ok(account::computed_under(tracer, &steps)),
    };
    let rows = account::rows(&steps, &timed);
    let rows = match &computed {
        Ok(parts) => account::divided(rows, parts),
        Err(_) => rows,
    };
    let mut report = Report {
        url: measurement.url.text.clone(),
        load: measurement.load,
        untraced: *untraced,
        before: runs.before,
        traced: Spread::of_exchanges(exchanges),
        overhead,
        loop_cost: runs.loop_cost,
        noted_cost: noted.as_ref().map(|noted| noted.1).map_err(Clone::clone),
        rows,
        calls: account::calls_by_name(&trace.calls, program),
        of_nobody: purposes.iter().filter(|purpose| purpose.is_none()).count(),
        findings: findings::find(&trace.calls, &steps, tracer),
        typical: typical(&trace.calls, &steps, tracer, program),
        notes: Vec::new(),
        programs: runs.programs.clone(),
    };
    let is_followed = |request: &Vec<account::Piece>| request.iter().any(|p| p.call.is_some());
    let lost = pieces.iter().filter(|request| !is_followed(request)).count();
    report.notes = notes(&report, trace, lost);
    if let (Ok(_), Err(why)) = (&noted, &computed) {
        report.notes.push(format!(
            "what is computed between two calls is in the row of the second one: {why}"
        ));
    }
    if backends.len() > 1 {
        report.notes.push(format!(
            "several programs answer behind the server ({}): their phases cannot be told apart, \
             so all their calls are in one row",
            backends.join(", ")
        ));
    }
    report.notes.extend(unassigned(&trace.calls, &purposes, program));
    if lost == pieces.len() {
        return Err(Error(format!(
            "{}: the watched processes ({}) made no call for any of the requests: name those that \
             answer by --pid or --unit",
            measurement.url.text,
            text::listed(&runs.programs)
        )));
    }
    Ok(report)
}

/// The steps of the requests whose calls the kernel noted, and what a noted call costs; or why the
/// notes are not used.
fn noted<'a>(
    runs: &'a runs::Runs,
    purposes: &[Option<follow::Purpose>],
    steps: &[account::Step],
    program: impl Fn(u32) -> &'a str + Copy,
) -> Result<(Vec<account::Step>, f64), String> {
    let noted = runs.noted.as_ref().map_err(Clone::clone)?;
    let (_, found) = followed(noted, runs, purposes, steps, program)?;
    Ok((found, noted.cost))
}

/// Which part of the time of each phase was computed; or why that is not known.
fn computed<'a>(
    runs: &'a runs::Runs,
    purposes: &[Option<follow::Purpose>],
    steps: &[account::Step],
    program: impl Fn(u32) -> &'a str + Copy,
) -> Result<HashMap<phase::Phase, f64>, String> {
    let divided = runs.divided.as_ref().map_err(Clone::clone)?;
    let (purposes, _) = followed(divided, runs, purposes, steps, program)?;
    Ok(account::computed(&divided.calls, &purposes, &divided.exchanges, divided.cost))
}

/// The purposes and steps of calls that the kernel noted, if they are most of those that strace
/// saw.
fn followed<'a>(
    noted: &'a runs::Noted,
    runs: &'a runs::Runs,
    purposes: &[Option<follow::Purpose>],
    steps: &[account::Step],
    program: impl Fn(u32) -> &'a str + Copy,
) -> Result<(Vec<Option<follow::Purpose>>, Vec<account::Step>), String> {
    let habits = light::Habits::learn(&runs.trace.calls, purposes, &runs.exchanges, program);
    let purposes = habits.purposes(&noted.calls, &noted.exchanges, program);
    let pieces = account::pieces(&noted.calls, &purposes, &noted.exchanges);
    let found = account::steps(&noted.calls, &pieces, program);
    let calls = |steps: &[account::Step]| -> f64 {
        steps.iter().filter(|step| step.call.is_some()).map(|step| step.share).sum()
    };
    match (calls(&found), calls(steps)) {
        // Its memory was too small, or a process is new.
        (noted, seen) if noted < NOTED * seen => {
            Err(format!("of {seen:.1} calls for a request it noted {noted:.1}"))
        }
        _ => Ok((purposes, found)),
    }
}

/// The steps that most requests have, one after the other.
fn typical<'a>(
    calls: &[line::Call],
    steps: &[account::Step],
    tracer: account::Tracer,
    program: impl Fn(u32) -> &'a str,
) -> Vec<Step> {
    let mut start = 0.0;
    let mut found = Vec::new();
    for step in steps.iter().filter(|step| step.share >= 0.5) {
        let is_after = step.is_after;
        let mut add = |phase, what, length| {
            found.push(Step { phase, what, start, length, is_after });
            start += length;
        };
        let computed = step.computed(tracer);
        let who = step.call.map(|index| program(calls[index].thread));
        if let (Some(who), true) = (who, computed > 0.0) {
            add(step.phase.computed(), format!("{who}: computes"), computed);
        }
        let what = step.call.map_or("the client has its response".to_owned(), |index| {
            format!("{}: {}", program(calls[index].thread), described(&calls[index]))
        });
        add(step.phase, what, step.own(tracer.call) - computed);
    }
    found
}

/// A call with what it is about.
fn described(call: &line::Call) -> String {
    let first = call.made.as_ref().or(call.descriptors.first());
    let about = match first.map(|descriptor| &descriptor.target) {
        _ if call.path.as_deref().is_some_and(|path| path.starts_with('/')) => {
            call.path.clone().unwrap_or_default()
        }
        Some(line::Target::File(path) | line::Target::Device(path)) => path.clone(),
        Some(line::Target::Socket(_)) => "socket".to_owned(),
        None => String::new(),
    };
    let error = call.error.as_ref().map(|error| format!(" {error}")).unwrap_or_default();
    format!("{}({about}){error}", call.name)
}

/// Which programs made calls of which the request is not known: the table lacks them, and what they
/// took is in the rows of those that waited for them.
fn unassigned<'a>(
    calls: &[line::Call],
    purposes: &[Option<follow::Purpose>],
    program: impl Fn(u32) -> &'a str,
) -> Vec<String> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    // Waits without a request are idle ones.
    let is_work = |call: &line::Call| phase::kind(&call.name) != phase::Kind::Wait;
    for (call, purpose) in calls.iter().zip(purposes).filter(|(call, _)| is_work(call)) {
        let (lost, all) = counts.entry(program(call.thread)).or_default();
        *lost += usize::from(purpose.is_none());
        *all += 1;
    }
    let is_much =
        |(_, (lost, all)): &(&str, (usize, usize))| *lost as f64 > UNASSIGNED * *all as f64;
    let note = |(program, (lost, all)): (&str, (usize, usize))| {
        format!(
            "of {all} calls of {program}, the request of {lost} is not known (timers, or \
             connections older than the trace): its rows lack them, and their time is in the rows \
             of those that wait for it"
        )
    };
    counts.into_iter().filter(is_much).map(note).collect()
}

fn notes(report: &Report, trace: &Trace, lost: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if lost > 0 {
        notes.push(format!("{lost} requests have no call: a process that answers is not watched"));
    }
    if report.difference().abs() > AGREES {
        notes.push(format!(
            "the phases do not add up to the mean without the tracer ({:+.0} %): do not rely on \
             them; a larger -n or a quieter machine helps",
            report.difference() * 100.0
        ));
    }
    let slower = report.untraced.quiet / report.before.quiet.max(1.0) - 1.0;
    if slower > AGREES {
        notes.push(format!(
            "a quiet request takes {:.0} % longer beside the tracer, which is switched off \
             meanwhile, than it did before: the times are too long by so much, and of which phases \
             is not known",
            slower * 100.0
        ));
    }
    let ratio = report.overhead / report.loop_cost.max(1) as f64;
    let is_fitted = report.noted_cost.is_err();
    if is_fitted && !(1.0 / PLAUSIBLE..=PLAUSIBLE).contains(&ratio) {
        notes.push(format!(
            "a traced call costs {ratio:.1} times what it does in a program that does nothing \
             else: the tracer has changed how the processes run beside each other, so small \
             phases are uncertain"
        ));
    }
    let connects: Vec<&str> = trace
        .calls
        .iter()
        .filter(|call| call.name == "connect")
        .filter_map(|call| call.path.as_deref())
        .filter(|path| path.starts_with('/'))
        .collect();
    let has_backend = report.rows.iter().any(|row| row.phase.name().starts_with(' '));
    if let (Some(socket), false) = (connects.first(), has_backend) {
        notes.push(format!(
            "the server connects to {socket}, whose processes are not watched: name one by --pid"
        ));
    }
    notes
}
