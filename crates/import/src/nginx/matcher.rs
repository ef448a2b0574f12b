//! Which paths a location is for.

use crate::model::Scope;
use crate::pattern;

/// Which paths a location is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Match {
    Exact(String),
    /// Whether it says `^~`: no expression is asked.
    Prefix(String, bool),
    Pattern(String),
}

impl Match {
    pub(super) fn scope(&self) -> Scope {
        match self {
            Match::Exact(path) => Scope::pattern(pattern::exact(path)),
            // `/` is all, and `/a` is `/ab`, too.
            Match::Prefix(path, _) if path == "/" => Scope::default(),
            Match::Prefix(path, _) => Scope::path(format!("{path}*")),
            Match::Pattern(expression) => Scope::pattern(expression.clone()),
        }
    }

    /// The paths that are refused if this is: for a script also those with more behind its name.
    pub(super) fn refused(&self) -> Scope {
        match self {
            Match::Exact(path) if path.len() > 1 && !path.ends_with('/') => Scope::path(path),
            other => closed(&other.scope()),
        }
    }

    /// The condition of all other paths, if there are any.
    pub(super) fn elsewhere(&self) -> Option<String> {
        match self {
            Match::Exact(path) => Some(format!("!{}", pattern::exact(path))),
            Match::Prefix(path, _) if path == "/" => None,
            Match::Prefix(path, _) => Some(format!("!^{}", regex_lite::escape(path))),
            Match::Pattern(expression) => Some(format!("!{expression}")),
        }
    }

    /// Whether it may be for a path that ends with a slash.
    pub(super) fn has_folders(&self) -> bool {
        match self {
            Match::Exact(path) => path.ends_with('/'),
            Match::Prefix(..) => true,
            Match::Pattern(_) => self.scope().extensions().is_none(),
        }
    }

    /// Whether it is for files by their extensions.
    pub(super) fn is_of_files(&self) -> bool {
        let own = matches!(self, Match::Pattern(_)).then(|| self.scope().extensions()).flatten();
        own.is_some_and(|own| !own.iter().any(|one| one.starts_with("ph")))
    }

    /// Whether it is for scripts, wherever they are.
    pub(super) fn runs_scripts(&self) -> bool {
        matches!(self, Match::Pattern(own) if pattern::is_in(own, "/a.php"))
    }

    /// What nginx prefers comes first: rules are asked in their order.
    pub(super) fn rank(&self) -> (u8, std::cmp::Reverse<usize>) {
        use std::cmp::Reverse;
        match self {
            Match::Exact(_) => (0, Reverse(0)),
            Match::Prefix(path, true) => (1, Reverse(path.len())),
            Match::Pattern(_) => (2, Reverse(0)),
            Match::Prefix(path, false) => (3, Reverse(path.len())),
        }
    }
}

/// The scope of a refusal: also of what follows a script's name, and of what other locations take.
pub(super) fn closed(scope: &Scope) -> Scope {
    let mut closed = scope.refusing();
    closed.and.retain(|own| !own.starts_with('!'));
    closed
}

/// A location as in the file.
pub(super) fn describe(found: &Match) -> String {
    match found {
        Match::Exact(path) => format!("location = {path}"),
        Match::Prefix(path, true) => format!("location ^~ {path}"),
        Match::Prefix(path, false) => format!("location {path}"),
        Match::Pattern(expression) => format!("location ~ {expression}"),
    }
}

/// How a location is compared, and with what; nginx also takes both as one word.
pub(super) fn kind(args: &[String]) -> (&str, &str) {
    let first = args.first().map_or("", String::as_str);
    if let [kind, text, ..] = args {
        return (kind, text);
    }
    for kind in ["^~", "~*", "=", "~", "@"] {
        if let Some(text) = first.strip_prefix(kind) {
            return (kind, text);
        }
    }
    ("", first)
}
