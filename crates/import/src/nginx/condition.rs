//! The conditions of `if`, as what requests have to be.

use std::collections::BTreeMap;

use crate::condition::{Cases, Subject, Test};
use crate::directive::Directive;
use crate::pattern;

use super::one_value;
use super::parse::is_missing;

/// Names of the file that is asked for.
const FILES: [&str; 4] = [
    "$request_filename",
    "$document_root$uri",
    "$document_root$fastcgi_script_name",
    "$realpath_root$fastcgi_script_name",
];

/// What a `map` makes of a variable: the first value that fits, or that of `default`.
#[derive(Clone, Debug)]
pub(super) struct Map {
    source: String,
    values: Vec<(String, String)>,
    default: String,
}

impl Map {
    /// The one value that it has, if that is a plain text.
    pub(super) fn constant(&self) -> Option<&String> {
        Some(&self.default).filter(|it| self.values.is_empty() && !it.contains('$'))
    }

    /// Its value for requests that lack what it looks at, if that is a plain text.
    pub(super) fn of_absent(&self) -> Option<&String> {
        const LACKING: [&str; 4] = ["$arg_", "$cookie_", "$http_", "$args"];
        if !LACKING.iter().any(|start| self.source.starts_with(start)) {
            return None;
        }
        let mut found = None;
        for (key, value) in &self.values {
            let (expression, ignores_case) = match (key.strip_prefix("~*"), key.strip_prefix('~')) {
                (Some(own), _) => (own, true),
                (_, Some(own)) => (own, false),
                // A plain text counts before expressions.
                _ if key.is_empty() => return Some(value).filter(|it| !it.contains('$')),
                _ => continue,
            };
            let expression = pattern::translate(expression, ignores_case).ok()?;
            found = found.or(pattern::is_in(&expression, "").then_some(value));
        }
        let found = found.unwrap_or(&self.default);
        Some(found).filter(|it| !it.contains('$'))
    }
}

/// The `map` of each variable.
pub(super) type Maps = BTreeMap<String, Map>;

/// What a variable is at first, and what it becomes for which requests; nothing if that is unknown.
pub(super) type Flags = BTreeMap<String, Option<(String, Vec<(Cases, String)>)>>;

/// Variables, and the expressions whose first group they are.
pub(super) type PathInfos = Vec<(String, String)>;

/// The words of the condition of an `if`.
pub(super) fn words(step: &Directive) -> Vec<&str> {
    let last = step.args.len().saturating_sub(1);
    let inner = step.args.iter().enumerate().map(|(at, word)| {
        let word = if at == 0 { word.trim_start_matches('(') } else { word };
        if at == last { word.strip_suffix(')').unwrap_or(word) } else { word }
    });
    inner.flat_map(str::split_whitespace).collect()
}

/// Each `map` in a configuration.
pub(super) fn maps(directives: &[Directive]) -> Maps {
    let mut found = Maps::new();
    for directive in directives {
        found.append(&mut maps(directive.inner()));
        let [source, variable] = &directive.args[..] else { continue };
        if directive.name != "map" {
            continue;
        }
        let mut map = Map { source: source.clone(), values: Vec::new(), default: String::new() };
        for line in directive.inner() {
            match &*line.name {
                "default" => map.default = line.arg(0).to_owned(),
                "volatile" => {}
                name => map.values.push((name.to_owned(), line.arg(0).to_owned())),
            }
        }
        if !directive.inner().iter().any(is_missing) {
            found.insert(variable.clone(), map);
        }
    }
    found
}

/// The requests for which a condition holds, if rules can say it.
pub(super) fn cases(words: &[&str], maps: &Maps, flags: &Flags) -> Option<Cases> {
    let test = match words {
        ["-e", file] if FILES.contains(file) => Test::File(true),
        ["!-e", file] if FILES.contains(file) => Test::File(false),
        ["-f", file] if FILES.contains(file) => Test::NoFolder(true),
        ["!-f", file] if FILES.contains(file) => Test::NoFolder(false),
        // A folder is there, and no file.
        ["-d", file] if FILES.contains(file) => {
            return Cases::of(Test::File(true)).and(&Cases::of(Test::NoFolder(false)));
        }
        ["!-d", file] if FILES.contains(file) => {
            return Some(Cases::of(Test::File(false)).or(Cases::of(Test::NoFolder(true))));
        }
        [variable, ..] if maps.contains_key(*variable) => return of_map(maps, variable, words),
        [variable, ..] if flags.contains_key(*variable) => return of_flag(flags, variable, words),
        // A variable that has one value.
        [value, ..] if !value.starts_with(['$', '-', '!']) => {
            return holds(words, value)
                .map(|holds| if holds { Cases::all() } else { Cases::none() });
        }
        ["$request_uri", ..] => return of_request_uri(words),
        [variable, ..] if variable.starts_with("$arg_") || variable.starts_with("$cookie_") => {
            return one_value::cases(variable, &words[1..]);
        }
        // A variable that is neither empty nor `0`.
        [variable] => Test::Found(subject(variable)?, "^(?:[^0]|0.)".to_owned(), true),
        [variable, operator, value @ ..] => {
            let (expression, is_found) = compared(operator, &value.join(" "))?;
            Test::Found(subject(variable)?, expression, is_found)
        }
        [] => return None,
    };
    Some(Cases::of(test))
}

/// `if ($request_uri ~ "^/api(/[^?]+)") { set $path_info $1; }`: its variable and its expression.
pub(super) fn set_by_path(step: &Directive) -> Option<(String, String)> {
    let [set] = step.inner() else { return None };
    let words = words(step);
    let ["$request_uri" | "$uri" | "$document_uri", operator @ ("~" | "~*"), value @ ..] =
        &words[..]
    else {
        return None;
    };
    let expression = pattern::translate(&value.join(" "), *operator == "~*").ok()?;
    let begins = expression.find('(').is_some_and(|at| expression[at..].starts_with("(/"));
    let is_part = set.name == "set" && set.arg(1) == "$1" && begins;
    is_part.then(|| (set.arg(0).to_owned(), expression))
}

/// The expression of a comparison, and whether it has to be found.
fn compared(operator: &str, value: &str) -> Option<(String, bool)> {
    Some(match operator {
        "=" => (format!("^{}$", regex_lite::escape(value)), true),
        "!=" => (format!("^{}$", regex_lite::escape(value)), false),
        "~" | "!~" => (pattern::translate(value, false).ok()?, operator == "~"),
        "~*" | "!~*" => (pattern::translate(value, true).ok()?, operator == "~*"),
        _ => return None,
    })
}

/// Whether a condition holds for a value of its variable; nothing if that cannot be known.
pub(super) fn holds(words: &[&str], value: &str) -> Option<bool> {
    if value.contains('$') {
        return None;
    }
    match words {
        [_] => Some(!matches!(value, "" | "0")),
        [_, operator, other @ ..] => {
            let (expression, is_found) = compared(operator, &other.join(" "))?;
            Some(pattern::is_in(&expression, value) == is_found)
        }
        [] => None,
    }
}

fn of_map(maps: &Maps, variable: &str, words: &[&str]) -> Option<Cases> {
    let map = maps.get(variable)?;
    let is_default = holds(words, &map.default)?;
    let mut others = Vec::new();
    for (key, value) in &map.values {
        // Where values differ from the default in two ways, their order counts.
        if holds(words, value)? == is_default {
            return None;
        }
        let expression = match (key.strip_prefix("~*"), key.strip_prefix('~')) {
            (Some(own), _) => pattern::translate(own, true).ok()?,
            (_, Some(own)) => pattern::translate(own, false).ok()?,
            _ if key == "hostnames" || key.contains('*') => return None,
            _ => format!("(?i)^{}$", regex_lite::escape(key.trim_start_matches('\\'))),
        };
        others.push(match expression.strip_prefix("(?i)") {
            Some(own) => format!("(?i:{own})"),
            None => format!("(?:{expression})"),
        });
    }
    if others.is_empty() {
        return is_default.then(Cases::all);
    }
    Some(Cases::of(Test::Found(subject(&map.source)?, others.join("|"), !is_default)))
}

fn of_flag(flags: &Flags, variable: &str, words: &[&str]) -> Option<Cases> {
    let (first, changes) = flags.get(variable)?.as_ref()?;
    let is_first = holds(words, first)?;
    let mut others = Cases::none();
    for (cases, value) in changes {
        if holds(words, value)? == is_first {
            return None;
        }
        others = others.or(cases.clone());
    }
    match is_first {
        true => others.not(),
        false => Some(others),
    }
}

/// What a client sent, before it was decoded, with its query: as the path or as the query, if
/// nothing is asked for that only one of them has.
fn of_request_uri(words: &[&str]) -> Option<Cases> {
    let [_, operator, value @ ..] = words else { return None };
    let value = value.join(" ");
    let (expression, is_found) = compared(operator, &value)?;
    let is_plain = !value.contains(['%', '?']) || !value.contains("\\?");
    let is_whole = expression.ends_with('$');
    if value.contains('%') || !is_plain || (is_whole && !is_found) {
        return None;
    }
    let is_anchored = expression.trim_start_matches("(?i)").starts_with('^')
        && pattern::alternatives(&expression).len() == 1;
    let path = Cases::of(Test::Found(Subject::Path, expression.clone(), is_found));
    let no_query = Cases::of(Test::Found(Subject::Query, "^$".to_owned(), true));
    let path = if is_anchored && is_whole { path.and(&no_query)? } else { path };
    if !is_found {
        // The path alone refuses more.
        return Some(path);
    }
    let path = if is_anchored {
        path
    } else {
        path.or(Cases::of(Test::Found(Subject::Query, expression.clone(), true)))
    };
    // What stands before a wildcard may be in the path, and what follows it in the query.
    Some(match around_wildcard(&expression)? {
        None => path,
        Some((before, after)) => {
            let start = Cases::of(Test::Found(Subject::Path, before, true));
            if after.is_empty() {
                return Some(path.or(start));
            }
            let end = Cases::of(Test::Found(Subject::Query, after, true));
            path.or(start.and(&end)?)
        }
    })
}

/// The expressions before and behind the one wildcard of an expression, if it has one; `None` if it
/// has another one, which may stand for a question mark, too.
fn around_wildcard(expression: &str) -> Option<Option<(String, String)>> {
    let (flag, plain) = match expression.strip_prefix("(?i)") {
        Some(plain) => ("(?i)", plain),
        None => ("", expression),
    };
    let has_wildcard = |text: &str| {
        let text = text.replace("\\.", "");
        [".", "[^", "\\D", "\\W", "\\S"].iter().any(|wildcard| text.contains(wildcard))
    };
    if !has_wildcard(plain) {
        return Some(None);
    }
    let is_apart = |text: &str| {
        let is_one = pattern::alternatives(text).len() == 1 && !text.ends_with('\\');
        is_one && !has_wildcard(text) && pattern::translate(&format!("{text}$"), false).is_ok()
    };
    let found = [".*", ".+"].iter().find_map(|wildcard| plain.split_once(wildcard));
    let (before, after) = found.filter(|(before, after)| is_apart(before) && is_apart(after))?;
    Some(Some((format!("{flag}{before}"), format!("{flag}{after}"))))
}

fn subject(variable: &str) -> Option<Subject> {
    Some(match variable {
        "$request_method" => Subject::Method,
        "$args" | "$query_string" => Subject::Query,
        "$uri" | "$document_uri" => Subject::Path,
        _ => {
            let name = variable.strip_prefix("$http_")?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            name.bytes().all(is_plain).then(|| Subject::Header(name.replace('_', "-")))?
        }
    })
}
