//! The requests that workers have under way, in the report.

use std::fmt;

use serde::Serialize;
use tokamak_sys::queue::{Cause, InFlight, InWords, State};

use super::{PoolReport, row, write_table};
use crate::watch::since;

/// One request that a worker serves.
#[derive(Debug, Serialize)]
pub struct RequestReport {
    /// Its method, cut to 16 bytes.
    pub method: String,
    /// Its target, cut to 256 bytes; control characters are escaped.
    pub uri: String,
    /// Since a worker took it.
    pub seconds: f64,
    /// `running`, `ready` (what it has waited for is there, and another request of the worker
    /// runs), or `waiting`. In other modes than async always `running`.
    pub state: &'static str,
    /// It has been running, or waiting, for so long.
    pub state_seconds: f64,
    /// What it waits for, in words; absent if it does not.
    pub waits_for: Option<String>,
    /// The descriptor that it waits for.
    pub descriptor: Option<u32>,
    /// Whom that is connected to, if that is known.
    pub peer: Option<String>,
    /// Further waits of its coroutines.
    pub more_waits: u8,
}

impl RequestReport {
    pub(super) fn new(request: InFlight, now: u64) -> RequestReport {
        let (state, cause, more_waits) = match request.state {
            State::Running => ("running", None, 0),
            State::Ready => ("ready", None, 0),
            State::Waiting { cause, others } => ("waiting", Some(cause), others),
        };
        let waits_for = cause.as_ref().map(|cause| InWords(cause, now).to_string());
        let (descriptor, peer) = match cause {
            Some(Cause::Descriptor { fd, peer }) => (Some(fd), peer),
            _ => (None, None),
        };
        RequestReport {
            method: request.method,
            uri: request.uri,
            seconds: tenths(request.claimed_at, now),
            state,
            state_seconds: tenths(request.since, now),
            waits_for,
            descriptor,
            peer,
            more_waits,
        }
    }

    /// What it does, for people.
    fn does(&self) -> String {
        let for_seconds = self.state_seconds;
        match (&self.waits_for, self.more_waits) {
            (Some(cause), 0) => format!("waits {for_seconds:.1} s for {cause}"),
            (Some(cause), more) => format!("waits {for_seconds:.1} s for {cause}, and {more} more"),
            (None, _) if self.state == "ready" => format!("ready, waited {for_seconds:.1} s"),
            (None, _) => format!("runs for {for_seconds:.1} s"),
        }
    }
}

fn tenths(then: u64, now: u64) -> f64 {
    (since(then, now).as_secs_f64() * 10.0).round() / 10.0
}

/// A table of the requests of workers that serve several at once. Those of the others stand in the
/// table of workers.
pub(super) fn write_requests(pools: &[PoolReport], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut table = vec![row(["SITE", "PID", "SECONDS", "STATE", "REQUEST"])];
    for pool in pools {
        for worker in pool.workers.iter().filter(|worker| worker.under_way.is_some()) {
            table.extend(worker.in_flight.iter().map(|request| {
                vec![
                    pool.site.clone(),
                    worker.pid.to_string(),
                    format!("{:.1}", request.seconds),
                    request.does(),
                    format!("{} {}", request.method, request.uri),
                ]
            }));
        }
    }
    if table.len() > 1 {
        writeln!(f)?;
        write_table(f, &table)?;
    }
    Ok(())
}
