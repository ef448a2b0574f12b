//! `redir`, `rewrite` and `try_files`.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::source::Place;

use super::Reader;
use super::matcher::Matcher;
use super::target::{self, Target};

/// What `rewrite` calls the file that a matcher has found.
const TRIED: &[&str] = &[
    "{http.matchers.file.relative}",
    "{file_match.relative}",
    "{http.matchers.file.relative}?{query}",
];

impl Reader<'_> {
    pub(super) fn redirect(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
    ) {
        let (place, line) = (&directive.place, directive.line());
        let found = args.first().and_then(|to| target::redirected(to));
        if let (Some(target), Some(status)) = (found, status_of(args.get(1))) {
            let rule = Rule::at(place, Scope::default()).redirect(&*target.text, status);
            if let Some(rules) = matcher.exactly(&rule, target.needs_path) {
                return site.rules.extend(rules);
            }
        }
        if matcher.is_host {
            let reason = "it is for some of the site's names only; see `canonical_host`";
            return self.notes.left(place, &line, reason);
        }
        let reason = "the redirect is not translated, so its paths are refused";
        self.refuse(directive, matcher, 404, site, Some(reason));
    }

    pub(super) fn rewrite(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
    ) {
        let place = &directive.place;
        let rules = match args {
            [to] if TRIED.contains(&&**to) => matcher.tries.as_ref().and_then(|files| {
                let rest = matcher.without_files(self.hides_clients);
                self.tried(directive, &rest, files)
            }),
            [to] => target::rewritten(to).and_then(|to| self.rewritten(place, &to, matcher)),
            _ => None,
        };
        match rules {
            Some(rules) => site.rules.extend(rules),
            None => {
                let reason = "the rewrite is not translated, so its paths are refused";
                self.refuse(directive, matcher, 404, site, Some(reason));
            }
        }
    }

    fn rewritten(&mut self, place: &Place, to: &Target, matcher: &Matcher) -> Option<Vec<Rule>> {
        let rule = Rule::at(place, Scope::default()).rewrite(&*to.text);
        let rules = matcher.exactly(&rule, to.needs_path)?;
        if to.loses_query {
            let reason = "`{uri}` is the path without the query there";
            self.notes.differs(place, &to.text, reason);
        }
        Some(rules)
    }

    /// `try_files`: what is asked for, or the last of its files. Refusals hold for that, too, so it
    /// is a rewrite and no front controller.
    pub(super) fn try_files(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
    ) {
        let rules = match directive.block {
            None => self.tried(directive, matcher, args),
            Some(_) => None,
        };
        match rules {
            Some(rules) => site.rules.extend(rules),
            None => {
                let reason = "these files are not translated, so their paths are refused";
                self.refuse(directive, matcher, 404, site, Some(reason));
            }
        }
    }

    /// Rules for paths of which the first of these files is served.
    fn tried(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        files: &[String],
    ) -> Option<Vec<Rule>> {
        let place = &directive.place;
        // A page that a cache has written is the same as that of the application.
        let is_cached = |file: &&String| file.contains("cache") && file.contains('{');
        let cached = files.iter().take_while(is_cached).count();
        if cached > 0 {
            let reason = "pages of a cache of the application are not looked for, so it makes \
                them anew; see the content cache";
            self.notes.left(place, &files[..cached].join(" "), reason);
        }
        let files: Vec<&str> = files[cached..]
            .iter()
            .map(|file| file.strip_suffix("?{query}").filter(|it| it.starts_with("{path}/")))
            .zip(&files[cached..])
            .map(|(plain, file)| plain.unwrap_or(file))
            .collect();
        let known = ["{path}", "{path}/", "{path}/index.php", "{path}/index.html"];
        let (fallback, first) = match files.split_last() {
            Some((last, first)) if !known.contains(last) => (Some(*last), first),
            _ => (None, &files[..]),
        };
        if first.first() != Some(&"{path}") || !first.iter().all(|file| known.contains(file)) {
            return None;
        }
        // Folders are no files, unless they are asked for.
        let own: &[&str] = if first.len() == 1 { &["{path}"] } else { &["{path}", "{path}/"] };
        let missing = Directive {
            place: place.clone(),
            name: "not".to_owned(),
            args: ["file"].iter().chain(own).map(|&word| word.to_owned()).collect(),
            block: None,
        };
        match fallback {
            None => Some(Vec::new()),
            Some("=404") => {
                let rule = Rule::at(place, Scope::default()).serve(Serve::Existing);
                matcher.by_path(&rule)
            }
            Some(to) => {
                let to = target::rewritten(to)?;
                self.rewritten(place, &to, &matcher.and(missing, self.hides_clients))
            }
        }
    }
}

/// The status of `redir`.
pub(super) fn status_of(arg: Option<&String>) -> Option<u16> {
    match arg.map_or("temporary", String::as_str) {
        "temporary" => Some(302),
        "permanent" => Some(301),
        status => status.parse().ok().filter(|it| matches!(it, 301 | 302 | 303 | 307 | 308)),
    }
}
