//! A pool in php-fpm's words and numbers, which monitoring looks for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokamak_fpm::config::Manager;
use tokamak_fpm::{Level, Pool};
use tokamak_sys::control::{EXIT_RETIRED, Why};
use tokamak_sys::queue::{PoolNumber, Segment};

use crate::log;
use crate::words::signal_name;

/// The numbers of a pool that begins.
pub fn introduce(segment: &Segment, pool: &Pool, queue: usize) {
    let manager = match pool.manager {
        Manager::Static => 1,
        Manager::Dynamic { .. } => 2,
        Manager::OnDemand { .. } => 3,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    for (number, value) in [
        (PoolNumber::Manager, manager),
        (PoolNumber::Started, now.as_secs()),
        (PoolNumber::ListenQueueLen, queue as u64),
    ] {
        segment.raise_pool_number(number, value);
    }
}

/// The pool has as many workers as it may, and would need more.
pub fn limited(pool: &str, max: usize) {
    let message =
        format_args!("server reached pm.max_children setting ({max}), consider raising it");
    log::pool(Level::Warning, pool, message);
}

/// A worker is there; `replaces` says whether another one has ended before.
pub fn started(pool: &str, pid: u32, replaces: bool) {
    let level = if replaces { Level::Notice } else { Level::Debug };
    log::pool(level, pool, format_args!("child {pid} started"));
}

/// A worker has ended; `was_asked` says whether the pool had too many.
pub fn exited(pool: &str, pid: u32, why: Why, lived: Duration, was_asked: bool) {
    let seconds = format!("{}.{:06}", lived.as_secs(), lived.subsec_micros());
    if was_asked {
        let message = format_args!(
            "child {pid} has been killed by the process management after {seconds} seconds from \
                start"
        );
        return log::pool(Level::Debug, pool, message);
    }
    let (level, how) = match why {
        Why::Crash(number) => {
            let name = signal_name(number).unwrap_or_default();
            (Level::Warning, format!("on signal {number} ({name})"))
        }
        Why::TimedOut => (Level::Warning, "on signal 9 (SIGKILL)".to_owned()),
        Why::Exit(code) if code != EXIT_RETIRED => (Level::Warning, format!("with code {code}")),
        Why::Exit(_) | Why::Stale => (Level::Notice, "with code 0".to_owned()),
    };
    log::pool(
        level,
        pool,
        format_args!("child {pid} exited {how} after {seconds} seconds from start"),
    );
}
