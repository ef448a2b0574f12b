//! Parses the lines that strace writes. A line of another form is an error that shows it, since a
//! table of half of the calls would be wrong.
//!
//! strace runs with `-xx`, so each string and path is written as `\x2f\x74`, and no byte that a
//! client or a file name chose can look like a part of the line.

use std::fmt;

use tokamak_observe::text::for_terminal;

use crate::phase::{Kind, kind};

/// What a descriptor refers to, as strace shows it with `-y`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A socket, by its inode.
    Socket(u64),
    /// A file by its path; pipes and the like too, as `pipe:[1]`.
    File(String),
    /// A device by its path.
    Device(String),
}

/// A descriptor in the arguments of a call, or its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number in the process.
    pub number: u32,
    /// What it refers to.
    pub target: Target,
}

/// A system call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The thread that made it.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// Nanoseconds since 1970 at which it began.
    pub start: u64,
    /// Nanoseconds since 1970 at which it ended.
    pub end: u64,
    /// The descriptors in its arguments, in their order.
    pub descriptors: Vec<Descriptor>,
    /// The descriptor that it returned.
    pub made: Option<Descriptor>,
    /// The first path in its arguments, for calls that take or return one.
    pub path: Option<String>,
    /// The port in its arguments, for calls that take or return an address.
    pub port: Option<u16>,
    /// The name of the error, if it failed.
    pub error: Option<String>,
    /// Arguments and result as strace wrote them.
    pub text: String,
}

/// What a line of strace says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole call: name, arguments, result, nanoseconds that it took.
    Whole(&'a str, &'a str, &'a str, u64),
    /// The beginning of a call: name, the arguments so far.
    Begun(&'a str, &'a str),
    /// The end of a begun call: name, the rest of the arguments, result, nanoseconds that it took.
    Resumed(&'a str, &'a str, &'a str, u64),
    /// A call that did not end: the process has ended in it, or strace was detached.
    Cut,
    /// A signal, or the exit of a process.
    Notice,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its number in the trace.
    pub line: usize,
    /// What it says.
    pub text: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Between quotes may be what clients have sent, so that is left out.
        let parts = self.text.split('"').enumerate();
        let shown = parts.map(|(nth, part)| if nth % 2 == 0 { part } else { "\"…\"" });
        let text: String = shown.collect::<String>().chars().take(200).collect();
        write!(
            f,
            "line {} of strace's output has another form than strace 6 writes: {text}",
            self.line
        )
    }
}

/// Parses a line: the thread, the time of the line, and the event.
pub fn event(line: &str) -> Option<(u32, u64, Event<'_>)> {
    let (thread, rest) = line.split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(' ')?;
    let (thread, time) = (thread.parse().ok()?, nanoseconds(time)?);
    let rest = number(rest).map_or(rest, |(_, rest)| rest);
    if rest.starts_with("--- ") || rest.starts_with("+++ ") {
        return Some((thread, time, Event::Notice));
    }
    let resumed = rest.strip_prefix("<... ");
    let (name, rest) = match resumed {
        Some(rest) => rest.split_once(" resumed>")?,
        None => rest.split_once('(')?,
    };
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    if rest.ends_with("<detached ...>") {
        return Some((thread, time, Event::Cut));
    }
    if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
        let event = if resumed.is_some() { return None } else { Event::Begun(name, begun) };
        return Some((thread, time, event));
    }
    let at = rest.rfind(" = ")?;
    let (arguments, result) = (rest[..at].trim_end(), &rest[at + 3..]);
    if result == "?" {
        return Some((thread, time, Event::Cut));
    }
    let arguments = arguments.strip_suffix(')')?;
    let (result, took) = result.strip_suffix('>')?.rsplit_once(" <")?;
    let took = nanoseconds(took)?;
    let event = match resumed {
        Some(_) => Event::Resumed(name, arguments, result, took),
        None => Event::Whole(name, arguments, result, took),
    };
    Some((thread, time, event))
}

/// The kernel's number of a call, which `-n` puts before its name, and the rest.
fn number(text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.strip_prefix('[')?.split_once("] ")?;
    Some((number.trim().parse().ok()?, rest))
}

/// The number and the name of the call that a line shows from its beginning.
pub fn number_and_name(line: &str) -> Option<(u32, &str)> {
    let (_, rest) = line.split_once(' ')?;
    let (_, rest) = rest.trim_start().split_once(' ')?;
    let (number, rest) = number(rest)?;
    Some((number, rest.split_once('(')?.0)).filter(|(_, name)| !name.starts_with('<'))
}

/// Seconds with a fraction, as nanoseconds.
pub fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let fraction: u64 = fraction.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction * scale)
}

/// Builds a call that has ended.
pub fn call(thread: u32, name: &str, arguments: &str, result: &str, start: u64, took: u64) -> Call {
    let error = result
        .strip_prefix("-1 ")
        .or_else(|| result.strip_prefix("? "))
        .and_then(|rest| rest.split(' ').next())
        .map(str::to_owned);
    Call {
        thread,
        name: name.to_owned(),
        start,
        end: start.saturating_add(took),
        descriptors: descriptors(arguments),
        made: descriptors(result).into_iter().next().filter(|_| error.is_none()),
        path: first_string(arguments).filter(|_| takes_path(name)),
        port: port(arguments),
        error,
        text: format!("{arguments}) = {result}"),
    }
}

/// Whether the first string in the arguments of a call is a path. In others it may be what clients
/// have sent, which is never shown.
fn takes_path(name: &str) -> bool {
    !matches!(kind(name), Kind::Other | Kind::Read | Kind::Write | Kind::Close | Kind::Wait)
        || PATHS.contains(&name)
}

/// Further calls with paths: [`kind`] says `Other` of them.
const PATHS: &[&str] = &[
    "bind",
    "chdir",
    "chmod",
    "chown",
    "execve",
    "execveat",
    "fchmodat",
    "fchownat",
    "getcwd",
    "getxattr",
    "inotify_add_watch",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "statfs",
    "symlink",
    "symlinkat",
    "truncate",
    "unlink",
    "unlinkat",
    "utimensat",
];

/// All descriptors of a text, in their order: a number, and its target in angle brackets.
fn descriptors(text: &str) -> Vec<Descriptor> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('<') {
        let digits = text[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
        let number = &text[at - digits..at];
        let stands_apart = !text[..at - digits]
            .ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let parsed = number.parse().ok().zip(target(&text[at + 1..]));
        if let (Some((number, target)), true) = (parsed, stands_apart) {
            found.push(Descriptor { number, target });
        }
    }
    found
}

/// The target that the text after an opening bracket begins with; `None` if it is not that of a
/// descriptor.
fn target(text: &str) -> Option<Target> {
    let length = text.find(|c: char| !(c == '\\' || c == 'x' || c.is_ascii_hexdigit()))?;
    let (path, rest) = text.split_at(length);
    let path = decoded(path.strip_prefix("\\x").map(|_| path)?);
    if rest.starts_with("<char") {
        return Some(Target::Device(path));
    }
    let inode = path.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
    Some(match inode.and_then(|inode| inode.parse().ok()) {
        Some(inode) => Target::Socket(inode),
        None => Target::File(path),
    })
}

/// The port in a socket address.
fn port(arguments: &str) -> Option<u16> {
    let (_, rest) = arguments.split_once("_port=htons(")?;
    rest.split_once(')')?.0.parse().ok()
}

fn first_string(arguments: &str) -> Option<String> {
    let (_, rest) = arguments.split_once('"')?;
    Some(decoded(rest.split_once('"')?.0))
}

/// Decodes `\x2f\x74`; any other text is returned unchanged. Control characters are replaced, since
/// a terminal would execute them.
fn decoded(text: &str) -> String {
    let bytes: Option<Vec<u8>> =
        text.split("\\x").skip(1).map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
    match bytes {
        Some(bytes) if text.starts_with("\\x") => {
            for_terminal(&String::from_utf8_lossy(&bytes)).into_owned()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
