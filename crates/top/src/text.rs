//! Lines of text for a terminal: figures as people read them, and names that cannot command it.

use tokamak_observe::text::for_terminal;
use unicode_width::UnicodeWidthChar;

/// How a part of a line looks. None says anything that the text does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    #[default]
    Plain,
    /// The heads of tables.
    Head,
    /// Something is wrong.
    Bad,
}

/// A line, without a character by which a terminal is given orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextLine {
    text: String,
    /// How it looks.
    pub style: Style,
}

impl TextLine {
    /// Without text.
    pub const EMPTY: TextLine = TextLine { text: String::new(), style: Style::Plain };

    /// Of this text; what could command the terminal is replaced.
    pub fn new(text: &str, style: Style) -> TextLine {
        TextLine { text: for_terminal(text).trim_end().to_owned(), style }
    }

    /// The whole text.
    pub fn plain(&self) -> String {
        self.text.clone()
    }

    /// The text as far as it fits into so many columns.
    pub fn cut(&self, columns: usize) -> String {
        cut(&self.text, columns)
    }
}

/// The text as far as it fits into so many columns.
pub fn cut(text: &str, columns: usize) -> String {
    let mut taken = 0;
    let fits = |character: &char| {
        taken += width(*character);
        taken <= columns
    };
    text.chars().take_while(fits).collect()
}

/// Columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// A number with three digits.
pub fn few(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A time, if there is one.
pub fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 0.001 => format!("{} µs", few(seconds * 1e6)),
        Some(seconds) if seconds < 1.0 => format!("{} ms", few(seconds * 1e3)),
        Some(seconds) => format!("{} s", few(seconds)),
    }
}

/// Bytes.
pub fn bytes(mut value: f64) -> String {
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{} {unit}", few(value));
        }
        value /= 1024.0;
    }
    format!("{} TiB", few(value))
}

/// A share in percent.
pub fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", 100.0 * part / whole) } else { "-".to_owned() }
}

/// How long something has lasted.
pub fn age(seconds: f64) -> String {
    match seconds {
        ..60.0 => format!("{seconds:.0} s"),
        60.0..3600.0 => format!("{:.0} min", (seconds / 60.0).floor()),
        3600.0..86_400.0 => format!("{:.0} h", (seconds / 3600.0).floor()),
        _ => format!("{:.0} d", (seconds / 86_400.0).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_command_no_terminal() {
        assert_eq!(TextLine::new("a\u{9b}2J\n", Style::Plain).plain(), "a?2J?");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(cut("日本語", 5), "日本");
        assert_eq!((columns("日本"), columns("e\u{301}")), (4, 1));
    }

    #[test]
    fn figures_for_people() {
        let all =
            [time(None), time(Some(0.000_05)), time(Some(1.5)), bytes(2048.0), share(1.0, 3.0)];
        assert_eq!(all, ["-", "50.0 µs", "1.50 s", "2.00 KiB", "33.3 %"]);
        assert_eq!(
            [age(59.0), age(125.0), age(7300.0), age(90_000.0)],
            ["59 s", "2 min", "2 h", "1 d"]
        );
    }
}
