//! `RewriteCond`: what requests have to be.

use std::collections::BTreeSet;

use crate::condition::{Cases, Subject, Test};
use crate::directive::Directive;
use crate::pattern;
use crate::validity;
use crate::within::{Within, expression_behind};

/// Tests of a file that is there. An empty one is rare enough to be taken for any other.
const THERE: [&str; 5] = ["-f", "-s", "-l", "-F", "-d"];

/// What a condition asks.
#[derive(Debug, PartialEq)]
pub(super) enum Condition {
    NoFile,
    NoFolder,
    NoLink,
    Plain,
    Authorization,
    Host(String),
    OtherHost(String),
    EndsInSlash,
    Unknown,
}

/// The requests that the conditions of a rule let through. `mount` is the path in front of what
/// rules of its site see; `in_folder`: whether names of files are known.
///
/// # Errors
/// Fails with a reason if rules cannot say it.
pub(super) fn cases(
    conditions: &[Directive],
    mount: Option<&str>,
    in_folder: bool,
) -> Result<Cases, String> {
    let mut all = Cases::all();
    // Otherwise folders are taken for what is no file.
    let knows_folders = conditions.iter().any(|it| matches!(it.arg(1), "-d" | "!-d"));
    let file = |is_there| match (knows_folders, is_there) {
        (true, is_there) => Some(Cases::of(Test::File(is_there))),
        (false, false) => Some(no_file()),
        (false, true) => no_file().not(),
    };
    let too_many = || "too many conditions";
    for group in groups(conditions) {
        let are_there =
            group.iter().all(|it| is_own(it, mount, in_folder) && THERE.contains(&it.arg(1)));
        let one_of = match are_there {
            true if group.iter().any(|it| matches!(it.arg(1), "-f" | "-s" | "-F")) => {
                file(true).ok_or_else(too_many)?
            }
            true => return Err("a condition for folders alone is not translated".to_owned()),
            // No file is two of these at once, so one of both always holds.
            false if missing(group, mount, in_folder) > 1 => Cases::all(),
            false => {
                let mut cases = Cases(Vec::new());
                for condition in group {
                    cases = cases.or(one(condition, mount, in_folder, &file)?);
                }
                cases
            }
        };
        all = all.and(&one_of).ok_or("too many conditions")?;
    }
    let is_without = |flag: &&str| conditions.iter().any(|it| it.arg(1) == *flag);
    if ["!-d", "!-l"].iter().any(is_without) && !["!-f", "!-s"].iter().any(is_without) {
        return Err("a condition without `!-f` is not translated".to_owned());
    }
    Ok(all)
}

/// The conditions in groups, one of each of which has to hold.
pub(super) fn groups(conditions: &[Directive]) -> impl Iterator<Item = &[Directive]> {
    conditions.split_inclusive(|it| !has_flag(it, "or", "ornext"))
}

/// The requests for what is no file, but may be a folder: its path ends with a slash.
pub(super) fn no_file() -> Cases {
    let found = |text: &str, is_found| Test::Found(Subject::Path, text.to_owned(), is_found);
    // A slash behind the name of a script is its path info.
    let of_folder = vec![found("/$", true), found("\\.php/", false)];
    Cases(vec![vec![Test::File(false)], of_folder])
}

/// How many kinds of files there must not be, one of which is enough.
fn missing(group: &[Directive], mount: Option<&str>, in_folder: bool) -> usize {
    let own = group.iter().filter(|it| is_own(it, mount, in_folder));
    let kinds: BTreeSet<&str> = own.map(|it| it.arg(1)).filter(|it| it.starts_with("!-")).collect();
    kinds.len()
}

/// Whether a condition has a flag, by one of its names.
fn has_flag(condition: &Directive, short: &str, long: &str) -> bool {
    let flags = condition.arg(2).trim_start_matches('[').trim_end_matches(']');
    let mut flags = flags.split(',').map(str::trim);
    flags.any(|flag| flag.eq_ignore_ascii_case(short) || flag.eq_ignore_ascii_case(long))
}

/// Whether it is the name of the file that is asked for. Outside of a folder it is not known yet,
/// and `REQUEST_FILENAME` is the path.
pub(super) fn is_file(what: &str, in_folder: bool) -> bool {
    let root = ["%{DOCUMENT_ROOT}", "%{CONTEXT_DOCUMENT_ROOT}"];
    let is_name = |what: &str| matches!(what, "%{REQUEST_FILENAME}" | "%{SCRIPT_FILENAME}");
    match root.iter().find_map(|root| what.strip_prefix(root)) {
        Some(rest) => {
            let path = rest.strip_prefix('/').unwrap_or(rest);
            path == "%{REQUEST_URI}" || (is_name(path) && !in_folder)
        }
        None => is_name(what) && in_folder,
    }
}

/// Whether a condition is of the file that is asked for: the root is that of the site around.
fn is_own(condition: &Directive, mount: Option<&str>, in_folder: bool) -> bool {
    let what = condition.arg(0);
    is_file(what, in_folder) && (mount.is_none() || !what.contains("DOCUMENT_ROOT"))
}

fn one(
    condition: &Directive,
    mount: Option<&str>,
    in_folder: bool,
    file: &dyn Fn(bool) -> Option<Cases>,
) -> Result<Cases, String> {
    let problem = || "its conditions are not translated".to_owned();
    let (what, value) = (condition.arg(0), condition.arg(1));
    if is_own(condition, mount, in_folder) {
        match value {
            "!-f" | "!-d" | "!-l" | "!-s" => return file(false).ok_or_else(problem),
            "-f" | "-s" => return file(true).ok_or_else(problem),
            _ => {}
        }
    }
    if what.contains("DOCUMENT_ROOT") || value.trim_start_matches('!').starts_with('-') {
        let reason = "whether there is another file is not translated; where it is what is served \
            anyway, leave the lines out";
        return Err(reason.to_owned());
    }
    // It is set when Apache asks all rules again, after one of them.
    if what == "%{ENV:REDIRECT_STATUS}" && matches!(value, "^$" | "=" | "=\"\"" | "\"\"" | "") {
        return Ok(Cases::all());
    }
    match of_first_time(what, value) {
        Some(true) => return Ok(Cases::all()),
        // What holds only when rules are asked again may refuse then.
        Some(false) if !is_of_first_time(condition) => return Ok(Cases::none()),
        _ => {}
    }
    let name = what.strip_prefix("%{").and_then(|it| it.strip_suffix('}')).ok_or_else(problem)?;
    let subject = match name {
        // The name of each file begins with a folder.
        "REQUEST_FILENAME" if in_folder && matches!(value, "^(.+/)" | "^(.+\\/)" | "^/") => {
            return Ok(Cases::all());
        }
        "REQUEST_FILENAME" | "SCRIPT_FILENAME" if in_folder && !value.contains('^') => {
            Subject::Path
        }
        "THE_REQUEST" if mount.is_none() => {
            let expression = value.trim_start_matches('!');
            let cases = of_request_line(expression, has_flag(condition, "nc", "nocase"));
            let cases = cases.ok_or_else(problem)?;
            let is_found = expression.len() == value.len();
            return if is_found { Ok(cases) } else { cases.not().ok_or_else(problem) };
        }
        name => subject(name).ok_or_else(problem)?,
    };
    let (value, is_found) = match value.strip_prefix('!') {
        Some(rest) => (rest, false),
        None => (value, true),
    };
    let expression = match value.strip_prefix('=') {
        Some(text) => format!("^{}$", regex_lite::escape(text.trim_matches('"'))),
        None if value.is_empty() || value.starts_with(['<', '>', '-']) => return Err(problem()),
        None => pattern::translate(value, has_flag(condition, "nc", "nocase"))?,
    };
    let expression = match (mount, &subject) {
        (Some(mount), Subject::Path) => match expression_behind(&expression, mount) {
            Within::At(own) => own,
            _ => return Err(problem()),
        },
        _ => expression,
    };
    Ok(Cases::of(Test::Found(subject, expression, is_found)))
}

/// What a condition says of what is known while importing: of a text without variables, or of what
/// rules have set when Apache asks all of them again after one of them.
fn of_first_time(what: &str, value: &str) -> Option<bool> {
    let text = match what.strip_prefix("%{ENV:REDIRECT_") {
        Some(_) => "",
        None if !what.contains(['%', '$']) && !value.trim_start_matches('!').starts_with('-') => {
            what
        }
        None => return None,
    };
    let (value, is_found) = match value.strip_prefix('!') {
        Some(rest) => (rest, false),
        None => (value, true),
    };
    let expression = match value.strip_prefix('=') {
        Some(text) => format!("^{}$", regex_lite::escape(text.trim_matches('"'))),
        None if value.is_empty() || value.starts_with(['<', '>']) => return None,
        None => pattern::translate(value, false).ok()?,
    };
    Some(pattern::is_in(&expression, text) == is_found)
}

/// The requests in whose first line an expression is found, if it ends where the path does. Rules
/// are asked once, for what the client sent.
fn of_request_line(expression: &str, ignores_case: bool) -> Option<Cases> {
    const METHODS: [(&str, &str); 9] = [
        ("^[A-Z]{3,9}", ""),
        ("^[A-Z]{3,}", ""),
        ("^[A-Z]+", ""),
        ("^(GET|HEAD)", "^(GET|HEAD)$"),
        ("^(?:GET|HEAD)", "^(GET|HEAD)$"),
        ("^(GET|POST)", "^(GET|POST)$"),
        ("^GET", "^GET$"),
        ("^.+", ""),
        ("", ""),
    ];
    const ENDS: [&str; 9] = [
        "[\\s?]",
        "[?\\s]",
        "\\sHTTP",
        "\\sHTTP/",
        "\\s",
        "(\\s|\\?)",
        "[\\ ?]",
        "\\ HTTP",
        "\\ HTTP/",
    ];
    let own = METHODS.iter().find_map(|(start, own)| Some((expression.strip_prefix(start)?, own)));
    let (rest, method) = own?;
    let spaces = ["\\s+", "\\s", "\\ ", " "];
    let (start, rest) = match rest.strip_prefix(".*") {
        Some(rest) => ("", rest),
        None => ("^", spaces.iter().find_map(|space| rest.strip_prefix(space))?),
    };
    let rest = rest.strip_prefix("/+").map_or(rest.to_owned(), |rest| format!("/{rest}"));
    let path = ENDS.iter().find_map(|end| rest.strip_suffix(end));
    let (path, end) = path.map_or((&*rest, ""), |path| (path, "$"));
    let is_path = !path.is_empty()
        && (start.is_empty() || path.starts_with('/'))
        && !["?", " ", "\\s", ".*"].iter().any(|other| path.contains(other));
    let path = pattern::translate(&format!("{start}{path}{end}"), ignores_case).ok()?;
    let found = |subject, own: String| Cases::of(Test::Found(subject, own, true));
    let cases = match start {
        // What may stand before it may be the path.
        "" => found(Subject::Path, path.clone()).or(found(Subject::Query, path)),
        _ => found(Subject::Path, path),
    };
    let both = match method.is_empty() {
        true => Some(cases),
        false => cases.and(&found(Subject::Method, (*method).to_owned())),
    };
    both.filter(|_| is_path)
}

/// Whether a condition tells the request of a client from what rules lead to.
pub(super) fn is_of_first_time(condition: &Directive) -> bool {
    condition.arg(0).starts_with("%{ENV:REDIRECT_")
}

/// What a variable of a request is.
pub(super) fn subject(name: &str) -> Option<Subject> {
    Some(match name {
        "REQUEST_URI" => Subject::Path,
        "QUERY_STRING" => Subject::Query,
        "REQUEST_METHOD" => Subject::Method,
        "HTTP_USER_AGENT" => header("User-Agent")?,
        "HTTP_REFERER" => header("Referer")?,
        "HTTP_COOKIE" => header("Cookie")?,
        "HTTP_ACCEPT" => header("Accept")?,
        "HTTP_HOST" => header("Host")?,
        _ => header(name.strip_prefix("HTTP:")?)?,
    })
}

/// A header field, if that is its whole name.
pub(super) fn header(name: &str) -> Option<Subject> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (!name.is_empty() && is_plain).then(|| Subject::Header(name.to_owned()))
}

/// The value that a rule gives to a variable with one of the two ways to find out under which path
/// a folder is: its name, and whether it ends with a slash.
pub(super) fn base(conditions: &[Directive], flags: &str) -> Option<(String, bool)> {
    let [condition] = conditions else { return None };
    let set = flags.trim_start_matches('[').trim_end_matches(']').split(',').map(str::trim);
    let mut set = set.filter_map(|flag| flag.split_once('='));
    let (_, set) =
        set.find(|(name, _)| name.eq_ignore_ascii_case("e") || name.eq_ignore_ascii_case("env"))?;
    let (name, value) = set.split_once(':')?;
    let ends_in_slash = match (condition.arg(0), condition.arg(1), value) {
        ("%{REQUEST_URI}::$0" | "%{REQUEST_URI}::$1", "^(/.+)/(.*)::\\2$", "%1") => false,
        ("%{REQUEST_URI}::$1", "^(.*?/)(.*)::\\2$", "%1") => true,
        ("$0#%{REQUEST_URI}", "([^#]*)#(.*)\\1$", "%2") => true,
        ("$0::%{REQUEST_URI}", "^([^:]*+(?::[^:]*+)*?)::(/.+?)\\1$", "%2") => true,
        _ => return None,
    };
    Some((name.to_owned(), ends_in_slash))
}

/// What a condition asks. Outside of a folder, `REQUEST_FILENAME` is no file yet.
pub(super) fn condition(directive: &Directive, in_folder: bool) -> Condition {
    let (what, value) = (directive.arg(0), directive.arg(1));
    let is_file = is_file(what, in_folder);
    let name = |text: &str| {
        let plain = text.strip_prefix('^').and_then(|text| text.strip_suffix('$'));
        let plain = plain.map(|plain| plain.replace("\\.", "."));
        plain.and_then(|plain| validity::host(&plain))
    };
    match (what, value) {
        (_, "!-f") if is_file => Condition::NoFile,
        (_, "!-d") if is_file => Condition::NoFolder,
        (_, "!-l") if is_file => Condition::NoLink,
        ("%{HTTPS}", "off" | "!=on" | "!on" | "^off$" | "=off") => Condition::Plain,
        ("%{SERVER_PORT}", "80" | "^80$" | "!^443$" | "!443") => Condition::Plain,
        ("%{HTTP:X-Forwarded-Proto}", "!https" | "!=https" | "^http$" | "=http") => {
            Condition::Plain
        }
        ("%{HTTP:Authorization}", _) => Condition::Authorization,
        ("%{REQUEST_URI}", "(.+)/$" | "^(.+)/$" | "^(.*)/$" | "^(.+)/+$") => Condition::EndsInSlash,
        ("%{HTTP_HOST}", value) => match value.strip_prefix('!') {
            Some(own) => name(own).map_or(Condition::Unknown, Condition::OtherHost),
            None => name(value).map_or(Condition::Unknown, Condition::Host),
        },
        _ => Condition::Unknown,
    }
}

/// Whether any client can make a condition untrue by what it sends or leaves out, so that what the
/// rule is for is sent to everybody as it lies there.
pub(super) fn is_avoidable(directive: &Directive) -> bool {
    let (what, value) = (directive.arg(0), directive.arg(1));
    let is_of_client = ["%{HTTP_ACCEPT", "%{HTTP_USER_AGENT}", "%{HTTP_REFERER}", "%{HTTP_COOKIE}"]
        .iter()
        .chain(&["%{HTTP:", "%{QUERY_STRING}"])
        .any(|start| what.starts_with(start));
    // A client can send the text that the condition excludes, an empty text, or any other text.
    let is_always = |value: &str| {
        let is_in = |expression: &String, text| pattern::is_in(expression, text);
        let expression = pattern::translate(value, false);
        expression.map_or(true, |it| is_in(&it, "") && is_in(&it, "nobody=asks"))
    };
    is_of_client
        && match value.strip_prefix('!') {
            Some(rest) => !rest.is_empty() && pattern::translate(rest, false).is_ok(),
            None => !value.starts_with(['<', '>', '=', '-']) && !is_always(value),
        }
}
