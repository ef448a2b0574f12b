//! The types that an option may have: how each is read from what was typed, how it is written as
//! TOML, and how the documentation names it. No type looks at the file system or at another option.

mod table;
mod upstream;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::literal::Literal;
use crate::model::Split;
use crate::unit;

/// One thing that is wrong with a value; `inside` is set when it concerns one entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueError {
    /// Name and byte offset of the entry.
    pub inside: Option<(String, Option<usize>)>,
    /// What is wrong and what to do.
    pub problem: String,
}

impl From<String> for ValueError {
    fn from(problem: String) -> ValueError {
        ValueError { inside: None, problem }
    }
}

fn wrong<T>(problem: impl Into<String>) -> Result<T, Vec<ValueError>> {
    Err(vec![problem.into().into()])
}

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

/// What the documentation calls a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Bytes.
    Size,
    /// A duration.
    Time,
    /// A whole number.
    Count,
    /// Any text.
    Text,
    /// A path.
    Path,
    /// An address to listen on.
    Address,
    /// An address to connect to.
    Endpoint,
    /// What of a request binds it to an address.
    Affinity,
    /// Where a path is split.
    Split,
    /// `true` or `false`.
    Switch,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A fixed word, or another type.
    WordOr(&'static str, &'static Kind),
    /// One, or a list of them.
    List(&'static Kind),
    /// A table of names and values.
    Pairs,
    /// A table of names and sizes.
    Sizes,
}

impl Kind {
    /// Whether one environment variable can hold it comfortably.
    pub fn is_scalar(self) -> bool {
        !matches!(self, Kind::List(_) | Kind::Pairs | Kind::Sizes)
    }

    /// In words, for the documentation.
    pub fn describe(self) -> String {
        match self {
            Kind::Size => "size".into(),
            Kind::Time => "duration".into(),
            Kind::Count => "number".into(),
            Kind::Text => "text".into(),
            Kind::Path => "path".into(),
            Kind::Address => "address".into(),
            Kind::Endpoint => "`\"HOST:PORT\"`, `\"srv:NAME\"` or `\"unix:PATH\"`".into(),
            Kind::Affinity => "text as in `\"cookie:NAME\"`".into(),
            Kind::Split => "`\"path\"`, `\"whole\"` or an extension".into(),
            Kind::Switch => "`true` or `false`".into(),
            Kind::Choice(names) => quoted(names, "or"),
            Kind::WordOr(word, Kind::Choice(names)) => quoted(&[&[word], *names].concat(), "or"),
            Kind::WordOr(word, other) => format!("`\"{word}\"` or {}", other.describe()),
            Kind::List(Kind::Choice(names)) => format!("list of {}", quoted(names, "and")),
            Kind::List(item) => format!("{} or list of them", item.describe()),
            Kind::Pairs => "table of names and texts, numbers or booleans".into(),
            Kind::Sizes => "table of names and sizes".into(),
        }
    }

    /// How a number of this type is written; numbers of other types have no bounds to write.
    pub fn show(self, number: u64) -> String {
        match self {
            Kind::Size | Kind::Sizes => unit::show_size(number),
            Kind::Time => unit::show_time(Duration::from_millis(number)),
            Kind::WordOr(_, inner) => inner.show(number),
            _ => number.to_string(),
        }
    }
}

fn quoted(names: &[&str], last: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`\"{name}\"`")).collect();
    match names.split_last() {
        Some((only, [])) => only.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
        None => String::new(),
    }
}

/// A type of option values.
pub trait Value: Sized {
    /// For the documentation.
    const KIND: Kind;

    /// The value, or all that is wrong with it.
    fn read(literal: &Literal, bounds: &Bounds) -> Result<Self, Vec<ValueError>>;

    /// As TOML; absent if it is not set.
    fn toml(&self) -> Option<String>;
}

fn quote(text: &str) -> Option<String> {
    Some(toml_edit::Value::from(text).to_string())
}

fn text_of<'a>(literal: &'a Literal, wanted: &str) -> Result<&'a str, Vec<ValueError>> {
    match literal {
        Literal::Word(text) | Literal::Text(text) => {
            if text.is_empty() {
                return wrong(format!("must not be empty; write {wanted}, or leave the key out"));
            }
            if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
                return wrong("must not contain control characters");
            }
            Ok(text)
        }
        other => wrong(format!("must be {wanted} in quotes, not {}", other.sort())),
    }
}

/// Any text that is not empty and has no control characters.
#[derive(Clone, Debug, PartialEq)]
pub struct Text(pub String);

impl Value for Text {
    const KIND: Kind = Kind::Text;

    fn read(literal: &Literal, _: &Bounds) -> Result<Text, Vec<ValueError>> {
        text_of(literal, "a text").map(|text| Text(text.to_owned()))
    }

    fn toml(&self) -> Option<String> {
        quote(&self.0)
    }
}

impl Value for PathBuf {
    const KIND: Kind = Kind::Path;

    fn read(literal: &Literal, _: &Bounds) -> Result<PathBuf, Vec<ValueError>> {
        text_of(literal, "a path").map(PathBuf::from)
    }

    fn toml(&self) -> Option<String> {
        quote(&self.to_string_lossy())
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

impl Value for bool {
    const KIND: Kind = Kind::Switch;

    fn read(literal: &Literal, _: &Bounds) -> Result<bool, Vec<ValueError>> {
        match literal {
            Literal::Boolean(flag) => Ok(*flag),
            Literal::Word(word) if word == "true" => Ok(true),
            Literal::Word(word) if word == "false" => Ok(false),
            other => wrong(format!("must be true or false, not {}", other.sort())),
        }
    }

    fn toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// The address that `text` names: `IP:PORT`, `localhost:PORT`, or `:PORT` for every IPv4 address.
///
/// # Errors
/// Fails with a message that shows how an address is written.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    match text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?))) {
        Some(("localhost", port)) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Some(("" | "*", port)) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)),
        _ => Err(format!(
            "`{text}` is not an address; write IP:PORT as in \"127.0.0.1:8080\" or \
                \"[::1]:8080\", or \":8080\" \
             for every IPv4 address"
        )),
    }
}

impl Value for SocketAddr {
    const KIND: Kind = Kind::Address;

    fn read(literal: &Literal, _: &Bounds) -> Result<SocketAddr, Vec<ValueError>> {
        let text = text_of(literal, "an address such as \"127.0.0.1:8080\"")?;
        address(text).or_else(wrong)
    }

    fn toml(&self) -> Option<String> {
        quote(&self.to_string())
    }
}

impl Value for Split {
    const KIND: Kind = Kind::Split;

    fn read(literal: &Literal, _: &Bounds) -> Result<Split, Vec<ValueError>> {
        match text_of(literal, "\"path\", \"whole\" or an extension")? {
            "path" => Ok(Split::Path),
            "whole" => Ok(Split::Whole),
            text if text.starts_with('.') && text.len() > 1 && !text.contains('/') => {
                Ok(Split::Extension(text.into()))
            }
            text => wrong(format!(
                "`{text}` is unknown; use path, whole, or an extension as in \".pl\""
            )),
        }
    }

    fn toml(&self) -> Option<String> {
        quote(match self {
            Split::Path => "path",
            Split::Whole => "whole",
            Split::Extension(extension) => extension,
        })
    }
}

/// Types with a few values, each with a name.
pub trait Choice: Copy + PartialEq + 'static {
    /// Names in the order of [`Choice::ALL`].
    const NAMES: &'static [&'static str];
    /// The values.
    const ALL: &'static [Self];
}

impl<T: Choice> Value for T {
    const KIND: Kind = Kind::Choice(T::NAMES);

    fn read(literal: &Literal, _: &Bounds) -> Result<T, Vec<ValueError>> {
        let (Literal::Word(word) | Literal::Text(word)) = literal else {
            return wrong(format!("must be {}, not {}", plain(T::NAMES), literal.sort()));
        };
        match T::NAMES.iter().position(|name| name == word) {
            Some(at) => Ok(T::ALL[at]),
            None => wrong(format!(
                "`{word}` is unknown; use {}{}",
                plain(T::NAMES),
                did_you_mean(word, T::NAMES)
            )),
        }
    }

    fn toml(&self) -> Option<String> {
        let at = T::ALL.iter().position(|value| value == self)?;
        quote(T::NAMES[at])
    }
}

fn plain(names: &[&str]) -> String {
    quoted(names, "or").replace(['`', '"'], "")
}

/// `; did you mean …?` with the nearest of `names`, if one is near.
pub fn did_you_mean(typed: &str, names: &[&str]) -> String {
    match nearest(typed, names) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    }
}

/// The name that was probably meant. `front-controller` and `Front_Controller` are
/// `front_controller`.
pub fn nearest<'a>(typed: &str, names: &[&'a str]) -> Option<&'a str> {
    let typed = typed.to_lowercase().replace('-', "_");
    let likeness = |name: &&&str| (strsim::jaro_winkler(&typed, name) * 1000.0) as u32;
    let best = names.iter().max_by_key(likeness)?;
    // 0.75 is chosen by trial: typos of one or two letters are above it, other words mostly below.
    (likeness(&best) >= 750).then_some(*best)
}

/// Not set by default.
impl<T: Value> Value for Option<T> {
    const KIND: Kind = T::KIND;

    fn read(literal: &Literal, bounds: &Bounds) -> Result<Option<T>, Vec<ValueError>> {
        match literal {
            Literal::Word(word) if word.is_empty() => Ok(None),
            set => T::read(set, bounds).map(Some),
        }
    }

    fn toml(&self) -> Option<String> {
        self.as_ref().and_then(T::toml)
    }
}

/// Declares types that are either a fixed word or a value of another type.
macro_rules! word_or {
    ($($(#[$about:meta])* $Name:ident = $word:literal;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $Name<T> {
            /// The word.
            Word,
            /// The value.
            Is(T),
        }

        impl<T: Value> Value for $Name<T> {
            const KIND: Kind = Kind::WordOr($word, &T::KIND);

            fn read(literal: &Literal, bounds: &Bounds) -> Result<$Name<T>, Vec<ValueError>> {
                match literal {
                    Literal::Word(word) | Literal::Text(word) if word == $word => Ok($Name::Word),
                    other => T::read(other, bounds).map($Name::Is).map_err(|mut complaints| {
                        for complaint in &mut complaints {
                            complaint.problem.push_str(concat!(" (or \"", $word, "\")"));
                        }
                        complaints
                    }),
                }
            }

            fn toml(&self) -> Option<String> {
                match self {
                    $Name::Word => quote($word),
                    $Name::Is(value) => value.toml(),
                }
            }
        }
    )*};
}

word_or! {
    /// The server decides.
    Auto = "auto";
    /// Nothing is written.
    Off = "off";
    /// No value.
    Nothing = "none";
}

impl<T: Value> Value for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);

    fn read(literal: &Literal, bounds: &Bounds) -> Result<Vec<T>, Vec<ValueError>> {
        let items: Vec<Literal> = match literal {
            Literal::List(items) => items.clone(),
            Literal::Word(words) => words
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(|word| Literal::Word(word.into()))
                .collect(),
            one => vec![one.clone()],
        };
        let mut values = Vec::new();
        let mut complaints = Vec::new();
        for item in &items {
            match T::read(item, bounds) {
                Ok(value) => values.push(value),
                Err(more) => complaints.extend(more),
            }
        }
        if complaints.is_empty() { Ok(values) } else { Err(complaints) }
    }

    fn toml(&self) -> Option<String> {
        let items: Vec<String> = self.iter().filter_map(T::toml).collect();
        Some(format!("[{}]", items.join(", ")))
    }
}
