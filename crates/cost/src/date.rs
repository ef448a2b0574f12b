//! UTC as text. In one place, for the logs of all processes.

use std::fmt;
use std::time::Duration;

/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH: u64 = 719_468;

/// Days in 400 years.
const ERA: u64 = 146_097;

/// A time since 1970, shown as RFC 3339 has it: `2026-11-20T12:00:00.123Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub Duration);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let milli = self.0.subsec_millis();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Year, month and day of the Gregorian calendar, so many days after 1 January 1970.
pub fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is the last one and months follow a simple
    // rule.
    let days = days + EPOCH;
    let (era, of_era) = (days / ERA, days % ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / (ERA - 1)) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_782, (2024, 2, 29)),
            (20_818, (2026, 12, 31)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(day), expected, "{day}");
        }
    }

    #[test]
    fn a_time_is_written() {
        let text = |millis| Timestamp(Duration::from_millis(millis)).to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400_007), "2000-02-29T00:00:00.007Z");
        assert_eq!(text(1_795_176_000_123), "2026-11-20T12:00:00.123Z");
    }
}
