//! Drives the load several times, without a tracer and with two of them, and keeps what was seen.

use std::collections::BTreeMap;

use tokamak_processes as system;

use crate::account::Spread;
use crate::driver::{Exchange, Load, drive};
use crate::light::{self, Light};
use crate::line::Call;
use crate::trace::Trace;
use crate::tracer::{self, Tracer};
use crate::{Error, Plan, processes, text};

/// Requests before anything counts, so that caches are warm.
const WARM_UP: usize = 20;
/// How often a server may have got new processes while strace attached to it.
const ATTEMPTS: usize = 5;

/// Calls that the kernel noted, without their arguments.
pub struct Noted {
    /// The calls in the order of their ends.
    pub calls: Vec<Call>,
    /// The requests in the order of their starts.
    pub exchanges: Vec<Exchange>,
    /// What a noted call costs, in nanoseconds.
    pub cost: f64,
}

/// What all runs together gave.
pub struct Runs {
    /// The watched processes, and what runs in them.
    pub programs: BTreeMap<u32, String>,
    /// What clients measured without a tracer.
    pub untraced: Spread,
    /// The requests under strace.
    pub exchanges: Vec<Exchange>,
    /// The calls under strace.
    pub trace: Trace,
    /// What a traced call costs in a program that does nothing else, in nanoseconds.
    pub loop_cost: u64,
    /// Where each listening socket listens, by its inode.
    pub listeners: BTreeMap<u64, String>,
    /// The process of each thread that made a call.
    pub threads: BTreeMap<u32, u32>,
    /// What the kernel noted of the same load, or why it did not.
    pub noted: Result<Noted, String>,
}

/// Drives the load under strace; then without a tracer, noted by the kernel, and without again.
pub fn all(plan: &Plan) -> Result<Runs, Error> {
    let Plan { url, load, .. } = plan;
    // Of another machine's address a server here would be watched, with the same port.
    if !system::is_local(url.address) {
        return Err(Error(format!(
            "{} is no address of this machine: run this where the server runs",
            url.address.ip()
        )));
    }
    let warm_up = Load { requests: WARM_UP.max(load.clients), ..*load };
    // A wrong address is told as such, and not as a port on which nobody listens.
    drive(url, warm_up)?;
    let loop_cost = tracer::cost_of_a_call()?;
    let listeners = system::places();
    let (tracer, programs) = watch(plan)?;
    let exchanges = drive(url, *load)?;
    let (trace, mut threads) = tracer.finish()?;
    // What is compared stands side by side, since machines drift.
    let half = Load { requests: load.requests.div_ceil(2), ..*load };
    let mut untraced = drive(url, half)?;
    let noted = noted(plan, &programs, &trace)?;
    untraced.extend(drive(url, half)?);
    for call in noted.iter().flat_map(|noted| &noted.calls) {
        threads.entry(call.thread).or_insert_with(|| system::process_of(call.thread));
    }
    let untraced = Spread::of_exchanges(&untraced);
    Ok(Runs { programs, untraced, exchanges, trace, loop_cost, listeners, threads, noted })
}

/// Watches the server. Its processes are looked for again when all are attached: a server may start
/// more at any time, and of one that was not there yet no call would be seen.
fn watch(plan: &Plan) -> Result<(Tracer, BTreeMap<u32, String>), Error> {
    let find = || processes::find(plan.url.address, &plan.pids, &plan.units);
    let mut programs = find()?;
    for _ in 0..ATTEMPTS {
        let tracer = Tracer::attach(&programs)?;
        // A process that was named and has ended meanwhile is no reason to stop.
        let Ok(now) = find() else { return Ok((tracer, programs)) };
        if now.keys().all(|pid| programs.contains_key(pid)) {
            return Ok((tracer, programs));
        }
        programs = now;
    }
    Err(Error(format!(
        "{}: its processes change all the time ({}): give it a fixed number of them",
        plan.url.text,
        text::listed(&programs)
    )))
}

/// The load once more, with the kernel noting calls; or why there are no notes. Of several clients'
/// calls it would not be known whose they are.
fn noted(
    plan: &Plan,
    programs: &BTreeMap<u32, String>,
    trace: &Trace,
) -> Result<Result<Noted, String>, Error> {
    if plan.load.clients > 1 {
        return Ok(Err("there are several clients".to_owned()));
    }
    let light = match Light::attach(programs.keys().copied()) {
        Ok(light) => light,
        Err(why) => return Ok(Err(why)),
    };
    let exchanges = drive(&plan.url, plan.load)?;
    let calls = light.finish(&trace.numbers);
    let cost = || light::cost_of_a_call().ok_or_else(|| "the cost of a note is unknown".to_owned());
    Ok(calls.and_then(|calls| Ok(Noted { calls, exchanges, cost: cost()? })))
}
