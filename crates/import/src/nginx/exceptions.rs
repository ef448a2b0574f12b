//! What is left out of refusals, because nginx prefers another location for it.

use crate::model::{Action, Rule, Scope};
use crate::pattern::{self, BEHIND};

use super::php;

/// The condition of all paths but one.
fn exactly_not(path: &str) -> String {
    format!("!{}", pattern::exact(path))
}

/// Leaves out of refusals files that have a location of their own, and scripts that other locations
/// run, but not what stands behind their names
/// if no location runs that.
pub(super) fn except(
    rules: &mut Vec<Rule>,
    from: usize,
    scripts: &[php::Scripts],
    open: &[String],
) {
    let mut behind = Vec::new();
    for rule in rules[from..].iter_mut().filter(|rule| rule.guards()) {
        for own in scripts.iter().filter(|own| !own.has_path_info) {
            for name in &own.names {
                if rule.scope.fits(&format!("{name}/a")) {
                    let pattern = format!("^{}/", regex_lite::escape(name));
                    behind.push(Rule { scope: Scope::pattern(pattern), ..rule.clone() });
                }
            }
        }
        let others = |own: &php::Scripts| own.expression.as_ref().map(|own| format!("!{own}"));
        rule.except.extend(scripts.iter().flat_map(|own| own.names.clone()));
        let longer = scripts.iter().filter(|own| own.has_path_info).flat_map(|own| &own.names);
        let longer = longer.filter(|name| !name.ends_with('*'));
        rule.except.extend(longer.map(|name| format!("{name}/*")));
        rule.scope.and.extend(scripts.iter().filter_map(others));
        let is_for = |path: &&String| rule.scope.fits(path);
        let paths: Vec<String> = open.iter().filter(is_for).map(|path| exactly_not(path)).collect();
        rule.scope.and.extend(paths);
    }
    rules.extend(behind);
}

/// Leaves out of refusals by an expression the paths for which nginx asks none.
pub(super) fn except_final(rules: &mut [Rule], finals: &[String]) {
    for rule in rules.iter_mut().filter(|rule| rule.guards()) {
        let own = finals.iter().filter(|path| rule.scope.fits(path));
        let own: Vec<String> = own.map(|it| format!("!^{}", regex_lite::escape(it))).collect();
        rule.scope.and.extend(own);
    }
}

/// Leaves out of refusals the files that other locations send, but not what stands behind the name
/// of a script.
pub(super) fn except_sent(rules: &mut Vec<Rule>, from: usize, sent: &[Scope]) {
    let mut behind = Vec::new();
    let refuses = |rule: &&mut Rule| matches!(rule.action, Some(Action::Refuse { .. }));
    for rule in rules[from..].iter_mut().filter(refuses) {
        // Names that begin with a dot are not sent in any case.
        let is_hidden = rule.scope.pattern.as_ref().is_some_and(|own| own.starts_with("/\\."));
        let overlaps = |scope: &&Scope| !is_hidden && rule.scope.may_overlap(scope);
        let others: Vec<&String> =
            sent.iter().filter(overlaps).filter_map(|scope| scope.pattern.as_ref()).collect();
        if others.is_empty() {
            continue;
        }
        let mut own = rule.clone();
        own.scope.and.push(BEHIND.to_owned());
        behind.push(own);
        rule.scope.and.extend(others.iter().map(|own| format!("!{own}")));
    }
    rules.extend(behind);
}
