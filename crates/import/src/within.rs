//! What of the paths of a rule lies below the path of a mounted site.

use std::collections::BTreeSet;

use crate::{derivative, pattern};

/// What of a rule's paths lies below a path.
#[derive(Debug, PartialEq)]
pub(crate) enum Within {
    /// All that is below it.
    Everywhere,
    /// What this path or expression says, as it is below it.
    At(String),
    /// Nothing.
    Nowhere,
    /// It is not known.
    Unknown,
}

impl Within {
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Within::At(text) => Some(text),
            _ => None,
        }
    }
}

/// Whether an expression says the same of a path below a mount.
pub(crate) fn holds_behind(own: &str, mount: &str) -> bool {
    expression_behind(own, mount) == Within::At(own.to_owned())
}

/// A path of a rule below the path of a mounted site.
pub(crate) fn path_behind(own: &str, mount: &str) -> Within {
    let plain = own.trim_end_matches('*').trim_end_matches('/');
    let is_around = match own.ends_with('*') {
        true => mount.starts_with(plain),
        false => mount.strip_prefix(plain).is_some_and(|it| it.is_empty() || it.starts_with('/')),
    };
    match own.strip_prefix(mount) {
        _ if is_around => Within::Everywhere,
        Some(rest) if rest.starts_with('/') => Within::At(rest.to_owned()),
        _ => Within::Nowhere,
    }
}

/// An expression below the path of a mounted site.
pub(crate) fn expression_behind(own: &str, mount: &str) -> Within {
    let plain = own.trim_start_matches("(?i)");
    let alternatives = pattern::alternatives(plain);
    let [only] = &alternatives[..] else { return derived(own, mount) };
    let Some(anchored) = only.strip_prefix('^') else { return derived(own, mount) };
    let is_literal = |c: &char| c.is_ascii_alphanumeric() || "/-_".contains(*c);
    let start: String = anchored.chars().take_while(is_literal).collect();
    if start.len() > mount.len() && start.starts_with(mount) {
        let flag = if own.starts_with("(?i)") { "(?i)" } else { "" };
        return Within::At(format!("{flag}^{}", &anchored[mount.len()..]));
    }
    if start.len() == anchored.len() && mount.starts_with(&start) {
        return Within::Everywhere;
    }
    derived(own, mount)
}

/// The same by what is left of an expression behind the path of the mount, if that is so for upper
/// and lower case alike: a refusal is for both.
fn derived(own: &str, mount: &str) -> Within {
    let loose = format!("(?i){}", own.trim_start_matches("(?i)"));
    let plain = |left: BTreeSet<String>| -> BTreeSet<String> {
        left.iter().map(|own| own.trim_start_matches("(?i)").to_owned()).collect()
    };
    let Some(left) = derivative::behind(own, mount) else { return Within::Unknown };
    if derivative::behind(&loose, mount).map(plain) != Some(plain(left.clone())) {
        return Within::Unknown;
    }
    let flag = if own.starts_with("(?i)") { "(?i)" } else { "" };
    let left = plain(left);
    match left.len() {
        0 => Within::Nowhere,
        _ if left.contains("") => Within::Everywhere,
        1 if left.contains(&derivative::within_paths(own.trim_start_matches("(?i)"))) => {
            Within::At(own.to_owned())
        }
        _ => Within::At(format!("{flag}{}", Vec::from_iter(left).join("|"))),
    }
}
