//! Times and rates as people read them.

/// Seconds with a unit and three digits.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "∞".into(),
        s if s >= 9.995 => format!("{s:.0} s"),
        s if s >= 0.9995 => format!("{s:.2} s"),
        s if s >= 0.009_995 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.000_999_5 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// Requests a second, with about three digits.
pub fn rate(a_second: f64) -> String {
    if a_second >= 99.95 { format!("{a_second:.0}/s") } else { format!("{a_second:.1}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_that_fits() {
        for (seconds, said) in [
            (0.0, "0 µs"),
            (0.000_25, "250 µs"),
            (0.0012, "1.2 ms"),
            (0.0123, "12 ms"),
            (1.5, "1.50 s"),
            (75.0, "75 s"),
            (f64::INFINITY, "∞"),
        ] {
            assert_eq!(time(seconds), said);
        }
        assert_eq!((rate(7.25), rate(1234.5)), ("7.2/s".into(), "1234/s".into()));
    }
}
