//! Matchers: for which requests a directive is.

use std::collections::BTreeMap;

use crate::condition::{self as cases, Cases, Subject, Test};
use crate::directive::Directive;
use crate::model::{Rule, Scope};
use crate::{pattern, validity};

use super::condition::{self, Bound};
use super::path;

/// The networks that Caddy calls `private_ranges`.
const PRIVATE: [&str; 6] =
    ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.1/8", "fd00::/8", "::1"];

/// Names of what is not said as a file of the site's root: a refusal must hold for these before a
/// rewrite. `.well-known` is for everybody.
const HIDDEN: &str = r"!/\.(?:[^w]|w[^e]|we[^l])";

/// The part of a path that a target takes over.
const WHOLE: &str = "^/(.*)$";

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
#[derive(Clone, Debug)]
pub(super) struct Matcher {
    /// What the Caddyfile says; all conditions have to hold.
    conditions: Vec<Directive>,
    paths: Option<Paths>,
    pub clients: Option<Clients>,
    /// What else requests have to be, if it is known.
    exact: Option<Cases>,
    /// The same with all that is not known.
    wider: Cases,
    /// The files that it tries, if one is not that of the request.
    pub tries: Option<Vec<String>>,
    /// Whether it asks for the host, and nothing else.
    pub is_host: bool,
}

impl Default for Matcher {
    fn default() -> Matcher {
        Matcher::new(Vec::new(), false)
    }
}

impl Matcher {
    /// A matcher of conditions. `hides_clients` says whether addresses of clients may be others
    /// than those of their connections.
    fn new(conditions: Vec<Directive>, hides_clients: bool) -> Matcher {
        let mut clients = Vec::new();
        let mut rest = Vec::new();
        for condition in &conditions {
            match client(condition).filter(|_| !hides_clients) {
                Some(own) => clients.push(own),
                None => rest.push(condition.clone()),
            }
        }
        if clients.len() > 1 {
            clients.clear();
            rest.clone_from(&conditions);
        }
        let mut paths = None;
        let expressions: Vec<_> = rest.iter().filter(|it| it.name == "path_regexp").collect();
        let like: Vec<_> = rest.iter().filter(|it| it.name == "path").collect();
        if let [one] = expressions[..]
            && let Some(expression) = one.args.last()
        {
            paths = Some(Paths::Found(expression.clone()));
            rest.retain(|it| it.name != "path_regexp");
        } else if expressions.is_empty() && !like.is_empty() {
            paths = Some(Paths::Like(like.iter().flat_map(|it| it.args.clone()).collect()));
            rest.retain(|it| it.name != "path");
        }
        let mut exact = condition::all(&rest, Bound::Exact);
        let mut tries = None;
        if exact.is_none() {
            let (files, others): (Vec<_>, Vec<_>) = rest.iter().partition(|it| it.name == "file");
            if let [file] = files[..]
                && let Some(cases) =
                    condition::all(&others.into_iter().cloned().collect::<Vec<_>>(), Bound::Exact)
            {
                tries = condition::files(file);
                exact = tries.is_some().then_some(cases);
            }
        }
        let wider = condition::all(&rest, Bound::Wider).unwrap_or_else(Cases::all);
        let is_host = matches!(&conditions[..], [one] if one.name == "host");
        Matcher { conditions, paths, clients: clients.pop(), exact, wider, tries, is_host }
    }

    /// What is for all requests of both.
    pub(super) fn within(&self, outer: &Matcher, hides_clients: bool) -> Matcher {
        if outer.conditions.is_empty() {
            return self.clone();
        }
        // Two lists of paths would become one, so the outer one is negated twice.
        let mut conditions = self.conditions.clone();
        conditions.extend(match conditions.is_empty() {
            true => outer.conditions.clone(),
            false => vec![Matcher::new(vec![outer.negation()], false).negation()],
        });
        Matcher::new(conditions, hides_clients)
    }

    /// What is for all requests that none of these is for, if that is known.
    pub(super) fn none_of(matchers: &[&Matcher], hides_clients: bool) -> Option<Matcher> {
        let is_known = |it: &&Matcher| !it.is_all() && it.is_exact();
        let are_known = matchers.iter().all(is_known);
        let conditions = matchers.iter().filter(|it| !it.is_all()).map(|it| it.negation());
        let rest = Matcher::new(conditions.collect(), hides_clients);
        (are_known && rest.is_exact()).then_some(rest)
    }

    /// What else than this is for the same requests, and asks for one more thing.
    pub(super) fn and(&self, condition: Directive, hides_clients: bool) -> Matcher {
        Matcher::new(vec![condition], hides_clients).within(self, hides_clients)
    }

    /// The same without the files that it tries.
    pub(super) fn without_files(&self, hides_clients: bool) -> Matcher {
        let rest = self.conditions.iter().filter(|it| it.name != "file").cloned();
        Matcher::new(rest.collect(), hides_clients)
    }

    /// Whether rules can say all of it.
    fn is_exact(&self) -> bool {
        self.exact.is_some() && self.clients.is_none() && self.tries.is_none()
    }

    fn negation(&self) -> Directive {
        let block = Some(self.conditions.clone());
        Directive { name: "not".to_owned(), args: Vec::new(), block, ..self.conditions[0].clone() }
    }

    /// All that has to hold.
    pub(super) fn conditions(&self) -> &[Directive] {
        &self.conditions
    }

    /// Whether it is for all requests.
    pub(super) fn is_all(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether a refusal is for more than Caddy refuses.
    pub(super) fn is_widened(&self) -> bool {
        let is_all = |path: &String| path::is_all(path);
        let is_path_known = match &self.paths {
            None => true,
            Some(Paths::Like(paths)) if paths.iter().any(is_all) => true,
            Some(_) => self.refused().iter().all(|scope| !scope.is_all()),
        };
        let is_exact = self.exact.as_ref() == Some(&self.wider) && self.tries.is_none();
        !is_path_known || !is_exact || self.asks_for_files()
    }

    /// Whether it asks for files at the paths of requests.
    pub(super) fn asks_for_files(&self) -> bool {
        let Some(Cases(cases)) = &self.exact else { return false };
        cases.iter().flatten().any(is_of_file)
    }

    /// Whether Caddy asks it before another one of the same directive: the longer of two single
    /// paths first, and otherwise any matcher before none.
    pub(super) fn is_before(&self, other: &Matcher) -> bool {
        match (self.path(), other.path()) {
            (Some(own), Some(other)) => {
                let is_same = own.trim_end_matches('*') == other.trim_end_matches('*');
                if is_same { own.len() < other.len() } else { own.len() > other.len() }
            }
            _ => !self.is_all() && other.is_all(),
        }
    }

    /// The single path that it is for, and nothing else.
    pub(super) fn path(&self) -> Option<&str> {
        match (&self.paths, &self.conditions[..]) {
            (Some(Paths::Like(paths)), [_]) if paths.len() == 1 => Some(&paths[0]),
            _ => None,
        }
    }

    /// The paths of a refusal. They may be more than those of the matcher.
    pub(super) fn refused(&self) -> Vec<Scope> {
        match &self.paths {
            None => vec![Scope::default()],
            Some(Paths::Found(expression)) => match pattern::translate(expression, true) {
                Ok(expression) => vec![Scope::pattern(pattern::refusing(&expression))],
                Err(_) => vec![Scope::default()],
            },
            Some(Paths::Like(paths)) => paths.iter().map(|path| path::refused(path)).collect(),
        }
    }

    /// Rules of a refusal like this one, for all that the matcher is for, and perhaps for more.
    pub(super) fn guarding(&self, rule: &Rule) -> Vec<Rule> {
        let mut rules = Vec::new();
        for scope in self.refused() {
            let rule = Rule { scope, ..rule.clone() };
            for case in &self.wider.0 {
                let own = cases::limited(rule.clone(), case).unwrap_or_else(|_| rule.clone());
                if !rules.contains(&own) {
                    rules.push(own);
                }
            }
        }
        rules
    }

    /// Rules like this one, for exactly the requests of the matcher. With `needs_path`, the path
    /// without its slash is the first group of their `pattern`.
    pub(super) fn exactly(&self, rule: &Rule, needs_path: bool) -> Option<Vec<Rule>> {
        if self.clients.is_some() || self.tries.is_some() {
            return None;
        }
        let mut scope = match &self.paths {
            None => Scope::default(),
            Some(Paths::Like(paths)) if paths.iter().any(|path| path::is_all(path)) => {
                Scope::default()
            }
            Some(Paths::Like(paths)) => Scope::pattern(path::any(paths)?),
            Some(Paths::Found(expression)) => {
                Scope::pattern(pattern::translate(expression, false).ok()?)
            }
        };
        if needs_path {
            scope.and.extend(scope.pattern.replace(WHOLE.to_owned()));
        }
        let are_names = matches!(&self.paths, Some(Paths::Like(paths)) if path::are_names(paths));
        let mut rules = Vec::new();
        for case in &self.exact.as_ref()?.0 {
            let mut case = case.clone();
            if are_names {
                if case.iter().any(|test| condition::is_of_folders(test) && is_positive(test)) {
                    continue;
                }
                case.retain(|test| !condition::is_of_folders(test));
            }
            let rule = Rule { scope: scope.clone(), ..rule.clone() };
            let mut rule = cases::limited(rule, &case).ok()?;
            if rule.unless_file {
                rule.scope.and.push(HIDDEN.to_owned());
            }
            rules.push(rule);
        }
        let is_valid = rules.iter().all(|rule| validity::rule(rule).is_ok());
        is_valid.then_some(rules)
    }

    /// The same, if only paths are asked for: rules that neither answer nor refuse go by these.
    pub(super) fn by_path(&self, rule: &Rule) -> Option<Vec<Rule>> {
        let is_plain =
            |rule: &Rule| !rule.if_file && !rule.unless_file && rule.conditions.is_empty();
        self.exactly(rule, false).filter(|rules| rules.iter().all(is_plain))
    }

    /// Rules like this one, which changes headers, for exactly the requests of the matcher. Where
    /// it asks for a file, it goes by what answers, which is that file.
    pub(super) fn of_headers(&self, rule: &Rule) -> Option<Vec<Rule>> {
        if !self.asks_for_files() {
            let rules = self.by_path(rule)?;
            // Requests of two cases would get a field twice.
            return (rules.len() == 1 || rule.headers.add.is_empty()).then_some(rules);
        }
        let Some(Paths::Like(paths)) = &self.paths else { return None };
        let [case] = &self.exact.as_ref()?.0[..] else { return None };
        let is_there = |test: &Test| matches!(test, Test::File(true) | Test::NoFolder(true));
        let is_file = case.iter().any(is_there) && path::are_files(paths);
        is_file.then_some(())?;
        let is_other = |test: &&Test| !is_of_file(test) && !condition::is_of_folders(test);
        let case = case.iter().filter(is_other).cloned().collect();
        let own = Matcher { exact: Some(Cases(vec![case])), ..self.clone() };
        own.by_path(&Rule { of_answer: true, ..rule.clone() })
    }
}

/// Whether a test asks for a file at the path.
fn is_of_file(test: &Test) -> bool {
    matches!(test, Test::File(_) | Test::NoFolder(_))
}

fn is_positive(test: &Test) -> bool {
    matches!(test, Test::Found(Subject::Path, _, true))
}

/// A condition with an unknown name.
fn unknown() -> Directive {
    let place = crate::source::Place::start(std::path::Path::new(""));
    Directive { place, name: "unknown".to_owned(), args: Vec::new(), block: None }
}

/// The clients of a condition, if it says nothing else.
fn client(condition: &Directive) -> Option<Clients> {
    match &*condition.name {
        "remote_ip" => networks(&condition.args).map(Clients::Only),
        "not" => match &condition::within(condition)[..] {
            [one] if one.name == "remote_ip" => networks(&one.args).map(Clients::Not),
            _ => None,
        },
        _ => None,
    }
}

fn networks(args: &[String]) -> Option<Vec<String>> {
    let names = args.iter().flat_map(|arg| match &**arg {
        "private_ranges" => PRIVATE.to_vec(),
        other => vec![other],
    });
    let networks: Option<Vec<String>> = names.map(validity::network).collect();
    networks.filter(|networks| !networks.is_empty())
}

/// The matchers that a block defines.
pub(super) fn named(directives: &[Directive], outer: &Named, hides_clients: bool) -> Named {
    let mut all = outer.clone();
    for directive in directives.iter().filter(|it| it.name.starts_with('@')) {
        let conditions = condition::within(directive);
        let conditions = if conditions.is_empty() { vec![unknown()] } else { conditions };
        all.insert(directive.name.clone(), Matcher::new(conditions, hides_clients));
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
        let known = named.get(first).cloned();
        return (known.unwrap_or_else(|| Matcher::new(vec![unknown()], false)), rest);
    }
    if first.starts_with('/') {
        let (name, args) = ("path".to_owned(), vec![first.clone()]);
        let place = directive.place.clone();
        return (Matcher::new(vec![Directive { place, name, args, block: None }], false), rest);
    }
    (Matcher::default(), &directive.args)
}
