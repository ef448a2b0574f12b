//! Passwords of one site beside each other, and beside what no password is asked for.

use crate::model::{Rule, Site};
use crate::note::Notes;

/// Most rules of a site that ask for a password, as `tokamak check` has it.
const MOST: usize = 32;

/// Leaves out error pages that lie behind a password: no client is asked for it when they are sent.
pub(super) fn error_pages(site: &mut Site, notes: &mut Notes) {
    let Site { error_pages, rules, place, .. } = site;
    error_pages.retain(|status, page| {
        let is_open = rules.iter().all(|rule| rule.asks().is_none() || !rule.scope.fits(page));
        if !is_open {
            let reason = format!(
                "it lies behind a password, and the error page of {status} would be sent without"
            );
            notes.left(place, page, reason);
        }
        is_open
    });
}

/// Refuses what would want two passwords at once: the other servers ask for that of the inner one
/// alone. And what are more passwords than a site can have.
pub(super) fn refuse_nested(site: &mut Site, notes: &mut Notes) {
    let asking: Vec<Rule> = site.rules.iter().filter(|it| it.asks().is_some()).cloned().collect();
    let length = |rule: &Rule| {
        let scope = &rule.scope;
        scope.path.as_ref().or(scope.pattern.as_ref()).map_or(0, String::len)
    };
    let mut count = 0;
    let mut own = 0;
    for rule in &mut site.rules {
        let Some(login) = rule.asks().cloned() else { continue };
        let is_inner = asking.iter().enumerate().any(|(at, other)| {
            let is_other = other.asks().is_some_and(|other| other.users != login.users);
            let comes_later = (length(rule), own) > (length(other), at);
            is_other && comes_later && rule.scope.may_overlap(&other.scope)
        });
        own += 1;
        let problem = if is_inner {
            "another password is asked for around it, and nobody can send both; everybody is \
                refused instead"
        } else if count == MOST {
            "a site has at most 32 rules with a password; everybody is refused instead"
        } else {
            count += 1;
            continue;
        };
        notes.refused(&rule.place, &login.users, problem);
        *rule = rule.clone().refuse_all(403);
    }
}
