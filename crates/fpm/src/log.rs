//! Lines of the error log: `[21-Nov-2026 16:40:00] NOTICE: message`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tokamak_sys::time;

use crate::message::{Level, Message};

/// The longest line where `log_limit` allows more: php-fpm builds lines of its own in a buffer of
/// this size.
const LONGEST: usize = 2048;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// `log_level`: what is below is not written. With the lowest level lines also tell
    /// microseconds, and the line of the source.
    pub lowest: Level,
    /// `log_limit`: the longest line, its end included.
    pub limit: usize,
}

impl Default for Style {
    fn default() -> Style {
        Style { lowest: Level::default(), limit: 1024 }
    }
}

impl Style {
    /// The line of a message that process `pid` says, its end included; `None` if it is not to be
    /// written.
    pub fn line(&self, now: SystemTime, pid: u32, message: &Message) -> Option<String> {
        if message.level < self.lowest {
            return None;
        }
        let mut line = self.head(now, message.level);
        if self.lowest == Level::Debug {
            let who =
                Path::new(message.origin.file()).file_stem().unwrap_or_default().to_string_lossy();
            line.push_str(&format!("pid {pid}, {who}(), line {}: ", message.origin.line()));
        }
        line.push_str(&message.text);
        let limit = self.limit.min(LONGEST);
        if line.len() >= limit {
            let mut end = limit.saturating_sub(4);
            while !line.is_char_boundary(end) {
                end -= 1;
            }
            line.truncate(end);
            line.push_str("...");
        }
        line.push('\n');
        Some(line)
    }

    /// `[TIME] LEVEL: `
    pub fn head(&self, now: SystemTime, level: Level) -> String {
        format!("{} {}: ", self.time(now), level.name())
    }

    /// `[TIME]`
    pub fn time(&self, now: SystemTime) -> String {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds =
            time::local(since.as_secs().try_into().unwrap_or_default(), "%d-%b-%Y %H:%M:%S");
        match self.lowest {
            Level::Debug => format!("[{seconds}.{:06}]", since.subsec_micros()),
            _ => format!("[{seconds}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(1_795_176_000_000_123)
    }

    #[test]
    fn a_line() {
        let line =
            Style::default().line(now(), 7, &Message::new(Level::Notice, "ready")).expect("a line");
        assert!(line.starts_with('[') && line.contains("-Nov-2026 "), "{line}");
        assert!(line.ends_with(":00] NOTICE: ready\n"), "{line}");
    }

    #[test]
    fn debug_lines_have_microseconds_and_their_place() {
        let style = Style { lowest: Level::Debug, ..Style::default() };
        let line = style.line(now(), 7, &Message::new(Level::Debug, "ready")).expect("a line");
        let (head, tail) = line.split_once("] ").expect("a time");
        assert!(head.ends_with(":00.000123"), "{line}");
        assert!(tail.starts_with("DEBUG: pid 7, log(), line "), "{line}");
        assert!(tail.ends_with(": ready\n"), "{line}");
    }

    #[test]
    fn what_is_below_the_level_is_not_written() {
        let style = Style { lowest: Level::Error, ..Style::default() };
        assert_eq!(style.line(now(), 7, &Message::new(Level::Warning, "x")), None);
        assert!(style.line(now(), 7, &Message::new(Level::Alert, "x")).is_some());
    }

    #[test]
    fn a_long_line_is_cut() {
        for (limit, length) in [(1024, 1024), (8000, 2048)] {
            let style = Style { limit, ..Style::default() };
            for text in ["x".repeat(9000), "é".repeat(9000)] {
                let line = style.line(now(), 7, &Message::new(Level::Alert, text)).expect("a line");
                assert!(line.len() == length || line.len() == length - 1, "{}", line.len());
                assert!(line.ends_with("...\n"));
            }
        }
    }
}
