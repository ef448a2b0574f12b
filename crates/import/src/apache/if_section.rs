//! `<If>`: redirects for requests that are chosen by more than their path.

use crate::condition::{Subject, Test, limited};
use crate::directive::Directive;
use crate::model::{Rule, Site};

use super::area::Area;
use super::{Reader, expression};

impl Reader<'_> {
    /// `<If>` with fields and redirects in it; whether it is translated.
    pub(super) fn limited(&mut self, section: &Directive, area: &Area, site: &mut Site) -> bool {
        if expression::is_plain(&section.args.join(" ")) {
            return self.secured(section, area, site);
        }
        let Some(cases) = expression::cases(&section.args.join(" ")) else { return false };
        let is_known = |it: &Directive| it.name == "header" || it.name.starts_with("redirect");
        let is_of_path = |test: &Test| matches!(test, Test::Found(Subject::Path, ..));
        let is_else = self.prefix(site).is_some() && cases.0.iter().flatten().any(is_of_path);
        if is_else || !section.inner().iter().all(is_known) {
            return false;
        }
        let mut own = Site::new(section.place.clone());
        own.path.clone_from(&site.path);
        let (fields, redirects): (Vec<&Directive>, Vec<&Directive>) =
            section.inner().iter().partition(|it| it.name == "header");
        let redirects: Vec<Directive> = redirects.into_iter().cloned().collect();
        let late = std::mem::take(&mut self.late);
        self.directives(&redirects, area, &mut own);
        let inner = std::mem::replace(&mut self.late, late);
        let each = |rule: &Rule| -> Vec<Result<Rule, String>> {
            cases.0.iter().map(|case| limited(rule.clone(), case)).collect()
        };
        let all = inner.iter().map(|(_, rule)| rule).chain(&own.rules).flat_map(each);
        if all.clone().any(|rule| rule.is_err()) {
            return false;
        }
        for (path, rule) in &inner {
            let rules = each(rule).into_iter().flatten();
            self.late.extend(rules.map(|rule| (path.clone(), rule)));
        }
        site.rules.extend(own.rules.iter().flat_map(each).flatten());
        for field in fields {
            let reason = "header fields have no conditions but paths and media types";
            self.notes.left(&field.place, &field.line(), reason);
        }
        true
    }

    /// `<If>` for requests without TLS, with a redirect of all paths in it.
    fn secured(&mut self, section: &Directive, area: &Area, site: &mut Site) -> bool {
        let [redirect] = section.inner() else { return false };
        let to = redirect.args.last().and_then(|to| to.strip_prefix("https://"));
        let host = to.map(|to| to.trim_end_matches('/')).unwrap_or_default();
        let is_own = host == "%{HTTP_HOST}" || site.hosts == [host.to_owned()];
        let is_whole = redirect.args.iter().any(|it| it == "/") && area.scope.is_all();
        if redirect.name.starts_with("redirect") && is_own && is_whole {
            site.https_redirect = true;
            return true;
        }
        if redirect.name.starts_with("redirect") && to.is_some() {
            // As a `RewriteRule` that leads there.
            let reason = "only a redirect of all paths to the same host is translated";
            self.notes.left(&redirect.place, &redirect.line(), reason);
            return true;
        }
        false
    }
}
