//! The locations of a block, in the order in which nginx prefers them.

use crate::directive::Directive;
use crate::pattern;

use super::locations::{Locations, sends_or_refuses};
use super::matcher::{Match, kind};
use super::reader::Reader;

impl Reader<'_> {
    /// Sorts locations. One with an expression that is not translated becomes a refusal of all.
    pub(super) fn locations(&mut self, directives: &[Directive]) -> Locations {
        let mut locations = Locations::default();
        for directive in directives {
            let block = directive.inner().to_vec();
            let (kind, text) = kind(&directive.args);
            let found = match kind {
                "@" => {
                    self.named.push((text.to_owned(), block));
                    continue;
                }
                "=" => Match::Exact(text.to_owned()),
                "^~" => Match::Prefix(text.to_owned(), true),
                "~" | "~*" => match self.expression(directive, text, kind == "~*") {
                    Ok(expression) => Match::Pattern(expression),
                    Err(problem) => {
                        let reason = format!("{problem}; the whole site is refused instead");
                        self.notes.refused(&directive.place, &directive.line(), reason);
                        let deny = Directive {
                            place: directive.place.clone(),
                            name: "deny".to_owned(),
                            args: vec!["all".to_owned()],
                            block: None,
                        };
                        let all = Match::Pattern("^/".to_owned());
                        locations.all.push((directive.place.clone(), all, vec![deny]));
                        continue;
                    }
                },
                _ => Match::Prefix(text.to_owned(), false),
            };
            if found == Match::Prefix("/".to_owned(), false) {
                let root = block.iter().find(|it| it.name == "root");
                locations.root = root.map(|root| root.arg(0).to_owned());
                let index = block.iter().find(|it| it.name == "index");
                locations.index = index.map(|index| index.args.clone());
            }
            locations.all.push((directive.place.clone(), found, block));
        }
        locations.all.sort_by_key(|(_, found, _)| found.rank());
        if let Some(well_known) = well_known(&locations) {
            locations.all[well_known].1 =
                Match::Pattern(pattern::translate("/\\.(?!well-known)", false).unwrap_or_default());
        }
        locations
    }

    /// The expression of a location, or one that is found in more paths, if no more is served then.
    fn expression(
        &mut self,
        location: &Directive,
        text: &str,
        ignores_case: bool,
    ) -> Result<String, String> {
        pattern::translate(text, ignores_case).or_else(|problem| {
            let wider = pattern::without_assertions(text)
                .filter(|_| location.inner().iter().all(sends_or_refuses))
                .and_then(|wider| pattern::translate(&wider, ignores_case).ok())
                .ok_or(problem)?;
            let reason = "what it looks at, ahead or behind, is left out, so it is for more paths, \
                and what it refuses is refused there, too";
            self.notes.refused(&location.place, &location.line(), reason);
            Ok(wider)
        })
    }
}

/// `location ~ /\. { deny all; }` beside one that nginx prefers for `/.well-known`.
fn well_known(locations: &Locations) -> Option<usize> {
    let is_hidden = |found: &Match| {
        let hidden = ["/\\.", "/\\..*", "/\\.(.*)", "(^|/)\\.", "(?:^|/)\\.", "(^\\.|/\\.)"];
        matches!(found, Match::Pattern(own) if hidden.contains(&&**own))
    };
    let at = locations.all.iter().position(|(_, found, _)| is_hidden(found))?;
    let is_open = |found: &Match| match found {
        Match::Exact(path) | Match::Prefix(path, true) => path.starts_with("/.well-known"),
        Match::Pattern(own) => ["/\\.well-known", "/.well-known"].iter().any(|it| own.contains(it)),
        Match::Prefix(_, false) => false,
    };
    locations.all[..at].iter().any(|(_, found, _)| is_open(found)).then_some(at)
}
