//! Times of day as text, formatted again only when the second changes. Always UTC, because a log
//! may be read in another time zone than it was written in.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Seconds from the epoch to the end of the year 9999: the texts have four digits for the year.
const END: u64 = 253_402_300_799;

/// The text of the current second.
#[derive(Clone, Debug)]
pub struct Clock {
    second: u64,
    /// `20/Nov/2026:12:00:00 +0000`
    combined: [u8; 26],
    /// `2026-11-20T12:00:00`
    iso: [u8; 19],
}

impl Default for Clock {
    fn default() -> Clock {
        let mut clock = Clock {
            second: 0,
            combined: *b"00/Jan/0000:00:00:00 +0000",
            iso: *b"0000-00-00T00:00:00",
        };
        clock.write();
        clock
    }
}

impl Clock {
    /// The time as access logs in the `combined` format have it.
    pub fn combined(&mut self, now: SystemTime) -> &[u8] {
        self.turn(now);
        &self.combined
    }

    /// The time as RFC 3339 has it, with milliseconds: `2026-11-20T12:00:00.123Z`.
    pub fn rfc3339(&mut self, now: SystemTime) -> [u8; 24] {
        let millis = self.turn(now);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        text[..19].copy_from_slice(&self.iso);
        digits(&mut text[20..23], millis);
        text
    }

    /// Sets the clock and returns the milliseconds. A time before 1970 counts as 1970.
    fn turn(&mut self, now: SystemTime) -> u64 {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = since.as_secs().min(END);
        if second != self.second {
            self.second = second;
            self.write();
        }
        u64::from(since.subsec_millis())
    }

    fn write(&mut self) {
        let (days, time) = (self.second / 86_400, self.second % 86_400);
        let (year, month, day) = tokamak_cost::date(days);
        let combined = &mut self.combined;
        digits(&mut combined[..2], day);
        combined[3..6].copy_from_slice(MONTHS[month as usize - 1]);
        digits(&mut combined[7..11], year);
        let iso = &mut self.iso;
        digits(&mut iso[..4], year);
        digits(&mut iso[5..7], month);
        digits(&mut iso[8..10], day);
        digits(&mut iso[11..13], time / 3600);
        digits(&mut iso[14..16], time / 60 % 60);
        digits(&mut iso[17..19], time % 60);
        combined[12..20].copy_from_slice(&iso[11..]);
    }
}

/// Writes a number with leading zeros.
fn digits(to: &mut [u8], mut number: u64) {
    for byte in to.iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Nanoseconds since 1970 when the clock of the ledgers was zero.
pub fn epoch() -> u64 {
    // The thread may lose its processor between two readings: the middle is wrong by no more than
    // half of that.
    let before = tokamak_cost::now();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let middle = before + (tokamak_cost::now() - before) / 2;
    (since.as_nanos() as u64).saturating_sub(middle)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn texts(clock: &mut Clock, millis: u64) -> (String, String) {
        let now = UNIX_EPOCH + Duration::from_millis(millis);
        let combined = String::from_utf8(clock.combined(now).to_vec()).unwrap();
        (combined, String::from_utf8(clock.rfc3339(now).to_vec()).unwrap())
    }

    #[test]
    fn known_times_are_written() {
        let mut clock = Clock::default();
        for (millis, combined, rfc3339) in [
            (0, "01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00.000Z"),
            (951_782_400_007, "29/Feb/2000:00:00:00 +0000", "2000-02-29T00:00:00.007Z"),
            (1_795_176_000_123, "20/Nov/2026:12:00:00 +0000", "2026-11-20T12:00:00.123Z"),
            (1_795_176_000_999, "20/Nov/2026:12:00:00 +0000", "2026-11-20T12:00:00.999Z"),
            (4_107_542_399_000, "28/Feb/2100:23:59:59 +0000", "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "01/Mar/2100:00:00:00 +0000", "2100-03-01T00:00:00.000Z"),
            (u64::MAX, "31/Dec/9999:23:59:59 +0000", "9999-12-31T23:59:59.615Z"),
        ] {
            assert_eq!(texts(&mut clock, millis), (combined.to_owned(), rfc3339.to_owned()));
        }
        assert_eq!(
            clock.combined(UNIX_EPOCH - Duration::from_secs(9)),
            b"01/Jan/1970:00:00:00 +0000"
        );
    }

    #[test]
    fn every_day_agrees_with_another_implementation() {
        let mut clock = Clock::default();
        for day in 0..60_000 {
            let now = UNIX_EPOCH + Duration::from_secs(day * 86_400 + day);
            // `Fri, 20 Nov 2026 12:00:00 GMT`
            let other = httpdate::fmt_http_date(now);
            let expected = format!(
                "{}/{}/{}:{} +0000",
                &other[5..7],
                &other[8..11],
                &other[12..16],
                &other[17..25]
            );
            assert_eq!(clock.combined(now), expected.as_bytes());
        }
    }
}
