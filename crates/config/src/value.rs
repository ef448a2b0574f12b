//! The types that an option may have: how each is read from what was typed, how it is written as
//! TOML, and how the documentation names it. No type looks at the file system or at another option.

mod charset;
mod choice;
mod codings;
mod log_format;
mod network;
mod number;
mod secret;
mod table;
mod throttle;
mod upstream;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::literal::Literal;
use crate::model::Split;
use crate::unit;

pub use charset::Charset;
pub use choice::{Choice, did_you_mean, nearest};
pub use codings::Codings;
pub use number::{ANY, Bounds, Count, Share, Size, within};
pub use secret::{KeyText, Settings};
pub use upstream::Direct;

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

/// What the documentation calls a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Bytes.
    Size,
    /// A duration.
    Time,
    /// A whole number.
    Count,
    /// A part of a whole.
    Share,
    /// Any text.
    Text,
    /// A path.
    Path,
    /// An address to listen on.
    Address,
    /// An address to connect to.
    Endpoint,
    /// An address to connect to that is one socket, not a service.
    Direct,
    /// An address or a Unix socket to listen on.
    Listener,
    /// An address, a network or all of them.
    Network,
    /// Requests in a time.
    Rate,
    /// What a client is, for a limit.
    ClientId,
    /// A shape of access log lines.
    LogFormat,
    /// A text that is not shown.
    Secret,
    /// What of a request binds it to an address.
    Affinity,
    /// Where a path is split.
    Split,
    /// `true` or `false`.
    Switch,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// `true`, `false` or another type.
    SwitchOr(&'static Kind),
    /// A fixed word, or another type.
    WordOr(&'static str, &'static Kind),
    /// One, or a list of them.
    List(&'static Kind),
    /// A table of names and values.
    Pairs,
    /// A table of names and values that are not shown.
    Secrets,
    /// A table of names and sizes.
    Sizes,
}

impl Kind {
    /// Whether one environment variable can hold it comfortably.
    pub fn is_scalar(self) -> bool {
        !matches!(self, Kind::List(_) | Kind::Pairs | Kind::Secrets | Kind::Sizes)
    }

    /// Whether no value of it is shown.
    pub fn is_secret(self) -> bool {
        matches!(self, Kind::Secret | Kind::Secrets)
    }

    /// In words, for the documentation.
    pub fn describe(self) -> String {
        match self {
            Kind::Size => "size".into(),
            Kind::Time => "duration".into(),
            Kind::Count => "number".into(),
            Kind::Share => "percentage as in `\"0.5%\"`".into(),
            Kind::Text => "text".into(),
            Kind::Path => "path".into(),
            Kind::Address => "address".into(),
            Kind::Endpoint => "`\"HOST:PORT\"`, `\"srv:NAME\"` or `\"unix:PATH\"`".into(),
            Kind::Direct => "`\"HOST:PORT\"` or `\"unix:PATH\"`".into(),
            Kind::Listener => "address or `\"unix:PATH\"`".into(),
            Kind::Network => {
                "address, network as in `\"10.0.0.0/8\"`, `\"private\"` or `\"all\"`".into()
            }
            Kind::Rate => "rate as in `\"10/s\"`, `\"90/m\"` or `\"1000/h\"`".into(),
            Kind::ClientId => "`\"address\"` or `\"header:NAME\"`".into(),
            Kind::LogFormat => {
                "`\"combined\"`, `\"vhost\"`, `\"json\"` or a pattern as in `\"$remote_addr \
                 $status\"`"
                    .into()
            }
            Kind::Secret => "text, not shown".into(),
            Kind::Affinity => "text as in `\"cookie:NAME\"`".into(),
            Kind::Split => "`\"path\"`, `\"whole\"` or an extension".into(),
            Kind::Switch => "`true` or `false`".into(),
            Kind::Choice(names) => quoted(names, "or"),
            Kind::SwitchOr(other) => {
                format!("{}, or {}", Kind::Switch.describe(), other.describe())
            }
            Kind::WordOr(word, Kind::Choice(names)) => quoted(&[&[word], *names].concat(), "or"),
            Kind::WordOr(word, other) => format!("`\"{word}\"` or {}", other.describe()),
            Kind::List(Kind::Choice(names)) => format!("list of {}", quoted(names, "and")),
            Kind::List(item) => format!("{} or list of them", item.describe()),
            Kind::Pairs => "table of names and texts, numbers or booleans".into(),
            Kind::Secrets => "table of names and texts, numbers or booleans, not shown".into(),
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

    /// As TOML, without what is secret; absent if nothing is left.
    fn toml(&self) -> Option<String>;

    /// What is set and not in [`Value::toml`]: names in a table, or an empty one for the whole.
    fn hidden(&self) -> Vec<String> {
        Vec::new()
    }
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

    fn hidden(&self) -> Vec<String> {
        self.as_ref().map(T::hidden).unwrap_or_default()
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
