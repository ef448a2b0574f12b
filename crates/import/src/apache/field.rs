//! `Header` and `Expires…`: fields of responses.

use crate::directive::Directive;
use crate::model::{Headers, Rule, Scope, Site};
use crate::validity;
use crate::within::{Within, expression_behind, path_behind};

use super::area::Area;
use super::{Reader, value};

impl Reader<'_> {
    pub(super) fn header(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let mut args: Vec<&str> = directive.args.iter().map(String::as_str).collect();
        let always = args.first() == Some(&"always");
        if always || args.first() == Some(&"onsuccess") {
            args.remove(0);
        }
        // Apache takes a colon at the end of a name for none.
        let name = args.get(1).map(|name| name.trim_end_matches(':')).unwrap_or_default();
        if let Some(own) = args.get_mut(1) {
            *own = name;
        }
        let mut headers = Headers { always, ..Headers::default() };
        let action = args.first().map(|action| action.to_ascii_lowercase());
        let is_plain = |value: &str| !value.contains('%');
        match (action.as_deref(), &args[args.len().min(1)..]) {
            (Some("unset"), [name]) => headers.remove = vec![(*name).to_owned()],
            (Some("set"), [name, value]) if is_plain(value) => {
                headers.set.insert((*name).to_owned(), (*value).to_owned());
            }
            (Some("add" | "append" | "merge"), [name, value]) if is_plain(value) => {
                headers.add.insert((*name).to_owned(), (*value).to_owned());
            }
            _ => {
                let reason = "only fixed values without a condition are translated";
                self.notes.left(&directive.place, &directive.line(), reason);
                return;
            }
        }
        let fields = headers.set.iter().chain(&headers.add);
        let problem =
            fields.map(|(name, value)| validity::field(name, value)).find_map(Result::err);
        if let Some(problem) = problem {
            self.notes.left(&directive.place, &directive.line(), problem);
            return;
        }
        // Apache asks where the file lies that answers in the end.
        let of_answer = !area.scope.is_all();
        let rule = Rule::at(&directive.place, area.scope.clone());
        site.rules.push(Rule { headers, of_answer, ..rule });
    }

    /// Takes parts of the site out of the lifetimes of others. Where a part is named by its folder
    /// and by names of files, either is enough: a page without a lifetime is asked for again.
    pub(super) fn write_expiry(&mut self, site: &mut Site) {
        for Scope { path, pattern, .. } in std::mem::take(&mut self.unexpired) {
            let folder = path.map(|path| {
                format!("^{}(?:/|$)", regex_lite::escape(path.trim_end_matches(['*', '/'])))
            });
            let Some(own) = pattern.or(folder) else { continue };
            let mounted = site.mounts.iter_mut().flat_map(|mount| &mut mount.rules);
            let all = site.rules.iter_mut().chain(mounted);
            for rule in all.filter(|rule| rule.headers.keeps_own) {
                // Apache asks where the file lies that answers in the end.
                rule.of_answer = true;
                rule.scope.and.push(format!("!{own}"));
            }
        }
    }

    pub(super) fn expires(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let is_of_type = directive.name == "expiresbytype";
        let time = directive.args[usize::from(is_of_type).min(directive.args.len())..].join(" ");
        let Some(seconds) = value::apache_time(&time) else {
            let reason = "only a duration from the request is translated";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        };
        let mut rule = Rule::at(&directive.place, area.scope.clone());
        rule.of_answer = !area.scope.is_all();
        // Apache leaves alone what a script says itself of its page, or adds to it.
        rule.headers.keeps_own = true;
        rule.headers.cache_control = Some(format!("max-age={seconds}"));
        rule.headers.expires = Some(seconds).filter(|it| (1..=365 * 86_400).contains(it));
        if is_of_type {
            let kind = directive.arg(0).to_ascii_lowercase();
            let is_kind = kind.split_once('/').is_some_and(|(kind, rest)| {
                !kind.is_empty()
                    && !rest.is_empty()
                    && !(format!("{kind}{rest}")).contains(['*', ';', ' ', '/'])
            });
            if !is_kind {
                self.notes.left(&directive.place, &directive.line(), "no media type");
                return;
            }
            rule.content_types = vec![kind];
        }
        site.rules.push(rule);
    }
}

/// Adds the fields that sections of the whole server have for paths and names to what is mounted.
pub(super) fn hand_down(rules: &[Rule], mount: &mut Site) {
    let path = mount.path.clone().unwrap_or_default();
    for rule in rules.iter().filter(|it| it.of_answer && !it.headers.is_empty()) {
        let within = |own: &Option<String>, behind: fn(&str, &str) -> Within| match own {
            None => Some(None),
            Some(own) => match behind(own, &path) {
                Within::At(own) => Some(Some(own)),
                Within::Everywhere => Some(None),
                Within::Nowhere | Within::Unknown => None,
            },
        };
        let Some(own) = within(&rule.scope.path, path_behind) else { continue };
        let Some(found) = within(&rule.scope.pattern, expression_behind) else { continue };
        let is_same = |own: &String| {
            let plain = own.trim_start_matches('!');
            expression_behind(plain, &path) == Within::At(plain.to_owned())
        };
        if rule.scope.and.iter().all(is_same) {
            let scope = Scope { path: own, pattern: found, and: rule.scope.and.clone() };
            mount.rules.push(Rule { scope, ..rule.clone() });
        }
    }
}
