//! Rules of a site: what holds for which of its paths.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use regex_lite::{Regex, RegexBuilder};

use super::{ClientLimits, Network};

/// What holds for paths of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Paths, each for all below it: with a slash at the start and none at the end, so that
    /// everything is empty. With `*` at its end, one is for all that begins with it.
    pub paths: Vec<String>,
    /// Found in the path.
    pub pattern: Option<Expression>,
    /// Further expressions, all of which hold for the path.
    pub and_patterns: Vec<Condition>,
    /// Extensions with their dot, in lower case.
    pub extensions: Vec<String>,
    /// Media types of the responses whose headers are changed, in lower case; `image/*` is for
    /// all that begin with `image/`.
    pub content_types: Vec<String>,
    /// Paths for which it does not hold, as [`Rule::paths`].
    pub except: Vec<String>,
    /// What else a request has to be; `None`: nothing.
    pub conditions: Option<Box<Conditions>>,
    /// Whether it redirects and rewrites only paths without a file or folder.
    pub unless_file: bool,
    /// Whether it redirects and rewrites only paths with a file or folder.
    pub if_file: bool,
    /// Whether a folder is there for these two.
    pub folders_are_files: bool,
    /// Where clients are sent.
    pub redirect: Option<Template>,
    /// What is served instead.
    pub rewrite: Option<Template>,
    /// The status of a redirect or of a refusal.
    pub status: u16,
    /// Clients that are not refused.
    pub allow: Vec<Network>,
    /// Clients that are refused.
    pub deny: Vec<Network>,
    /// Whether it refuses only the path that the client asks for.
    pub internal: bool,
    /// Which password clients need.
    pub login: Option<Login>,
    /// The only scripts that may run, as [`Rule::paths`]; empty: all.
    pub scripts: Vec<String>,
    /// What is served.
    pub serve: Serve,
    /// Whether folders without an index file are listed; absent: as for other paths.
    pub index_listing: Option<bool>,
    /// What each client may do.
    pub limits: ClientLimits,
    /// Most bytes of a request's body; absent: as for other paths.
    pub body: Option<u64>,
    /// Whether requests are written to the access log.
    pub is_logged: bool,
    /// Whether headers are changed by the path of what answers.
    pub of_answer: bool,
    /// Whether no later rule by the path of what answers holds where this one does.
    pub is_last: bool,
    /// What is changed in the head of responses.
    pub headers: HeaderChanges,
}

impl Rule {
    /// Whether it looks at the addresses of clients.
    pub fn refuses(&self) -> bool {
        !(self.allow.is_empty() && self.deny.is_empty())
    }
}

/// What a request has to be for a rule beside its path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Of its method.
    pub method: Option<Condition>,
    /// Of its query as the client sent it, without the question mark; without one it is empty.
    pub query: Option<Condition>,
    /// Of its header fields, by their names; one that is not there is empty.
    pub headers: Vec<(String, Condition)>,
}

impl Conditions {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        let Conditions { method, query, headers } = self;
        method.is_none() && query.is_none() && headers.is_empty()
    }
}

/// An expression that has to be found in a text, or has to be missing in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    expression: Expression,
    is_negated: bool,
}

impl Condition {
    /// From its text; a `!` at its start negates it.
    ///
    /// # Errors
    /// Fails with a message if the expression is invalid.
    pub fn new(text: &str) -> Result<Condition, String> {
        Condition::of_path(text, false)
    }

    /// The same of a path. A negated one never ignores case, so that a refusal covers more paths,
    /// not fewer.
    ///
    /// # Errors
    /// Fails with a message if the expression is invalid.
    pub fn of_path(text: &str, ignores_case: bool) -> Result<Condition, String> {
        let (text, is_negated) = match text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        Ok(Condition {
            expression: Expression::new(text, ignores_case && !is_negated)?,
            is_negated,
        })
    }

    /// As it was written.
    pub fn text(&self) -> String {
        let sign = if self.is_negated { "!" } else { "" };
        format!("{sign}{}", self.expression.text())
    }

    /// Whether it holds for `text`.
    pub fn holds(&self, text: &str) -> bool {
        self.expression.is_match(text) != self.is_negated
    }
}

/// A password that clients need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The file of users (absolute).
    pub users: PathBuf,
    /// What browsers say it is for: no control characters.
    pub realm: String,
    /// What else counts.
    pub satisfy: Satisfy,
}

/// What a client needs where both its address and a password count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Satisfy {
    /// Both.
    All,
    /// One of them.
    Any,
}

/// What is served of a site's paths; the later, the less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Serve {
    /// All.
    #[default]
    All,
    /// Files and scripts that exist, without the front controller.
    Existing,
    /// Files.
    Files,
}

/// What is changed in the head of responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeaderChanges {
    /// Fields in place of those of the same name.
    pub set: BTreeMap<String, String>,
    /// Further fields.
    pub add: BTreeMap<String, String>,
    /// Names of fields that are removed, from all responses.
    pub remove: Vec<String>,
    /// The field `Cache-Control`.
    pub cache_control: Option<String>,
    /// How long browsers may keep the response.
    pub expires: Option<Duration>,
    /// Whether these two are only for responses that do not say it themselves.
    pub keeps_own: bool,
    /// Whether responses with a status from 400 are changed, too.
    pub always: bool,
}

impl HeaderChanges {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        let HeaderChanges { set, add, remove, cache_control, expires, always: _, keeps_own: _ } =
            self;
        set.is_empty()
            && add.is_empty()
            && remove.is_empty()
            && cache_control.is_none()
            && expires.is_none()
    }
}

/// A regular expression that is looked for in a path.
#[derive(Clone, Debug)]
pub struct Expression {
    regex: Regex,
    ignores_case: bool,
}

impl Expression {
    /// From its text.
    ///
    /// # Errors
    /// Fails with a message if the expression is invalid.
    pub fn new(text: &str, ignores_case: bool) -> Result<Expression, String> {
        let regex = RegexBuilder::new(text).case_insensitive(ignores_case).build();
        Ok(Expression { regex: regex.map_err(|error| error.to_string())?, ignores_case })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        self.regex.as_str()
    }

    /// How many groups it has, with the whole as the first.
    pub fn groups(&self) -> usize {
        self.regex.captures_len()
    }

    /// Whether it is found in `path`.
    pub fn is_match(&self, path: &str) -> bool {
        self.regex.is_match(path)
    }

    /// What its groups find in `path`, the whole as the first; `None` if it is not found.
    pub fn captures<'a>(&self, path: &'a str) -> Option<Vec<&'a str>> {
        let captures = self.regex.captures(path)?;
        let groups = captures.iter().map(|group| group.map_or("", |group| group.as_str()));
        Some(groups.collect())
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.text() == other.text() && self.ignores_case == other.ignores_case
    }
}

/// A target with places for what a pattern's groups found.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    text: String,
    /// The pieces of the scheme, host and path.
    pub path: Vec<Piece>,
    /// The pieces of the query, without the question mark. `None`: there is no question mark.
    pub query: Option<Vec<Piece>>,
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// This text.
    Text(String),
    /// What this group found.
    Group(usize),
}

impl Template {
    /// From its text, in which `$1` to `$9` are groups, `$0` is the whole, and `$$` a dollar sign.
    ///
    /// # Errors
    /// Fails with a message if a dollar sign is followed by something else.
    pub fn new(text: &str) -> Result<Template, String> {
        let (path, query) = match text.split_once('?') {
            // A `?` at its end is no part of it: it drops the query of the request.
            Some((path, query)) => (path, Some(query.strip_suffix('?').unwrap_or(query))),
            None => (text, None),
        };
        Ok(Template {
            text: text.to_owned(),
            path: pieces(path)?,
            query: query.map(pieces).transpose()?,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The highest group that it names; 0 if it names none.
    pub fn highest_group(&self) -> usize {
        let groups = self.path.iter().chain(self.query.iter().flatten()).map(|piece| match piece {
            Piece::Text(_) => 0,
            Piece::Group(group) => *group,
        });
        groups.max().unwrap_or(0)
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        if char != '$' {
            plain.push(char);
            continue;
        }
        match rest.next() {
            Some('$') => plain.push('$'),
            Some(digit) if digit.is_ascii_digit() => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Group(digit as usize - '0' as usize));
            }
            _ => {
                return Err(format!(
                    "in `{text}` a `$` must be followed by the number of a group as in `$1`, or \
                        by another `$` for the sign itself"
                ));
            }
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}
