//! Reads two counters of the kernel: the idle time of the processors, and how long a thread has
//! waited for a processor.

use std::fs::File;
use std::io::Read;

/// The kernel counts in hundredths of a second (`USER_HZ`), whatever its own clock.
const HUNDREDTH: f64 = 1e7;

/// Longest time between two readings that are compared, in nanoseconds. Decisions are a tick of 200
/// ms apart: a tenth of this would reject every reading, and ten times as much would average over
/// load that is long over.
const STALE: u64 = 1_000_000_000;

/// Compares two readings of the kernel's count.
#[derive(Debug, Default)]
pub struct Spare {
    /// The time of the last reading, and the idle time of all processors until then, in hundredths
    /// of a second.
    last: Option<(u64, u64)>,
}

impl Spare {
    /// How many processors were idle since the last reading. 0 if that was too long ago to compare:
    /// the next reading will tell. `None` if the kernel does not provide the number.
    pub fn look(&mut self, now: u64) -> Option<f64> {
        let mut text = [0; 256];
        let read = File::open("/proc/stat").and_then(|mut file| file.read(&mut text)).ok()?;
        let idle = idle(&text[..read])?;
        let (then, before) = self.last.replace((now, idle)).unwrap_or((0, 0));
        let passed = now.saturating_sub(then);
        if passed == 0 || passed > STALE {
            return Some(0.0);
        }
        Some(idle.saturating_sub(before) as f64 * HUNDREDTH / passed as f64)
    }
}

/// Nanoseconds for which the calling thread has waited for a processor since it began. `None` if
/// the kernel does not provide the number.
pub fn waited() -> Option<u64> {
    let mut text = [0; 96];
    let read =
        File::open("/proc/thread-self/schedstat").and_then(|mut file| file.read(&mut text)).ok()?;
    str::from_utf8(&text[..read]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Idle time of all processors, from the first line of `/proc/stat`: `idle` and `iowait` together.
fn idle(text: &[u8]) -> Option<u64> {
    let mut fields = text.split(|byte| *byte == b'\n').next()?.split(|byte| *byte == b' ');
    if fields.next()? != b"cpu" {
        return None;
    }
    let numbers = fields
        .filter(|field| !field.is_empty())
        .map(|field| str::from_utf8(field).ok()?.parse().ok());
    let numbers: Vec<Option<u64>> = numbers.take(5).collect();
    match numbers[..] {
        [_, _, _, Some(idle), Some(waiting)] => Some(idle + waiting),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_read() {
        assert_eq!(
            idle(b"cpu  10132153 290696 3084719 46828483 16683 0 25195 0 0 0\ncpu0 1 2"),
            Some(46_845_166)
        );
        for text in [
            &b""[..],
            b"cpu",
            b"cpu  1 2 3 4",
            b"cpu0 1 2 3 4 5",
            b"cpu  1 2 3 x 5",
            b"intr 1 2 3 4 5 6",
        ] {
            assert_eq!(idle(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn waiting_is_told_and_never_gets_less() {
        let before = waited().expect("this kernel says it");
        (0..100).for_each(|_| std::thread::yield_now());
        assert!(waited().unwrap() >= before);
    }

    #[test]
    fn only_what_lies_between_two_looks_counts() {
        let mut spare = Spare::default();
        let start = tokamak_cost::now();
        assert_eq!(spare.look(start), Some(0.0), "nothing to compare with");
        let processors = std::thread::available_parallelism().unwrap().get() as f64;
        let spare_now = spare.look(start + STALE).expect("this kernel says it");
        assert!((0.0..=processors + 1.0).contains(&spare_now), "{spare_now}");
        assert_eq!(spare.look(start + 9 * STALE), Some(0.0), "too long ago");
    }
}
