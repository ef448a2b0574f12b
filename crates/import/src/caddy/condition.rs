//! The conditions of a matcher as cases of tests.

use crate::condition::{Cases, Subject, Test};
use crate::directive::Directive;
use crate::pattern;

use super::path;

/// What becomes of a condition that cannot be said: a refusal may be for more, never for less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Exact,
    Wider,
    Narrower,
}

impl Bound {
    /// The bound of what is negated.
    fn negated(self) -> Bound {
        match self {
            Bound::Exact => Bound::Exact,
            Bound::Wider => Bound::Narrower,
            Bound::Narrower => Bound::Wider,
        }
    }

    /// The cases of what cannot be said.
    fn unknown(self) -> Option<Cases> {
        match self {
            Bound::Exact => None,
            Bound::Wider => Some(Cases::all()),
            Bound::Narrower => Some(Cases(Vec::new())),
        }
    }
}

/// Paths that are no files for Caddy, although a rule knows one: those of folders, and those behind
/// the name of a script.
const FOLDER: &str = r"/$|\.php/";

/// The same where folders are asked for, too.
const PATH_INFO: &str = r"\.php/";

/// The requests for which all of the conditions hold; `None` if that is not known exactly.
pub(super) fn all(conditions: &[Directive], bound: Bound) -> Option<Cases> {
    let mut cases = Cases::all();
    let mut seen: Vec<&str> = Vec::new();
    for condition in conditions {
        let name = &*condition.name;
        let same: Vec<&Directive> = conditions.iter().filter(|it| it.name == name).collect();
        let own = match (name, &same[..]) {
            ("not", _) => not(condition, bound),
            // Several lines of the same name are one list, whatever Caddy makes of it.
            _ if seen.contains(&name) => continue,
            ("path" | "method", _) => {
                let args: Vec<String> = same.iter().flat_map(|it| it.args.clone()).collect();
                one(name, &args, condition, bound).or_else(|| bound.unknown())
            }
            (_, [_]) => one(name, &condition.args, condition, bound).or_else(|| bound.unknown()),
            _ => bound.unknown(),
        };
        seen.push(name);
        cases = cases.and(&own?).or_else(|| bound.unknown())?;
    }
    Some(cases)
}

/// The conditions of a matcher or of `not`, which stand in a block or in the same line.
pub(super) fn within(directive: &Directive) -> Vec<Directive> {
    match (&directive.block, directive.args.split_first()) {
        (Some(block), None) => block.clone(),
        (_, Some((name, args))) => {
            vec![Directive { name: name.clone(), args: args.to_vec(), ..directive.clone() }]
        }
        (None, None) => Vec::new(),
    }
}

fn not(condition: &Directive, bound: Bound) -> Option<Cases> {
    let inner = within(condition);
    let cases = if inner.is_empty() { None } else { all(&inner, bound.negated()) };
    cases.and_then(|cases| cases.not()).or_else(|| bound.unknown())
}

fn one(name: &str, args: &[String], condition: &Directive, bound: Bound) -> Option<Cases> {
    let found = |subject: Subject, expression: String| {
        Some(Cases::of(Test::Found(subject, expression, true)))
    };
    match (name, args) {
        ("path", [_, ..]) if args.iter().any(|path| path::is_all(path)) => Some(Cases::all()),
        ("path", [_, ..]) => found(Subject::Path, path::any(args)?),
        ("path_regexp", [expression] | [_, expression]) => {
            found(Subject::Path, pattern::translate(expression, false).ok()?)
        }
        ("method", [_, ..]) => {
            let is_method = |arg: &String| arg.bytes().all(|byte| byte.is_ascii_uppercase());
            let is_known = args.iter().all(is_method);
            is_known.then_some(())?;
            found(Subject::Method, format!("^(?:{})$", args.join("|")))
        }
        ("query", [pair]) => found(Subject::Query, query(pair, bound)?),
        ("header", [field]) => {
            let (field, is_missing) = match field.strip_prefix('!') {
                Some(field) => (field, true),
                None => (&**field, false),
            };
            let any = Test::Found(Subject::Header(header(field)?), ".".to_owned(), !is_missing);
            Some(Cases::of(any))
        }
        ("header", [field, value]) => found(Subject::Header(header(field)?), text(value)?),
        ("header_regexp", [field, expression] | [_, field, expression]) => {
            let expression = pattern::translate(expression, false).ok()?;
            found(Subject::Header(header(field)?), expression)
        }
        // Files may come and go, so a refusal is for both.
        ("file", _) if bound == Bound::Exact => file(&files(condition)?),
        _ => None,
    }
}

/// The files that a condition asks for.
pub(super) fn files(condition: &Directive) -> Option<Vec<String>> {
    let mut files = condition.args.clone();
    for inner in condition.inner() {
        match &*inner.name {
            "try_files" => files.extend(inner.args.iter().cloned()),
            "try_policy" if inner.args == ["first_exist"] => {}
            _ => return None,
        }
    }
    if files.is_empty() {
        files.push("{path}".to_owned());
    }
    Some(files)
}

/// The requests whose own path is that of a file, or of a file or folder.
fn file(files: &[String]) -> Option<Cases> {
    let own = |file: &String| matches!(&**file, "{path}" | "{http.request.uri.path}");
    let is_folder = |file: &String| file == "{path}/" || file == "{http.request.uri.path}/";
    let is_known = files.iter().all(|file| own(file) || is_folder(file)) && files.iter().any(own);
    is_known.then_some(())?;
    let (there, other) = match files.iter().any(is_folder) {
        true => (Test::File(true), PATH_INFO),
        // A folder without its slash is no file either.
        false => (Test::NoFolder(true), FOLDER),
    };
    Cases::of(there).and(&Cases::of(Test::Found(Subject::Path, other.to_owned(), false)))
}

/// Whether a test is that of a path of no file, which the names of a matcher may answer.
pub(super) fn is_of_folders(test: &Test) -> bool {
    let is_own = |expression: &str| matches!(expression, FOLDER | PATH_INFO);
    matches!(test, Test::Found(Subject::Path, expression, _) if is_own(expression))
}

/// `key=value` as an expression of the query. Caddy decodes both, and looks at the first of several
/// values, so a refusal is for all that is encoded, and an exception for what comes first.
fn query(pair: &str, bound: Bound) -> Option<String> {
    let is_plain = |text: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !text.is_empty() && text.bytes().all(is_letter)
    };
    let (key, value) = pair.split_once('=')?;
    let end = match value {
        "*" => "(?:[=&]|$)".to_owned(),
        value if is_plain(value) => format!("={value}(?:&|$)"),
        _ => return None,
    };
    is_plain(key).then(|| match bound {
        Bound::Exact => format!("(?:^|&){key}{end}"),
        Bound::Wider => format!("(?:^|&){key}{end}|%"),
        Bound::Narrower => format!("^{key}{end}"),
    })
}

/// The name of a header field; that of the host is no field in Caddy.
fn header(name: &str) -> Option<String> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_known = !name.is_empty() && name.bytes().all(is_letter);
    (is_known && !name.eq_ignore_ascii_case("host")).then(|| name.to_owned())
}

/// The value of a header field as an expression, with `*` at its ends.
fn text(value: &str) -> Option<String> {
    if value == "*" {
        return Some(".".to_owned());
    }
    let is_plain = !value.is_empty() && !value.contains(['{', '}']);
    is_plain.then_some(())?;
    let (begin, inner) = match value.strip_prefix('*') {
        Some(inner) => ("", inner),
        None => ("^", value),
    };
    let (end, inner) = match inner.strip_suffix('*') {
        Some(inner) => ("", inner),
        None => ("$", inner),
    };
    Some(format!("{begin}{}{end}", regex_lite::escape(inner)))
}
