//! Sizes and durations as the other servers write them.

use std::time::Duration;

/// Bytes, as in `64m`, `1G`, `10MB`, `64MiB` or `100`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
    let unit: u64 = match &lower[digits..] {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    lower[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// Seconds of nginx's durations, as in `1d 12h`, `30d` or `60`.
pub(crate) fn nginx_time(text: &str) -> Option<u64> {
    let mut seconds = 0u64;
    let mut number = String::new();
    for char in text.chars().filter(|char| !char.is_whitespace()) {
        if char.is_ascii_digit() {
            number.push(char);
            continue;
        }
        let unit = match char {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 7 * 86_400,
            'M' => 30 * 86_400,
            'y' => 365 * 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        number.clear();
    }
    match number.is_empty() {
        true => Some(seconds).filter(|_| !text.is_empty()),
        false => seconds.checked_add(number.parse().ok()?),
    }
}

/// Durations of Caddy, as in `1m30s`, `1.5h` or `500ms`.
pub(crate) fn go_time(text: &str) -> Option<Duration> {
    let mut millis = 0u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number = rest[..digits].parse::<f64>().ok()?;
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[digits..digits + letters] {
            "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        };
        millis = millis.checked_add((number * unit).round() as u64)?;
        rest = &rest[digits + letters..];
    }
    Some(Duration::from_millis(millis)).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_known() {
        for (text, expected) in [
            ("64m", Some(64 << 20)),
            ("1G", Some(1 << 30)),
            ("10MB", Some(10_000_000)),
            ("7", Some(7)),
            ("", None),
            ("1x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
        for (text, expected) in [
            ("30d", Some(2_592_000)),
            ("1d12h", Some(129_600)),
            ("60", Some(60)),
            ("", None),
            ("d", None),
            ("-1", None),
        ] {
            assert_eq!(nginx_time(text), expected, "{text}");
        }
        for (text, expected) in [
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("1.5h", Some(5_400_000)),
            ("2d", Some(172_800_000)),
            ("", None),
            ("5", None),
            ("x", None),
            ("1é", None),
        ] {
            assert_eq!(go_time(text).map(|it| it.as_millis()), expected, "{text}");
        }
    }
}
