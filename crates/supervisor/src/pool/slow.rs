//! An entry of a pool's slow log, from what its zygote has read in the memory of a worker.

use std::io::Write;
use std::time::SystemTime;

use tokamak_fpm::slow::{self, Frame};
use tokamak_fpm::{Level, Pool};
use tokamak_sys::log_file;

use crate::log;

/// Writes where the worker with this process id is: a trace as
/// [`tokamak_sys::control::FromZygote::Slow`] has it.
pub fn log_entry(pool: &Pool, pid: u32, trace: &str) {
    let (Some(slow), Some(style)) = (&pool.slow, log::style()) else { return };
    let (script, frames) = read(trace);
    let entry = slow::entry(
        &style,
        SystemTime::now(),
        &pool.name,
        pid,
        script,
        &frames,
        slow.trace_depth as usize,
    );
    // Opened each time: entries are rare, and the file may be moved away at any time.
    let file = log_file::open(&slow.file, 0o600);
    if let Err(error) = file.and_then(|mut file| file.write_all(entry.as_bytes())) {
        let path = slow.file.display();
        log::pool(
            Level::Error,
            &pool.name,
            format_args!("unable to open or write slowlog({path}): {error}"),
        );
    }
}

/// The script, and the calls that are whole.
fn read(trace: &str) -> (&str, Vec<Frame>) {
    let (script, calls) = trace.split_once('\n').unwrap_or((trace, ""));
    let whole = calls.rfind('\n').map_or("", |end| &calls[..end]);
    (script, whole.lines().filter_map(frame).collect())
}

fn frame(line: &str) -> Option<Frame> {
    let mut columns = line.split('\t');
    let mut next = || columns.next();
    Some(Frame {
        address: next()?.parse().ok()?,
        function: next()?.to_owned(),
        file: next()?.to_owned(),
        line: next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_far_as_it_is_whole() {
        let (script, frames) =
            read("/a.php\n16\tsleep\t/b.php\t3\nnonsense\n32\tf\t\t0\n48\tcut\t/c.p");
        let frame = |address, function: &str, file: &str, line| Frame {
            address,
            function: function.into(),
            file: file.into(),
            line,
        };
        assert_eq!(
            (script, frames),
            ("/a.php", vec![frame(16, "sleep", "/b.php", 3), frame(32, "f", "", 0)])
        );
        assert_eq!(read(""), ("", vec![]));
    }
}
