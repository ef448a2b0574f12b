//! For which paths a rule is.

use tokamak_config::{Rule, Serve};

use crate::route;

/// Whether a rule is for a path, which is clean. `text` is the same path, with replacement
/// characters where it is not UTF-8.
pub fn fits(rule: &Rule, path: &[u8], text: &str) -> bool {
    // A redirect that regards upper and lower case as the same would surprise; a refusal that did
    // not would be passed by on file systems that do.
    let ignores_case = rule.redirect.is_none() && rule.rewrite.is_none();
    (rule.paths.is_empty() || rule.paths.iter().any(|own| is_in(path, own, ignores_case)))
        && (rule.extensions.is_empty() || rule.extensions.iter().any(|end| has(rule, path, end)))
        && rule.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
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
/// Applications are scripts with any extension, so that no end of a path leads around a rule about
/// what may run. For all other rules only an extension of PHP is one of scripts.
fn has(rule: &Rule, path: &[u8], extension: &str) -> bool {
    let ends = |part: &[u8]| {
        let start = part.len().checked_sub(extension.len());
        start.is_some_and(|start| part[start..].eq_ignore_ascii_case(extension.as_bytes()))
    };
    let protects = rule.refuses()
        || rule.login.is_some()
        || rule.serve == Serve::Files
        || !rule.scripts.is_empty();
    ends(path)
        || ((protects || route::is_source(extension.as_bytes()))
            && path.split(|byte| *byte == b'/').any(ends))
}
