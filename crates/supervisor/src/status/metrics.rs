//! The supervisor's part of the metrics: of the board and of what it counts anyway.

use tokamak_config::Mode;
use tokamak_metrics::{Row, Samples};
use tokamak_sys::process;

use super::LostReport;
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
    let lost = LostReport::of(generation);
    samples.add(Row::LostServerLines, &["access"], lost.access as f64);
    samples.add(Row::LostServerLines, &["error"], lost.error as f64);
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
    let totals = generation.totals(pool);
    for (ending, count) in totals.endings.counts() {
        samples.add(Row::WorkerEndings, &[site, ending.name()], count as f64);
    }
    samples.add(Row::WorkerCpu, &[site], totals.processor.as_secs_f64());
    let (mut memory, mut under_way) = (0_u64, 0_u64);
    for (_, _, entry) in pool.workers() {
        memory = memory.saturating_add(entry.memory);
        under_way += u64::from(entry.under_way);
    }
    samples.add(Row::LostLines, &[site], pool.segment().lost_lines() as f64);
    samples.add(Row::WorkerMemory, &[site], memory as f64);
    if pool.site.mode == Mode::Async {
        samples.add(Row::UnderWay, &[site], under_way as f64);
        samples.add(Row::Held, &[site], totals.held as f64);
    }
    if pool.is_sealed() {
        samples.add_times(Row::RollBack, &[site], totals.roll_backs);
        samples.add_times(Row::RollBackPages, &[site], totals.pages);
        if let Some(image) = pool.image() {
            let private = image.resident.saturating_sub(image.shared);
            for (memory, bytes) in [("private", private), ("shared", image.shared)] {
                samples.add(Row::Image, &[site, memory], bytes as f64);
            }
        }
    }
}
