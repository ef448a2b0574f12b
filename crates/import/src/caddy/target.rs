//! Targets of Caddy's redirects and rewrites, in the form of rules.

/// Where a rule leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub text: String,
    /// Whether `$1` is the path without its first slash.
    pub needs_path: bool,
    /// Whether it had the query, too, where only the path is said.
    pub loses_query: bool,
}

/// The target of `redir`, which passes the query on with `{uri}` only.
pub(super) fn redirected(target: &str) -> Option<Target> {
    if let Some(start) = target.strip_suffix("{uri}") {
        let found = placeholders(start).filter(|it| !it.needs_path && !it.text.contains('?'))?;
        return Some(Target { text: format!("{}/$1", found.text), needs_path: true, ..found });
    }
    let (target, end) = match target.strip_suffix("?{query}") {
        Some(target) => (target, ""),
        None => (target, "?"),
    };
    let found = placeholders(target).filter(|found| !found.loses_query)?;
    let slash = match found.text.split_once("://") {
        Some((_, rest)) if !rest.contains('/') => "/",
        _ => "",
    };
    Some(Target { text: format!("{}{slash}{end}", found.text), ..found })
}

/// The target of `rewrite`, which keeps the query unless it has one of its own.
pub(super) fn rewritten(target: &str) -> Option<Target> {
    let plain = ["?{query}", "&{query}"].iter().find_map(|end| target.strip_suffix(end));
    let mut found = placeholders(plain.unwrap_or(target))?;
    if !found.text.starts_with('/') {
        found.text.insert(0, '/');
    }
    let (path, query) = found.text.split_once('?').unwrap_or((&found.text, ""));
    // In a path, `{uri}` would bring a second question mark.
    (!found.loses_query || !path.contains('$')).then_some(())?;
    if plain.is_none() && !query.is_empty() {
        found.text.push('?');
    }
    Some(found)
}

/// A target in which every placeholder is a group of `path_regexp`, or the path.
fn placeholders(target: &str) -> Option<Target> {
    let mut found = Target { text: String::new(), needs_path: false, loses_query: false };
    let mut has_groups = false;
    let mut rest = target;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        found.text.push_str(before);
        match name {
            "path" | "http.request.uri.path" | "uri" | "http.request.uri" => {
                found.needs_path = true;
                found.loses_query |= name.ends_with("uri");
                found.text.push_str("/$1");
            }
            _ => {
                let group =
                    name.strip_prefix("re.").or_else(|| name.strip_prefix("http.regexp."))?;
                let group = group.rsplit('.').next()?;
                let is_group = group.len() == 1 && group.starts_with(|c: char| c.is_ascii_digit());
                is_group.then_some(())?;
                has_groups = true;
                found.text.push('$');
                found.text.push_str(group);
            }
        }
        rest = after;
    }
    found.text.push_str(rest);
    // A dollar sign means something else in rules.
    let is_unknown = target.contains('$') || (has_groups && found.needs_path);
    (!is_unknown).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_or_drop_the_query() {
        for (target, expected) in [
            ("https://a.test{uri}", Some(("https://a.test/$1", true))),
            ("https://a.test{path}", Some(("https://a.test/$1?", true))),
            ("https://a.test", Some(("https://a.test/?", false))),
            ("/b/{re.old.1}", Some(("/b/$1?", false))),
            ("/index.php{uri}", Some(("/index.php/$1", true))),
            ("/b?{query}", Some(("/b", false))),
            ("/b?from={uri}", None),
            ("https://{host}/", None),
            ("/$1", None),
        ] {
            let found = redirected(target);
            let found = found.as_ref().map(|it| (&*it.text, it.needs_path));
            assert_eq!(found, expected, "{target}");
        }
    }

    #[test]
    fn rewrites_keep_the_query_or_have_one_of_their_own() {
        for (target, expected) in [
            ("/i.php?a={re.x.1}&{query}", Some(("/i.php?a=$1", false, false))),
            ("/i.php?a=b", Some(("/i.php?a=b?", false, false))),
            ("index.php", Some(("/index.php", false, false))),
            ("{path}.html", Some(("/$1.html", true, false))),
            ("/i.php?q={path}&{query}", Some(("/i.php?q=/$1", true, false))),
            ("/i.php?q={uri}&{query}", Some(("/i.php?q=/$1", true, true))),
            ("/a{uri}", None),
            ("/{re.x.1}{path}", None),
            ("{http.matchers.file.relative}", None),
        ] {
            let found = rewritten(target);
            let found = found.as_ref().map(|it| (&*it.text, it.needs_path, it.loses_query));
            assert_eq!(found, expected, "{target}");
        }
    }
}
