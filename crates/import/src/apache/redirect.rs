//! `Redirect` and `RedirectMatch`.

use crate::directive::Directive;
use crate::model::{Action, Rule, Scope, Site};
use crate::pattern;
use crate::within::{Within, expression_behind};

use super::area::{Area, HIDDEN};
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
        if area.folder.is_none() && area.scope.is_all() && (300..400).contains(&status) {
            let expression = expression.as_deref().unwrap_or_default();
            self.redirect_mounted(directive, expression, to, is_match, status, site);
        }
        // A rule of what is mounted sees the path behind the mount.
        let within = expression.map(|expression| match self.prefix(site) {
            Some(mount) => match expression_behind(&expression, &mount) {
                // Its groups would be others.
                Within::At(own) if !is_same_in_groups(&own, &expression) => Within::Unknown,
                within => within,
            },
            None => Within::At(expression),
        });
        // A folder's are for nothing outside of it.
        let scope = Scope { path: area.scope.path.clone(), ..Scope::default() };
        let scope = match within {
            Ok(Within::At(expression)) => Ok(Scope { pattern: Some(expression), ..scope }),
            Ok(Within::Nowhere) => return,
            _ => Err(scope),
        };
        if status >= 400 {
            let scope = scope.unwrap_or_else(|whole| whole).refusing();
            let status = self.notes.refusal(place, &directive.line(), status);
            self.lead(Rule::at(place, scope).refuse_all(status), area, site);
            return;
        }
        let Ok(scope) = scope else {
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
        let (scope, to) = match to.split_once("://") {
            Some((scheme, rest)) if !rest.trim_end_matches("$1").contains('/') => {
                let host = rest.trim_end_matches("$1");
                let wider = |it: String| it.replace("(/.*)", "/?(.*)").replace("?$", "$");
                let scope = Scope { pattern: scope.pattern.map(wider), ..scope };
                (scope, format!("{scheme}://{host}/$1"))
            }
            _ => (scope, to),
        };
        self.lead(Rule::at(place, scope).redirect(to, status), area, site);
    }

    /// Gives a redirect of the server to what is mounted below its path, which Apache asks later.
    fn redirect_mounted(
        &mut self,
        directive: &Directive,
        expression: &str,
        to: &str,
        is_match: bool,
        status: u16,
        site: &mut Site,
    ) {
        let to = match is_match {
            true => to.to_owned(),
            false => format!("{}$1", to.trim_end_matches('/').replace('$', "$$")),
        };
        for mount in &mut site.mounts {
            let path = mount.path.clone().unwrap_or_default();
            match expression_behind(expression, &path) {
                Within::Nowhere => {}
                Within::At(own)
                    if has_path(&to)
                        && own != expression
                        && is_same_in_groups(&own, expression) =>
                {
                    let rule = Rule::at(&directive.place, Scope::pattern(own));
                    mount.rules.push(rule.redirect(to.clone(), status));
                }
                _ => {
                    let reason = format!("it is also for {path}, where it is left out");
                    self.notes.differs(&directive.place, &directive.line(), reason);
                }
            }
        }
    }

    /// Adds what a redirect has become. Apache asks those of folders behind all that refuses.
    fn lead(&mut self, rule: Rule, area: &Area, site: &mut Site) {
        match area.folder {
            Some(_) => {
                let is_of_files = self.has_services(site);
                self.late.push((site.path.clone(), Rule { is_of_files, ..rule }));
            }
            None => site.guard(rule),
        }
    }

    /// Adds the redirects of a site's folders.
    pub(super) fn write_redirects(&mut self, site: &mut Site) {
        let late = std::mem::take(&mut self.late);
        for (path, rule) in late {
            let rules = match site.mounts.iter_mut().find(|mount| mount.path == path) {
                Some(mount) => &mut mount.rules,
                None => &mut site.rules,
            };
            // What leads to nowhere refuses, too.
            let leads = |it: &Rule| {
                let is_rewrite = matches!(&it.action, Some(Action::Rewrite(to)) if to != HIDDEN);
                is_rewrite && it.scope.may_overlap(&rule.scope)
            };
            let at = rules.iter().position(leads).unwrap_or(rules.len());
            rules.insert(at, rule);
        }
    }

    /// Sends what a site redirects without the lifetimes of pages, as caches that many share would
    /// keep it for what Apache does not say it.
    pub(super) fn write_lifetimes(&self, site: &mut Site) {
        for rules in
            std::iter::once(&mut site.rules).chain(site.mounts.iter_mut().map(|it| &mut it.rules))
        {
            let is_kept = |rule: &&Rule| {
                let fields = rule.headers.set.keys().chain(rule.headers.add.keys());
                rule.of_answer
                    && fields.into_iter().any(|it| it.eq_ignore_ascii_case("cache-control"))
            };
            let kept: Vec<Scope> =
                rules.iter().filter(is_kept).map(|it| it.scope.clone()).collect();
            let moves = |rule: &&Rule| {
                matches!(rule.action, Some(Action::Redirect { .. }))
                    && !rule.if_file
                    && !rule.unless_file
                    && rule.conditions.is_empty()
                    && kept.iter().any(|scope| scope.may_overlap(&rule.scope))
            };
            let ends = |rule: &Rule| {
                let rule = Rule::at(&rule.place, rule.scope.clone());
                Rule { of_answer: true, is_last: true, ..rule }
            };
            let ends: Vec<Rule> = rules.iter().filter(moves).map(ends).collect();
            rules.splice(..0, ends);
        }
    }
}

/// Whether the groups of an expression that is left of another one are the same.
fn is_same_in_groups(own: &str, expression: &str) -> bool {
    let groups = pattern::groups(expression);
    own == expression
        || groups == 0
        || (pattern::groups(own) == groups && pattern::alternatives(own).len() == 1)
}

/// Whether a target has a path that does not come from a group alone.
fn has_path(to: &str) -> bool {
    let path = to.split_once("://").map_or(to, |(_, rest)| rest);
    path.trim_end_matches("$1").contains('/') && !to.contains("%{")
}
