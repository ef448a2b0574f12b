//! What is mounted, and rewrites: the new path is one of the site's own files.

use crate::model::{Action, Rule, Scope, Site};
use crate::note::Notes;

/// Refuses what rewrites make of a path below that of a mounted site: its files are others.
pub(super) fn close_to_rewrites(site: &mut Site, notes: &mut Notes) {
    let mut refusals = Vec::new();
    for mount in &site.mounts {
        let path = mount.path.clone().unwrap_or_default();
        let mut may_lead = false;
        for rule in &site.rules {
            let Some(Action::Rewrite(to)) = &rule.action else { continue };
            let (known, more) = to.split_once(['$', '?']).unwrap_or((to, ""));
            let is_there = Scope::path(path.clone()).fits(known);
            may_lead |= is_there || (!more.is_empty() && path.starts_with(known));
            if is_there {
                let reason = format!(
                    "it leads to {path}, where another folder is mounted, and rewrites do not \
                        leave the site; write a redirect, or name another path"
                );
                notes.refused(&rule.place, to, reason);
            }
        }
        if may_lead {
            refusals.push(Rule::at(&mount.place, Scope::path(path)).refuse_all(404));
        }
    }
    site.rules.append(&mut refusals);
}
