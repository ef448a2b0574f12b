//! Which rules a request meets, however its path is written.
//!
//! A page can have several paths: its own, those behind the name of a script, the one of a folder
//! whose index file it is, and those that a rewrite leads to it. Whatever restricts the page holds
//! for all of them, or a client would choose the path that nothing restricts.

use http::Uri;
use tokamak_config::Rule;

use super::condition::{fits, moves};
use super::{Rules, groups, is_there, path_of, target};
use crate::route::reading::{Reading, Readings};
use crate::route::{self, Router};

/// The paths that a request could be for.
pub struct RequestPaths {
    /// The one that the client asks for.
    pub(super) own: Vec<u8>,
    /// The others.
    others: Readings,
}

impl RequestPaths {
    /// Of a request for `uri`, before rewrites.
    pub fn new(uri: &Uri, router: &Router) -> RequestPaths {
        let own = path_of(uri, router);
        let others = router.readings(&own);
        RequestPaths { own, others }
    }

    /// Whether a rule that restricts clients is for the request.
    pub fn restricts(&self, rule: &Rule) -> bool {
        self.is_of_own(rule) || self.is_of_other(rule)
    }

    /// Whether a rule that describes a page is for the request: what the front controller serves
    /// for `/index.php/page` is the page. What other scripts do with it is not known.
    pub fn describes(&self, rule: &Rule) -> bool {
        let mut pages = self.others.iter().filter(|reading| reading.is_of_front_controller);
        self.is_of_own(rule) || pages.any(|reading| fits(rule, &reading.path))
    }

    /// Whether a rule is for the path that the client asks for.
    fn is_of_own(&self, rule: &Rule) -> bool {
        fits(rule, &self.own)
    }

    fn is_of_other(&self, rule: &Rule) -> bool {
        self.others.iter().any(|reading| fits(rule, &reading.path))
    }

    /// The least that the rules of these values allow: the last one for the path itself, and those
    /// that are for another path alone. `rest`: the value where no rule is for the path itself.
    pub fn least<'a>(
        &self,
        rules: impl DoubleEndedIterator<Item = (&'a Rule, u64)>,
        rest: u64,
    ) -> u64 {
        let (mut own, mut least) = (None, u64::MAX);
        for (rule, value) in rules.rev() {
            if self.is_of_own(rule) {
                own = own.or(Some(value));
            } else if self.is_of_other(rule) {
                least = least.min(value);
            }
        }
        own.unwrap_or(rest).min(least)
    }
}

impl Rules {
    /// The paths that a request for `uri` could be for, with the one that the first rewrite leads
    /// to, and those of rewrites before it that have conditions.
    pub fn request_paths(&self, uri: &Uri, router: &Router) -> RequestPaths {
        let mut paths = RequestPaths::new(uri, router);
        for path in self.rewritten(&paths.own, uri, router) {
            paths.others.extend(router.readings(&path));
            paths.others.push(Reading { path, is_of_front_controller: false });
        }
        paths
    }

    fn rewritten(&self, path: &[u8], uri: &Uri, router: &Router) -> Vec<Vec<u8>> {
        let rewrites = self.rules.iter().filter_map(|rule| Some((rule, rule.rewrite.as_ref()?)));
        let fitting = rewrites.filter(|(rule, _)| moves(rule, path));
        let text = String::from_utf8_lossy(path);
        let mut paths = Vec::new();
        for (rule, to) in fitting.filter(|(rule, _)| is_there(rule, path, router)) {
            let (path, _) = target::rewritten(to, &groups(rule, &text), uri.query());
            paths.extend(route::clean_decoded(path));
            if rule.conditions.is_none() {
                break;
            }
        }
        paths
    }
}
