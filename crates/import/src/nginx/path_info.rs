//! `PATH_INFO` by a variable that `if` sets to a part of the path, where `try_files` leads from
//! there to a script.

use crate::model::{Action, Rule, Scope, Serve, Site};

use super::condition::PathInfos;
use super::php::Scripts;
use super::plan::Plan;
use super::reader::Reader;

impl Reader<'_> {
    /// The `PATH_INFO` of a location, if that is a part of the path.
    pub(super) fn path_info_of(&self, value: &str) -> PathInfos {
        self.path_infos.iter().filter(|(name, _)| name == value).cloned().collect()
    }
}

/// Hands that part on to the scripts that answer for other paths.
pub(super) fn hand_on(own: &PathInfos, plan: &mut Plan, site: &mut Site) {
    if own.is_empty() {
        return;
    }
    let mut fallback = Vec::new();
    for rule in std::mem::take(&mut plan.fallback) {
        if let Some(Action::Rewrite(to)) = &rule.action
            && let Some((script, query)) = to.split_once(".php")
            && (query.is_empty() || query.starts_with('?'))
            && !script.contains('$')
        {
            // Of several that fit, the last one has set it.
            for (_, expression) in own.iter().rev() {
                let and = rule.scope.and.iter().chain(&rule.scope.pattern).cloned().collect();
                let pattern = Some(expression.clone());
                let scope = Scope { pattern, and, ..rule.scope.clone() };
                let longer = Rule { scope, ..rule.clone() };
                fallback.push(longer.rewrite(format!("{script}.php$1{query}")));
            }
            let script = format!("{script}.php");
            let behind = format!("^{}/", regex_lite::escape(&script));
            let scripts = Scripts::named(vec![script.clone()], true);
            match rule.scope.fits(&format!("{script}/a")) {
                _ if plan.php.contains(&scripts) => {}
                // No file lies below another one, so all of these paths are the script's.
                true => {
                    let restricts = |rule: &&mut Rule| {
                        rule.serve != Serve::All && rule.scope.fits(&format!("{script}/a"))
                    };
                    for rule in site.rules.iter_mut().filter(restricts) {
                        rule.scope.and.push(format!("!{behind}"));
                    }
                }
                false => plan.internal.push((rule.place.clone(), Scope::pattern(behind))),
            }
            plan.php.push(scripts);
        }
        fallback.push(rule);
    }
    plan.fallback = fallback;
}
