//! The supervisor's part of the metrics: of the board and of what it counts anyway.

use tokamak_metrics::{Row, Samples};
use tokamak_sys::process;

use crate::generation::Generation;
use crate::pool::{Doing, Pool};
use crate::watch::since;

/// All of it now. `draining` other generations are older.
pub fn samples(generation: &Generation, draining: usize, started: u64, now: u64) -> Samples {
    let mut samples = Samples::default();
    for (row, number) in [
        (Row::Generation, f64::from(generation.number)),
        (Row::GenerationsDraining, draining as f64),
        (Row::Uptime, since(started, now).as_secs_f64()),
    ] {
        samples.add(row, &[], number);
    }
    let front = generation.front().map(|front| front.pid());
    for (name, pid) in [("supervisor", Some(std::process::id())), ("front", front)] {
        let memory = pid.and_then(process::memory).map_or(0, |memory| memory.resident);
        samples.add(Row::ProcessMemory, &[name], memory as f64);
    }
    for pool in generation.pools() {
        add_pool(generation, pool, now, &mut samples);
    }
    for application in generation.applications() {
        let name = &application.name[..];
        samples.add(Row::ApplicationRestarts, &[name], application.restarts() as f64);
        for process in application.processes() {
            samples.add(Row::ApplicationProcesses, &[name, process.state().name()], 1.0);
        }
    }
    samples
}

fn add_pool(generation: &Generation, pool: &Pool, now: u64, samples: &mut Samples) {
    let site = &pool.site.name[..];
    let count = pool.count(now);
    for (state, count) in [
        (Doing::Starting, count.starting),
        (Doing::Idle, count.idle),
        (Doing::Busy, count.busy),
        (Doing::Draining, count.draining),
        (Doing::Leaving, count.leaving),
    ] {
        samples.add(Row::Workers, &[site, state.name()], count as f64);
    }
    samples.add(Row::WorkersLimit, &[site], pool.site.pool.size.max() as f64);
    samples.add(Row::Queue, &[site], count.waiting as f64);
    let (history, requests) = generation.history(pool);
    samples.add(Row::WorkerRequests, &[site], requests as f64);
    samples.add(Row::Renewals, &[site], history.renewals.into());
    for (ending, count) in generation.endings(pool).counts() {
        samples.add(Row::WorkerEndings, &[site, ending.name()], count as f64);
    }
    let (mut memory, mut rolled_back, mut slowest, mut pages) = (0, false, 0, 0);
    for (_, entry) in pool.workers() {
        memory += entry.memory;
        rolled_back |= entry.roll_back > 0;
        slowest = slowest.max(entry.roll_back);
        pages = pages.max(entry.hot_pages);
    }
    samples.add(Row::WorkerMemory, &[site], memory as f64);
    if rolled_back {
        samples.add(Row::RollBack, &[site], slowest as f64 / 1e9);
        samples.add(Row::RollBackPages, &[site], pages.into());
    }
}
