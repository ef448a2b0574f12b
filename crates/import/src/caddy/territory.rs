//! The paths of a matcher, if they are those of routes.

use crate::directive::Directive;
use crate::service::{self, Beside};

use super::condition;
use super::matcher::Matcher;
use super::path;

/// The paths of a matcher.
#[derive(Debug, PartialEq)]
pub(super) struct Territory {
    /// Paths of routes, with what of them the matcher is not for.
    pub paths: Vec<(String, Beside)>,
    /// Paths within these that it is not for.
    pub except: Vec<String>,
    /// Whether it is for paths without a file alone.
    pub files: bool,
}

/// Conditions, before their paths become those of routes.
#[derive(Default)]
struct Conditions {
    paths: Option<Vec<String>>,
    except: Vec<String>,
    files: bool,
}

/// The paths of a matcher, or nothing if it asks for more than a path, or for other paths than
/// those that a route has.
pub(super) fn of(matcher: &Matcher) -> Option<Territory> {
    let mut found = Conditions::default();
    found.add(matcher.conditions(), false)?;
    let paths = found.paths.unwrap_or_else(|| vec!["*".to_owned()]);
    let routes: Option<Vec<_>> = paths.iter().map(|own| route(own, &paths)).collect();
    let mut routes = routes?;
    routes.dedup();
    let except: Option<Vec<String>> = found.except.iter().map(|own| kept(own)).collect();
    Some(Territory { paths: routes, except: except?, files: found.files })
}

/// Whether a matcher is for the files of a site, and nothing else.
pub(super) fn is_of_files(matcher: &Matcher) -> bool {
    matches!(matcher.conditions(), [only] if only.name == "file" && is_own_file(only))
}

impl Conditions {
    fn add(&mut self, conditions: &[Directive], is_negated: bool) -> Option<()> {
        // That one of several does not hold is nothing that a route could say.
        if is_negated && conditions.len() != 1 {
            return None;
        }
        let named = conditions.iter().filter(|it| it.name == "path");
        let paths: Vec<String> = named.flat_map(|it| it.args.clone()).collect();
        match (paths.is_empty(), is_negated) {
            (true, _) => {}
            (false, true) => self.except.extend(paths),
            (false, false) => {
                self.paths = Some(match self.paths.take() {
                    None => paths,
                    Some(own) if are_within(&paths, &own) => paths,
                    Some(own) if are_within(&own, &paths) => own,
                    Some(_) => return None,
                });
            }
        }
        for own in conditions.iter().filter(|it| it.name != "path") {
            match &*own.name {
                "not" => self.add(&condition::within(own), !is_negated)?,
                "file" if is_negated && is_own_file(own) => self.files = true,
                _ => return None,
            }
        }
        Some(())
    }
}

/// Whether all of these paths are some of the others.
fn are_within(paths: &[String], others: &[String]) -> bool {
    let is_in = |own: &String| {
        others.iter().any(|other| match other.strip_suffix('*') {
            Some(start) => own.trim_end_matches('*').starts_with(start),
            None => own == other,
        })
    };
    paths.iter().all(is_in)
}

/// Whether the file is that of the request's own path.
fn is_own_file(file: &Directive) -> bool {
    let is_own =
        |it: &String| matches!(it.trim_end_matches('/'), "{path}" | "{http.request.uri.path}");
    condition::files(file).is_some_and(|files| files.iter().all(is_own))
}

/// A path as that of a route; `all` are those that it stands among.
fn route(own: &str, all: &[String]) -> Option<(String, Beside)> {
    if path::is_all(own) {
        return Some((String::new(), Beside::Nothing));
    }
    let has = |other: String| all.contains(&other);
    let (plain, beside) = match own.strip_suffix("/*") {
        Some(plain) if has(plain.to_owned()) || has(format!("{plain}*")) => {
            (plain, Beside::Nothing)
        }
        Some(plain) => (plain, Beside::Itself),
        None => match own.strip_suffix('*') {
            Some(plain) => (plain, Beside::Longer),
            None if has(format!("{own}/*")) => (own, Beside::Nothing),
            None => (own, Beside::Below),
        },
    };
    is_route(plain).then(|| (plain.to_owned(), beside))
}

/// A path that is left out, as that of a route: one of a file, or one with all below it.
fn kept(own: &str) -> Option<String> {
    let name = own.rsplit('/').next().unwrap_or_default();
    let plain = match own.strip_suffix("/*") {
        Some(plain) => plain,
        None => Some(own).filter(|_| name.contains('.') && !own.contains('*'))?,
    };
    is_route(plain).then(|| plain.to_owned())
}

fn is_route(path: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    path.len() > 1 && !path.ends_with('/') && service::is_plain(path) && path.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Place;
    use std::path::Path;

    fn condition(name: &str, args: &[&str], block: Option<Vec<Directive>>) -> Directive {
        let place = Place::start(Path::new("a"));
        let args = args.iter().map(|it| (*it).to_owned()).collect();
        Directive { place, name: name.to_owned(), args, block }
    }

    fn found(conditions: Vec<Directive>) -> Option<Conditions> {
        let mut found = Conditions::default();
        found.add(&conditions, false).map(|()| found)
    }

    #[test]
    fn paths_are_those_of_routes() {
        let all = |paths: &[&str]| -> Vec<String> { paths.iter().map(|it| (*it).into()).collect() };
        for (own, others, expected) in [
            ("*", &["*"][..], Some(("", Beside::Nothing))),
            ("/a/*", &["/a/*"], Some(("/a", Beside::Itself))),
            ("/a/*", &["/a/*", "/a"], Some(("/a", Beside::Nothing))),
            ("/a", &["/a/*", "/a"], Some(("/a", Beside::Nothing))),
            ("/a", &["/a"], Some(("/a", Beside::Below))),
            ("/a*", &["/a*"], Some(("/a", Beside::Longer))),
            ("/a/", &["/a/"], None),
            ("*.php", &["*.php"], None),
            ("/a/*/b", &["/a/*/b"], None),
            ("/.a/*", &["/.a/*"], None),
        ] {
            let expected = expected.map(|(path, beside)| (path.to_owned(), beside));
            assert_eq!(route(own, &all(others)), expected, "{own}");
        }
        for (own, expected) in [
            ("/a/*", Some("/a")),
            ("/robots.txt", Some("/robots.txt")),
            ("/a", None),
            ("/a*", None),
            ("*.png", None),
        ] {
            assert_eq!(kept(own).as_deref(), expected, "{own}");
        }
    }

    #[test]
    fn conditions_are_paths_or_none() {
        let path = |args: &[&str]| condition("path", args, None);
        let not = |inner: Vec<Directive>| condition("not", &[], Some(inner));
        let both = found(vec![path(&["/a/b/*"]), not(vec![not(vec![path(&["/a/*"])])])]).unwrap();
        assert_eq!(both.paths, Some(vec!["/a/b/*".to_owned()]));
        let rest = found(vec![not(vec![path(&["/a/*"])]), not(vec![condition("file", &[], None)])]);
        let rest = rest.unwrap();
        assert_eq!((rest.except, rest.files), (vec!["/a/*".to_owned()], true));
        assert!(found(vec![path(&["/a/*"]), not(vec![not(vec![path(&["/b/*"])])])]).is_none());
        assert!(
            found(vec![not(vec![path(&["/a"]), condition("method", &["GET"], None)])]).is_none()
        );
        assert!(found(vec![condition("header", &["X"], None)]).is_none());
        assert!(found(vec![condition("file", &[], None)]).is_none());
    }
}
