//! How large bodies may be, how long clients are waited for, and which requests are not logged.
//!
//! nginx asks one location for each of these, and again after a redirect inside the server. Here
//! the path that clients ask for decides.

use crate::directive::Directive;
use crate::model::{Action, Rule, Scope, Site};
use crate::unit;

use super::block::{Block, Size};
use super::known;
use super::reader::Reader;

/// The largest body of nginx without a word of its file.
pub(super) const BODY: u64 = 1 << 20;

/// The most that can be written, for no limit.
const UNLIMITED: u64 = 1024 << 30;

const DAY: u64 = 86_400;

/// Times that nginx waits for a client: the directive, the key of `timeouts`, what it is without a
/// word of the file, and the most that can be written (all in seconds).
const TIMEOUTS: [(&str, &str, u64, u64); 4] = [
    ("client_header_timeout", "head", 60, 3600),
    ("client_body_timeout", "body", 60, 3600),
    ("send_timeout", "send", 60, 3600),
    ("keepalive_timeout", "idle", 75, DAY),
];

/// What is known of the time that a directive of this name says.
pub(super) fn timeout(name: &str) -> Option<(&'static str, u64)> {
    let row = TIMEOUTS.iter().find(|(own, ..)| *own == name);
    row.map(|(_, key, _, most)| (*key, *most))
}

impl Reader<'_> {
    pub(super) fn body_size(&mut self, directive: &Directive, block: &mut Block) {
        let Some(size) = unit::size(directive.arg(0)) else {
            self.notes.left(&directive.place, &directive.line(), "no size");
            return;
        };
        let most = if size == 0 { UNLIMITED } else { size.min(UNLIMITED) };
        block.body = Some(Size { most, ..size_of(directive) });
    }

    pub(super) fn timeout(&mut self, directive: &Directive, block: &mut Block) {
        let Some((key, most)) = timeout(&directive.name) else { return };
        let (place, line) = (&directive.place, directive.line());
        if self.in_location {
            let reason = format!("there is one for all paths, `timeouts.{key}`");
            self.notes.left(place, &line, reason);
            return;
        }
        let time = unit::nginx_time(directive.arg(0));
        let Some(seconds) = time.filter(|time| (1..=most).contains(time)) else {
            let reason = format!("no duration of `timeouts.{key}`: 1 to {most} seconds");
            self.notes.left(place, &line, reason);
            return;
        };
        if directive.args.len() > 1 {
            self.notes.differs(place, &line, "clients are not told by a header `Keep-Alive`");
        }
        block.timeouts.insert(key, Size { most: seconds, ..size_of(directive) });
    }

    /// `worker_shutdown_timeout`.
    pub(super) fn drain(&mut self, directive: &Directive) {
        match unit::nginx_time(directive.arg(0)).filter(|time| (1..=DAY).contains(time)) {
            Some(seconds) => drop(self.description.timeouts.insert("drain", seconds)),
            None => {
                let reason = known::advice("worker_shutdown_timeout");
                self.notes.left(&directive.place, &directive.line(), reason);
            }
        }
    }

    /// The largest of each time, since there is one for all sites.
    pub(super) fn write_timeouts(&mut self) {
        for (_, key, usual, _) in TIMEOUTS {
            let said: Vec<&Size> = self.waits.iter().filter_map(|own| own.get(key)).collect();
            let is_unsaid = said.len() < self.waits.len();
            let usual = Some(usual).filter(|_| is_unsaid);
            let all = said.iter().map(|size| size.most);
            let Some(largest) = all.chain(usual).max().filter(|_| !said.is_empty()) else {
                continue;
            };
            for size in said.iter().filter(|size| size.most != largest) {
                let reason = format!(
                    "there is one for all sites, `timeouts.{key}`: the largest, {largest} seconds"
                );
                self.notes.differs(&size.place, &size.line, reason);
            }
            self.description.timeouts.insert(key, largest);
        }
    }

    /// The limit of bodies of a location, if it may be another one than the site's.
    pub(super) fn body_of(&mut self, scope: &Scope, block: &Block, outer: &Block, site: &mut Site) {
        if self.depth == 0 {
            let place = block.body.as_ref().map_or(&site.place, |body| &body.place);
            let mut rule = Rule::at(place, scope.clone());
            rule.body = Some(block.body.as_ref().map_or(BODY, |body| body.most));
            site.rules.push(rule);
        } else if let Some(body) = block.body.as_ref().filter(|_| block.body != outer.body) {
            let reason = "only that of locations of the site's own root is translated; see `body` \
                of [[site.rule]]";
            self.notes.left(&body.place, &body.line, reason);
        }
    }

    /// Puts the limits of bodies in the order in which the last one counts, as nginx prefers their
    /// locations, without those that say nothing new.
    pub(super) fn order_bodies(&mut self, block: &Block, site: &mut Site) {
        let base = block.body.as_ref().map_or(BODY, |body| body.most);
        let (found, others): (Vec<Rule>, Vec<Rule>) =
            std::mem::take(&mut site.rules).into_iter().partition(|rule| rule.body.is_some());
        site.rules = others;
        let mut kept: Vec<Rule> = Vec::new();
        for rule in found.into_iter().rev() {
            let is_other =
                |other: &Rule| other.body != rule.body && other.scope.may_overlap(&rule.scope);
            if rule.body != Some(base) || kept.iter().any(is_other) {
                kept.push(rule);
            }
        }
        let of_path = |path: &str| {
            kept.iter().rev().find(|rule| rule.scope.fits(path)).and_then(|rule| rule.body)
        };
        // One for all paths stands in the site's place.
        let base_or_not = Some(base).filter(|_| !kept.iter().any(|rule| rule.scope.is_all()));
        // Scripts that are asked for by their names lead nowhere.
        let leads_on = |rule: &&Rule| {
            rule.scope.extensions().is_none_or(|own| own.iter().any(|it| it != "php"))
        };
        let leading = kept.iter().filter(leads_on).filter_map(|rule| rule.body);
        let most = leading.chain(base_or_not).max();
        // Nothing but scripts takes bodies.
        for path in targets(site).into_iter().filter(|path| path.ends_with(".php")) {
            let own = of_path(&path).unwrap_or(base);
            if Some(own) < most {
                let reason = format!(
                    "in nginx the {own} bytes of {path} are also the most for the paths that lead \
                        there, as by the front controller; here each path has its own limit"
                );
                let rule = kept.iter().rev().find(|rule| rule.scope.fits(&path));
                let place = rule.map_or(&site.place, |rule| &rule.place);
                self.notes.differs(place, "client_max_body_size", reason);
                break;
            }
        }
        site.rules.append(&mut kept);
    }
}

/// The paths that other paths lead to.
pub(super) fn targets(site: &Site) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    targets.extend(site.front_controller.iter().map(|script| format!("/{script}")));
    for rule in &site.rules {
        if let Some(Action::Rewrite(to)) = &rule.action {
            targets.push(to.split(['?', '$']).next().unwrap_or_default().to_owned());
        }
    }
    targets.extend(site.index.iter().flatten().map(|name| format!("/{name}")));
    targets
}

fn size_of(directive: &Directive) -> Size {
    Size { place: directive.place.clone(), line: directive.line(), most: 0 }
}
