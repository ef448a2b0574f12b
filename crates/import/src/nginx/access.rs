//! `allow`, `deny` and `auth_basic` as rules.

use crate::model::{Rule, Scope};
use crate::source::Place;
use crate::validity;

use super::Reader;
use super::block::Block;

impl Reader<'_> {
    /// The refusals of a block that differ from those of the block around it, which hold anyway.
    pub(super) fn access(
        &mut self,
        place: &Place,
        scope: &Scope,
        block: &Block,
        outer: &Block,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        if block.access != outer.access {
            rules.extend(self.addresses(place, scope, block));
            let is_opened = !outer.access.is_empty() && outer.access != [(true, "all".to_owned())];
            if is_opened {
                let reason = "it replaces the `allow` and `deny` around it; here both hold";
                self.notes.differs(place, "allow, deny", reason);
            }
        }
        match (&block.auth, &outer.auth) {
            (Some(own), outer) if outer.as_ref() != Some(own) => {
                let reason = "passwords are not translated; everybody is refused instead";
                self.notes.refused(&own.place, &own.line(), reason);
                rules.push(Rule::at(&own.place, scope.clone()).refuse_all(403));
            }
            (None, Some(_)) => {
                let reason = "the password that is asked for around it is asked for here, too";
                self.notes.differs(place, "auth_basic off", reason);
            }
            _ => {}
        }
        rules
    }

    /// nginx obeys the first line that fits, so each `deny` is for clients that no `allow` before
    /// it has.
    fn addresses(&mut self, place: &Place, scope: &Scope, block: &Block) -> Vec<Rule> {
        let is_all = |who: &str| who == "all";
        let names_clients = block.access.iter().any(|(_, who)| !is_all(who));
        let problem = if names_clients && block.hides_clients(&self.proxies) {
            Some("whose addresses they are is not translated; everybody is refused instead")
        } else if block.satisfies_any && block.auth.is_some() {
            Some("`satisfy any` is not translated; everybody is refused instead")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.notes.refused(place, "allow, deny", problem);
            return vec![Rule::at(place, scope.clone()).refuse_all(403)];
        }
        let (mut rules, mut allowed, mut denied) = (Vec::new(), Vec::new(), Vec::new());
        for (allows, who) in &block.access {
            let network = match &**who {
                "all" => "all".to_owned(),
                // Sockets of this machine: no client of Tokamak comes from there.
                "unix:" => continue,
                other => match validity::network(other) {
                    Some(network) => network,
                    None => {
                        self.notes.refused(place, other, "no address; everybody is refused");
                        "all".to_owned()
                    }
                },
            };
            match allows {
                true if network == "all" => break,
                true => {
                    if !denied.is_empty() {
                        let denied = std::mem::take(&mut denied);
                        rules.push(refusal(place, scope, &allowed, denied));
                    }
                    allowed.push(network);
                }
                false => {
                    let is_all = network == "all";
                    denied.push(network);
                    if is_all {
                        break;
                    }
                }
            }
        }
        if !denied.is_empty() {
            rules.push(refusal(place, scope, &allowed, denied));
        }
        rules
    }
}

fn refusal(place: &Place, scope: &Scope, allowed: &[String], denied: Vec<String>) -> Rule {
    Rule::at(place, scope.clone()).refuse(allowed.to_vec(), denied, 403)
}
