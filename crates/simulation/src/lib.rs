//! Drives the supervisor's fleet, the front's gates and the queue from a seed: their real code,
//! with processes, messages and a clock that are made up. What is simulated, which faults there are
//! and what must hold is in `docs/internals/simulation.md`.

mod births;
mod faults;
mod front;
mod random;
mod requests;
mod shape;
mod supervisor;
mod wire;
mod worker;
mod world;
mod zygote;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use faults::{Fault, FaultSchedule};
use random::Random;
pub use world::Ran;
use world::World;

/// A schedule in which something did not hold.
#[derive(Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What did not hold.
    pub what: String,
    /// The faults that it needs; the others were left out.
    pub faults: FaultSchedule,
    /// What happened.
    pub trace: Vec<String>,
}

/// The faults of a seed.
pub fn faults_of(seed: u64) -> FaultSchedule {
    let mut random = Random::new(seed ^ 0x5eed);
    faults::draw(&mut random, world::BEGIN, world::BEGIN + world::FAULTS)
}

/// Runs one schedule with these faults.
///
/// # Errors
/// What did not hold.
pub fn run(
    seed: u64,
    faults: &FaultSchedule,
    trace: Option<&mut Vec<String>>,
) -> Result<Ran, String> {
    let mut world = World::new(seed, faults.clone(), trace.is_some());
    // A panic is a failure, reported with its seed.
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    if let Some(trace) = trace {
        *trace = world.take_trace();
    }
    result
}

/// Runs the schedule of a seed. If something does not hold, finds out which faults it needs.
pub fn search(seed: u64) -> Result<Ran, Box<Failure>> {
    let mut faults = faults_of(seed);
    let mut what = match run(seed, &faults, None) {
        Ok(ran) => return Ok(ran),
        Err(what) => what,
    };
    let mut at = 0;
    while at < faults.len() {
        let mut fewer = faults.clone();
        fewer.remove(at);
        match run(seed, &fewer, None) {
            Err(other) => (faults, what) = (fewer, other),
            Ok(_) => at += 1,
        }
    }
    let mut trace = Vec::new();
    if let Err(again) = run(seed, &faults, Some(&mut trace)) {
        what = again;
    }
    Err(Box::new(Failure { seed, what, faults, trace }))
}
