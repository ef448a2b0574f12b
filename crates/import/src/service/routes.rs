//! Routes to services, and what is beside them.

use crate::model::{Route, Rule, Scope, Serve, Site};
use crate::pattern;
use crate::source::Place;

/// Which paths of a route are not those of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// None is.
    Nothing,
    /// The path of the route alone: only what is below it is led to the service.
    Itself,
    /// What is below the path: the path alone is led there.
    Below,
    /// What only begins with the path is not in the route, but is led to the service.
    Longer,
}

/// Whether a path without a slash at its end can be that of a route.
pub(crate) fn is_plain(path: &str) -> bool {
    let is_wrong = |char: char| char.is_control() || char == '*';
    (path.is_empty() || path.starts_with('/'))
        && !path.contains("//")
        && !path.contains("/.")
        && !path.contains(is_wrong)
}

/// Adds a route, unless one that stands before it has its paths; says whether it does. So the order
/// decides which of two routes has a path, and behind that the longer one has it.
pub(crate) fn add(route: Route, site: &mut Site) -> bool {
    let is_new = !site.routes.iter().any(|other| other.has(&route.path));
    if is_new {
        site.routes.push(route);
    }
    is_new
}

/// Refuses what is beside a route, so that neither the site nor the service has more than before;
/// gives the reason for a note where that is less.
pub(crate) fn stay_beside(
    place: &Place,
    path: &str,
    beside: Beside,
    except: Vec<String>,
    site: &mut Site,
) -> Option<String> {
    let own = regex_lite::escape(path);
    let (pattern, reason) = match beside {
        Beside::Nothing => return None,
        Beside::Itself => (format!("^{own}$"), None),
        Beside::Below => (format!("^{own}/"), Some(format!("what is below `{path}` is refused"))),
        Beside::Longer => {
            let reason = format!(
                "a route is for whole parts of a path, so what only begins with `{path}`, as \
                    `{path}x`, is refused"
            );
            (format!("^{own}[^/]"), Some(reason))
        }
    };
    let scope = Scope { and: except, ..Scope::pattern(pattern) };
    // What refuses the path of a route refuses what is below it, unless it is what clients ask for.
    let internal = beside == Beside::Itself;
    site.rules.push(Rule { internal, ..Rule::at(place, scope).refuse_all(404) });
    reason
}

/// Leaves the paths of applications out of what is said of the site's own scripts and files: which
/// of them run, that none does, and that nothing goes on behind their names.
pub(crate) fn leave_out(has_php: bool, site: &mut Site) {
    let applications: Vec<String> = site.applications().map(str::to_owned).collect();
    // What is the site's anyway needs no route.
    let is_within = |route: &Route| {
        let holds = |other: &String| {
            let other = Route { path: other.clone(), ..Route::default() };
            other.has(&route.path)
        };
        route.upstream.is_some() || applications.iter().any(holds)
    };
    site.routes.retain(is_within);
    if applications.is_empty() {
        return;
    }
    site.runs_no_php = !has_php;
    let runs_nothing = |rule: &Rule| rule.serve == Serve::Files && rule.is_for_all();
    for mount in &mut site.mounts {
        mount.runs_no_php = mount.rules.iter().any(runs_nothing);
        let is_mounted = |route: &Route| mount.path.as_deref() == Some(&*route.path);
        site.routes.retain(|route| route.upstream.is_some() || !is_mounted(route));
    }
    let is_all = applications.iter().any(String::is_empty);
    let others: Vec<String> = applications.into_iter().filter(|path| !path.is_empty()).collect();
    let kept: Vec<String> = site
        .routes
        .iter()
        .filter(|route| route.upstream.is_none())
        .map(|route| route.path.clone())
        .collect();
    let within = |path: &str| Route { path: path.to_owned(), ..Route::default() };
    for mut rule in std::mem::take(&mut site.rules) {
        let is_of_files = std::mem::take(&mut rule.is_of_files)
            || rule.serve == Serve::Files
            || !rule.scripts.is_empty()
            || is_behind(&rule.scope);
        if !is_of_files {
            site.rules.push(rule);
            continue;
        }
        let is_in = |path: &&String| rule.scope.may_overlap(&Scope::path(format!("{path}*")));
        for path in kept.iter().filter(is_in) {
            let mut rule = rule.clone();
            rule.scope.and.push(format!("^{}(?:/|$)", regex_lite::escape(path)));
            rule.except.extend(others.iter().filter(|other| within(path).has(other)).cloned());
            site.rules.push(rule);
        }
        if !is_all {
            rule.except.extend(others.iter().cloned());
            site.rules.push(rule);
        }
    }
}

/// Whether these are paths that go on behind the name of a script.
fn is_behind(scope: &Scope) -> bool {
    scope.pattern.iter().chain(&scope.and).any(|it| it.starts_with(pattern::BEHIND))
}
