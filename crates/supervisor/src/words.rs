//! Deaths in words, for the log.

use tokamak_sys::control::{
    EXIT_BOOT_FAILED, EXIT_MISMATCH, EXIT_NO_FORK, EXIT_OUTDATED, EXIT_TAINTED, Why,
};

/// A death in words.
pub fn cause(why: Why) -> String {
    match why {
        Why::Crash(number) => match signal_name(number) {
            Some(name) => format!("signal {number} ({name})"),
            None => format!("signal {number}"),
        },
        Why::Exit(EXIT_BOOT_FAILED) => "the application failed while it booted".to_owned(),
        Why::Exit(EXIT_NO_FORK) => "the system refused another process".to_owned(),
        Why::Exit(EXIT_MISMATCH) => "tokamak and tokamak-php are of different versions".to_owned(),
        Why::Exit(EXIT_OUTDATED) => "the application has changed".to_owned(),
        Why::Exit(EXIT_TAINTED) => "it could not undo what a request did".to_owned(),
        Why::Exit(code) => format!("exit status {code}"),
        Why::TimedOut => "took too long".to_owned(),
        Why::Stale => "a connection of the application was dead".to_owned(),
    }
}

/// The name of a signal of which processes usually die.
pub fn signal_name(number: u8) -> Option<&'static str> {
    Some(match number {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes() {
        assert_eq!(cause(Why::Crash(11)), "signal 11 (SIGSEGV)");
        assert_eq!(cause(Why::Crash(40)), "signal 40");
        assert_eq!(cause(Why::Exit(3)), "exit status 3");
        assert_eq!(cause(Why::Exit(EXIT_BOOT_FAILED)), "the application failed while it booted");
    }
}
