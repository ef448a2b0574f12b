//! The supervisor's lines in the error log: `2026-11-20T12:00:00.123Z LEVEL [site] message
//! key=value…`.
//!
//! Each line, and each entry of several lines, is one write to standard error, so those of several
//! processes never mix. A server that stands in for php-fpm writes as php-fpm does, since
//! monitoring looks for its words: `[20-Nov-2026 12:00:00] LEVEL: [pool NAME] message`.

mod backlog;

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Stderr, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use tokamak_cost::Timestamp;
use tokamak_fpm as fpm;
use tokamak_fpm::log::Style;
use tokamak_sys::outlet::{Outlet, opened_anew};
use tokamak_sys::process;

use backlog::Backlog;

/// How long a server that ends tries to write what waits, as long as the front does.
const LAST_WORDS: Duration = Duration::from_secs(1);

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

/// Longest entry of several lines. A pipe takes no more at once (`PIPE_BUF`), so a longer one could
/// have lines of other processes in its middle.
const LONGEST_ENTRY: usize = 4096;
/// What the lines of an entry below its first one begin with. No other line begins so, so none of
/// them can be taken for an entry.
const INDENT: &str = "    ";

/// Writes an entry of several lines about one site, at once. Lines for which it has no room are
/// left out, and counted.
pub fn entry(level: Level, site: &str, message: fmt::Arguments<'_>, below: &[String]) {
    write(&with_lines(format(SystemTime::now(), level, site, message), below));
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

thread_local! {
    /// Where this thread's lines go, if not to standard error; nowhere, if that is absent.
    static KEPT: RefCell<Option<Option<Vec<String>>>> = const { RefCell::new(None) };
}

/// From now on this thread's lines do not go to standard error: they are kept, or dropped.
pub fn keep(keeps: bool) {
    KEPT.set(Some(keeps.then(Vec::new)));
}

/// The lines that this thread has kept.
pub fn divert(visit: impl FnOnce(&mut Vec<String>)) {
    KEPT.with_borrow_mut(|kept| {
        if let Some(Some(lines)) = kept {
            visit(lines);
        }
    });
}

fn write(text: &str) {
    let is_kept = KEPT.with_borrow_mut(|kept| {
        if let Some(Some(lines)) = kept {
            lines.push(text.trim_end().to_owned());
        }
        kept.is_some()
    });
    if is_kept {
        return;
    }
    write_raw(text.as_bytes());
}

/// Writes what has been made a line, or a part of one, elsewhere.
pub fn write_raw(text: &[u8]) {
    let mut output = output();
    if output.outlet.is_some() {
        output.waiting.add(text);
        output.flush();
    } else {
        // A log that cannot be written must not stop the server, and there is nowhere else to say
        // so.
        let _ = io::stderr().write_all(text);
    }
}

/// How many lines of this process were lost so far.
pub fn all_lost() -> u64 {
    output().waiting.all_lost()
}

/// Standard error while the server runs, and the lines that wait for it.
#[derive(Debug)]
struct Output {
    outlet: Option<Outlet<Stderr>>,
    waiting: Backlog,
}

static OUTPUT: Mutex<Output> = Mutex::new(Output { outlet: None, waiting: Backlog::new() });

fn output() -> MutexGuard<'static, Output> {
    // No code under the lock can panic half-way.
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Output {
    fn flush(&mut self) {
        let Some(outlet) = &self.outlet else { return };
        self.waiting.flush(|bytes| outlet.write(bytes));
        if let Some(lost) = self.waiting.take_lost() {
            self.waiting.add(lost_lines(lost).as_bytes());
            self.waiting.flush(|bytes| outlet.write(bytes));
        }
    }
}

fn lost_lines(count: u64) -> String {
    let now = SystemTime::now();
    let message = format!("the error log lost {count} lines");
    match style() {
        None => format(now, Level::Warn, "-", format_args!("{message}")),
        Some(style) => {
            let message = fpm::Message::new(fpm::Level::Warning, message);
            style.line(now, std::process::id(), &message).unwrap_or_default()
        }
    }
}

/// No line is waited for as long as this lives. Dropping it waits a limited time until all are
/// written.
#[derive(Debug)]
pub struct Open(());

/// From now on lines that find no room in standard error wait, and the caller does not.
pub fn open() -> Open {
    output().outlet = Some(Outlet::of(io::stderr()));
    Open(())
}

impl Drop for Open {
    fn drop(&mut self) {
        let until = Instant::now() + LAST_WORDS;
        flush();
        while !output().waiting.is_empty() && Instant::now() < until {
            sleep(Duration::from_millis(1));
            flush();
        }
        output().outlet = None;
    }
}

/// Standard error for a process that must not wait for who reads there, whatever its user may open;
/// `None`: it never waits.
pub fn without_waiting() -> Option<OwnedFd> {
    opened_anew(io::stderr())
}

/// Writes lines that wait, as far as there is room now.
pub fn flush() {
    output().flush();
}

/// Whether lines wait for room.
pub fn has_backlog() -> bool {
    !output().waiting.is_empty()
}

/// Lets standard error go to this file, for this process and what it starts from now on. Lines that
/// wait go there too.
///
/// # Errors
/// There is no descriptor left.
pub fn redirect(file: BorrowedFd<'_>) -> io::Result<()> {
    process::redirect_stderr(file)?;
    let mut output = output();
    if output.outlet.is_some() {
        output.outlet = Some(Outlet::of(io::stderr()));
    }
    Ok(())
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

/// An entry that begins with this line, which has an end.
fn with_lines(mut entry: String, below: &[String]) -> String {
    for (nth, line) in below.iter().enumerate() {
        let line = line.replace(|c: char| c.is_control(), " ");
        let rest = format!("{INDENT}{} more lines\n", below.len() - nth);
        if entry.len() + INDENT.len() + line.len() + 1 + rest.len() > LONGEST_ENTRY {
            entry.push_str(&rest);
            break;
        }
        entry.extend([INDENT, &line, "\n"]);
    }
    entry
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn lines_of_an_entry_are_indented_and_bounded() {
        let below = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect::<Vec<_>>();
        let entry =
            with_lines("first\n".to_owned(), &below(&["#0 f()", "2026 ERROR\n[-] \u{85}x"]));
        assert_eq!(entry, "first\n    #0 f()\n    2026 ERROR [-]  x\n");
        let long = "x".repeat(1000);
        let entry = with_lines("first\n".to_owned(), &below(&[&*long; 9]));
        assert!(entry.len() <= LONGEST_ENTRY, "{}", entry.len());
        assert!(entry.ends_with("x\n    5 more lines\n"), "{entry}");
    }
}
