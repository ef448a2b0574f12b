//! The locations of a block, and which of them nginx prefers to another one.

use crate::directive::Directive;
use crate::model::Scope;
use crate::pattern;
use crate::source::Place;

use super::matcher::{Match, kind};
use super::{known, php};

/// A location: its place, the paths that it is for, and its lines.
pub(super) type Location = (Place, Match, Vec<Directive>);

/// The locations of a block.
#[derive(Debug, Default)]
pub(super) struct Locations {
    /// In the order in which nginx prefers them.
    pub all: Vec<Location>,
    /// The root that `location /` names, and its index files.
    pub root: Option<String>,
    pub index: Option<Vec<String>>,
}

impl Locations {
    /// The paths below which no expression is asked.
    fn final_prefixes(&self) -> Vec<String> {
        let prefixes = self.all.iter().filter_map(|(_, found, _)| match found {
            Match::Prefix(path, is_final) => Some((path, *is_final)),
            _ => None,
        });
        let asks = |path: &String| {
            prefixes.clone().any(|(other, is_final)| !is_final && other.starts_with(path.as_str()))
        };
        let finals = prefixes.clone().filter(|(path, is_final)| *is_final && !asks(path));
        finals.map(|(path, _)| format!("{path}*")).collect()
    }

    /// What begins with `/.well-known` among these, if this location is an expression: hidden names
    /// are refused by many, and these are for authorities of certificates.
    pub(super) fn well_known(&self, found: &Match) -> Vec<String> {
        let finals = self.final_prefixes();
        let paths = finals.iter().map(|path| path.trim_end_matches('*').to_owned());
        let is_asked = matches!(found, Match::Pattern(_));
        paths.filter(|path| is_asked && path.starts_with("/.well-known")).collect()
    }

    /// The scripts of expressions within prefixes, which nginx asks before those beside all.
    fn scripts_within_prefixes(&self) -> impl Iterator<Item = php::Scripts> {
        let is_prefix = |found: &Match, start: &str| match found {
            Match::Prefix(path, _) => path.len() > start.len() && path.starts_with(start),
            _ => false,
        };
        self.all.iter().filter_map(move |(_, found, inner)| {
            let Match::Prefix(path, false) = found else { return None };
            let is_longest = !self.all.iter().any(|(_, other, _)| is_prefix(other, path));
            let runs = path != "/" && is_longest && inner.iter().any(runs_all_scripts);
            runs.then(|| php::Scripts::named(vec![format!("{path}*")], true))
        })
    }

    /// The scripts of locations within `location /`: exact ones, for which no expression is asked,
    /// and expressions, which nginx asks before those beside all.
    fn within_main(&self) -> impl Iterator<Item = php::Scripts> {
        let main = Match::Prefix("/".to_owned(), false);
        let main = self.all.iter().filter(move |(_, found, _)| *found == main);
        main.flat_map(|(_, _, inner)| inner).filter_map(|inner| match kind(&inner.args) {
            ("=", path) if inner.name == "location" && has_fastcgi(inner) => {
                Some(php::Scripts::named(vec![path.to_owned()], false))
            }
            (kind @ ("~" | "~*"), text) if inner.name == "location" && has_fastcgi(inner) => {
                let own = pattern::translate(text, kind == "~*").ok()?;
                php::of_expression(&own).filter(|scripts| !scripts.are_all())
            }
            _ => None,
        })
    }

    /// Paths of files that an exact location serves, which nginx prefers to an expression.
    pub(super) fn open_paths(&self, found: &Match) -> Vec<String> {
        let is_quiet = |it: &Directive| {
            let name = &*it.name;
            matches!(name, "allow" | "access_log" | "log_not_found" | "expires" | "add_header")
                && (name != "allow" || it.arg(0) == "all")
        };
        let own = self.all.iter().filter_map(|(_, other, inner)| match other {
            Match::Exact(path) if inner.iter().all(is_quiet) => Some(path.clone()),
            _ => None,
        });
        let is_file = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.contains('.') && !name.starts_with('.') && !name.contains(".ph")
        };
        match found {
            Match::Pattern(_) => own.filter(is_file).collect(),
            _ => Vec::new(),
        }
    }

    /// The expressions by which locations that nginx prefers to another one send files, by their
    /// extensions.
    pub(super) fn sent_before(&self, found: &Match) -> Vec<Scope> {
        let is_quiet = |it: &Directive| match &*it.name {
            "allow" => it.arg(0) == "all",
            "try_files" => it.args.last().is_some_and(|last| last.starts_with('=')),
            name => {
                matches!(name, "access_log" | "log_not_found" | "expires" | "add_header" | "etag")
                    || known::is_silent(it)
            }
        };
        if !matches!(found, Match::Pattern(_)) {
            return Vec::new();
        }
        let before = self.all.iter().take_while(|(_, other, _)| other != found);
        let before = before.filter(|(_, _, inner)| inner.iter().all(is_quiet));
        let scopes = before.filter(|(_, other, _)| matches!(other, Match::Pattern(_)));
        let is_of_files = |scope: &Scope| {
            let of_scripts = |one: &String| one.starts_with("ph");
            scope.extensions().is_some_and(|own| !own.iter().any(of_scripts))
        };
        scopes.map(|(_, other, _)| other.scope()).filter(is_of_files).collect()
    }

    /// The paths that a location takes: those that it is for, without those that nginx gives to one
    /// that it prefers.
    pub(super) fn region(&self, found: &Match) -> Scope {
        let mut scope = found.scope();
        scope.and.extend(self.preferred(found).filter_map(|(_, other, _)| other.elsewhere()));
        if matches!(found, Match::Pattern(_)) {
            scope.and.extend(self.inner_first());
        }
        scope
    }

    /// The conditions of all paths but those of expressions within prefixes, which nginx asks
    /// before those beside all.
    fn inner_first(&self) -> impl Iterator<Item = String> {
        let prefixes = self.all.iter().filter_map(|(_, found, inner)| match found {
            Match::Prefix(path, false) if path != "/" => Some((path, inner)),
            _ => None,
        });
        prefixes.flat_map(|(path, inner)| {
            let expressions = inner.iter().filter(|it| it.name == "location");
            let expressions = expressions.filter_map(|it| match kind(&it.args) {
                (kind @ ("~" | "~*"), text) => pattern::translate(text, kind == "~*").ok(),
                _ => None,
            });
            expressions.map(move |own| match own.contains('^') {
                true => format!("!{own}"),
                false => format!("!^{}.*(?:{own})", regex_lite::escape(path)),
            })
        })
    }

    /// The locations to which nginx gives some of the paths that another one is for.
    pub(super) fn preferred<'a>(&'a self, found: &'a Match) -> impl Iterator<Item = &'a Location> {
        let finals = self.final_prefixes();
        let is_final = move |path: &str| finals.contains(&format!("{path}*"));
        let own = self.all.iter().position(|(_, other, _)| other == found);
        let scope = found.scope();
        self.all.iter().enumerate().filter_map(move |(at, location)| {
            let other = &location.1;
            let is_before = own.is_some_and(|own| at < own);
            let takes = match (found, other) {
                (Match::Exact(_), _) => false,
                (Match::Prefix(path, _), Match::Exact(other)) => other.starts_with(path),
                (Match::Prefix(path, _), Match::Prefix(other, _)) => {
                    other.len() > path.len() && other.starts_with(path)
                }
                (Match::Prefix(_, is_final), Match::Pattern(_)) => !is_final,
                (Match::Pattern(own), Match::Exact(other)) => pattern::is_in(own, other),
                (Match::Pattern(_), Match::Prefix(other, _)) => is_final(other),
                (Match::Pattern(_), Match::Pattern(_)) => is_before,
            };
            (takes && scope.may_overlap(&other.scope())).then_some(location)
        })
    }

    /// The scripts that locations which nginx prefers to this one run, and whether these run with
    /// more behind their names, too: if this one is for all scripts, or for these by their names.
    pub(super) fn scripts_before(&self, found: &Match) -> Vec<php::Scripts> {
        let Match::Pattern(_) = found else { return Vec::new() };
        let scope = found.scope();
        let is_for = |scripts: &php::Scripts| {
            let mut names = scripts.names.iter();
            found.runs_scripts() || names.any(|name| !name.ends_with('*') && scope.fits(name))
        };
        let finals = self.final_prefixes();
        let before = self.all.iter().take_while(|(_, other, _)| other != found);
        let scripts = before.filter_map(|(_, other, inner)| match other {
            Match::Prefix(path, true) if inner.iter().any(runs_all_scripts) => {
                let below = format!("{path}*");
                finals.contains(&below).then(|| php::Scripts::named(vec![below], true))
            }
            _ if inner.iter().all(|it| it.name != "fastcgi_pass") => None,
            Match::Exact(path) if path.ends_with(".php") => {
                Some(php::Scripts::named(vec![path.clone()], false))
            }
            Match::Pattern(own) => php::of_expression(own),
            _ => None,
        });
        let inner = self.scripts_within_prefixes();
        scripts.chain(self.within_main()).chain(inner).filter(is_for).collect()
    }

    /// A location that nginx prefers for some of the paths of another one, and that is not quiet.
    pub(super) fn rival(
        &self,
        found: &Match,
        is_also_quiet: &dyn Fn(&[Directive]) -> bool,
    ) -> Option<&Match> {
        let own = self.all.iter().position(|(_, other, _)| other == found);
        let is_preferred = |(at, (_, other, directives)): &(usize, &Location)| {
            if Some(*at) == own || is_quiet(other, directives) || is_also_quiet(directives) {
                return false;
            }
            let overlaps = || found.scope().may_overlap(&other.scope());
            match (found, other) {
                (Match::Exact(_), _) => false,
                (Match::Prefix(path, _), Match::Exact(inner) | Match::Prefix(inner, _)) => {
                    inner.starts_with(path.as_str()) && inner != path
                }
                (Match::Prefix(_, is_final), Match::Pattern(_)) => !is_final && overlaps(),
                (Match::Pattern(_), Match::Exact(path)) => found.scope().fits(path),
                (Match::Pattern(_), Match::Prefix(_, is_final)) => *is_final && overlaps(),
                (Match::Pattern(_), Match::Pattern(_)) => Some(*at) < own && overlaps(),
            }
        };
        let mut all = self.all.iter().enumerate();
        all.find(|it| is_preferred(it)).map(|(_, (_, other, _))| other)
    }
}

/// A region without the paths that the locations within it take.
pub(super) fn within(mut region: Scope, inner: &[Directive]) -> Scope {
    for directive in inner {
        let (kind, text) = kind(&directive.args);
        let found = match kind {
            "~" | "~*" => pattern::translate(text, kind == "~*").ok().map(Match::Pattern),
            "=" => Some(Match::Exact(text.to_owned())),
            _ => Some(Match::Prefix(text.to_owned(), false)),
        };
        region.and.extend(found.and_then(|found| found.elsewhere()));
    }
    region
}

pub(super) fn has_fastcgi(directive: &Directive) -> bool {
    let block = directive.block.iter().flatten();
    block.clone().any(|inner| inner.name == "fastcgi_pass")
}

/// Whether it is a location that runs all scripts.
fn runs_all_scripts(directive: &Directive) -> bool {
    let is_expression =
        directive.name == "location" && matches!(kind(&directive.args).0, "~" | "~*");
    is_expression
        && has_fastcgi(directive)
        && php::of_expression(kind(&directive.args).1).is_some_and(|it| it.are_all())
}

/// Whether it makes no difference that requests for a location are counted, too: it refuses them,
/// or it is a single file that is asked for now and then.
fn is_quiet(found: &Match, directives: &[Directive]) -> bool {
    const SILENT: [&str; 4] = ["access_log", "log_not_found", "allow", "deny"];
    let refuses = directives.iter().any(|it| match &*it.name {
        "deny" => it.arg(0) == "all",
        "return" => it.arg(0).starts_with('4'),
        _ => false,
    });
    let is_silent = |it: &Directive| SILENT.contains(&&*it.name);
    let is_file = matches!(found, Match::Exact(_)) && directives.iter().all(is_silent);
    is_file || refuses
}

/// Whether a line of a location leaves its files to be sent as they are, or refuses them.
pub(super) fn sends_or_refuses(directive: &Directive) -> bool {
    match &*directive.name {
        "fastcgi_pass" | "rewrite" | "if" | "root" | "alias" | "location" | "error_page" => false,
        "return" => directive.arg(0).starts_with('4'),
        "try_files" => directive.args.last().is_some_and(|last| last.starts_with('=')),
        _ => true,
    }
}
