//! `Redirect` and `RedirectMatch`.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Site};
use crate::pattern;

use super::area::Area;
use super::{Reader, value};

impl Reader<'_> {
    pub(super) fn redirect(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let words: Vec<&str> = directive.args.iter().map(String::as_str).collect();
        let (status, from, to) = match (&*directive.name, &words[..]) {
            ("redirectpermanent", [from, to]) => (Some(301), *from, *to),
            (_, [from, to]) if from.starts_with(['/', '^']) => (Some(302), *from, *to),
            (_, [status, from]) => (value::redirect_status(status), *from, ""),
            (_, [status, from, to]) => (value::redirect_status(status), *from, *to),
            _ => (None, "", ""),
        };
        let Some(status) = status.filter(|_| area.scope.pattern.is_none()) else {
            let reason = "its status, or what it is for, is not translated";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        };
        let is_match = directive.name == "redirectmatch";
        let expression = match is_match {
            true => pattern::translate(from, false),
            // The path and all below it, with what follows it.
            false if from == "/" => Ok("^(/.*)$".to_owned()),
            false => {
                let path = from.trim_end_matches('/');
                Ok(format!("^{}(/.*)?$", regex_lite::escape(path)))
            }
        };
        let place = &directive.place;
        if status >= 400 {
            let scope = match expression {
                Ok(expression) => Scope::pattern(pattern::refusing(&expression)),
                Err(_) => Scope::default(),
            };
            let status = if matches!(status, 404 | 410) { status } else { 403 };
            site.guard(Rule::at(place, scope).refuse_all(status));
            return;
        }
        let Ok(expression) = expression else {
            self.notes.left(place, &directive.line(), "its expression is not translated");
            return;
        };
        let to = match is_match {
            true => to.to_owned(),
            false => format!("{}$1", to.trim_end_matches('/').replace('$', "$$")),
        };
        if to == "$1" || to.contains("%{") {
            self.notes.left(place, &directive.line(), "its target is not translated");
            return;
        }
        // A URL needs a slash behind its host, which the group may not have.
        let to = match to.split_once("://") {
            Some((_, rest)) if rest.trim_end_matches("$1").contains('/') => to,
            Some((scheme, rest)) => {
                let host = rest.trim_end_matches("$1");
                let scope =
                    Scope::pattern(expression.replace("(/.*)", "/?(.*)").replace("?$", "$"));
                let rule = Rule::at(place, scope);
                site.guard(rule.redirect(format!("{scheme}://{host}/$1"), status));
                return;
            }
            None => to,
        };
        site.guard(Rule::at(place, Scope::pattern(expression)).redirect(to, status));
    }
}
