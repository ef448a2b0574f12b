//! Targets of Caddy's redirects and rewrites, in the form of rules.

/// The target of `redir`, which passes the query on with `{uri}` only. Says whether it needs the
/// path as a group.
pub(super) fn redirected(target: &str) -> Option<(String, bool)> {
    if let Some(start) = target.strip_suffix("{uri}") {
        return Some((format!("{}/$1", groups(start)?), true));
    }
    let (target, has_query) = match target.strip_suffix("?{query}") {
        Some(target) => (target, true),
        None => (target, false),
    };
    let end = if has_query { "" } else { "?" };
    if let Some(start) = target.strip_suffix("{path}") {
        return Some((format!("{}/$1{end}", groups(start)?), true));
    }
    let target = groups(target)?;
    let slash = match target.split_once("://") {
        Some((_, rest)) if !rest.contains('/') => "/",
        _ => "",
    };
    Some((format!("{target}{slash}{end}"), false))
}

/// The target of `rewrite`, which keeps the query unless it has one of its own.
pub(super) fn rewritten(target: &str) -> Option<String> {
    for end in ["?{query}", "&{query}"] {
        if let Some(target) = target.strip_suffix(end) {
            return groups(target);
        }
    }
    let target = groups(target)?;
    Some(if target.contains('?') { format!("{target}?") } else { target })
}

/// A target in which every placeholder is a group of `path_regexp`.
fn groups(target: &str) -> Option<String> {
    let mut result = String::new();
    let mut rest = target;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        let group = name.strip_prefix("re.").or_else(|| name.strip_prefix("http.regexp."))?;
        let group = group.rsplit('.').next()?;
        let is_group = group.len() == 1 && group.starts_with(|c: char| c.is_ascii_digit());
        is_group.then_some(())?;
        result.push_str(before);
        result.push('$');
        result.push_str(group);
        rest = after;
    }
    // A dollar sign means something else in rules.
    (!target.contains('$')).then(|| result + rest)
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
            ("/b?{query}", Some(("/b", false))),
            ("https://{host}/", None),
            ("/$1", None),
        ] {
            let found = redirected(target);
            let found = found.as_ref().map(|(to, needs)| (&**to, *needs));
            assert_eq!(found, expected, "{target}");
        }
        assert_eq!(rewritten("/i.php?a={re.x.1}&{query}").as_deref(), Some("/i.php?a=$1"));
        assert_eq!(rewritten("/i.php?a=b").as_deref(), Some("/i.php?a=b?"));
        assert_eq!(rewritten("{path}.html"), None);
    }
}
