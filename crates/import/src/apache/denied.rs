//! Refusals by more than paths and addresses: by method (`<LimitExcept>`), by what a request
//! carries (`SetEnvIf` with `Deny from env=`), and by `<If>`.

use crate::condition::{Cases, Subject, Test, limited};
use crate::directive::Directive;
use crate::model::{Rule, Site};
use crate::pattern;

use super::access::{Access, OF_ACCESS, access};
use super::area::{Area, HIDDEN};
use super::login::Settings;
use super::rewrite::is_missing;
use super::{Reader, condition, expression};

/// Directives that give a variable by what a request carries.
const SETTERS: [&str; 4] = ["setenvif", "setenvifnocase", "browsermatch", "browsermatchnocase"];

impl Reader<'_> {
    /// Refuses what directives refuse by conditions that rules have, too; gives the directives that
    /// are left.
    pub(super) fn denied(
        &mut self,
        directives: &[Directive],
        area: &Area,
        site: &mut Site,
    ) -> Vec<Directive> {
        // Those of other folders, too: more is refused then, and never less.
        let setters = directives.iter().filter(|it| SETTERS.contains(&&*it.name));
        if area.scope.is_all() && area.folder.is_none() {
            self.of_server.extend(setters.clone().map(|it| it.place.clone()));
        }
        self.setters.extend(setters.cloned());
        let mut left = Vec::new();
        let by_methods = by_methods(directives);
        let directives = by_methods.as_ref().map_or(directives, |(_, rest)| rest);
        if let Some(((cases, place), _)) = by_methods.as_ref() {
            let rules = refusals(place, cases, area, false).unwrap_or_default();
            rules.into_iter().for_each(|rule| site.guard(rule));
        }
        for directive in directives {
            let found = match &*directive.name {
                "limit" | "limitexcept" => by_method(directive),
                "if" => by_expression(directive),
                "deny" => self.by_variable(directive, directives),
                "require" => self.by_missing_variable(directive, directives),
                "requireall" => self.by_required_variable(directive, directives),
                _ => None,
            };
            let rules = found.as_ref().and_then(|(cases, _)| {
                refusals(directive, cases, area, self.prefix(site).is_some())
            });
            match (found, rules) {
                (Some((_, rest)), Some(rules)) => {
                    rules.into_iter().for_each(|rule| site.guard(rule));
                    left.extend(rest);
                }
                _ => left.push(directive.clone()),
            }
        }
        left
    }

    /// `Deny from env=name`, with what else it denies.
    fn by_variable(
        &self,
        directive: &Directive,
        all: &[Directive],
    ) -> Option<(Cases, Option<Directive>)> {
        let has = |name: &str| all.iter().any(|it| it.name == name);
        let order = all.iter().rfind(|it| it.name == "order");
        // Otherwise what is allowed counts more.
        let denies = order.is_some_and(|it| it.arg(0).eq_ignore_ascii_case("allow,deny"));
        if has("satisfy") || !denies && has("allow") {
            return None;
        }
        let (variables, rest): (Vec<&String>, Vec<&String>) =
            directive.args.iter().partition(|it| it.starts_with("env="));
        let names = variables.iter().filter_map(|it| it.strip_prefix("env="));
        let cases = self.given(names, all).filter(|_| !variables.is_empty())?;
        let args: Vec<String> = rest.into_iter().cloned().collect();
        let rest = (args.len() > 1).then(|| Directive { args, ..directive.clone() });
        Some((cases, rest))
    }

    /// `Require not env name` within the only `<RequireAll>`.
    fn by_required_variable(
        &self,
        directive: &Directive,
        all: &[Directive],
    ) -> Option<(Cases, Option<Directive>)> {
        let is_variable = |it: &&Directive| it.arg(0) == "not" && it.arg(1) == "env";
        let (variables, rest): (Vec<&Directive>, Vec<&Directive>) =
            directive.inner().iter().partition(is_variable);
        let is_only = all.iter().filter(|it| it.name.starts_with("require")).count() == 1;
        // A section that only names whom it refuses lets no client in.
        let lets_in = rest.iter().any(|it| it.arg(0) != "not");
        if variables.is_empty() || !is_only || !lets_in {
            return None;
        }
        let names = variables.iter().flat_map(|it| it.args.iter().skip(2).map(String::as_str));
        let cases = self.given(names, all)?;
        let block = Some(rest.into_iter().cloned().collect());
        Some((cases, Some(Directive { block, ..directive.clone() })))
    }

    /// The only `Require`, of a variable.
    fn by_missing_variable(
        &self,
        directive: &Directive,
        all: &[Directive],
    ) -> Option<(Cases, Option<Directive>)> {
        let mut requires = all.iter().filter(|it| it.name.starts_with("require"));
        let is_only = requires.next().is_some() && requires.next().is_none();
        if !is_only || directive.arg(0) != "env" || all.iter().any(|it| it.name == "satisfy") {
            return None;
        }
        let names = directive.args.iter().skip(1).map(String::as_str);
        // Who is let in is not said by what other folders set.
        let is_known = |it: &Directive| {
            let is_own = all.iter().any(|own| own.place == it.place);
            is_own || self.of_server.contains(&it.place)
        };
        let own = |it: &&Directive| names.clone().any(|name| variables(it).any(|own| own == name));
        if !self.setters.iter().filter(own).all(is_known) {
            return None;
        }
        Some((self.given(names.clone(), all)?.not()?, None))
    }

    /// The requests that have one of some variables; nothing if that is not known.
    fn given<'b>(
        &self,
        mut names: impl Iterator<Item = &'b str>,
        all: &[Directive],
    ) -> Option<Cases> {
        names.try_fold(Cases::none(), |cases, name| {
            let is_rewritten = |it: &Directive| {
                let set = format!("={}", name.to_ascii_lowercase());
                it.name == "rewriterule" && it.arg(2).to_ascii_lowercase().contains(&set)
            };
            let mut own = self.setters.iter().filter(|it| variables(it).any(|it| it == name));
            let mut found = Cases::none();
            for setter in own.by_ref() {
                found = found.or(self.by_setter(setter)?);
            }
            let is_known = !found.0.is_empty()
                && !all.iter().any(is_rewritten)
                && !self.setters.iter().any(|it| it.args.contains(&format!("!{name}")));
            is_known.then(|| cases.or(found))
        })
    }

    /// The requests to which a directive gives its variables.
    fn by_setter(&self, setter: &Directive) -> Option<Cases> {
        let (attribute, text) = match setter.name.starts_with("browser") {
            true => ("User-Agent", setter.arg(0)),
            // It is an expression, too, if that is written so.
            false => (setter.arg(0).trim_start_matches('^').trim_end_matches('$'), setter.arg(1)),
        };
        let subject = match &*attribute.to_ascii_lowercase() {
            "request_uri" => Subject::Path,
            "request_method" => Subject::Method,
            // A variable that is set before.
            _ if self.setters.iter().any(|it| variables(it).any(|it| it == attribute)) => {
                return None;
            }
            _ => condition::header(attribute)?,
        };
        let expression = pattern::translate(text, setter.name.ends_with("nocase")).ok()?;
        Some(Cases::of(Test::Found(subject, expression, true)))
    }
}

/// The variables that a directive sets.
fn variables(setter: &Directive) -> impl Iterator<Item = &str> {
    let before = if setter.name.starts_with("browser") { 1 } else { 2 };
    let set = setter.args.iter().skip(before);
    set.map(|it| it.split_once('=').map_or(it.as_str(), |(name, _)| name))
}

/// `Require all` with and without `<Limit>` and `<LimitExcept>`, one of which is enough: the
/// requests that none lets in, with a section for them, and the directives that are left.
fn by_methods(directives: &[Directive]) -> Option<((Cases, Directive), Vec<Directive>)> {
    let is_limit = |it: &&Directive| matches!(&*it.name, "limit" | "limitexcept");
    let is_require = |it: &Directive| {
        let is_known = matches!(it.arg(1), "granted" | "denied") && it.args.len() == 2;
        it.name == "require" && it.arg(0) == "all" && is_known
    };
    let is_other = |it: &&Directive| {
        OF_ACCESS.contains(&&*it.name)
            && !is_limit(it)
            && !is_require(it)
            && !it.name.starts_with("auth")
    };
    let sections: Vec<&Directive> = directives.iter().filter(is_limit).collect();
    let is_known = |it: &&Directive| names_methods(it) && it.inner().iter().all(is_require);
    let first = sections.first().filter(|_| sections.iter().all(is_known))?;
    if directives.iter().any(|it| is_other(&it)) {
        return None;
    }
    let mut named: Vec<&str> = Vec::new();
    for method in sections.iter().flat_map(|it| methods(it)) {
        if !named.contains(&method) {
            named.push(method);
        }
    }
    let is_closed = |method: &str| {
        let holds = |it: &&&Directive| methods(it).any(|own| own == method) == (it.name == "limit");
        let own = sections.iter().filter(holds).flat_map(|it| it.inner());
        let said: Vec<&Directive> =
            directives.iter().filter(|it| is_require(it)).chain(own).collect();
        !said.is_empty() && said.iter().all(|it| it.arg(1) == "denied")
    };
    let closed: Vec<&str> = named.iter().filter(|it| is_closed(it)).copied().collect();
    let test = |names: &[&str], is_found| {
        Cases::of(Test::Found(Subject::Method, format!("^(?:{})$", names.join("|")), is_found))
    };
    let mut cases = Cases::none();
    if !closed.is_empty() {
        cases = cases.or(test(&closed, true));
    }
    // Another method, which no section names.
    if is_closed("") {
        cases = cases.or(test(&named, false));
    }
    let is_left = |it: &&Directive| !(is_limit(it) || is_require(it) && it.arg(1) == "denied");
    let rest = directives.iter().filter(is_left).cloned().collect();
    Some(((cases, (*first).clone()), rest))
}

/// Whether a section is for methods that are known.
fn names_methods(section: &Directive) -> bool {
    let is_name = |name: &String| name.bytes().all(|byte| byte.is_ascii_uppercase());
    !section.args.is_empty() && section.args.iter().all(is_name)
}

/// The methods that a section names. `GET` is both.
fn methods(section: &Directive) -> impl Iterator<Item = &str> {
    let head = section.args.iter().any(|name| name == "GET").then_some("HEAD");
    section.args.iter().map(String::as_str).chain(head)
}

/// `<Limit>` and `<LimitExcept>` that refuse all clients.
fn by_method(section: &Directive) -> Option<(Cases, Option<Directive>)> {
    if !names_methods(section) || !closes(section) {
        return None;
    }
    let names: Vec<&str> = methods(section).collect();
    let expression = format!("^(?:{})$", names.join("|"));
    let is_found = section.name == "limit";
    Some((Cases::of(Test::Found(Subject::Method, expression, is_found)), None))
}

/// `<If>` that refuses all clients.
fn by_expression(section: &Directive) -> Option<(Cases, Option<Directive>)> {
    let cases = expression::cases(&section.args.join(" "))?;
    closes(section).then_some((cases, None))
}

/// Whether a section refuses all clients, and has nothing else.
fn closes(section: &Directive) -> bool {
    let is_access = section.inner().iter().all(|it| OF_ACCESS.contains(&&*it.name));
    let access = access(section.inner(), &Settings::default());
    is_access && matches!(access, Access::Closed { but } if but.is_empty())
}

/// The rules that refuse cases; nothing if rules cannot say it.
fn refusals(
    directive: &Directive,
    cases: &Cases,
    area: &Area,
    is_mounted: bool,
) -> Option<Vec<Rule>> {
    let rule = Rule::at(&directive.place, area.scope.refusing()).refuse_all(403);
    // What is there is not refused.
    let missing = Rule::at(&directive.place, area.scope.clone()).rewrite(HIDDEN);
    let is_of_path = |test: &Test| matches!(test, Test::Found(Subject::Path, ..));
    // There the path begins behind the mount.
    let is_else = is_mounted && cases.0.iter().flatten().any(is_of_path);
    let one = |case| match is_missing(case) {
        true => limited(missing.clone(), case).ok(),
        false => limited(rule.clone(), case).ok(),
    };
    let rules = cases.0.iter().filter(|_| !is_else).map(one);
    rules.collect::<Option<Vec<_>>>().filter(|rules| !rules.is_empty())
}
