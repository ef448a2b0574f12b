//! The life of a pool's workers in php-fpm's words, which monitoring looks for.

use std::time::Duration;

use tokamak_fpm::Level;
use tokamak_sys::control::{EXIT_RETIRED, Why};

use crate::log;
use crate::words::signal_name;

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
            "child {pid} has been killed by the process management after {seconds} seconds from start"
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
    log::pool(level, pool, format_args!("child {pid} exited {how} after {seconds} seconds from start"));
}
