//! `allow`, `deny`, `auth_basic` and `satisfy` as rules.

use crate::model::{Login, Rule, Scope};
use crate::source::Place;
use crate::{users, validity};

use super::block::Block;
use super::reader::Reader;

const BOTH_HOLD: &str = "it replaces what is asked for around it; here both hold";

impl Block {
    /// Whether a good address or a password is enough.
    fn takes_either(&self) -> bool {
        self.satisfies_any && self.auth.is_some() && !self.access.is_empty()
    }

    /// Whether the same password is asked for as in another block.
    fn asks_as(&self, other: &Block) -> bool {
        let said = |block: &Block| {
            let realm = block.auth.as_ref().map(|auth| auth.arg(0).to_owned());
            let file = block.users.as_ref().map(|users| users.arg(0).to_owned());
            realm.map(|realm| (realm, file))
        };
        said(self) == said(other)
    }

    /// Whether who is let in is the same as in another block.
    pub(super) fn admits_as(&self, other: &Block) -> bool {
        self.access == other.access
            && self.asks_as(other)
            && self.takes_either() == other.takes_either()
    }
}

impl Reader<'_> {
    /// The refusals of a block that differ from those of the block around it, which hold anyway.
    pub(super) fn access(
        &mut self,
        place: &Place,
        scope: &Scope,
        block: &Block,
        outer: &Block,
    ) -> Vec<Rule> {
        if block.admits_as(outer) {
            return Vec::new();
        }
        if block.takes_either() {
            if outer.auth.is_some() || !outer.access.is_empty() {
                self.notes.differs(place, "satisfy any", BOTH_HOLD);
            }
            return vec![self.either(place, scope, block)];
        }
        let mut rules = Vec::new();
        // Of a block around it in which one of both is enough, neither holds by itself.
        let is_new = outer.takes_either();
        if block.access != outer.access || is_new {
            rules.extend(self.addresses(place, scope, block));
            let is_opened = !outer.access.is_empty() && outer.access != [(true, "all".to_owned())];
            if is_opened {
                let reason = "it replaces the `allow` and `deny` around it; here both hold";
                self.notes.differs(place, "allow, deny", reason);
            }
        }
        match (&block.auth, &outer.auth) {
            (Some(_), _) if is_new || !block.asks_as(outer) => {
                rules.push(self.password(scope, block, Vec::new()));
            }
            (None, Some(_)) => {
                let reason = "the password that is asked for around it is asked for here, too";
                self.notes.differs(place, "auth_basic off", reason);
            }
            _ => {}
        }
        rules
    }

    /// A rule that asks for the password of a block, or refuses everybody.
    fn password(&mut self, scope: &Scope, block: &Block, free: Vec<String>) -> Rule {
        let auth = block.auth.clone().expect("the block asks for a password");
        let rule = Rule::at(&auth.place, scope.clone());
        match self.login(auth.arg(0), block, free) {
            Ok(login) => rule.login(login),
            Err(problem) => {
                let reason = format!("{problem}; everybody is refused instead");
                self.notes.refused(&auth.place, &auth.line(), reason);
                rule.refuse_all(403)
            }
        }
    }

    fn login(&self, realm: &str, block: &Block, free: Vec<String>) -> Result<Login, String> {
        let Some(file) = block.users.as_ref().map(|users| users.arg(0)) else {
            return Err("without `auth_basic_user_file` nobody is asked".to_owned());
        };
        // A realm that is `off` asks no client for a password.
        if realm.contains('$') || file.contains('$') {
            return Err("variables are not translated".to_owned());
        }
        let users = self.path(file);
        users::names(self.disk, &users)?;
        Ok(Login { users, realm: users::realm(realm), free })
    }

    /// `satisfy any`: clients of some addresses need no password. A client that no line names needs
    /// one, so all that a rule can say are lines that allow, perhaps with `deny all` behind them.
    fn either(&mut self, place: &Place, scope: &Scope, block: &Block) -> Rule {
        let lines = block.access.iter().filter(|(_, who)| who != "unix:");
        let decided = lines.take_while(|(allows, who)| *allows || who != "all");
        let networks: Option<Vec<String>> =
            decided.map(|(allows, who)| allows.then(|| validity::network(who)).flatten()).collect();
        let problem = match networks {
            Some(networks) if !networks.is_empty() => {
                if !block.hides_clients(&self.proxies) {
                    return self.password(scope, block, networks);
                }
                "whose addresses they are is not translated; everybody is refused instead"
            }
            _ => {
                "beside `satisfy any` only `allow` with addresses is translated; everybody is \
                    refused instead"
            }
        };
        self.notes.refused(place, "satisfy any", problem);
        Rule::at(place, scope.clone()).refuse_all(403)
    }

    /// nginx applies the first line that fits, so each `deny` is for clients that no `allow` before
    /// it has.
    fn addresses(&mut self, place: &Place, scope: &Scope, block: &Block) -> Vec<Rule> {
        let is_all = |who: &str| who == "all";
        let names_clients = block.access.iter().any(|(_, who)| !is_all(who));
        if names_clients && block.hides_clients(&self.proxies) {
            let problem =
                "whose addresses they are is not translated; everybody is refused instead";
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
