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
    /// What within these no route can say.
    pub unsaid: Vec<Directive>,
    /// Paths that services leave out.
    pub excepted: Vec<String>,
    /// Whether a `handle` serves files or scripts.
    pub in_parts: bool,
    /// Whether a `handle` serves the files that are there.
    pub files_first: bool,
    /// Whether what is read is for all that no `handle` has.
    pub is_rest: bool,
    /// What runs in some of these.
    pub scripts: Vec<(Matcher, Php)>,
}
