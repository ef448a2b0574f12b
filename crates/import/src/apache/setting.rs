//! What a section sets beside rules: how large a request may be, error pages, and PHP's settings.

use crate::directive::Directive;
use crate::model::{Rule, Serve, Site};

use super::Reader;
use super::area::Area;
use super::folder::below;

impl Reader<'_> {
    /// `LimitRequestBody`, of the site or of a part of it.
    pub(super) fn body_size(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let size = match directive.arg(0).parse::<u64>() {
            // No limit.
            Ok(0) => Some(1024 << 30),
            size => size.ok().map(|size| size.min(1024 << 30)),
        };
        let Some(size) = size else {
            self.notes.left(&directive.place, &directive.line(), "no size");
            return;
        };
        if area.scope.is_all() {
            site.body = Some(size);
            return;
        }
        // The last one that fits counts here, and in Apache the innermost folder.
        let is_within = |other: &Rule| match (&other.scope.path, &area.scope.path) {
            (Some(other), Some(own)) => below(own, other).is_some(),
            _ => false,
        };
        let is_disputed = |other: &Rule| {
            other.body.is_some() && other.scope.may_overlap(&area.scope) && !is_within(other)
        };
        if area.scope.pattern.is_some() || site.rules.iter().any(is_disputed) {
            let reason = "which of several limits counts for a path is not translated; see `body` \
                of [[site.rule]]";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        }
        let mut rule = Rule::at(&directive.place, area.scope.clone());
        rule.body = Some(size);
        site.rules.push(rule);
    }

    pub(super) fn error_page(&mut self, directive: &Directive, is_all: bool, site: &mut Site) {
        let (status, page) = (directive.arg(0), directive.arg(1));
        let is_status = status.parse::<u16>().is_ok_and(|it| (400..600).contains(&it));
        match is_all && is_status && page.starts_with('/') && !page.contains('?') {
            true => drop(site.error_pages.insert(status.to_owned(), page.to_owned())),
            false => {
                let reason = "only a page of the site is translated; see `error_pages`";
                self.notes.left(&directive.place, &directive.line(), reason);
            }
        }
    }

    pub(super) fn php(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let (name, text) = (directive.arg(0), directive.arg(1));
        let is_flag = directive.name.ends_with("flag");
        let is_on = matches!(&*text.to_ascii_lowercase(), "on" | "1" | "yes" | "true");
        if name == "engine" {
            if !is_on {
                let rule = Rule::at(&directive.place, area.scope.clone());
                site.rules.push(rule.serve(Serve::Files));
            }
            return;
        }
        if !area.scope.is_all() {
            let reason = "settings of PHP are for a whole site; see `php_admin_value`, and `path` \
                of a [[site]]";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        }
        let text = match is_flag {
            true => if is_on { "1" } else { "0" }.to_owned(),
            false => text.to_owned(),
        };
        match directive.name.contains("admin") {
            true => {
                site.php_value.remove(name);
                site.php_admin_value.insert(name.to_owned(), text);
            }
            false if site.php_admin_value.contains_key(name) => {}
            false => drop(site.php_value.insert(name.to_owned(), text)),
        }
    }
}
