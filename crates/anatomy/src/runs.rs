//! Drives the load several times, without a tracer and with two of them, and keeps what was seen.

use std::collections::BTreeMap;

use tokamak_observe::processes as system;

use crate::account::Spread;
use crate::driver::{Clients, Exchange, Load, drive};
use crate::light::{self, Light, TraceEvents};
use crate::line::Call;
use crate::trace::Trace;
use crate::tracer::{self, Tracer};
use crate::{Error, Measurement, processes, text};

/// Requests before anything counts, so that caches are warm.
const WARM_UP: usize = 20;
/// Requests of a turn, where turns with the kernel's notes and without them alternate. How quickly
/// a processor wakes up, and whether client and server share one, changes from moment to moment:
/// what is compared has to be met by the same moments.
const TURN: usize = 25;
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
    /// What they measured before any tracer was there.
    pub before: Spread,
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
    /// The same with the beginnings of calls, in requests of their own.
    pub divided: Result<Noted, String>,
}

/// What is measured beside each other.
struct Compared {
    untraced: Vec<Exchange>,
    noted: Result<Noted, String>,
    divided: Result<Noted, String>,
}

/// Requests whose calls the kernel notes.
struct Turns {
    /// Or why it does not.
    light: Result<Light, String>,
    exchanges: Vec<Exchange>,
}

impl Turns {
    fn of(programs: &BTreeMap<u32, String>, events: TraceEvents) -> Self {
        let light = Light::attach(programs.keys().copied(), events);
        Self { light, exchanges: Vec::new() }
    }

    /// One turn of so many requests, unless the kernel refuses.
    fn ask(&mut self, clients: &mut Clients, count: usize) -> Result<(), Error> {
        let Ok(light) = &mut self.light else { return Ok(()) };
        let begun = light.note(true);
        if begun.is_ok() {
            self.exchanges.extend(clients.ask(count)?);
        }
        if let Err(why) = begun.and_then(|()| light.note(false)) {
            self.light = Err(why);
        }
        Ok(())
    }

    /// The requests, and what the kernel has noted of them.
    fn finish(self, trace: &Trace) -> Result<(Vec<Call>, Vec<Exchange>), String> {
        Ok((self.light?.finish(&trace.numbers)?, self.exchanges))
    }
}

/// Drives the load under strace; then by turns without a tracer and noted by the kernel.
pub fn all(measurement: &Measurement) -> Result<Runs, Error> {
    let Measurement { url, load, .. } = measurement;
    // Of another machine's address a server here would be watched, with the same port.
    if !system::is_local(url.address) {
        return Err(Error(format!(
            "{} is no address of this machine: run this where the server runs",
            url.address.ip()
        )));
    }
    let warm_up = Load { requests: WARM_UP.max(load.clients), ..*load };
    // A wrong address is reported as such, and not as a port without a listener.
    drive(url, warm_up)?;
    let before = Spread::of_exchanges(&drive(url, *load)?);
    let loop_cost = tracer::cost_of_a_call()?;
    let listeners = system::places();
    let (tracer, programs) = watch(measurement)?;
    let exchanges = drive(url, *load)?;
    let (trace, mut threads) = tracer.finish()?;
    let Compared { untraced, noted, divided } = compare(measurement, &programs, &trace)?;
    for call in noted.iter().chain(&divided).flat_map(|noted| &noted.calls) {
        threads.entry(call.thread).or_insert_with(|| system::process_of(call.thread));
    }
    let untraced = Spread::of_exchanges(&untraced);
    Ok(Runs {
        programs,
        untraced,
        before,
        exchanges,
        trace,
        loop_cost,
        listeners,
        threads,
        noted,
        divided,
    })
}

/// Watches the server. Its processes are looked for again when all are attached: a server may start
/// more at any time, and of one that was not there yet no call would be seen.
fn watch(measurement: &Measurement) -> Result<(Tracer, BTreeMap<u32, String>), Error> {
    let find = || processes::find(measurement.url.address, &measurement.pids, &measurement.units);
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
        measurement.url.text,
        text::listed(&programs)
    )))
}

/// The load without a tracer, and the same load with the kernel noting calls, or why there are no
/// notes: of several clients' calls it would not be known whose they are.
fn compare(
    measurement: &Measurement,
    programs: &BTreeMap<u32, String>,
    trace: &Trace,
) -> Result<Compared, Error> {
    let Measurement { url, load, .. } = measurement;
    if load.clients > 1 {
        let why = || Err("there are several clients".to_owned());
        return Ok(Compared { untraced: drive(url, *load)?, noted: why(), divided: why() });
    }
    let mut noted = Turns::of(programs, TraceEvents::Ends);
    if let Err(why) = noted.light {
        let divided = Err(why.clone());
        return Ok(Compared { untraced: drive(url, *load)?, noted: Err(why), divided });
    }
    let mut divided = Turns::of(programs, TraceEvents::Both);
    let mut clients = Clients::new(url, *load);
    let mut untraced = Vec::new();
    while untraced.len() < load.requests {
        let turn = TURN.min(load.requests - untraced.len());
        untraced.extend(clients.ask(turn)?);
        noted.ask(&mut clients, turn)?;
        divided.ask(&mut clients, turn)?;
    }
    let (noted, divided) = (noted.finish(trace), divided.finish(trace));
    // Measured when no perf is attached any more.
    let cost = light::cost_of_a_call();
    let with_cost = |found: Result<(Vec<Call>, Vec<Exchange>), String>| {
        let (calls, exchanges) = found?;
        let cost = cost.ok_or_else(|| "the cost of a note is unknown".to_owned())?;
        Ok(Noted { calls, exchanges, cost })
    };
    Ok(Compared { untraced, noted: with_cost(noted), divided: with_cost(divided) })
}
