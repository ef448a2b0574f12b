//! The access log: `access.format`, compiled once, and a line for a request.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use tokamak_sys::time;

/// The longest line, its end not included.
const LONGEST: usize = 1024;

/// The longest text in braces, as php-fpm cuts it.
const LONGEST_ARGUMENT: usize = 128;

/// The time of day where the format does not say how.
const TIME: &str = "%d/%b/%Y:%H:%M:%S %z";

/// `access.format`, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    text: String,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Plain(String),
    Cpu(CpuOf),
    Seconds,
    Milliseconds,
    Microseconds,
    Variable(String),
    Script,
    BodyLength,
    Method,
    /// The number of bytes that one of the unit has.
    Memory(u64),
    Pool,
    Header(String),
    Process,
    Parent,
    Query,
    QuestionMark,
    Uri,
    Address,
    Status,
    Accepted(String),
    Now(String),
    User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CpuOf {
    User,
    System,
    Total,
}

/// What is wrong with a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(String);

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

/// Looks up a variable of the request or a field of the response by its name.
pub type Named<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// A request that has been answered.
pub struct Request<'a> {
    /// The time of the processor that it took, user and system.
    pub cpu: (Duration, Duration),
    /// From when it was accepted to its end.
    pub duration: Duration,
    /// The most memory that PHP had.
    pub memory: u64,
    /// `SCRIPT_FILENAME`; empty if there was none.
    pub script: &'a [u8],
    /// The length of its body.
    pub body_length: u64,
    /// `REQUEST_METHOD`; empty if there was none.
    pub method: &'a [u8],
    /// The pool.
    pub pool: &'a str,
    /// The path, without the query: php-fpm's `SCRIPT_NAME` with what follows it.
    pub uri: &'a [u8],
    /// `QUERY_STRING`.
    pub query: &'a [u8],
    /// The address of the web server; `None` on a Unix socket.
    pub address: Option<&'a str>,
    /// The status of the response.
    pub status: u16,
    /// When it was accepted, in seconds since 1970.
    pub accepted: i64,
    /// What time it is, likewise.
    pub now: i64,
    /// The user that has logged in, as PHP says; may be empty.
    pub user: &'a [u8],
    /// The worker.
    pub process: u32,
    /// Its master.
    pub parent: u32,
    /// A parameter of the request.
    pub variable: Named<'a>,
    /// A field of the response, in the case in which it was sent.
    pub header: Named<'a>,
}

/// A line of the log, its end included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// What to write.
    pub bytes: Vec<u8>,
    /// It was too long: php-fpm says so in its error log ([`TOO_LONG`]).
    pub is_cut: bool,
}

/// The notice for a line that was cut.
pub const TOO_LONG: &str =
    "the log buffer is full (1024). The access log request has been truncated.";

fn wrong<T>(text: String) -> Result<T, FormatError> {
    Err(FormatError(text))
}

impl Format {
    /// Understands a format.
    pub fn compile(text: &str) -> Result<Format, FormatError> {
        let mut fields = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            if char != '%' {
                plain.push(char);
                continue;
            }
            let mut argument = String::new();
            let mut token = chars.next();
            while token == Some('{') {
                let rest = chars.as_str();
                // The brace must not be the last character: the letter comes behind it.
                let end = rest.find('}').filter(|end| end + 1 < rest.len());
                let Some(end) = end else {
                    return wrong("missing closing embrace in the access.format".into());
                };
                argument = shortened(&rest[..end]).to_string();
                chars = rest[end + 1..].chars();
                token = chars.next();
            }
            match token {
                // A lone sign at the end says nothing.
                None => {}
                Some('%') if argument.is_empty() => plain.push('%'),
                Some(letter) => {
                    if !plain.is_empty() {
                        fields.push(Field::Plain(std::mem::take(&mut plain)));
                    }
                    fields.push(field(letter, argument)?);
                }
            }
        }
        if !plain.is_empty() {
            fields.push(Field::Plain(plain));
        }
        Ok(Format { text: text.to_string(), fields })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The variables of the request that it names.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().filter_map(|field| match field {
            Field::Variable(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The line of a request; `None` if it would be empty.
    pub fn line(&self, request: &Request<'_>) -> Option<LogLine> {
        let mut bytes = Vec::with_capacity(128);
        for field in &self.fields {
            field.write(request, &mut bytes);
            if bytes.len() >= LONGEST {
                break;
            }
        }
        if bytes.is_empty() {
            return None;
        }
        let is_cut = bytes.len() >= LONGEST;
        bytes.truncate(LONGEST);
        bytes.push(b'\n');
        Some(LogLine { bytes, is_cut })
    }
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_ARGUMENT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn field(letter: char, argument: String) -> Result<Field, FormatError> {
    let unit = argument.to_ascii_lowercase();
    let choice = |choices: &str| {
        wrong(format!("only {choices} are allowed as a modifier for %{letter} ('{argument}')"))
    };
    let simple = match letter {
        'C' => {
            return match unit.as_str() {
                "" | "total" => Ok(Field::Cpu(CpuOf::Total)),
                "user" => Ok(Field::Cpu(CpuOf::User)),
                "system" => Ok(Field::Cpu(CpuOf::System)),
                _ => choice("'total', 'user' or 'system'"),
            };
        }
        'd' => {
            return match unit.as_str() {
                "" | "seconds" => Ok(Field::Seconds),
                "milliseconds" | "milli" | "miliseconds" | "mili" => Ok(Field::Milliseconds),
                "microseconds" | "micro" => Ok(Field::Microseconds),
                _ => choice("'seconds', 'milli', 'milliseconds', 'micro' or 'microseconds'"),
            };
        }
        'M' => {
            return match unit.as_str() {
                "" | "bytes" => Ok(Field::Memory(1)),
                "kilobytes" | "kilo" => Ok(Field::Memory(1 << 10)),
                "megabytes" | "mega" => Ok(Field::Memory(1 << 20)),
                _ => choice("'bytes', 'kilo', 'kilobytes', 'mega' or 'megabytes'"),
            };
        }
        'e' if argument.is_empty() => {
            return wrong(
                "the name of the environment variable must be set between embraces for %e".into(),
            );
        }
        'o' if argument.is_empty() => {
            return wrong("the name of the header must be set between embraces for %o".into());
        }
        'e' => return Ok(Field::Variable(argument)),
        'o' => return Ok(Field::Header(argument)),
        't' | 'T' => {
            let format = if argument.is_empty() { TIME.to_string() } else { argument };
            return Ok(if letter == 't' { Field::Accepted(format) } else { Field::Now(format) });
        }
        '%' => Field::Plain("%".into()),
        'f' => Field::Script,
        'l' => Field::BodyLength,
        'm' => Field::Method,
        'n' => Field::Pool,
        'p' => Field::Process,
        'P' => Field::Parent,
        'q' => Field::Query,
        'Q' => Field::QuestionMark,
        'r' => Field::Uri,
        'R' => Field::Address,
        's' => Field::Status,
        'u' => Field::User,
        other => return wrong(format!("Invalid token in the access.format (%{other})")),
    };
    if argument.is_empty() {
        Ok(simple)
    } else {
        wrong(format!("embrace is not allowed for modifier %{letter}"))
    }
}

impl Field {
    fn write(&self, request: &Request<'_>, to: &mut Vec<u8>) {
        let or_dash = |to: &mut Vec<u8>, text: &[u8]| {
            to.extend_from_slice(if text.is_empty() { b"-" } else { text })
        };
        // Writing to a vector does not fail.
        let mut number = |text: fmt::Arguments<'_>| {
            let _ = to.write_fmt(text);
        };
        match self {
            Field::Cpu(of) => number(format_args!("{:.2}", share(request, *of))),
            Field::Seconds => number(format_args!("{:.3}", request.duration.as_secs_f64())),
            Field::Milliseconds => {
                number(format_args!("{:.3}", request.duration.as_secs_f64() * 1000.0))
            }
            Field::Microseconds => number(format_args!("{}", request.duration.as_micros())),
            Field::BodyLength => number(format_args!("{}", request.body_length)),
            Field::Memory(unit) => number(format_args!("{}", request.memory / unit)),
            Field::Process => number(format_args!("{}", request.process)),
            Field::Parent => number(format_args!("{}", request.parent)),
            Field::Status => number(format_args!("{}", request.status)),
            Field::Accepted(format) => {
                number(format_args!("{}", time::local(request.accepted, format)))
            }
            Field::Now(format) => number(format_args!("{}", time::local(request.now, format))),
            Field::Plain(text) => to.extend_from_slice(text.as_bytes()),
            Field::Variable(name) => to.extend(missing_is_dash((request.variable)(name))),
            Field::Header(name) => {
                to.extend(missing_is_dash((request.header)(name).filter(|text| !text.is_empty())))
            }
            Field::Script => or_dash(to, request.script),
            Field::Method => or_dash(to, request.method),
            Field::Pool => or_dash(to, request.pool.as_bytes()),
            Field::Address => or_dash(to, request.address.unwrap_or_default().as_bytes()),
            Field::Query => to.extend_from_slice(request.query),
            Field::QuestionMark => {
                to.extend_from_slice(if request.query.is_empty() { b"" } else { b"?" })
            }
            Field::Uri => to.extend_from_slice(request.uri),
            Field::User => to.extend_from_slice(request.user),
        }
    }
}

fn missing_is_dash(text: Option<Vec<u8>>) -> Vec<u8> {
    text.unwrap_or_else(|| b"-".to_vec())
}

/// The share of a processor in percent.
fn share(request: &Request<'_>, of: CpuOf) -> f64 {
    let (user, system) = request.cpu;
    let taken = match of {
        CpuOf::User => user,
        CpuOf::System => system,
        CpuOf::Total => user + system,
    };
    percent(taken, request.duration)
}

/// How much of a time was spent on the processor, in percent; 0 for no time at all.
pub fn percent(taken: Duration, of: Duration) -> f64 {
    if of.is_zero() { 0.0 } else { taken.as_secs_f64() / of.as_secs_f64() * 100.0 }
}

/// Whether a request is left out: a GET or HEAD of one of these paths, with no query and no body,
/// that succeeded.
pub fn is_suppressed(request: &Request<'_>, paths: &[String]) -> bool {
    request.query.is_empty()
        && (request.method == b"GET" || request.method == b"HEAD")
        && (200..300).contains(&request.status)
        && request.body_length == 0
        && paths.iter().any(|path| path.as_bytes() == request.uri)
}

#[cfg(test)]
mod tests;
