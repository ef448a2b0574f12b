//! Scripts that a location names by the groups of its expression, as in
//! `location ~ ^(?<script>.+\.php)(?<info>/.*)?$` with `$document_root$script`. What groups say is
//! what nginx's own variables say of the same path, so these are put in their places.

use super::constants::split_name;
use super::matcher::kind;
use crate::directive::Directive;
use crate::pattern;

/// What may follow the name of a script in an expression, without the names of groups.
const END_OF_NAME: [&str; 12] = [
    "",
    "$",
    "/",
    "(/|$)",
    "($|/)",
    "(?:/|$)",
    "(?:$|/)",
    "(/.*)?$",
    "(/.+)?$",
    "(|/.*)$",
    "(?:/(.*))?$",
    "(.*)$",
];

/// The lines of a location, with `$fastcgi_script_name` where they name the script by groups.
pub(super) fn by_own_variables(args: &[String], mut inner: Vec<Directive>) -> Vec<Directive> {
    let Some((name, info)) = script_of(args, &inner) else { return inner };
    let place = inner[0].place.clone();
    let roots = ["", "$document_root", "$realpath_root", "$document_root/"];
    let named = |arg: &str| {
        let own = arg.trim_end_matches(')');
        let end = &arg[own.len()..];
        if info.as_deref() == Some(own) {
            return Some(format!("$fastcgi_path_info{end}"));
        }
        let root = roots.iter().find(|root| own.strip_prefix(**root) == Some(&name))?;
        Some(format!("{}$fastcgi_script_name{end}", root.trim_end_matches('/')))
    };
    for directive in &mut inner {
        if matches!(&*directive.name, "fastcgi_param" | "try_files" | "if") {
            for arg in &mut directive.args {
                *arg = named(arg).unwrap_or_else(|| arg.clone());
            }
        }
    }
    if info.is_some() && inner.iter().all(|it| it.name != "fastcgi_split_path_info") {
        let args = vec!["^(.+?\\.php)(/.*)$".to_owned()];
        let name = "fastcgi_split_path_info".to_owned();
        inner.push(Directive { place, name, args, block: None });
    }
    inner
}

/// The text that names the script behind the root, and the variable of what follows its name, if
/// both are what the expression has found from the beginning of the path.
fn script_of(args: &[String], inner: &[Directive]) -> Option<(String, Option<String>)> {
    let ("~" | "~*", expression) = kind(args) else { return None };
    let is_file = |it: &&Directive| it.name == "fastcgi_param" && it.arg(0) == "SCRIPT_FILENAME";
    let file = inner.iter().rfind(is_file)?.arg(1);
    let roots = ["$document_root", "$realpath_root"];
    let name = roots.iter().find_map(|root| file.strip_prefix(root))?;
    let is_own = |name: &str| name.contains("$fastcgi_script_name") || !name.contains('$');
    if is_own(name) {
        return None;
    }
    let groups = groups(expression)?;
    let whole = expression.strip_prefix('^')?;
    let written = [name, name.strip_prefix('/').unwrap_or(name)];
    let (name, end) = written.into_iter().find_map(|name| {
        let end = whole.strip_prefix(&*with_groups(name, &groups)?)?;
        Some((name, end))
    })?;
    let before = &whole[..whole.len() - end.len()];
    let is_script = before.trim_end_matches(')').ends_with("\\.php");
    if !is_script || !END_OF_NAME.contains(&&*without_names(end)) {
        return None;
    }
    let is_behind = |group: &&Group| group.start > before.len();
    let info = groups.iter().find(is_behind).map(|group| {
        let used = |name: &String| inner.iter().any(|it| it.args.contains(name));
        let names = [format!("${}", group.number), format!("${}", group.name)];
        names.iter().find(|name| used(name)).unwrap_or(&names[1]).clone()
    });
    Some((name.to_owned(), info))
}

/// A group of an expression: where it starts, with its parentheses.
struct Group {
    number: usize,
    name: String,
    start: usize,
    text: String,
}

fn groups(expression: &str) -> Option<Vec<Group>> {
    let mut found = Vec::<Group>::new();
    let (mut is_escaped, mut in_class) = (false, false);
    for (start, char) in expression.char_indices() {
        match char {
            _ if is_escaped => {}
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let rest = &expression[start + 1..];
                let name = rest.strip_prefix("?P<").or_else(|| rest.strip_prefix("?<"));
                let name = name.filter(|it| !it.starts_with(['=', '!']));
                if name.is_some() || !rest.starts_with('?') {
                    let name = name.and_then(|it| it.split_once('>')).map_or("", |(name, _)| name);
                    let text = &expression[start..start + 2 + pattern::closing(rest)?];
                    let (number, name) = (found.len() + 1, name.to_owned());
                    found.push(Group { number, name, start, text: text.to_owned() });
                }
            }
            _ => {}
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    Some(found)
}

/// A text with the expressions of the groups that it names, and all else as it stands.
fn with_groups(text: &str, groups: &[Group]) -> Option<String> {
    let mut parts = text.split('$');
    let mut whole = regex_lite::escape(parts.next()?);
    for part in parts {
        let (name, rest) = split_name(part);
        let is_named = |it: &&Group| it.name == name || it.number.to_string() == name;
        whole.push_str(&groups.iter().find(is_named)?.text);
        whole.push_str(&regex_lite::escape(rest));
    }
    Some(whole)
}

/// An expression whose groups have no names.
fn without_names(expression: &str) -> String {
    let mut whole = String::new();
    let mut rest = expression;
    while let Some((before, after)) = rest.split_once("(?") {
        let name = after.strip_prefix("P<").or_else(|| after.strip_prefix('<'));
        whole.push_str(before);
        match name.and_then(|it| it.split_once('>')) {
            Some((_, after)) => {
                whole.push('(');
                rest = after;
            }
            None => {
                whole.push_str("(?");
                rest = after;
            }
        }
    }
    whole + rest
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::source::Place;

    fn location(expression: &str, file: &str) -> Option<(String, Option<String>)> {
        let args = vec!["SCRIPT_FILENAME".to_owned(), file.to_owned()];
        let (place, name) = (Place::start(Path::new("a.conf")), "fastcgi_param".to_owned());
        let inner = [Directive { place, name, args, block: None }];
        script_of(&["~".to_owned(), expression.to_owned()], &inner)
    }

    #[test]
    fn groups_name_the_script_only_if_they_are_all_of_its_path() {
        let named =
            |name: &str, info: Option<&str>| Some((name.to_owned(), info.map(str::to_owned)));
        let document = |rest: &str| format!("$document_root{rest}");
        for (expression, file, expected) in [
            (r"^(?<script>.+\.php)(?<info>/.*)?$", "$script", named("$script", Some("$info"))),
            (r"^(?P<s>/.+?\.php)(?P<i>/.+)?$", "/$s", named("$s", Some("$i"))),
            (r"^(.+\.php)$", "$1", named("$1", None)),
            (r"^/(?<s>index|api)\.php(/|$)", "/$s.php", named("/$s.php", Some("$"))),
            (r"^/(?<s>index|api)\.php$", "/${s}.php", named("/${s}.php", None)),
            // Another folder, a part of the path, or another name.
            (r"^/(?<s>.+\.php)$", "/app/$s", None),
            (r"^/app/(?<s>.+\.php)$", "/$s", None),
            (r"(?<s>.+\.php)$", "$s", None),
            (r"^(?<s>.+)\.php$", "$s.inc", None),
            (r"^(?<s>.+)$", "$s", None),
            (r"^(?<s>.+\.php)$", "$fastcgi_script_name", None),
        ] {
            assert_eq!(location(expression, &document(file)), expected, "{expression} {file}");
        }
    }
}
