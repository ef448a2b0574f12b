//! How large bodies may be: one limit for all sites if they agree, and rules of those that do not.

use crate::model::{Description, Rule, Scope, Site};

/// Writes what the sites say of bodies as `limits.body`, or as rules of their own.
pub(super) fn write_limits(description: &mut Description) {
    for site in &mut description.sites {
        let own = site.body;
        site.mounts.iter_mut().for_each(|mount| mount.body = mount.body.or(own));
    }
    // Nothing is sent to those that only redirect or refuse.
    let serves = |site: &&Site| site.moved.is_none() && !site.refuses_all();
    let serving = description.sites.iter().filter(serves);
    let said = serving.flat_map(|site| site.mounts.iter().chain([site]));
    // Without a limit for all of them, the server's own is for those that say nothing.
    let is_known = description.body.is_some();
    let said = said.map(|site| site.body).filter(|own| own.is_some() || !is_known);
    let said: Vec<Option<u64>> = said.collect();
    if let Some(Some(most)) = said.first().filter(|first| said.iter().all(|own| own == *first)) {
        description.body = Some(*most);
    }
    let common = description.body;
    for site in &mut description.sites {
        let is_serving = serves(&&*site);
        site.mounts.iter_mut().for_each(|mount| write(mount, common));
        match is_serving {
            true => write(site, common),
            false => site.body = None,
        }
    }
}

/// In front of all other rules, since the last one that fits counts.
fn write(site: &mut Site, common: Option<u64>) {
    let Some(most) = site.body.take().filter(|most| Some(*most) != common) else { return };
    let rule = Rule { body: Some(most), ..Rule::at(&site.place, Scope::default()) };
    site.rules.insert(0, rule);
}
