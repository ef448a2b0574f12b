//! Sizes and durations as the other servers write them.

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
    }
}
