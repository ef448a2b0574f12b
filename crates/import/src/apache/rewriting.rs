//! What stands before a `RewriteRule`, and what its expression and its target are for whole paths.

use std::collections::{BTreeMap, BTreeSet};

use crate::condition::{Cases, Subject, Test};
use crate::directive::Directive;
use crate::model::Scope;
use crate::pattern;

use super::area::Area;
use super::flags::Flags;
use super::value;

/// What stands before a `RewriteRule`.
#[derive(Debug)]
pub(super) struct Rewriting {
    pub scope: Scope,
    /// In a folder, the path in front of what expressions see, and of relative targets.
    pub folder: Option<(String, String)>,
    pub conditions: Vec<Directive>,
    /// Requests for which no later rule is asked.
    pub stops: Vec<Cases>,
    /// Requests for which the next rule is asked, if the one before is chained to it.
    pub chain: Option<Cases>,
    /// Variables with the path of the folder, and whether a slash ends it.
    pub bases: BTreeMap<String, bool>,
    /// Variables with the path that expressions see.
    pub paths: BTreeSet<String>,
}

impl Rewriting {
    pub(super) fn new(area: &Area, base: Option<&str>) -> Rewriting {
        let with_slash = |path: &str| format!("{}/", path.trim_end_matches('/'));
        let folder = area
            .folder
            .as_ref()
            .map(|folder| (folder.clone(), base.map_or_else(|| folder.clone(), with_slash)));
        Rewriting {
            scope: area.scope.clone(),
            folder,
            conditions: Vec::new(),
            stops: Vec::new(),
            chain: None,
            bases: BTreeMap::new(),
            paths: BTreeSet::new(),
        }
    }

    pub(super) fn condition(&mut self, directive: &Directive) {
        self.conditions.push(directive.clone());
    }

    /// A condition with the path in place of a variable that has it.
    pub(super) fn with_paths(&self, condition: &Directive, prefix: &str) -> Directive {
        let what = condition.arg(0).strip_prefix("%{ENV:").and_then(|it| it.strip_suffix('}'));
        let is_path = what.is_some_and(|name| self.paths.contains(name));
        let mut own = condition.clone();
        if let (true, Some((folder, _))) = (is_path, &self.folder) {
            let start = format!("^{}", regex_lite::escape(&format!("{prefix}{folder}")));
            let expression = condition.arg(1);
            let plain = expression.strip_prefix('!').unwrap_or(expression);
            if let Some(whole) = value::with_start(plain, &start) {
                let not = if plain.len() < expression.len() { "!" } else { "" };
                own.args[0] = "%{REQUEST_URI}".to_owned();
                own.args[1] = format!("{not}{whole}");
            }
        }
        own
    }
}

/// Whether what a rule gives to a variable is all of the path that its expression sees.
pub(super) fn is_path(expression: &str, value: &str) -> bool {
    match value {
        "$0" => expression.ends_with('$') && is_any(expression),
        "$1" => matches!(expression, "^(.*)$" | "^(.+)$" | "(.*)" | "^(.*)" | "(.+)" | "^(.+)"),
        _ => false,
    }
}

/// A rule of a folder whose target names all that is found, as `$0`: the path without the folder's
/// own becomes a group.
pub(super) fn with_whole_group(directive: &Directive, rewriting: &Rewriting) -> Directive {
    let mut own = directive.clone();
    let (expression, to) = (directive.arg(0), directive.arg(1));
    let start = expression.strip_prefix('^').or(expression.starts_with(".*").then_some(expression));
    let is_one = pattern::alternatives(expression).len() == 1;
    if let (Some(found), true, true, Some(_)) =
        (start, is_one, to.contains("$0"), &rewriting.folder)
    {
        let (found, end) = found.strip_suffix('$').map_or((found, ""), |found| (found, "$"));
        own.args[0] = format!("^({found}){end}");
        let shifted = (0..9).rev().fold(to.to_owned(), |to, group| {
            to.replace(&format!("${group}"), &format!("${}", group + 1))
        });
        own.args[1] = shifted;
    }
    own
}

/// The expression of a rule, for whole paths.
pub(super) fn expression_of(
    directive: &Directive,
    flags: &Flags,
    rewriting: &Rewriting,
) -> Result<String, String> {
    let expression = directive.arg(0);
    // `!` is for all paths in which the rest is not found, which no rule can say.
    if expression.starts_with('!') {
        return Err("its expression is not translated".into());
    }
    // More than it is for.
    let wider = pattern::without_lookahead_at_once(expression);
    let expression = wider.as_ref().map_or(expression, |(wider, _)| wider);
    within_folder(&pattern::translate(expression, flags.ignores_case)?, rewriting)
}

/// An expression of a folder, which sees paths without the folder's own, as one for whole paths.
pub(super) fn within_folder(expression: &str, rewriting: &Rewriting) -> Result<String, String> {
    let Some((folder, _)) = &rewriting.folder else { return Ok(expression.to_owned()) };
    let start = format!("^{}", regex_lite::escape(folder));
    let whole = value::with_start(expression, &start);
    let whole = whole.ok_or("where its expression starts is not translated")?;
    // The path in a folder begins behind a slash, so that one is not found.
    let (flag, plain) = whole.strip_prefix("(?i)").map_or(("", &*whole), |own| ("(?i)", own));
    let parts = pattern::alternatives(plain).into_iter().map(|one| match one.starts_with('/') {
        true => format!("{start}.*{one}"),
        false => one.to_owned(),
    });
    Ok(format!("{flag}{}", parts.collect::<Vec<_>>().join("|")))
}

/// The paths that a rule is for, and the cases: with what must not be found in them.
pub(super) fn scope_of(
    directive: &Directive,
    flags: &Flags,
    cases: &Cases,
    rewriting: &Rewriting,
) -> Result<(Scope, Cases), String> {
    let mut scope = rewriting.scope.clone();
    let (expression, is_found) = match directive.arg(0).strip_prefix('!') {
        Some(expression) => (expression, false),
        None => (directive.arg(0), true),
    };
    let whole = |expression: &str| {
        within_folder(&pattern::translate(expression, flags.ignores_case)?, rewriting)
    };
    if let Some((own, others)) = pattern::without_lookahead_at_once(expression)
        && is_found
    {
        let others = Cases::of(Test::Found(Subject::Path, whole(&others)?, false));
        scope.and.extend(scope.pattern.take());
        scope.pattern = Some(whole(&own)?);
        return Ok((scope, cases.and(&others).ok_or("too many conditions")?));
    }
    let expression = whole(expression)?;
    if !is_found {
        let own = Cases::of(Test::Found(Subject::Path, expression, false));
        return Ok((scope, cases.and(&own).ok_or("too many conditions")?));
    }
    scope.and.extend(scope.pattern.take());
    scope.pattern = Some(expression);
    Ok((scope, cases.clone()))
}

/// Whether an expression is found in each path.
pub(super) fn is_any(expression: &str) -> bool {
    let all = ["^", ".", ".*", "^.*$", "^(.*)$", "(.*)", "^(.+)$", "^/(.*)$", "^/?(.*)$", "^.*"];
    let more = ["^(.*)", ".?", "^.?", "^.+$", "(.+)", "^(.+)", "^.+", ".+"];
    all.contains(&expression) || more.contains(&expression)
}

/// The target of a rule for the whole host, with `?` at its end if the query is dropped.
pub(super) fn target(
    expression: &str,
    to: &str,
    flags: &Flags,
    rewriting: &Rewriting,
    mount: Option<&str>,
) -> Result<String, String> {
    let mut to = to.to_owned();
    let mount = mount.unwrap_or_default();
    if let Some((folder, _)) = &rewriting.folder {
        for (name, ends_in_slash) in &rewriting.bases {
            let whole = format!("{mount}{folder}");
            let base = if *ends_in_slash { &*whole } else { whole.trim_end_matches('/') };
            to = to.replace(&format!("%{{ENV:{name}}}"), base);
        }
        // A base may end with the slash that stands behind it.
        if !to.contains("://") {
            to = to.replacen("//", "/", 1);
        }
    }
    let group = match is_path(expression, "$1") {
        true => Some("$1"),
        false => is_path(expression, "$0").then_some("$0"),
    };
    for (name, group) in rewriting.paths.iter().zip(group.iter().cycle()) {
        to = to.replace(&format!("%{{ENV:{name}}}"), group);
    }
    // A backslash says that a sign is one, as a dot always is.
    let mut to = to.replace("\\.", ".").replace("\\/", "/");
    let mut keeps_query = flags.keeps_query;
    if let Some(rest) = to.strip_suffix("&%{QUERY_STRING}").filter(|it| it.contains('?')) {
        to = rest.to_owned();
        keeps_query = true;
    }
    let to = match &rewriting.folder {
        _ if to.contains("://") || to.starts_with('/') => to,
        Some((folder, base)) if folder == base => format!("{mount}{base}{to}"),
        Some((_, base)) => format!("{base}{to}"),
        None => return Err("outside of a folder, a target begins with a slash".into()),
    };
    let has_query = to.contains('?');
    Ok(match (has_query, keeps_query) {
        _ if flags.drops_query && !to.ends_with('?') => format!("{to}?"),
        (true, false) if !to.ends_with('?') => format!("{to}?"),
        _ => to,
    })
}
