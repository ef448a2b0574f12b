//! The supervisor's lines in the error log: `2026-11-20T12:00:00.123Z LEVEL [site] message
//! key=value…`.
//!
//! Each line is one write to standard error, so lines of several processes never mix. A server that
//! stands in for php-fpm writes as php-fpm does, since monitoring looks for its words:
//! `[20-Nov-2026 12:00:00] LEVEL: [pool NAME] message`.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokamak_fpm as fpm;
use tokamak_fpm::log::Style;

/// How php-fpm writes, if that is the manner.
static STYLE: Mutex<Option<Style>> = Mutex::new(None);

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing is wrong.
    Info,
    /// Something was wrong, and has been dealt with.
    Warn,
    /// Needs attention.
    Error,
}

/// Writes as php-fpm does from now on.
pub fn write_as_fpm(global: &fpm::Global) {
    let style = Style { lowest: global.log_level, limit: global.log_limit };
    *STYLE.lock().unwrap_or_else(PoisonError::into_inner) = Some(style);
}

/// How php-fpm writes, if that is the manner.
pub fn style() -> Option<Style> {
    *STYLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a line about the whole server.
pub fn line(level: Level, message: fmt::Arguments<'_>) {
    if style().is_some() {
        fpm(level.of_fpm(), message);
    } else {
        write(&format(SystemTime::now(), level, "-", message));
    }
}

/// Writes a line about one site.
pub fn site(level: Level, site: &str, message: fmt::Arguments<'_>) {
    if style().is_some() {
        pool(level.of_fpm(), site, message);
    } else {
        write(&format(SystemTime::now(), level, site, message));
    }
}

/// Writes a line that php-fpm has other words for.
pub fn either(own: fmt::Arguments<'_>, of_fpm: fmt::Arguments<'_>) {
    if style().is_some() {
        fpm(fpm::Level::Notice, of_fpm);
    } else {
        line(Level::Info, own);
    }
}

/// Writes a line that only php-fpm has, if this is its manner.
#[track_caller]
pub fn fpm(level: fpm::Level, message: fmt::Arguments<'_>) {
    let text = message.to_string().replace(|c: char| c.is_control(), " ");
    let message = fpm::Message::new(level, text);
    let line =
        style().and_then(|style| style.line(SystemTime::now(), std::process::id(), &message));
    if let Some(line) = line {
        write(&line);
    }
}

/// Writes a line about a pool that only php-fpm has, if this is its manner.
#[track_caller]
pub fn pool(level: fpm::Level, pool: &str, message: fmt::Arguments<'_>) {
    fpm(level, format_args!("[pool {pool}] {message}"));
}

impl Level {
    /// Information that php-fpm does not log has its level for debugging, so it is not shown by
    /// default.
    fn of_fpm(self) -> fpm::Level {
        match self {
            Level::Info => fpm::Level::Debug,
            Level::Warn => fpm::Level::Warning,
            Level::Error => fpm::Level::Error,
        }
    }
}

fn write(text: &str) {
    write_raw(text.as_bytes());
}

/// Writes what has been made a line, or a part of one, elsewhere.
pub fn write_raw(text: &[u8]) {
    // A log that cannot be written must not stop the server, and there is nowhere else to say so.
    let _ = std::io::stderr().write_all(text);
}

fn format(now: SystemTime, level: Level, site: &str, message: fmt::Arguments<'_>) -> String {
    let level = match level {
        Level::Info => "INFO",
        Level::Warn => "WARN",
        Level::Error => "ERROR",
    };
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Texts of other processes are quoted in some messages: no control character may begin a new
    // line.
    let message = message.to_string().replace(|c: char| c.is_control(), " ");
    format!("{} {level} [{site}] {message}\n", Timestamp(since))
}

/// A time since 1970, shown as UTC with milliseconds.
struct Timestamp(Duration);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (year, month, day) = civil(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let milli = self.0.subsec_millis();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// The date of a day counted from 1970-01-01. Years are counted from March, so that the leap day is
/// their last; 719 468 is the number of days from 0000-03-01 to 1970-01-01.
fn civil(day: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097; // days in 400 years
    let days = day + 719_468;
    let (era, of_era) = (days / ERA, days % ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / (ERA - 1)) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153; // 0: March
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis)
    }

    #[test]
    fn a_line() {
        let line =
            format(at(1_795_176_000, 123), Level::Warn, "example.org", format_args!("pid {}", 7));
        assert_eq!(line, "2026-11-20T12:00:00.123Z WARN [example.org] pid 7\n");
    }

    #[test]
    fn a_quoted_text_cannot_forge_a_line() {
        let line = format(at(0, 0), Level::Info, "-", format_args!("{}", "a\r\nb"));
        assert_eq!(line, "1970-01-01T00:00:00.000Z INFO [-] a  b\n");
    }

    #[test]
    fn dates() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_782, (2024, 2, 29)),
            (20_818, (2026, 12, 31)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil(day), date, "{day}");
        }
    }
}
