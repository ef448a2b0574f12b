//! Which paths of a site a section of folders is for: `<Directory>` with wildcards, and
//! expressions.

use crate::directive::Directive;
use crate::pattern;

use super::folder::{below, is_folder, plain};
use super::value;

/// What of a site lies in the folders of a section.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reach {
    /// All of it. The longer the text, the later the section decides; one by an expression, last.
    Whole(usize),
    /// The folder of this path.
    Path(String),
    /// Paths in which this is found.
    Found(String),
    /// Nothing.
    Nothing,
    Unknown,
}

/// What of the site in a root a section is for.
pub(super) fn of(section: &Directive, root: &str) -> Reach {
    match (&*section.name, &section.args[..]) {
        ("directory", [tilde, expression]) if tilde == "~" => of_expression(expression, root),
        ("directorymatch", [expression]) => of_expression(expression, root),
        ("directory", [folder]) if folder.starts_with('/') && !folder.contains(['[', '$']) => {
            of_wildcards(folder, root)
        }
        _ => Reach::Unknown,
    }
}

/// The sections of folders with what they are for: the outer ones first, and what is in the site
/// last.
pub(super) fn sections_of<'a>(
    directives: &'a [Directive],
    root: &str,
) -> Vec<(Reach, &'a Directive)> {
    let sections = directives.iter().filter(|it| is_folder(it));
    let mut sections: Vec<_> = sections.map(|it| (of(it, root), it)).collect();
    sections.sort_by_key(|(reach, _)| match reach {
        Reach::Whole(length) => *length,
        _ => LAST,
    });
    sections
}

/// `*` and `?` are no slashes, so folders are compared one by one.
fn of_wildcards(folder: &str, root: &str) -> Reach {
    let folder = plain(folder);
    if !folder.contains(['*', '?']) {
        return match below(&folder, root) {
            _ if below(root, &folder).is_some() => Reach::Whole(folder.len()),
            Some(path) => Reach::Path(path.to_owned()),
            None => Reach::Nothing,
        };
    }
    let parts = |path: &'_ str| -> Vec<String> {
        path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let (own, around) = (parts(&folder), parts(root));
    let fits = |(own, part): (&String, &String)| {
        pattern::is_in(&format!("^{}$", value::of_shell(own)), part)
    };
    if !own.iter().zip(&around).all(fits) {
        return Reach::Nothing;
    }
    let Some(rest) = own.get(around.len()..).filter(|rest| !rest.is_empty()) else {
        return Reach::Whole(own.iter().zip(&around).map(|(_, part)| part.len() + 1).sum());
    };
    let rest: Vec<String> = rest.iter().map(|part| value::of_shell(part)).collect();
    Reach::Found(format!("^/{}(?:/|$)", rest.join("/")))
}

/// The length of what is found by an expression.
pub(super) const LAST: usize = usize::MAX;

/// An expression is found in the whole name of a folder. What may end there holds for what is
/// below, too, so that no refusal is smaller than that of Apache.
fn of_expression(expression: &str, root: &str) -> Reach {
    let Ok(expression) = pattern::translate(expression, false) else { return Reach::Unknown };
    if pattern::is_in(&expression, root) || pattern::is_in(&expression, &format!("{root}/")) {
        return Reach::Whole(LAST);
    }
    let (flags, expression) = match expression.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", &*expression),
    };
    let mut found = Vec::new();
    for one in pattern::alternatives(expression) {
        // Anything may stand before it, and the name of the root does.
        let anywhere = ["^/.*/", "^.*/"].iter().find_map(|start| one.strip_prefix(start));
        let one = anywhere.map_or(one, |rest| &one[one.len() - rest.len() - 1..]);
        match one.strip_prefix('^') {
            Some(rest) => match behind(rest, root) {
                Behind::At(rest) => found.push(format!("^{rest}")),
                Behind::Elsewhere => {}
                Behind::Unknown => return Reach::Unknown,
            },
            None => {
                if begins_in(one, root) {
                    return Reach::Unknown;
                }
                found.push(one.to_owned());
            }
        }
    }
    match found.is_empty() {
        true => Reach::Nothing,
        false => Reach::Found(pattern::refusing(&format!("{flags}{}", found.join("|")))),
    }
}

/// What of an expression is left behind the name of the root.
enum Behind {
    At(String),
    Elsewhere,
    Unknown,
}

fn behind(expression: &str, root: &str) -> Behind {
    let mut rest = expression;
    for char in root.chars() {
        let own = rest.strip_prefix('\\').unwrap_or(rest);
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "/-_".contains(char);
        let Some(first) = own.chars().next() else { return Behind::Elsewhere };
        // A backslash makes a sign of a letter, and a letter of any other sign.
        if is_plain(first) != (own.len() == rest.len()) {
            return Behind::Unknown;
        }
        let after = &own[first.len_utf8()..];
        if after.starts_with(['?', '*', '+', '{', '|']) {
            return Behind::Unknown;
        }
        if first != char {
            return Behind::Elsewhere;
        }
        rest = after;
    }
    Behind::At(rest.to_owned())
}

/// Whether what an expression finds may begin in the name of the root, and end behind it.
fn begins_in(expression: &str, root: &str) -> bool {
    let starts = pattern::begins(expression);
    let is_in = |end: &str| starts.iter().any(|it| it.starts_with(end) || end.starts_with(&**it));
    root.char_indices().any(|(at, _)| is_in(&root[at..].to_ascii_lowercase()) || is_in(&root[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Place;
    use std::path::Path;

    fn reach(name: &str, args: &[&str]) -> Reach {
        let section = Directive {
            place: Place::start(Path::new("a")),
            name: name.to_owned(),
            args: args.iter().map(|it| (*it).to_owned()).collect(),
            block: Some(Vec::new()),
        };
        of(&section, "/var/www/site")
    }

    #[test]
    fn folders_are_around_a_site_or_in_it() {
        let found = |text: &str| Reach::Found(text.to_owned());
        for (args, expected) in [
            (&["/var/www"][..], Reach::Whole(8)),
            (&["/var/www/site/a/"], Reach::Path("/a".into())),
            (&["/home/*/public_html"], Reach::Nothing),
            (&["/var/*/site"], Reach::Whole(13)),
            (&["/var/*"], Reach::Whole(8)),
            (&["/var/www/*/cgi"], found("^/cgi(?:/|$)")),
            (&["/var/www/site/*/x?"], found("^/[^/]*/x[^/](?:/|$)")),
            (&["/var/www/s[i]te"], Reach::Unknown),
            (&["~", "^/var/www/site/(a|b)"], found("^/(a|b)")),
            (&["~", "^/var/www/[^/]+/a"], Reach::Unknown),
            (&["~", "^/home/.*"], Reach::Nothing),
            (&["~", "/\\.(git|svn)"], found("/\\.(git|svn)")),
            (&["~", "site/a"], Reach::Unknown),
            (&["~", "^/.*/\\.svn/"], found("/\\.svn/")),
            (&["~", "^/.*/site/a"], Reach::Unknown),
            (&["~", "/[^/]+/a"], Reach::Unknown),
            (&["~", "^/var/www/"], Reach::Whole(LAST)),
        ] {
            assert_eq!(reach("directory", args), expected, "{args:?}");
        }
        assert_eq!(reach("directorymatch", &["\\.svn$"]), found("\\.svn(?:/|$)"));
    }
}
