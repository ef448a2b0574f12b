//! What `respond`, `error` and `abort` refuse, and what is refused because it is not translated.

use crate::directive::Directive;
use crate::model::{Action, Rule, Scope, Site};

use super::Reader;
use super::matcher::{Clients, Matcher};
use super::served::Served;

/// Refuses the front controller by the name that clients ask for alone: Caddy asks for what is
/// refused before `php_fastcgi` finds a script, and behind all other rewrites.
pub(super) fn by_client(refused: &[Rule], directives: &[Directive], site: &mut Site) {
    let Some(script) = site.front_controller.as_ref().map(|script| format!("/{script}")) else {
        return;
    };
    let is_of_all =
        |rule: &Rule| matches!(&rule.action, Some(Action::Refuse { deny, .. }) if deny == &["all"]);
    let is_for = |rule: &Rule| !rule.scope.is_all() && is_of_all(rule) && rule.is_for(&script);
    if !directives.iter().any(rewrites) {
        let rules = site.rules.iter_mut().filter(|rule| is_for(rule) && refused.contains(rule));
        rules.for_each(|rule| rule.internal = rule.conditions.is_empty());
    }
}

/// Whether it changes the path, or something within it does.
fn rewrites(directive: &Directive) -> bool {
    let names = ["rewrite", "try_files", "uri", "handle_path", "method"];
    names.contains(&&*directive.name) && !directive.args.is_empty()
        || directive.name != "php_fastcgi"
            && directive.name != "php_server"
            && directive.inner().iter().any(rewrites)
}

impl Reader<'_> {
    /// Refuses what a directive is for: at least that.
    pub(super) fn refuse(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        status: u16,
        site: &mut Site,
        reason: Option<&str>,
    ) {
        let place = &directive.place;
        if let Some(reason) = reason {
            self.notes.refused(place, &directive.line(), reason);
        } else if matcher.is_widened() {
            let reason = "a part of its matcher is not translated, so more is refused";
            self.notes.refused(place, &directive.line(), reason);
        }
        let all = || vec!["all".to_owned()];
        let rule = Rule::at(place, Scope::default());
        let rule = match (&matcher.clients, reason) {
            (None, _) | (_, Some(_)) => rule.refuse_all(status),
            (Some(Clients::Only(networks)), None) => {
                rule.refuse(Vec::new(), networks.clone(), status)
            }
            (Some(Clients::Not(networks)), None) => rule.refuse(networks.clone(), all(), status),
        };
        site.rules.extend(matcher.guarding(&rule));
    }

    pub(super) fn refusal(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
        served: &mut Served,
    ) {
        let is_status = |arg: &&String| arg.len() == 3 && arg.parse::<u16>().is_ok();
        let status = args.iter().rfind(is_status).map_or("", String::as_str);
        let is_refusal = directive.name != "respond" || status.starts_with(['4', '5']);
        if !is_refusal {
            let reason = "no rule answers with a text, so what it is for is refused";
            return self.refuse(directive, matcher, 404, site, Some(reason));
        }
        if let Some(files) = &matcher.tries
            && let Some(file) = self.maintenance(files, site)
        {
            let reason = format!(
                "there is no {file} now, so it refuses nothing; to close the site, add a rule with \
                 `deny = \"all\"`"
            );
            return self.notes.left(&directive.place, &directive.line(), reason);
        }
        if !served.handled.is_empty() {
            let reason = "it is for what no `handle` answers; here all that fits is refused";
            self.notes.differs(&directive.place, &directive.line(), reason);
        }
        let status = status.parse().unwrap_or(403);
        let status = self.notes.refusal(&directive.place, &directive.line(), status);
        let before = site.rules.len();
        self.refuse(directive, matcher, status, site, None);
        served.refused.extend(site.rules[before..].iter().cloned());
    }

    /// A file that somebody makes to close a site, if it is not there.
    fn maintenance(&self, files: &[String], site: &Site) -> Option<String> {
        let root = std::path::Path::new(site.root.as_deref()?);
        let is_missing = |file: &String| {
            let name = file.trim_start_matches('/');
            let is_plain = !name.is_empty() && !name.contains(['{', '*', '?', '[', '\\', '=']);
            is_plain
                && !name.split('/').any(|part| part == "..")
                && !self.disk.is_file(&root.join(name))
        };
        files.iter().all(is_missing).then(|| files.join(", "))
    }
}
