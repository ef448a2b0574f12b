//! Lines for the server's error log, which is standard error: one write a line, so that lines of
//! several workers never mix.
//!
//! Nothing waits for who reads there: a script that logs would hold its worker, and all requests of
//! one in async mode. A line that finds no room is lost and counted, and a later one says how many
//! there were.
//!
//! Where the workers' standard error is their own (`output.rs`), the log is another descriptor. In
//! a pool of `tokamak fpm` lines look like php-fpm's.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokamak_cost::Timestamp;
use tokamak_sys::outlet::Outlet;
use tokamak_sys::queue::Segment;

/// How serious a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    #[default]
    Info,
    Warn,
    Error,
    /// Nothing that a worker says is so serious; with this one as the least, it says nothing.
    Alert,
}

impl Level {
    /// The level with php-fpm's name for it in its configuration.
    pub fn read(name: &str) -> Option<Level> {
        Some(match name {
            "debug" => Level::Debug,
            "notice" => Level::Info,
            "warning" => Level::Warn,
            "error" => Level::Error,
            "alert" => Level::Alert,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
            Level::Alert => "ALERT",
        }
    }

    /// As php-fpm writes it.
    pub fn name_of_fpm(self) -> &'static str {
        match self {
            Level::Info => "NOTICE",
            Level::Warn => "WARNING",
            _ => self.name(),
        }
    }
}

/// What lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As the server's.
    Site,
    /// As php-fpm's.
    Fpm,
}

struct Log {
    outlet: Outlet<OwnedFd>,
    like_fpm: bool,
}

/// Where lines go; until it is known, to standard error.
static LOG: OnceLock<Log> = OnceLock::new();
/// Where lines that are lost are counted.
static POOL: OnceLock<Arc<Segment>> = OnceLock::new();
/// There was no room for the end of the last line.
static IS_TORN: AtomicBool = AtomicBool::new(false);

/// From now on this descriptor is the log. Once.
pub fn write_to(log: OwnedFd, manner: Manner) {
    let log = Log { outlet: Outlet::of(log), like_fpm: manner == Manner::Fpm };
    assert!(LOG.set(log).is_ok(), "the log is chosen once");
}

/// Lines that are lost are counted there from now on. Once.
pub fn count_losses_in(pool: Arc<Segment>) {
    assert!(POOL.set(pool).is_ok(), "a process is of one pool");
}

/// Writes one line: time, level, site, message, `key="value"` pairs.
pub fn line(level: Level, site: &str, message: &[u8], pairs: &[(&str, &[u8])]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let compose = if LOG.get().is_some_and(|log| log.like_fpm) { compose_for_fpm } else { compose };
    let is_written = put(compose(now, level, site, message, pairs));
    let Some(pool) = POOL.get() else { return };
    if is_written {
        pool.report_lost_lines(|count| {
            let message = format!("the error log lost {count} lines");
            put(compose(now, Level::Warn, site, message.as_bytes(), &[]))
        });
    } else {
        pool.count_lost_line();
    }
}

/// Whether there was room for all of it.
fn put(mut line: Vec<u8>) -> bool {
    if IS_TORN.load(Ordering::Relaxed) {
        line.insert(0, b'\n');
    }
    let write = |line: &[u8]| match LOG.get() {
        Some(log) => log.outlet.write(line),
        None => Outlet::of(io::stderr()).write(line),
    };
    let written = loop {
        match write(&line) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result.unwrap_or(0),
        }
    };
    if written > 0 {
        IS_TORN.store(written < line.len(), Ordering::Relaxed);
    }
    written == line.len()
}

fn compose(
    now: Duration,
    level: Level,
    site: &str,
    message: &[u8],
    pairs: &[(&str, &[u8])],
) -> Vec<u8> {
    let mut text = Vec::with_capacity(message.len() + 160);
    let _ = write!(text, "{} {} [{site}] ", Timestamp(now), level.name());
    put_message(&mut text, message, pairs);
    text
}

/// `[21-Nov-2026 16:40:00] NOTICE: [pool www] message`, in local time.
fn compose_for_fpm(
    now: Duration,
    level: Level,
    pool: &str,
    message: &[u8],
    pairs: &[(&str, &[u8])],
) -> Vec<u8> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = now.as_secs() as libc::time_t;
    // SAFETY: `tm` is plain data, which the call fills or leaves as it is.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut tm);
        tm
    };
    let month = MONTHS[tm.tm_mon.rem_euclid(12) as usize];
    let mut text = Vec::with_capacity(message.len() + 160);
    let _ = write!(
        text,
        "[{:02}-{month}-{:04} {:02}:{:02}:{:02}] {}: [pool {pool}] ",
        tm.tm_mday,
        tm.tm_year + 1900,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        level.name_of_fpm()
    );
    put_message(&mut text, message, pairs);
    text
}

fn put_message(text: &mut Vec<u8>, message: &[u8], pairs: &[(&str, &[u8])]) {
    escape(text, message, false);
    for (key, value) in pairs {
        let _ = write!(text, " {key}=\"");
        escape(text, value, true);
        text.push(b'"');
    }
    text.push(b'\n');
}

/// A message of several lines is one line, and control characters never reach a terminal.
fn escape(to: &mut Vec<u8>, from: &[u8], quoted: bool) {
    for &byte in from {
        match byte {
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\r' => to.extend_from_slice(b"\\r"),
            b'\t' => to.extend_from_slice(b"\\t"),
            b'"' | b'\\' if quoted => to.extend_from_slice(&[b'\\', byte]),
            0..32 | 127 => {
                let _ = write!(to, "\\x{byte:02x}");
            }
            _ => to.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        let text = compose(
            Duration::from_millis(1_795_177_410_007),
            Level::Error,
            "example.org",
            b"PHP Fatal error:  a\nb\x1b",
            &[("request", b"GET /\"x")],
        );
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "2026-11-20T12:23:30.007Z ERROR [example.org] PHP Fatal error:  a\\nb\\x1b \
                request=\"GET /\\\"x\"\n"
        );
    }

    #[test]
    fn a_pools_line_looks_like_php_fpms() {
        let text = compose_for_fpm(
            Duration::from_secs(1_795_177_410),
            Level::Info,
            "www",
            b"child left",
            &[],
        );
        let text = String::from_utf8(text).unwrap();
        // The hour and the day are local.
        assert!(text.starts_with('[') && text.contains("-Nov-2026 "), "{text}");
        assert!(text.ends_with(":30] NOTICE: [pool www] child left\n"), "{text}");
        assert_eq!(Level::read("warning").map(Level::name_of_fpm), Some("WARNING"));
    }
}
