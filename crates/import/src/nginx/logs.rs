//! Where errors and requests are logged, and which requests are not.

use crate::directive::Directive;
use crate::log_format;
use crate::model::{COMBINED, Rule, Scope, Site};
use crate::source::Place;

use super::block::Block;
use super::locations::Locations;
use super::matcher::{Match, describe};
use super::reader::Reader;

impl Reader<'_> {
    pub(super) fn error_log(&mut self, directive: &Directive) {
        let path = directive.arg(0);
        match &self.description.error_log {
            Some(other) if other != path => {
                let reason = "there is one error log; see `log.error`";
                self.notes.left(&directive.place, &directive.line(), reason);
            }
            _ if path.starts_with('/') && path != "/dev/null" => {
                self.description.error_log = Some(path.to_owned());
            }
            // Standard error is where it goes by itself.
            _ if path == "stderr" => {}
            _ => {
                let reason = "only a file by its whole path is translated; see `log.error`";
                self.notes.left(&directive.place, &directive.line(), reason);
            }
        }
    }

    pub(super) fn access_log(&mut self, directive: &Directive, block: &mut Block) {
        let path = directive.arg(0);
        if path == "off" {
            return;
        }
        let is_file = path.starts_with('/') && !path.ends_with('/') && !path.contains('$');
        // Lines are written together in any case.
        let is_buffer = |it: &String| ["buffer=", "flush="].iter().any(|own| it.starts_with(own));
        let more: Vec<&String> =
            directive.args.iter().skip(1).filter(|it| !is_buffer(it)).collect();
        let format = match &more[..] {
            [] => Some(Ok(COMBINED.to_owned())),
            [name] if *name == COMBINED => Some(Ok(COMBINED.to_owned())),
            [name] if name.contains('=') => None,
            [name] => Some(match self.log_formats.get(*name) {
                Some(format) => log_format::nginx(format.args.get(1..).unwrap_or_default()),
                None => Err(format!("shape that is called {name}")),
            }),
            _ => None,
        };
        match (&block.access_log, format.filter(|_| is_file)) {
            (Some((other, _)), Some(_)) if other == path => {}
            (None, Some(format)) if !self.in_location => {
                let (format, reason) = log_format::or_combined(format);
                if let Some(reason) = reason {
                    self.notes.differs(&directive.place, &directive.line(), reason);
                }
                block.access_log = Some((path.to_owned(), format));
            }
            _ => {
                let reason = "a site has one access log of all its requests; see `log.access` and \
                    `access_log`";
                self.notes.left(&directive.place, &directive.line(), reason);
            }
        }
    }

    /// Whether requests of a location are logged, if that is not as around it.
    pub(super) fn logging_of(
        &mut self,
        place: &Place,
        found: &Match,
        locations: &Locations,
        block: &Block,
        outer: &Block,
        site: &mut Site,
    ) {
        if block.is_unlogged == outer.is_unlogged {
            return;
        }
        if !block.is_unlogged {
            let reason = "what is around it is not logged, and rules add up";
            self.notes.left(place, &format!("access_log in {}", describe(found)), reason);
            return;
        }
        if self.depth > 0 {
            let reason = "only that of locations of the site's own root is translated; see `log` \
                of [[site.rule]]";
            self.notes.left(place, "access_log off", reason);
            return;
        }
        let is_quiet = |directives: &[Directive]| {
            directives.iter().any(|it| it.name == "access_log" && it.arg(0) == "off")
        };
        if let Some(rival) = locations.rival(found, &is_quiet) {
            let reason = format!(
                "nginx asks {} for some of its paths, and logs them; see `log` of [[site.rule]]",
                describe(rival)
            );
            self.notes.left(place, "access_log off", reason);
            return;
        }
        if block.fastcgi.is_some() && !matches!(found, Match::Exact(_)) {
            let reason = "nginx does not log the paths that lead to its scripts either, as by the \
                front controller; here these are logged";
            self.notes.differs(place, "access_log off", reason);
        } else if let Some(last) = block.try_files.as_ref().and_then(|files| files.args.last())
            && !last.starts_with('=')
        {
            let reason = format!("what it hands to `{last}` is logged by nginx; here it is not");
            self.notes.differs(place, "access_log off", reason);
        }
        site.rules.push(unlogged(place, found.scope()));
    }
}

/// A rule that keeps requests out of the access log.
pub(super) fn unlogged(place: &Place, scope: Scope) -> Rule {
    Rule { is_unlogged: true, ..Rule::at(place, scope) }
}
