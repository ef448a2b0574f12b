//! Matchers: for which requests a directive is.

use std::collections::BTreeMap;

use crate::directive::Directive;
use crate::model::Scope;
use crate::{pattern, validity};

/// The networks that Caddy calls `private_ranges`.
const PRIVATE: [&str; 6] =
    ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.1/8", "fd00::/8", "::1"];

/// Matchers of a block by their names, with `@`.
pub(super) type Named = BTreeMap<String, Matcher>;

/// What a path is compared with.
#[derive(Clone, Debug, PartialEq)]
enum Paths {
    /// One of these, as in `path`.
    Like(Vec<String>),
    /// This is found in it, as in `path_regexp`.
    Found(String),
}

/// Which clients are meant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Clients {
    Only(Vec<String>),
    Not(Vec<String>),
}

/// For which requests a directive is. All of it has to fit.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    paths: Option<Paths>,
    pub clients: Option<Clients>,
    pub is_missing: bool,
    /// Whether more is asked for than is known here: then it fits fewer requests.
    pub is_narrower: bool,
    /// Whether it asks for the host, and nothing else.
    pub is_host: bool,
}

impl Matcher {
    /// Whether it is for all requests.
    pub(super) fn is_all(&self) -> bool {
        !self.is_narrower && !self.is_missing && self.clients.is_none() && self.paths.is_none()
    }

    /// Whether only paths are asked for.
    pub(super) fn is_path(&self) -> bool {
        !self.is_narrower && !self.is_missing && self.clients.is_none()
    }

    /// Whether a refusal is for more than its paths, because they cannot be said.
    pub(super) fn is_widened(&self) -> bool {
        let is_all = |path: &String| matches!(&**path, "*" | "/*");
        match &self.paths {
            None => false,
            Some(Paths::Like(paths)) if paths.iter().any(is_all) => false,
            Some(_) => self.refused().iter().any(Scope::is_all),
        }
    }

    /// How many characters Caddy sorts it by: those of a path that is alone.
    pub(super) fn length(&self) -> usize {
        match &self.paths {
            Some(Paths::Like(paths)) if self.is_path() && paths.len() == 1 => {
                paths[0].trim_end_matches('*').len()
            }
            _ => 0,
        }
    }

    /// The scopes of a refusal. They may be wider than the matcher.
    pub(super) fn refused(&self) -> Vec<Scope> {
        match &self.paths {
            None => vec![Scope::default()],
            Some(Paths::Found(expression)) => match pattern::translate(expression, true) {
                Ok(expression) => vec![Scope::pattern(pattern::refusing(&expression))],
                Err(_) => vec![Scope::default()],
            },
            Some(Paths::Like(paths)) => paths.iter().map(|path| refused(path)).collect(),
        }
    }

    /// The scopes of all else, which are exactly those of the matcher.
    pub(super) fn exact(&self) -> Option<Vec<Scope>> {
        if self.is_narrower || self.clients.is_some() {
            return None;
        }
        match &self.paths {
            None => Some(vec![Scope::default()]),
            Some(Paths::Found(expression)) => {
                pattern::translate(expression, false).ok().map(|it| vec![Scope::pattern(it)])
            }
            Some(Paths::Like(paths)) => {
                paths.iter().map(|path| expression(path).map(Scope::pattern)).collect()
            }
        }
    }

    fn add(&mut self, condition: &Directive, hides_clients: bool) {
        let args = &condition.args;
        match &*condition.name {
            "path" if !args.is_empty() => match &mut self.paths {
                None => self.paths = Some(Paths::Like(args.clone())),
                Some(Paths::Like(paths)) => paths.extend(args.iter().cloned()),
                Some(Paths::Found(_)) => self.is_narrower = true,
            },
            "path_regexp" if self.paths.is_none() && !args.is_empty() => {
                self.paths = args.last().cloned().map(Paths::Found);
            }
            "remote_ip" if !hides_clients => self.client(args, Clients::Only),
            "not" => {
                let inner: Vec<Directive> = match (&condition.block, args.split_first()) {
                    (Some(block), None) => block.clone(),
                    (None, Some((name, args))) => vec![Directive {
                        name: name.clone(),
                        args: args.to_vec(),
                        ..condition.clone()
                    }],
                    _ => Vec::new(),
                };
                match &inner[..] {
                    [one] if one.name == "remote_ip" && !hides_clients => {
                        self.client(&one.args, Clients::Not);
                    }
                    [one] if one.name == "file" && one.block.is_none() => {
                        self.is_missing = one.args.iter().all(|arg| arg == "{path}");
                        self.is_narrower |= !self.is_missing;
                    }
                    _ => self.is_narrower = true,
                }
            }
            _ => self.is_narrower = true,
        }
    }

    /// Networks that are no networks, or more than one list, make it wider.
    fn client(&mut self, args: &[String], make: fn(Vec<String>) -> Clients) {
        let networks: Option<Vec<String>> = args
            .iter()
            .flat_map(|arg| match &**arg {
                "private_ranges" => PRIVATE.to_vec(),
                other => vec![other],
            })
            .map(validity::network)
            .collect();
        let is_first = self.clients.is_none() && !self.is_narrower;
        match networks.filter(|networks| is_first && !networks.is_empty()) {
            Some(networks) => self.clients = Some(make(networks)),
            None => {
                self.clients = None;
                self.is_narrower = true;
            }
        }
    }
}

/// The matchers that a block defines. `hides_clients` says whether addresses of clients may be
/// others than those of their connections.
pub(super) fn named(directives: &[Directive], outer: &Named, hides_clients: bool) -> Named {
    let mut all = outer.clone();
    for directive in directives.iter().filter(|it| it.name.starts_with('@')) {
        let mut matcher = Matcher::default();
        let conditions: Vec<Directive> = match (&directive.block, directive.args.split_first()) {
            (Some(block), None) => block.clone(),
            (block, Some((name, args))) => vec![Directive {
                name: name.clone(),
                args: args.to_vec(),
                block: block.clone(),
                ..directive.clone()
            }],
            (None, None) => Vec::new(),
        };
        conditions.iter().for_each(|condition| matcher.add(condition, hides_clients));
        matcher.is_host = matches!(&conditions[..], [one] if one.name == "host");
        all.insert(directive.name.clone(), matcher);
    }
    all
}

/// The matcher of a directive, and its other arguments.
pub(super) fn of<'a>(directive: &'a Directive, named: &Named) -> (Matcher, &'a [String]) {
    let Some((first, rest)) = directive.args.split_first() else {
        return (Matcher::default(), &[]);
    };
    if first == "*" {
        return (Matcher::default(), rest);
    }
    if first.starts_with('@') {
        let unknown = Matcher { is_narrower: true, ..Matcher::default() };
        return (named.get(first).cloned().unwrap_or(unknown), rest);
    }
    if first.starts_with('/') {
        let paths = Some(Paths::Like(vec![first.clone()]));
        return (Matcher { paths, ..Matcher::default() }, rest);
    }
    (Matcher::default(), &directive.args)
}

/// A path of Caddy as the scope of a refusal: never for less.
fn refused(path: &str) -> Scope {
    if matches!(path, "*" | "/*") {
        return Scope::default();
    }
    // Caddy compares a path that ends with a slash as it is; below it there may be its index file.
    let plain = path.trim_end_matches('*');
    if path.starts_with('/') && path.len() - plain.len() < 2 && validity::path(path).is_ok() {
        let is_plain = !plain.contains(['%', '{', '?', '[', '\\']);
        match is_plain {
            true if plain.len() > 1 && plain.ends_with('/') => {
                return Scope::path(format!("{plain}*"));
            }
            true if plain.len() > 1 => return Scope::path(path),
            _ => {}
        }
    }
    match expression(path) {
        Some(expression) => Scope::pattern(pattern::refusing(&expression)),
        None => Scope::default(),
    }
}

/// A path of Caddy as an expression: without regard to case, `*` at the ends is anything, and
/// between them anything but a slash.
fn expression(path: &str) -> Option<String> {
    if path.is_empty() || path.contains(['%', '{', '?', '[', '\\']) {
        return None;
    }
    let is_ends_only = !path.trim_matches('*').contains('*');
    if !is_ends_only {
        let parts: Vec<String> = path.split('*').map(regex_lite::escape).collect();
        return Some(format!("(?i)^{}$", parts.join("[^/]*")));
    }
    let inner = path.strip_prefix('*').unwrap_or(path);
    let begin = if path.starts_with('*') { "" } else { "^" };
    let (inner, end) = match inner.strip_suffix('*') {
        Some(inner) => (inner, ""),
        None => (inner, "$"),
    };
    Some(format!("(?i){begin}{}{end}", regex_lite::escape(inner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_for_all_that_caddy_means() {
        for (path, expected) in [
            ("/a", Scope::path("/a")),
            ("/a/", Scope::path("/a/*")),
            ("/a/*", Scope::path("/a/*")),
            ("/a*", Scope::path("/a*")),
            ("*.php", Scope::pattern("(?i)\\.php(?:/|$)")),
            ("*/x/*", Scope::pattern("(?i)/x/")),
            ("/a/*/b", Scope::pattern("(?i)^/a/[^/]*/b(?:/|$)")),
            ("/*", Scope::default()),
            ("/a%2fb", Scope::default()),
            ("{x}", Scope::default()),
            ("/", Scope::pattern("(?i)^/(?:/|$)")),
        ] {
            assert_eq!(refused(path), expected, "{path}");
        }
    }
}
