//! Sizes and durations as people write them: `64KiB`, `8MiB`, `1GB`; `500ms`, `30s`, `5m`.

use std::time::Duration;

/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

/// Milliseconds in a second.
pub const SECOND: u64 = 1_000;
/// Milliseconds in a minute.
pub const MINUTE: u64 = 60 * SECOND;
/// Milliseconds in an hour.
pub const HOUR: u64 = 60 * MINUTE;

/// Units of a size; what is shown comes from the binary ones, largest first.
const SIZES: &[(&str, u64)] = &[
    ("GiB", GIB),
    ("MiB", MIB),
    ("KiB", KIB),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
    ("", 1),
];

const TIMES: &[(&str, u64)] = &[("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

/// Bytes that `text` names.
pub fn size(text: &str) -> Result<u64, String> {
    measure(text, SIZES).ok_or_else(|| {
        format!(
            "`{text}` is not a size; write bytes as a number, or a whole number with KiB, \
            MiB, GiB, KB, MB or GB"
        )
    })
}

/// The time that `text` names. A bare number has no unit and is refused, but for `0`.
pub fn time(text: &str) -> Result<Duration, String> {
    let milliseconds = if text.trim() == "0" { Some(0) } else { measure(text, TIMES) };
    milliseconds.map(Duration::from_millis).ok_or_else(|| {
        format!(
            "`{text}` is not a duration; write a whole number with ms, s, m or h, as in \"30s\""
        )
    })
}

fn measure(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The shortest exact way to write a size.
pub fn show_size(bytes: u64) -> String {
    match SIZES[..3].iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor)) {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => bytes.to_string(),
    }
}

/// The shortest exact way to write a time, to the millisecond.
pub fn show_time(time: Duration) -> String {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match TIMES.iter().find(|(_, factor)| milliseconds > 0 && milliseconds.is_multiple_of(*factor))
    {
        Some((name, factor)) => format!("{}{name}", milliseconds / factor),
        None => "0".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("8MiB", 8_388_608),
            ("1GB", 1_000_000_000),
            ("2KB", 2_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "KiB", "1.5MiB", "-1", "1k", "1kib", "99999999999GiB", "12345678901234567890123"]
        {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit_unless_zero() {
        for (text, milliseconds) in
            [("0", 0), ("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "30", "s", "1.5s", "-1s", "5min", "1m30s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(number in 0..u64::MAX / 2) {
            prop_assert_eq!(size(&show_size(number)), Ok(number));
            let span = Duration::from_millis(number);
            prop_assert_eq!(time(&show_time(span)), Ok(span));
        }
    }
}
