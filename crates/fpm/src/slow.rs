//! An entry of the slow log: which script, and where it stands.

use std::time::SystemTime;

use crate::log::Style;

/// A call that has not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function's name, without brackets.
    pub function: String,
    /// The file that called it; empty if no file did.
    pub file: String,
    /// The line of that file.
    pub line: u32,
    /// Where the worker keeps the call; 0 if that is not known.
    pub address: u64,
}

/// The entry of a worker, its innermost call first. `depth` is `request_slowlog_trace_depth`.
pub fn entry(
    style: &Style,
    now: SystemTime,
    pool: &str,
    pid: u32,
    script: &str,
    frames: &[Frame],
    depth: usize,
) -> String {
    // Two blanks: the time brings one of its own in php-fpm.
    let mut text =
        format!("\n{}  [pool {pool}] pid {pid}\nscript_filename = {script}\n", style.time(now));
    for Frame { function, file, line, address } in frames.iter().take(depth) {
        let file = if file.is_empty() { "unknown" } else { file };
        text.push_str(&format!("[0x{address:016x}] {function}() {file}:{line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn an_entry() {
        let frame = |function: &str, line, address| Frame {
            function: function.into(),
            file: "/srv/a.php".into(),
            line,
            address,
        };
        let frames = [frame("sleep", 3, 0x7f00), frame("slow", 7, 0), frame("main", 9, 0)];
        let text = entry(&Style::default(), UNIX_EPOCH, "www", 7, "/srv/a.php", &frames, 2);
        let (head, rest) = text.split_once("]  [pool www] pid 7\n").expect("a head");
        assert!(head.starts_with("\n["), "{text}");
        assert_eq!(
            rest,
            "script_filename = /srv/a.php\n[0x0000000000007f00] sleep() /srv/a.php:3\n\
             [0x0000000000000000] slow() /srv/a.php:7\n"
        );
    }
}
