//! Targets of nginx's redirects and rewrites, in the form of rules.

/// The variables that stand for the query of the request.
const QUERIES: [&str; 2] = ["$args", "$query_string"];

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

/// The target of `rewrite`, which passes the query on unless it ends with `?`.
pub(super) fn rewritten(target: &str) -> Option<String> {
    let (target, _) = without_query(target);
    groups_only(target)
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
    let slash = match target.split_once("://") {
        Some((_, rest)) if !rest.contains('/') => "/",
        _ => "",
    };
    let end = if has_query { "" } else { "?" };
    Some((format!("{target}{slash}{end}"), false))
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
        assert_eq!(rewritten("/doku.php?id=$1&$args").as_deref(), Some("/doku.php?id=$1"));
        assert_eq!(rewritten("/a/$name"), None);
    }
}
