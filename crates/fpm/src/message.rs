//! What php-fpm says in its error log, without the time: a level and a text.

use std::io;
use std::panic::Location;

/// How grave a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For debugging.
    Debug,
    /// Normal operation.
    #[default]
    Notice,
    /// Something works, but not as configured.
    Warning,
    /// Something does not work.
    Error,
    /// The server does not work.
    Alert,
}

impl Level {
    /// The name in a log line.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Debug => "DEBUG",
            Level::Notice => "NOTICE",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
            Level::Alert => "ALERT",
        }
    }

    /// The level that `log_level` names, in any case.
    pub fn named(name: &str) -> Option<Level> {
        match name.to_ascii_lowercase().as_str() {
            "debug" => Some(Level::Debug),
            "notice" => Some(Level::Notice),
            "warning" | "warn" => Some(Level::Warning),
            "error" => Some(Level::Error),
            "alert" => Some(Level::Alert),
            _ => None,
        }
    }
}

/// One message, and where in the program it was written, which debug logs show.
#[derive(Clone, Debug)]
pub struct Message {
    /// How grave it is.
    pub level: Level,
    /// What it says, with `[pool NAME] ` at its head where it is about a pool.
    pub text: String,
    /// The line of the source that logs it.
    pub origin: &'static Location<'static>,
}

impl Message {
    /// A message whose origin is the caller's line.
    #[track_caller]
    pub fn new(level: Level, text: impl Into<String>) -> Message {
        Message { level, text: text.into(), origin: Location::caller() }
    }

    /// An error that ends with the system's reason: `TEXT: No such file or directory (2)`.
    #[track_caller]
    pub fn of_system(text: impl Into<String>, error: &io::Error) -> Message {
        let mut text = text.into();
        let reason = error.to_string();
        // The standard library writes the same reason with the number in other words.
        let reason = reason.split(" (os error").next().unwrap_or_default();
        text.push_str(&format!(": {reason} ({})", error.raw_os_error().unwrap_or_default()));
        Message { level: Level::Error, text, origin: Location::caller() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_error_reads_as_php_fpm_writes_it() {
        let message = Message::of_system(
            "failed to open configuration file 'x'",
            &io::Error::from_raw_os_error(2),
        );
        assert_eq!(
            message.text,
            "failed to open configuration file 'x': No such file or directory (2)"
        );
        assert_eq!(message.level, Level::Error);
        assert!(message.origin.file().ends_with("message.rs"));
    }

    #[test]
    fn levels_have_names_in_any_case() {
        assert_eq!(Level::named("WARN"), Some(Level::Warning));
        assert_eq!(Level::named("debug"), Some(Level::Debug));
        assert_eq!(Level::named("loud"), None);
        assert!(Level::Alert > Level::Error);
    }
}
