//! Lines for the server's error log, which is standard error: one write a line, so that lines of several
//! workers never mix.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How serious a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}

/// Writes one line: time, level, site, message, `key="value"` pairs.
pub fn line(level: Level, site: &str, message: &[u8], pairs: &[(&str, &[u8])]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = compose(now, level, site, message, pairs);
    // A log that cannot be written leaves nobody to tell.
    let _ = std::io::stderr().write_all(&text);
}

fn compose(now: Duration, level: Level, site: &str, message: &[u8], pairs: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = Vec::with_capacity(message.len() + 160);
    stamp(&mut text, now);
    let _ = write!(text, " {} [{site}] ", level.name());
    escape(&mut text, message, false);
    for (key, value) in pairs {
        let _ = write!(text, " {key}=\"");
        escape(&mut text, value, true);
        text.push(b'"');
    }
    text.push(b'\n');
    text
}

/// A message of several lines is one line, and nobody can write to a terminal what it would obey.
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

/// UTC with milliseconds. Days to a date after the proleptic Gregorian calendar.
fn stamp(to: &mut Vec<u8>, now: Duration) {
    let second = now.as_secs() % 86_400;
    let days = now.as_secs() / 86_400 + 719_468;
    let (era, in_era) = (days / 146_097, days % 146_097);
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let day_of_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second, milli) = (second / 3600, second / 60 % 60, second % 60, now.subsec_millis());
    let _ = write!(to, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z");
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
            "2026-11-20T12:23:30.007Z ERROR [example.org] PHP Fatal error:  a\\nb\\x1b request=\"GET /\\\"x\"\n"
        );
    }

    #[test]
    fn leap_days_and_new_years_eve() {
        for (seconds, expected) in
            [(951_782_400, "2000-02-29T00:00:00.000Z"), (1_735_689_599, "2024-12-31T23:59:59.000Z")]
        {
            let mut text = Vec::new();
            stamp(&mut text, Duration::from_secs(seconds));
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
