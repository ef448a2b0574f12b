//! The access log of a pool, in the format that the pool configures.

use std::borrow::Cow;
use std::os::unix::process::parent_id;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokamak_fpm::Pool;
use tokamak_fpm::access::{self as of_fpm, TOO_LONG, is_suppressed};
use tokamak_upstream::record::Writer;
use tokamak_upstream::shm::{ResponseHead, UsageFrame};

use super::parameter;
use crate::log;

/// The access log of a pool, for one event loop.
pub struct Journal {
    pool: Arc<Pool>,
    buffer: Mutex<log::Buffer>,
    /// The process id of the master, which started this process.
    parent: u32,
}

/// A request that has been answered.
pub struct PoolLogEntry<'a> {
    /// The request's parameters.
    pub record: &'a Writer,
    /// When the request began, in nanoseconds.
    pub begun: u64,
    /// The address of the web server, if it has one.
    pub peer: Option<&'a str>,
    /// Length of the request's body.
    pub body: u64,
    /// The status of the response.
    pub status: u16,
    /// Its head, if a worker made it.
    pub head: Option<&'a ResponseHead>,
    /// What the worker reported about the request.
    pub usage: Option<&'a UsageFrame>,
    /// The worker's process id.
    pub process: Option<u32>,
}

impl Journal {
    /// The log of `pool`, whose lines go to `log`.
    pub fn new(pool: &Arc<Pool>, log: &log::Log) -> Journal {
        Journal { pool: pool.clone(), buffer: Mutex::new(log.buffer()), parent: parent_id() }
    }

    /// Writes the line of a request.
    pub fn write(&self, entry: &PoolLogEntry<'_>) {
        let Some(configured) = &self.pool.access else { return };
        let usage = entry.usage.map(UsageFrame::usage).unwrap_or_default();
        let text = |name: &str| parameter(entry.record, name.as_bytes());
        let or = |found: &'_ [u8], name: &str| -> Cow<'_, [u8]> {
            if found.is_empty() {
                text(name).unwrap_or_default().to_vec().into()
            } else {
                found.to_vec().into()
            }
        };
        let duration = Duration::from_nanos(tokamak_cost::now().saturating_sub(entry.begun));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let request = of_fpm::Request {
            cpu: (Duration::from_micros(usage.user_cpu), Duration::from_micros(usage.system_cpu)),
            duration,
            memory: usage.memory,
            script: &or(usage.script, "SCRIPT_FILENAME"),
            body_length: entry.body,
            method: text("REQUEST_METHOD").unwrap_or_default(),
            pool: &self.pool.name,
            uri: &or(usage.uri, "SCRIPT_NAME"),
            query: text("QUERY_STRING").unwrap_or_default(),
            address: entry.peer,
            status: if usage.status == 0 { entry.status } else { usage.status },
            accepted: now.saturating_sub(duration).as_secs() as i64,
            now: now.as_secs() as i64,
            user: usage.user,
            process: entry.process.unwrap_or(0),
            parent: self.parent,
            variable: &|name| text(name).map(<[u8]>::to_vec),
            header: &|name| header(entry.head?, name),
        };
        if is_suppressed(&request, &configured.suppress_paths) {
            return;
        }
        let Some(line) = configured.format.line(&request) else { return };
        if line.is_cut {
            log::noticed(&self.pool.name, TOO_LONG);
        }
        self.buffer().add(&line.bytes);
    }

    /// Passes the collected lines to the log's thread.
    pub fn flush(&self) {
        self.buffer().flush();
    }

    fn buffer(&self) -> MutexGuard<'_, log::Buffer> {
        // If a panic has poisoned the lock, it has been reported. The lines are still usable.
        self.buffer.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn header(head: &ResponseHead, wanted: &str) -> Option<Vec<u8>> {
    let mut headers = head.headers();
    headers.find(|(name, _)| *name == wanted.as_bytes()).map(|(_, value)| value.to_vec())
}
