//! For which paths a rule is.

use crate::pattern;

/// For which paths a rule is: all, or those that fit both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// As `path` of a rule.
    pub path: Option<String>,
    /// As `pattern` of a rule.
    pub pattern: Option<String>,
    /// As `and_pattern` of a rule.
    pub and: Vec<String>,
}

impl Scope {
    /// The folder of a path, or all that begins with it if it ends with `*`.
    pub(crate) fn path(path: impl Into<String>) -> Scope {
        Scope { path: Some(path.into()), ..Scope::default() }
    }

    /// What a regular expression is found in.
    pub(crate) fn pattern(pattern: impl Into<String>) -> Scope {
        Scope { pattern: Some(pattern.into()), ..Scope::default() }
    }

    /// Whether a refusal of this scope is for a path: without regard to the case of its letters.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let is_below = |own: &String| {
            let (own, path) = (own.to_ascii_lowercase(), path.to_ascii_lowercase());
            match own.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => {
                    let rest = path.strip_prefix(own.trim_end_matches('/'));
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                }
            }
        };
        self.path.as_ref().is_none_or(is_below)
            && self.pattern.as_ref().is_none_or(|own| pattern::is_in(&format!("(?i){own}"), path))
            && self.and.iter().all(|own| match own.strip_prefix('!') {
                Some(own) => !pattern::is_in(own, path),
                None => pattern::is_in(&format!("(?i){own}"), path),
            })
    }

    /// The same for a refusal: also for what follows a script's name.
    pub(crate) fn refusing(&self) -> Scope {
        let and = self.and.iter().map(|own| match own.starts_with('!') {
            true => own.clone(),
            false => pattern::refusing(own),
        });
        let pattern = self.pattern.as_deref().map(pattern::refusing);
        Scope { path: self.path.clone(), pattern, and: and.collect() }
    }

    /// Whether it is for the whole site.
    pub(crate) fn is_all(&self) -> bool {
        self.path.is_none() && self.pattern.is_none() && self.and.is_empty()
    }

    /// Whether it is for the whole site, but for what others take.
    pub(crate) fn is_rest(&self) -> bool {
        let Scope { path, pattern, and } = self;
        path.is_none() && pattern.is_none() && and.iter().all(|own| own.starts_with('!'))
    }

    /// Whether there may be a path for which both are.
    pub(crate) fn may_overlap(&self, other: &Scope) -> bool {
        let overlap = |one: &str, other: &str| one.starts_with(other) || other.starts_with(one);
        if let (Some(own), Some(others)) = (self.extensions(), other.extensions())
            && own.iter().all(|own| !others.contains(own))
        {
            return false;
        }
        let others = other.begins();
        self.begins().iter().any(|one| others.iter().any(|other| overlap(one, other)))
    }

    /// The extensions with one of which all its paths end, in lower case, if that is known.
    pub(crate) fn extensions(&self) -> Option<Vec<String>> {
        pattern::extensions(self.pattern.as_deref()?)
    }

    /// The texts with one of which all its paths begin, in lower case.
    fn begins(&self) -> Vec<String> {
        if let Some(path) = &self.path {
            return vec![path.trim_end_matches('*').trim_end_matches('/').to_ascii_lowercase()];
        }
        let pattern = self.pattern.as_deref().unwrap_or_default();
        let pattern = pattern.strip_prefix("(?i)").unwrap_or(pattern);
        let anchored = |one: &&str| one.strip_prefix('^').map(pattern::begins);
        let alternatives = pattern::alternatives(pattern);
        let begins: Option<Vec<_>> = alternatives.iter().map(anchored).collect();
        let begins = begins.map_or_else(|| vec![String::new()], |begins| begins.concat());
        begins.iter().map(|begin| begin.to_ascii_lowercase()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_meet_where_a_path_may_be_in_both() {
        let path = |text: &str| Scope::path(text);
        let pattern = |text: &str| Scope::pattern(text);
        for (one, other, expected) in [
            (Scope::default(), path("/a"), true),
            (path("/a"), path("/a/b"), true),
            (path("/a/*"), path("/A/b*"), true),
            (path("/a/b"), path("/a/c"), false),
            (path("/a"), pattern("^/(a|b)/"), true),
            (path("/c"), pattern("^/(a|b)/"), false),
            (path("/c"), pattern("(?i)^/A|^/b"), false),
            (path("/b"), pattern("(?i)^/A|^/B"), true),
            (path("/c"), pattern("a|^/b"), true),
            (pattern("^/a"), pattern("\\.php$"), true),
            (pattern("^/a"), pattern("^/b"), false),
            (pattern("\\.php$"), pattern("\\.(css|jpe?g)$"), false),
            (pattern("(?i)\\.(?:JPEG|png)$"), pattern("\\.(css|jpe?g)$"), true),
            (pattern("\\.php$"), pattern("\\.(css|js)"), true),
        ] {
            assert_eq!(one.may_overlap(&other), expected, "{one:?} {other:?}");
            assert_eq!(other.may_overlap(&one), expected, "{other:?} {one:?}");
        }
    }
}
