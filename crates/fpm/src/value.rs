//! A directive's value by its kind, with php-fpm's words for what is wrong.

use crate::ini::leading_number;
use crate::raw::Kind;

/// Puts a pool's name in the place of `$pool`.
pub fn with_pool(text: &str, pool: Option<&str>) -> Result<String, &'static str> {
    match pool {
        _ if !text.contains("$pool") => Ok(text.to_string()),
        Some(name) => Ok(text.replace("$pool", name)),
        None => Err("Can't use '$pool' when the pool is not defined"),
    }
}

/// Yes or no. The parser has already made 1 and nothing of the unquoted words; these come from
/// quotes and variables.
pub fn boolean(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "yes" | "true" | "on" => Ok(true),
        "" | "0" | "no" | "none" | "false" | "off" => Ok(false),
        _ => Err("invalid boolean value"),
    }
}

/// A whole number.
pub fn integer(text: &str) -> Result<i32, &'static str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(leading_number(text))
    } else {
        Err("is not a valid number (greater or equal than zero)")
    }
}

/// A time with one of the units s, m, h, d, or none, in seconds.
pub fn seconds(text: &str) -> Result<i32, &'static str> {
    let (unit, number) = match text.bytes().last() {
        None => return Err("invalid time value"),
        Some(b's') => (1, &text[..text.len() - 1]),
        Some(b'm') => (60, &text[..text.len() - 1]),
        Some(b'h') => (60 * 60, &text[..text.len() - 1]),
        Some(b'd') => (24 * 60 * 60, &text[..text.len() - 1]),
        Some(last) if last.is_ascii_digit() => (1, text),
        Some(_) => return Err("unknown suffix used in time value"),
    };
    Ok(leading_number(number).saturating_mul(unit))
}

/// `rlimit_core`: -1 is `unlimited`.
pub fn core(text: &str) -> Result<i32, &'static str> {
    if text.eq_ignore_ascii_case("unlimited") {
        return Ok(-1);
    }
    match integer(text)? {
        number if number < 0 => Err("must be greater than zero or 'unlimited'"),
        number => Ok(number),
    }
}

/// `syslog.facility`, as the C library numbers it.
pub fn facility(text: &str) -> Result<i32, &'static str> {
    const NAMES: [(&str, i32); 20] = [
        ("kern", 0),
        ("user", 1),
        ("mail", 2),
        ("daemon", 3),
        ("auth", 4),
        ("syslog", 5),
        ("lpr", 6),
        ("news", 7),
        ("uucp", 8),
        ("cron", 9),
        ("authpriv", 10),
        ("ftp", 11),
        ("local0", 16),
        ("local1", 17),
        ("local2", 18),
        ("local3", 19),
        ("local4", 20),
        ("local5", 21),
        ("local6", 22),
        ("local7", 23),
    ];
    let found = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, number)| number << 3).ok_or("invalid value")
}

/// `pm`
pub fn manager(text: &str) -> Result<Kind, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "static" => Ok(Kind::Static),
        "dynamic" => Ok(Kind::Dynamic),
        "ondemand" => Ok(Kind::OnDemand),
        _ => Err("invalid process manager (static, dynamic or ondemand)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let table = [
            ("10", 10),
            ("10s", 10),
            ("2m", 120),
            ("1h", 3600),
            ("1d", 86400),
            ("-1", -1),
            ("99999999d", i32::MAX),
        ];
        for (text, value) in table {
            assert_eq!(seconds(text), Ok(value), "{text}");
        }
        assert_eq!(seconds(""), Err("invalid time value"));
        assert_eq!(seconds("10x"), Err("unknown suffix used in time value"));
        assert_eq!(seconds("10é"), Err("unknown suffix used in time value"));
    }

    #[test]
    fn numbers_and_flags() {
        assert_eq!(integer("-5"), Ok(-5));
        assert!(integer("5k").is_err() && integer("+5").is_err());
        assert_eq!(boolean("none"), Ok(false));
        assert!(boolean("ON").is_err() && boolean("2").is_err());
        assert_eq!(core("Unlimited"), Ok(-1));
        assert!(core("-2").is_err());
        assert_eq!(facility("DAEMON"), Ok(24));
        assert_eq!(facility("local7"), Ok(23 << 3));
        assert_eq!(manager("Static"), Ok(Kind::Static));
    }

    #[test]
    fn the_name_of_the_pool() {
        assert_eq!(with_pool("/run/$pool-$pool.sock", Some("www")), Ok("/run/www-www.sock".into()));
        assert!(with_pool("$pool", None).is_err());
        // php-fpm would go on for ever.
        assert_eq!(with_pool("x$pool", Some("$pool")), Ok("x$pool".into()));
    }
}
