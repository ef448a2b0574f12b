//! Targets of nginx's redirects and rewrites, in the form of rules.

use crate::directive::Directive;
use crate::pattern;

/// Variables that stand for the name by which a client comes.
const HOSTS: [&str; 3] = ["$http_host", "$host", "$server_name"];

/// The variables that stand for the query of the request.
const QUERIES: [&str; 2] = ["$args", "$query_string"];

/// The variables that stand for the path, the first of them with the query.
const PATHS: [&str; 3] = ["$request_uri", "$document_uri", "$uri"];

/// Removes what passes the query on, and says whether there was something.
pub(super) fn without_query(target: &str) -> (&str, bool) {
    if let Some(rest) = target.strip_suffix("$is_args$args") {
        return (rest, true);
    }
    for query in QUERIES {
        for sign in ["?", "&"] {
            let end = format!("{sign}{query}");
            if let Some(rest) = target.strip_suffix(&end) {
                return (rest, true);
            }
        }
    }
    (target, false)
}

/// What a path without a file becomes, as the target of a rule with the pattern `^/(.*)$`.
#[derive(Debug, PartialEq)]
pub(super) struct Fallback {
    pub to: String,
    /// Whether it has the group of that pattern.
    pub needs_path: bool,
    /// Whether its own query has that of the request as a part of it, which a rule cannot say.
    pub has_query_within: bool,
}

/// The last argument of `try_files`, which passes the query on only if it says so.
pub(super) fn fallback(target: &str) -> Option<Fallback> {
    let (base, passes) = without_query(target);
    let (path, query) = match base.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (base, None),
    };
    let of_path = PATHS.iter().find_map(|own| Some((path.strip_suffix(own)?, *own)));
    let whole = |own: &str| own == PATHS[0];
    let mut passes = passes || of_path.is_some_and(|(_, own)| whole(own));
    let mut to = of_path.map_or_else(|| path.to_owned(), |(start, _)| format!("{start}/$1"));
    let mut needs_path = of_path.is_some();
    let mut has_query_within = false;
    if let Some(query) = query {
        let of_query = PATHS.iter().find(|own| query.contains(**own));
        has_query_within = of_query.is_some_and(|own| whole(own));
        needs_path |= of_query.is_some();
        passes |= has_query_within;
        let query = of_query.map_or_else(|| query.to_owned(), |own| query.replacen(own, "/$1", 1));
        to = format!("{to}?{query}");
    }
    let is_known = to.starts_with('/') && groups_only(&to)?.replace("$1", "").find('$').is_none();
    if !passes {
        to.push('?');
    }
    is_known.then_some(Fallback { to, needs_path, has_query_within })
}

/// A target without variables for the host: a path where that stays, with its scheme, and the one
/// name of the site where the scheme is another one.
pub(super) fn on_own_host(target: &str, hosts: &[String]) -> String {
    let Some((scheme, rest)) = target.split_once("://") else { return target.to_owned() };
    let Some(rest) = HOSTS.iter().find_map(|host| rest.strip_prefix(host)) else {
        return target.to_owned();
    };
    match hosts {
        _ if scheme == "$scheme" && rest.starts_with(['/', '$']) => rest.to_owned(),
        [only] if !only.contains('*') => format!("{scheme}://{only}{rest}"),
        _ => target.to_owned(),
    }
}

/// Where a step sends all its paths with their queries, as the target of a rule with the pattern
/// `^/(.*)$`, if the name of the host is known.
pub(super) fn whole(step: &Directive, hosts: &[String]) -> Option<String> {
    let to = on_own_host(step.arg(1), hosts);
    let start = to.strip_suffix('?').unwrap_or(&to).strip_suffix("$request_uri")?;
    (!start.is_empty() && !start.contains('$')).then(|| format!("{start}/$1"))
}

/// A target with the numbers of the groups to which an expression gives names; others are those of
/// another expression.
pub(super) fn with_groups_of(expression: &str, target: &str) -> String {
    let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    if target.split('$').skip(1).any(is_number) {
        return target.to_owned();
    }
    let args = vec![expression.to_owned(), target.to_owned()];
    let place = crate::source::Place::start(std::path::Path::new(""));
    let step = Directive { place, name: "rewrite".to_owned(), args, block: None };
    numbered(&step).arg(1).to_owned()
}

/// A `rewrite` with numbers in place of the names of its groups.
pub(super) fn numbered(step: &Directive) -> Directive {
    let (mut names, mut plain) = (Vec::new(), String::new());
    let (mut count, mut rest) = (0, step.arg(0));
    while let Some((before, after)) = rest.split_once('(') {
        let is_escaped = before.len() - before.trim_end_matches('\\').len() == 1;
        let name = ["?<", "?P<"].iter().find_map(|start| after.strip_prefix(start));
        let name = name.and_then(|inner| inner.split_once('>')).filter(|(name, _)| is_name(name));
        count += usize::from(!is_escaped && (name.is_some() || !after.starts_with('?')));
        plain.push_str(before);
        plain.push('(');
        rest = match name {
            Some((name, inner)) => {
                names.push((name, count));
                inner
            }
            None => after,
        };
    }
    plain.push_str(rest);
    // A longer name may begin like a shorter one.
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let mut step = step.clone();
    if let [expression, to, ..] = &mut step.args[..]
        && !names.is_empty()
    {
        *expression = plain;
        for (name, number) in names {
            *to = to.replace(&format!("${name}"), &format!("${number}"));
        }
    }
    step
}

/// A `rewrite` whose target begins with a group that begins with a slash, as `$1` of `^/a(/.*)$`,
/// with that slash before the group: the target of a rule begins with one.
pub(super) fn slashed(step: &Directive) -> Directive {
    let mut slashed = step.clone();
    if let [expression, to, ..] = &mut slashed.args[..]
        && let Some(number) = to.strip_prefix('$').and_then(|rest| rest.chars().next())
        && let Some(own) = number.to_digit(10).and_then(|own| slash_before(expression, own))
    {
        *expression = own;
        *to = to.replace(&format!("${number}"), &format!("/${number}"));
    }
    slashed
}

/// An expression with the slash before its group of a number with which that group began.
fn slash_before(expression: &str, number: u32) -> Option<String> {
    let is_escaped = |before: &str| before.len() - before.trim_end_matches('\\').len() == 1;
    let opens = expression.match_indices('(').filter(|(at, _)| {
        !is_escaped(&expression[..*at]) && !expression[at + 1..].starts_with('?')
    });
    let (at, _) = opens.zip(1..).find(|(_, own)| *own == number)?.0;
    let inner = expression[at + 1..].strip_prefix('/')?;
    let close = pattern::closing(inner)?;
    let repeats = |text: &str| text.starts_with(['?', '*', '+', '{']);
    let is_plain = !repeats(inner)
        && !repeats(&inner[close + 1..])
        && pattern::alternatives(&inner[..close]).len() == 1;
    is_plain.then(|| format!("{}/({inner}", &expression[..at]))
}

/// A text without the groups of an expression, where there is none: nginx puts nothing there.
pub(super) fn without_groups(text: &str) -> String {
    let mut parts = text.split('$');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.strip_prefix(|first: char| first.is_ascii_digit()) {
            Some(rest) => plain.push_str(rest),
            None => plain.extend(["$", part]),
        }
    }
    plain
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The target of `rewrite`, which passes the query on unless it ends with `?`. `$request_uri` at
/// its end becomes a group of the pattern `^/(.*)$`; says whether that is needed.
pub(super) fn rewritten(target: &str) -> Option<(String, bool)> {
    const WHOLE: &str = "$request_uri";
    let whole = target.strip_suffix('?').unwrap_or(target).strip_suffix(WHOLE);
    if let Some(start) = whole.filter(|start| !start.contains(['$', '?'])) {
        return Some((format!("{start}/$1"), true));
    }
    let ends = target.ends_with('?');
    let end = if ends { "?" } else { "" };
    let of_path = |own: &&str| {
        let (start, slash) = match target.trim_end_matches('?').strip_suffix('/') {
            Some(start) => (start, "/"),
            None => (target.trim_end_matches('?'), ""),
        };
        let start = start.strip_suffix(own)?;
        (!start.contains(['$', '?'])).then(|| (format!("{start}/$1{slash}{end}"), true))
    };
    if let Some(found) = PATHS[1..].iter().find_map(of_path) {
        return Some(found);
    }
    let (target, _) = without_query(target);
    if let Some((path, query)) = target.trim_end_matches('?').split_once('?')
        && let Some(own) = PATHS.iter().find(|own| query.contains(**own))
    {
        let query = query.replacen(own, "/$1", 1);
        let is_known = !path.contains('$') && !query.replacen("$1", "", 1).contains('$');
        return is_known.then(|| (format!("{path}?{query}{end}"), true));
    }
    Some((format!("{}{}", groups_only(target)?, slash_of(target)), false))
}

/// The target of `return`, which does not pass the query on. `$request_uri` and `$uri` at the end
/// become a group of the pattern `^/(.*)$`; says whether that is needed.
pub(super) fn returned(target: &str) -> Option<(String, bool)> {
    if let Some(start) = target.strip_suffix("$request_uri") {
        return Some((format!("{}/$1", groups_only(start)?), true));
    }
    let (target, has_query) = without_query(target);
    if let Some(start) = target.strip_suffix("$uri") {
        let end = if has_query { "" } else { "?" };
        return Some((format!("{}/$1{end}", groups_only(start)?), true));
    }
    let target = groups_only(target)?;
    let end = if has_query { "" } else { "?" };
    Some((format!("{target}{}{end}", slash_of(&target)), false))
}

/// The slash that a target with nothing but a host needs.
fn slash_of(target: &str) -> &'static str {
    let rest = target.split_once("://").map(|(_, rest)| rest);
    if rest.is_some_and(|rest| !rest.contains(['/', '$', '?'])) { "/" } else { "" }
}

/// A target in which every dollar sign begins the number of a group.
fn groups_only(target: &str) -> Option<String> {
    let mut rest = target;
    while let Some((_, after)) = rest.split_once('$') {
        after.starts_with(|next: char| next.is_ascii_digit()).then_some(())?;
        rest = after;
    }
    Some(target.to_owned())
}

pub(super) fn is_script(target: &str) -> bool {
    let (path, _) = without_query(target);
    path.starts_with('/') && path.ends_with(".php") && !path.contains('$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_or_drop_the_query() {
        for (target, expected) in [
            ("/a", Some(("/a?", false))),
            ("/a$is_args$args", Some(("/a", false))),
            ("https://a.test$request_uri", Some(("https://a.test/$1", true))),
            ("https://a.test", Some(("https://a.test/?", false))),
            ("https://a.test$uri", Some(("https://a.test/$1?", true))),
            ("https://$host/", None),
            ("/b/$1", Some(("/b/$1?", false))),
        ] {
            let returned = returned(target);
            let returned = returned.as_ref().map(|(to, needs)| (&**to, *needs));
            assert_eq!(returned, expected, "{target}");
        }
        for (target, expected) in [
            ("/index.php", Some(("/index.php?", false))),
            ("/index.php?$args", Some(("/index.php", false))),
            ("/index.php$is_args$args", Some(("/index.php", false))),
            ("/index.php?q=$uri&$args", Some(("/index.php?q=/$1", true))),
            ("/index.php?q=$uri", Some(("/index.php?q=/$1?", true))),
            ("/index.php?page=home", Some(("/index.php?page=home?", false))),
            ("/index.php$request_uri", Some(("/index.php/$1", true))),
            ("/index.php?q=$request_uri", Some(("/index.php?q=/$1", true))),
            ("/index.php?q=$name", None),
            ("index.php", None),
        ] {
            let found = fallback(target);
            let found = found.as_ref().map(|found| (&*found.to, found.needs_path));
            assert_eq!(found, expected, "{target}");
        }
        for (target, expected) in [
            ("/doku.php?id=$1&$args", Some(("/doku.php?id=$1", false))),
            ("/index.php$request_uri", Some(("/index.php/$1", true))),
            ("https://a.test$request_uri?", Some(("https://a.test/$1", true))),
            ("https://a.test", Some(("https://a.test/", false))),
            ("https://a.test$1", Some(("https://a.test$1", false))),
            ("/a/$name", None),
            ("/index.php?q=$uri&$args", Some(("/index.php?q=/$1", true))),
            ("/index.php?/$request_uri", Some(("/index.php?//$1", true))),
            ("$uri/", Some(("/$1/", true))),
            ("https://a.test$uri?", Some(("https://a.test/$1?", true))),
            ("/b/$1/", Some(("/b/$1/", false))),
            ("/index.php?q=$uri?", Some(("/index.php?q=/$1?", true))),
            ("/index.php?q=$uri&a=$name", None),
        ] {
            let found = rewritten(target);
            assert_eq!(found.as_ref().map(|(to, needs)| (&**to, *needs)), expected, "{target}");
        }
    }

    #[test]
    fn a_slash_goes_before_the_group_that_a_target_begins_with() {
        for (expression, to, expected) in [
            ("^/[a-z]+(/x.*)", "$1", Some(("^/[a-z]+/(x.*)", "/$1"))),
            ("^/(a|b)(/(c|d))$", "$2?of=$2&a=$1", Some(("^/(a|b)/((c|d))$", "/$2?of=/$2&a=$1"))),
            ("^(/.*)?$", "$1", None),
            ("^(/a|b)$", "$1", None),
            ("^(/*)$", "$1", None),
            ("^/(.*)$", "$1", None),
            ("^/(.*)$", "/$1", None),
        ] {
            let args = vec![expression.to_owned(), to.to_owned()];
            let place = crate::source::Place::start(std::path::Path::new("a"));
            let step = Directive { place, name: "rewrite".to_owned(), args, block: None };
            let (own, target) = expected.unwrap_or((expression, to));
            assert_eq!(slashed(&step).args, [own, target]);
        }
        assert_eq!(without_groups("/a?b=$1&c=$uri$2/"), "/a?b=&c=$uri/");
    }

    #[test]
    fn the_own_host_is_a_path_or_the_one_name_of_a_site() {
        let one = ["a.test".to_owned()];
        let two = ["a.test".to_owned(), "b.test".to_owned()];
        for (target, hosts, expected) in [
            ("$scheme://$host/x", &two[..], "/x"),
            ("$scheme://$http_host$request_uri", &two, "$request_uri"),
            ("$scheme://$host.b.test/x", &two, "$scheme://$host.b.test/x"),
            ("https://$server_name/x", &one, "https://a.test/x"),
            ("https://$host/x", &two, "https://$host/x"),
            ("https://b.test/x", &one, "https://b.test/x"),
            ("/x", &one, "/x"),
        ] {
            assert_eq!(on_own_host(target, hosts), expected, "{target}");
        }
    }

    #[test]
    fn names_of_groups_become_numbers() {
        let args = |expression: &str, to: &str| vec![expression.to_owned(), to.to_owned()];
        for (expression, to, plain, numbers) in [
            (
                "^/v(?<id>[0-9]+)/(?<idea>.*)$",
                "/x?a=$id&b=$idea",
                "^/v([0-9]+)/(.*)$",
                "/x?a=$1&b=$2",
            ),
            ("^/(a|b)\\((?:c)(?P<d>.)", "/$1/$d", "^/(a|b)\\((?:c)(.)", "/$1/$2"),
            ("^/(.*)$", "/$id", "^/(.*)$", "/$id"),
        ] {
            let step = Directive {
                place: crate::source::Place::start(std::path::Path::new("a")),
                name: "rewrite".to_owned(),
                args: args(expression, to),
                block: None,
            };
            assert_eq!(numbered(&step).args, args(plain, numbers));
        }
    }
}
