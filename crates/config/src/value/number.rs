//! Numbers, with and without a unit, and their limits.

use std::time::Duration;

use super::{Kind, Value, ValueError, quote, wrong};
use crate::literal::Literal;
use crate::unit;

/// Limits of a number: bytes, milliseconds or a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Smallest value, except for 0 where [`Bounds::off`] says so.
    pub least: u64,
    /// Largest value.
    pub most: u64,
    /// Whether 0 is allowed below `least`, and what it means there.
    pub off: Option<&'static str>,
}

/// No limits.
pub const ANY: Bounds = Bounds { least: 0, most: u64::MAX, off: None };

/// Between two numbers, both allowed.
pub const fn within(least: u64, most: u64) -> Bounds {
    Bounds { least, most, off: None }
}

impl Bounds {
    /// The same bounds, and 0 with the given meaning.
    pub const fn or_zero(self, meaning: &'static str) -> Bounds {
        Bounds { off: Some(meaning), ..self }
    }

    fn check<T>(
        &self,
        number: u64,
        value: T,
        show: impl Fn(u64) -> String,
    ) -> Result<T, Vec<ValueError>> {
        if (self.least..=self.most).contains(&number) || (number == 0 && self.off.is_some()) {
            return Ok(value);
        }
        let zero = self.off.map(|meaning| format!(", or 0 ({meaning})")).unwrap_or_default();
        wrong(format!(
            "{} is out of bounds; use {} to {}{zero}",
            show(number),
            show(self.least),
            show(self.most)
        ))
    }
}

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size(pub u64);

impl Value for Size {
    const KIND: Kind = Kind::Size;

    fn read(literal: &Literal, bounds: &Bounds) -> Result<Size, Vec<ValueError>> {
        let bytes = match literal {
            Literal::Word(text) | Literal::Text(text) => {
                unit::size(text).map_err(|e| vec![e.into()])?
            }
            Literal::Integer(number) if *number >= 0 => number.unsigned_abs(),
            other => {
                return wrong(format!("must be a size such as \"64KiB\", not {}", other.sort()));
            }
        };
        bounds.check(bytes, Size(bytes), unit::show_size)
    }

    fn toml(&self) -> Option<String> {
        let shown = unit::show_size(self.0);
        if shown.bytes().all(|byte| byte.is_ascii_digit()) { Some(shown) } else { quote(&shown) }
    }
}

impl Value for Duration {
    const KIND: Kind = Kind::Time;

    fn read(literal: &Literal, bounds: &Bounds) -> Result<Duration, Vec<ValueError>> {
        let time = match literal {
            Literal::Word(text) | Literal::Text(text) => {
                unit::time(text).map_err(|e| vec![e.into()])?
            }
            Literal::Integer(0) => Duration::ZERO,
            Literal::Integer(number) => {
                return wrong(format!(
                    "{number} has no unit; write \"{number}s\" or \"{number}ms\""
                ));
            }
            other => {
                return wrong(format!("must be a duration such as \"30s\", not {}", other.sort()));
            }
        };
        let show = |number| unit::show_time(Duration::from_millis(number));
        bounds.check(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), time, show)
    }

    fn toml(&self) -> Option<String> {
        quote(&unit::show_time(*self))
    }
}

/// A whole number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count(pub u64);

impl Value for Count {
    const KIND: Kind = Kind::Count;

    fn read(literal: &Literal, bounds: &Bounds) -> Result<Count, Vec<ValueError>> {
        let number = match literal {
            Literal::Word(text) => text.trim().parse::<u64>().ok(),
            Literal::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        match number {
            Some(number) => bounds.check(number, Count(number), |number| number.to_string()),
            None => wrong(format!("must be a whole number, not {}", literal.sort())),
        }
    }

    fn toml(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// Millionths of a hundredth: the steps of a [`Share`] are a ten-thousandth of a percent.
const STEPS_OF_PERCENT: u32 = 10_000;

/// A part of a whole, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub u32);

impl Share {
    /// The share that `text` names, as in `0.5%`.
    fn of(text: &str) -> Option<Share> {
        let (whole, part) = text.trim().strip_suffix('%').map(|number| {
            let number = number.trim_end();
            number.split_once('.').unwrap_or((number, "0"))
        })?;
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.is_empty() || part.len() > 4 {
            return None;
        }
        let part = format!("{part:0<4}").parse::<u32>().ok()?;
        let share = whole.parse::<u32>().ok()?.checked_mul(STEPS_OF_PERCENT)?.checked_add(part)?;
        (share <= 100 * STEPS_OF_PERCENT).then_some(Share(share))
    }
}

impl Value for Share {
    const KIND: Kind = Kind::Share;

    fn read(literal: &Literal, _: &Bounds) -> Result<Share, Vec<ValueError>> {
        let share = match literal {
            Literal::Word(text) | Literal::Text(text) => Share::of(text),
            _ => None,
        };
        share.map_or_else(
            || {
                wrong(format!(
                    "must be \"0%\" to \"100%\" with four decimals at most, as in \"0.5%\", \
                        not {}",
                    literal.sort()
                ))
            },
            Ok,
        )
    }

    fn toml(&self) -> Option<String> {
        let (whole, part) = (self.0 / STEPS_OF_PERCENT, self.0 % STEPS_OF_PERCENT);
        let text = format!("{whole}.{part:04}");
        quote(&format!("{}%", text.trim_end_matches('0').trim_end_matches('.')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_they_are_written() {
        for (text, share) in [
            ("0%", Some(0)),
            ("100%", Some(1_000_000)),
            ("10%", Some(100_000)),
            ("0.5%", Some(5_000)),
            ("0.0001%", Some(1)),
            ("99.9999%", Some(999_999)),
            ("100.0001%", None),
            ("4294967296%", None),
            ("0.00001%", None),
            ("1.%", None),
            ("-1%", None),
            ("1", None),
            ("", None),
        ] {
            let read = Share::read(&Literal::Text(text.into()), &ANY).ok();
            assert_eq!(read, share.map(Share), "{text}");
            if let Some(share) = read {
                assert_eq!(share.toml(), Some(format!("\"{text}\"")));
            }
        }
    }
}
