//! What the directives of a site say together.

use crate::directive::Directive;
use crate::model::Rule;

use super::fastcgi::Php;
use super::matcher::Matcher;

/// What a site serves.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub files: bool,
    pub php: Option<Php>,
    /// What a `handle` of its own answers.
    pub handled: Vec<Matcher>,
    /// What `respond`, `error` and `abort` refuse.
    pub refused: Vec<Rule>,
    /// `file_server` for some paths.
    pub some_files: Vec<Directive>,
    /// What runs in some of these.
    pub scripts: Vec<(Matcher, Php)>,
}
