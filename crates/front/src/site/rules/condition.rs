//! For which paths a rule is.

use std::cell::LazyCell;

use tokamak_config::{Rule, Serve};

use crate::route;

/// Whether a rule is for a path, which is clean. Upper and lower case are the same: a refusal that
/// distinguished them would be passed by on file systems that do not.
pub fn fits(rule: &Rule, path: &[u8]) -> bool {
    is_for(rule, path, true)
}

/// Whether a rule redirects or rewrites a path, which is clean. It has to be in the spelling of the
/// rule: a redirect for another one would surprise.
pub fn moves(rule: &Rule, path: &[u8]) -> bool {
    (rule.redirect.is_some() || rule.rewrite.is_some()) && is_for(rule, path, false)
}

fn is_for(rule: &Rule, path: &[u8], ignores_case: bool) -> bool {
    // A pattern sees replacement characters where the path is not UTF-8.
    let text = LazyCell::new(|| String::from_utf8_lossy(path));
    (rule.paths.is_empty() || rule.paths.iter().any(|own| is_in(path, own, ignores_case)))
        && (rule.extensions.is_empty() || rule.extensions.iter().any(|end| has(rule, path, end)))
        && rule.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&text))
        && rule.and_patterns.iter().all(|pattern| pattern.holds(&text))
        && !rule.except.iter().any(|own| is_in(path, own, false))
}

/// Whether a path is the one of a rule or below it, or begins with it if there is a `*` at its end.
pub(super) fn is_in(path: &[u8], own: &str, ignores_case: bool) -> bool {
    let (own, is_start) = match own.strip_suffix('*') {
        Some(start) => (start, true),
        None => (own, false),
    };
    let Some((start, rest)) = path.split_at_checked(own.len()) else { return false };
    let is_same = match ignores_case {
        true => start.eq_ignore_ascii_case(own.as_bytes()),
        false => start == own.as_bytes(),
    };
    is_same && (is_start || rest.is_empty() || rest[0] == b'/')
}

/// Whether a path ends in an extension, or has it in front of what could be PATH_INFO.
///
/// Applications are scripts with any extension, so that no end of a path leads around a rule that
/// protects something. For all other rules only an extension of PHP is one of scripts.
fn has(rule: &Rule, path: &[u8], extension: &str) -> bool {
    let ends = |part: &[u8]| {
        let start = part.len().checked_sub(extension.len());
        start.is_some_and(|start| part[start..].eq_ignore_ascii_case(extension.as_bytes()))
    };
    let protects = protects(rule) || rule.serve == Serve::Files || !rule.scripts.is_empty();
    ends(path)
        || ((protects || route::is_source(extension.as_bytes()))
            && path.split(|byte| *byte == b'/').any(ends))
}

/// Whether a rule keeps somebody away, or limits what clients may do.
pub fn protects(rule: &Rule) -> bool {
    rule.refuses() || rule.login.is_some() || !rule.limits.is_empty() || rule.body.is_some()
}
