//! `location` blocks as rules, and as sites that are mounted.
//!
//! nginx chooses one location: an exact one, else the longest prefix if it says `^~`, else the
//! first expression that fits, else the longest prefix. Rules add up instead. So whatever a
//! location refuses is refused for all of its paths, also where nginx would choose another one; the
//! notes say so where that can be seen.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::pattern;
use crate::source::Place;

use super::Reader;
use super::block::Block;
use super::exceptions::{except, except_final, except_sent};
use super::known;
use super::missing::refuses_missing;
use super::mount::mounted;
use super::php;
use super::regions::Region;
use super::server::{BEHIND, Plan, hidden_headers};
use super::steps::{End, closed, only};
use super::target;

/// Which paths a location is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Match {
    Exact(String),
    /// Whether it says `^~`: no expression is asked.
    Prefix(String, bool),
    Pattern(String),
}

impl Match {
    pub(super) fn scope(&self) -> Scope {
        match self {
            Match::Exact(path) => Scope::pattern(pattern::exact(path)),
            // `/` is all, and `/a` is `/ab`, too.
            Match::Prefix(path, _) if path == "/" => Scope::default(),
            Match::Prefix(path, _) => Scope::path(format!("{path}*")),
            Match::Pattern(expression) => Scope::pattern(expression.clone()),
        }
    }

    /// The paths that are refused if this is: for a script also those with more behind its name.
    pub(super) fn refused(&self) -> Scope {
        match self {
            Match::Exact(path) if path.len() > 1 && !path.ends_with('/') => Scope::path(path),
            other => closed(&other.scope()),
        }
    }

    /// The condition of all other paths, if there are any.
    pub(super) fn elsewhere(&self) -> Option<String> {
        match self {
            Match::Exact(path) => Some(format!("!{}", pattern::exact(path))),
            Match::Prefix(path, _) if path == "/" => None,
            Match::Prefix(path, _) => Some(format!("!^{}", regex_lite::escape(path))),
            Match::Pattern(expression) => Some(format!("!{expression}")),
        }
    }

    /// Whether it may be for a path that ends with a slash.
    fn has_folders(&self) -> bool {
        match self {
            Match::Exact(path) => path.ends_with('/'),
            Match::Prefix(..) => true,
            Match::Pattern(_) => self.scope().extensions().is_none(),
        }
    }

    /// Whether it is for files by their extensions.
    fn is_of_files(&self) -> bool {
        let own = matches!(self, Match::Pattern(_)).then(|| self.scope().extensions()).flatten();
        own.is_some_and(|own| !own.iter().any(|one| one.starts_with("ph")))
    }

    /// Whether it is for scripts, wherever they are.
    pub(super) fn runs_scripts(&self) -> bool {
        matches!(self, Match::Pattern(own) if pattern::is_in(own, "/a.php"))
    }

    /// The scripts that locations which nginx prefers to this one run, and whether these run with
    /// more behind their names, too: if this one is for all scripts, or for these by their names.
    fn scripts_before(&self, locations: &Locations) -> Vec<php::Scripts> {
        let Match::Pattern(_) = self else { return Vec::new() };
        let scope = self.scope();
        let is_for = |scripts: &php::Scripts| {
            let mut names = scripts.names.iter();
            self.runs_scripts() || names.any(|name| !name.ends_with('*') && scope.fits(name))
        };
        let finals = locations.final_prefixes();
        let before = locations.all.iter().take_while(|(_, found, _)| found != self);
        let scripts = before.filter_map(|(_, found, inner)| match found {
            Match::Prefix(path, true) if inner.iter().any(runs_all_scripts) => {
                let below = format!("{path}*");
                finals.contains(&below).then(|| php::Scripts::named(vec![below], true))
            }
            _ if inner.iter().all(|it| it.name != "fastcgi_pass") => None,
            Match::Exact(path) if path.ends_with(".php") => {
                Some(php::Scripts::named(vec![path.clone()], false))
            }
            Match::Pattern(own) => php::of_expression(own),
            _ => None,
        });
        let inner = locations.scripts_within_prefixes();
        scripts.chain(locations.within_main()).chain(inner).filter(is_for).collect()
    }

    /// What nginx prefers comes first: rules are asked in their order.
    pub(super) fn rank(&self) -> (u8, std::cmp::Reverse<usize>) {
        use std::cmp::Reverse;
        match self {
            Match::Exact(_) => (0, Reverse(0)),
            Match::Prefix(path, true) => (1, Reverse(path.len())),
            Match::Pattern(_) => (2, Reverse(0)),
            Match::Prefix(path, false) => (3, Reverse(path.len())),
        }
    }
}

/// The locations of a block.
#[derive(Debug, Default)]
pub(super) struct Locations {
    /// In the order in which nginx prefers them.
    pub all: Vec<(Place, Match, Vec<Directive>)>,
    /// The root that `location /` names, and its index files.
    pub root: Option<String>,
    pub index: Option<Vec<String>>,
}

impl Locations {
    /// The paths below which no expression is asked.
    fn final_prefixes(&self) -> Vec<String> {
        let prefixes = self.all.iter().filter_map(|(_, found, _)| match found {
            Match::Prefix(path, is_final) => Some((path, *is_final)),
            _ => None,
        });
        let asks = |path: &String| {
            prefixes.clone().any(|(other, is_final)| !is_final && other.starts_with(path.as_str()))
        };
        let finals = prefixes.clone().filter(|(path, is_final)| *is_final && !asks(path));
        finals.map(|(path, _)| format!("{path}*")).collect()
    }

    /// What begins with `/.well-known` among these, if this location is an expression: hidden names
    /// are refused by many, and these are for authorities of certificates.
    fn well_known(&self, found: &Match) -> Vec<String> {
        let finals = self.final_prefixes();
        let paths = finals.iter().map(|path| path.trim_end_matches('*').to_owned());
        let is_asked = matches!(found, Match::Pattern(_));
        paths.filter(|path| is_asked && path.starts_with("/.well-known")).collect()
    }

    /// The scripts of expressions within prefixes, which nginx asks before those beside all.
    fn scripts_within_prefixes(&self) -> impl Iterator<Item = php::Scripts> {
        let is_prefix = |found: &Match, start: &str| match found {
            Match::Prefix(path, _) => path.len() > start.len() && path.starts_with(start),
            _ => false,
        };
        self.all.iter().filter_map(move |(_, found, inner)| {
            let Match::Prefix(path, false) = found else { return None };
            let is_longest = !self.all.iter().any(|(_, other, _)| is_prefix(other, path));
            let runs = path != "/" && is_longest && inner.iter().any(runs_all_scripts);
            runs.then(|| php::Scripts::named(vec![format!("{path}*")], true))
        })
    }

    /// The scripts of locations within `location /`: exact ones, for which no expression is asked,
    /// and expressions, which nginx asks before those beside all.
    fn within_main(&self) -> impl Iterator<Item = php::Scripts> {
        let main = Match::Prefix("/".to_owned(), false);
        let main = self.all.iter().filter(move |(_, found, _)| *found == main);
        main.flat_map(|(_, _, inner)| inner).filter_map(|inner| match kind(&inner.args) {
            ("=", path) if inner.name == "location" && has_fastcgi(inner) => {
                Some(php::Scripts::named(vec![path.to_owned()], false))
            }
            (kind @ ("~" | "~*"), text) if inner.name == "location" && has_fastcgi(inner) => {
                let own = pattern::translate(text, kind == "~*").ok()?;
                php::of_expression(&own).filter(|scripts| !scripts.are_all())
            }
            _ => None,
        })
    }

    /// Paths of files that an exact location serves, which nginx prefers to an expression.
    fn open_paths(&self, found: &Match) -> Vec<String> {
        let is_quiet = |it: &Directive| {
            let name = &*it.name;
            matches!(name, "allow" | "access_log" | "log_not_found" | "expires" | "add_header")
                && (name != "allow" || it.arg(0) == "all")
        };
        let own = self.all.iter().filter_map(|(_, other, inner)| match other {
            Match::Exact(path) if inner.iter().all(is_quiet) => Some(path.clone()),
            _ => None,
        });
        let is_file = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.contains('.') && !name.starts_with('.') && !name.contains(".ph")
        };
        match found {
            Match::Pattern(_) => own.filter(is_file).collect(),
            _ => Vec::new(),
        }
    }

    /// The expressions by which locations that nginx prefers to another one send files, by their
    /// extensions.
    fn sent_before(&self, found: &Match) -> Vec<Scope> {
        let is_quiet = |it: &Directive| match &*it.name {
            "allow" => it.arg(0) == "all",
            "try_files" => it.args.last().is_some_and(|last| last.starts_with('=')),
            name => {
                matches!(name, "access_log" | "log_not_found" | "expires" | "add_header" | "etag")
                    || known::is_silent(it)
            }
        };
        if !matches!(found, Match::Pattern(_)) {
            return Vec::new();
        }
        let before = self.all.iter().take_while(|(_, other, _)| other != found);
        let before = before.filter(|(_, _, inner)| inner.iter().all(is_quiet));
        let scopes = before.filter(|(_, other, _)| matches!(other, Match::Pattern(_)));
        let is_of_files = |scope: &Scope| {
            let of_scripts = |one: &String| one.starts_with("ph");
            scope.extensions().is_some_and(|own| !own.iter().any(of_scripts))
        };
        scopes.map(|(_, other, _)| other.scope()).filter(is_of_files).collect()
    }

    /// The paths that a location takes: those that it is for, without those that nginx gives to one
    /// that it prefers.
    pub(super) fn region(&self, found: &Match) -> Scope {
        let mut scope = found.scope();
        scope.and.extend(self.preferred(found).filter_map(|(_, other, _)| other.elsewhere()));
        if matches!(found, Match::Pattern(_)) {
            scope.and.extend(self.inner_first());
        }
        scope
    }

    /// The conditions of all paths but those of expressions within prefixes, which nginx asks
    /// before those beside all.
    fn inner_first(&self) -> impl Iterator<Item = String> {
        let prefixes = self.all.iter().filter_map(|(_, found, inner)| match found {
            Match::Prefix(path, false) if path != "/" => Some((path, inner)),
            _ => None,
        });
        prefixes.flat_map(|(path, inner)| {
            let expressions = inner.iter().filter(|it| it.name == "location");
            let expressions = expressions.filter_map(|it| match kind(&it.args) {
                (kind @ ("~" | "~*"), text) => pattern::translate(text, kind == "~*").ok(),
                _ => None,
            });
            expressions.map(move |own| match own.contains('^') {
                true => format!("!{own}"),
                false => format!("!^{}.*(?:{own})", regex_lite::escape(path)),
            })
        })
    }

    /// The locations to which nginx gives some of the paths that another one is for.
    pub(super) fn preferred<'a>(
        &'a self,
        found: &'a Match,
    ) -> impl Iterator<Item = &'a (Place, Match, Vec<Directive>)> {
        let finals = self.final_prefixes();
        let is_final = move |path: &str| finals.contains(&format!("{path}*"));
        let own = self.all.iter().position(|(_, other, _)| other == found);
        let scope = found.scope();
        self.all.iter().enumerate().filter_map(move |(at, location)| {
            let other = &location.1;
            let is_before = own.is_some_and(|own| at < own);
            let takes = match (found, other) {
                (Match::Exact(_), _) => false,
                (Match::Prefix(path, _), Match::Exact(other)) => other.starts_with(path),
                (Match::Prefix(path, _), Match::Prefix(other, _)) => {
                    other.len() > path.len() && other.starts_with(path)
                }
                (Match::Prefix(_, is_final), Match::Pattern(_)) => !is_final,
                (Match::Pattern(own), Match::Exact(other)) => pattern::is_in(own, other),
                (Match::Pattern(_), Match::Prefix(other, _)) => is_final(other),
                (Match::Pattern(_), Match::Pattern(_)) => is_before,
            };
            (takes && scope.may_meet(&other.scope())).then_some(location)
        })
    }
}

impl Reader<'_> {
    #[expect(clippy::too_many_arguments, reason = "what is around a location")]
    pub(super) fn location(
        &mut self,
        place: &Place,
        found: &Match,
        directives: &[Directive],
        outer: &Block,
        locations: &Locations,
        is_before_php: bool,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let mut block = outer.inherited();
        self.in_location = true;
        self.read(directives, &mut block);
        self.in_location = false;
        block.settle_missing();
        self.stays_missing(&block);
        let is_main = *found == Match::Prefix("/".to_owned(), false);
        let scope = found.scope();
        let region = within(locations.region(found), &block.locations);
        if is_main {
            plan.rest = Some(region.clone());
        }
        let name = describe(found);
        let mut refuse = |reader: &mut Self, place: &Place, line: &str, reason: &str| {
            let reason = format!("{reason}; {name} is refused instead");
            reader.notes.refused(place, line, reason);
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
        };
        if !block.closed.is_empty() {
            for (directive, reason) in &block.closed {
                refuse(self, &directive.place, &directive.line(), reason);
            }
            return;
        }
        let is_other_root = block.root.as_deref() != site.root.as_deref();
        if let (Some(folder), Match::Prefix(path, _)) =
            (mounted(&block, found, is_other_root), found)
        {
            if block.is_internal && !block.admits_as(outer) {
                let reason = "applications name its files, and who gets them is not asked then";
                refuse(self, place, "internal", reason);
                return;
            }
            if block.is_internal {
                site.internal.insert(path.trim_end_matches('/').to_owned(), folder);
                site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
                return;
            }
            self.mount(place, (path, folder), &block, outer, locations.preferred(found), site);
            return;
        }
        if block.alias.is_some() || (is_other_root && !block.is_internal) {
            refuse(
                self,
                place,
                "root, alias",
                "only a folder can lie elsewhere; \
                    write a `[[site]]` with its `path` and its `root`",
            );
            return;
        }
        let mut refusals = self.access(place, &found.refused(), &block, outer);
        let runs_elsewhere = found.scripts_before(locations);
        let open = locations.open_paths(found);
        except(&mut refusals, 0, &runs_elsewhere, &open);
        let sent = locations.sent_before(found);
        except_sent(&mut refusals, 0, &sent);
        let finals = locations.well_known(found);
        except_final(&mut refusals, &finals);
        self.precedence(place, found, &refusals, locations, &name);
        let is_refused = refusals
            .iter()
            .any(|rule| *rule == Rule::at(&rule.place, rule.scope.clone()).refuse_all(403));
        site.rules.extend(refusals);
        if is_refused {
            return;
        }
        if block.fastcgi.is_some() {
            // A script that does not exist is 404 anyway.
            let is_of_missing = |step: &mut Directive| refuses_missing(step).is_some();
            for step in block.steps.extract_if(.., is_of_missing) {
                let name = refuses_missing(&step).unwrap_or_default();
                plan.asks_for(place, &region, &name, block.split.as_deref());
            }
        }
        let before = site.rules.len();
        let end = self.steps(&block.steps, &region, false, site);
        except(&mut site.rules, before, &runs_elsewhere, &open);
        except_sent(&mut site.rules, before, &sent);
        except_final(&mut site.rules[before..], &finals);
        if end == End::Answered {
            // Not what the locations within it take.
            self.nested(found, &block, site, plan);
            return;
        }
        if block.is_internal && block.fastcgi.is_none() {
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        }
        let limits = self.limits(Some((found, locations)), &scope, &block, outer);
        site.rules.extend(limits);
        self.logging_of(place, (found, locations), &block, outer, site);
        // What nginx hands to no other location: it sends scripts there, and runs none.
        let runs_nothing = match found {
            Match::Prefix(_, is_final) => *is_final,
            Match::Pattern(_) => is_before_php,
            // The index file of a folder is asked for by its own path.
            Match::Exact(path) => !path.ends_with('/'),
        };
        let has_inner = block.locations.iter().any(has_fastcgi);
        if block.fastcgi.is_some() {
            self.script_location(place, (found, &region), &block, site, plan);
        } else if let Some(directive) = block.try_files.as_ref().or(block.missing.as_ref()) {
            if runs_nothing && !has_inner {
                site.rules.push(only(place, &region, Serve::Files));
            }
            let mut directive = directive.clone();
            if !matches!(found, Match::Pattern(_)) && !self.captures && block.steps.is_empty() {
                for own in &mut directive.args {
                    *own = target::without_groups(own);
                }
            }
            self.try_files(&directive, (found, &region), locations, site, plan);
        } else if !is_main && !matches!(found, Match::Exact(path) if path.ends_with('/')) {
            let is_closed = runs_nothing && !has_inner;
            let serve = if is_closed { Serve::Files } else { Serve::Existing };
            site.rules.push(only(place, &region, serve));
        }
        if !runs_nothing && block.sends_files() && found.is_of_files() {
            // What goes on behind the name of a script is no file.
            let mut behind = region.clone();
            behind.and.push(BEHIND.to_owned());
            plan.files.push((place.clone(), behind));
        }
        plan.regions.push(Region::of(place, found, &block));
        for (status, (place, page)) in &block.error_pages {
            if outer.error_pages.get(status).is_none_or(|(_, own)| own != page) {
                let line = format!("error_page {status} {page}");
                self.notes.left(place, &line, "error pages are those of a whole site");
            }
        }
        if let Some(charset) = block.charset.as_ref().filter(|_| block.charset != outer.charset) {
            self.notes.left(
                place,
                &format!("charset {charset}"),
                "one charset is for a whole site",
            );
        }
        if !is_main && found.has_folders() && block.serves_folders() {
            self.index_of(place, &region, &block, &name, site);
        }
        self.types(place, directives, &scope, &block, site);
        let before = plan.php.len();
        self.nested(found, &block, site, plan);
        // After those within it, which nginx prefers.
        plan.listings.push((place.clone(), scope.clone(), block.index_listing));
        // Others than those of its own locations do not run there either.
        let own = &plan.php[before..];
        if runs_nothing && !own.is_empty() && own.iter().all(|own| !own.are_all()) {
            let mut rule = Rule::at(place, scope);
            rule.scripts = own.iter().flat_map(|own| own.names.clone()).collect();
            site.rules.push(rule);
        }
        let has_no_path_info = own.iter().all(|own| !own.has_path_info);
        if matches!(found, Match::Prefix(_, true)) && !own.is_empty() && has_no_path_info {
            // Other locations hand nothing on there, either.
            let behind = Scope { pattern: Some(BEHIND.to_owned()), ..found.scope() };
            site.rules.push(Rule::at(place, behind).refuse_all(404));
        }
        self.body_of(&found.scope(), &block, outer, site);
    }

    /// Index files are those of a whole site: folders with others are refused.
    fn index_of(
        &mut self,
        place: &Place,
        region: &Scope,
        block: &Block,
        name: &str,
        site: &mut Site,
    ) {
        let own = block.index.clone().unwrap_or_else(default_index);
        if site.index.as_ref().is_none_or(|index| index.is_empty() || *index == own) {
            return;
        }
        // Those that come first are the same.
        if let Some(more) = site.index.as_ref().and_then(|index| own.strip_prefix(&index[..])) {
            let reason = format!(
                "an index file {} is not looked for there, as it is not one of the whole site",
                more.join(" or ")
            );
            self.notes.left(place, name, reason);
            return;
        }
        let reason = format!(
            "`index {}` is not that of the whole site, so folders there are refused; ask for their \
                files by name, or give all of the site the same index files",
            own.join(" ")
        );
        self.notes.refused(place, name, reason);
        let mut folders = region.clone();
        folders.and.push("/$".to_owned());
        site.rules.push(Rule::at(place, folders).refuse_all(404));
    }

    /// Files without types of their own, as those of visitors may be: so no browser runs them.
    fn types(
        &mut self,
        place: &Place,
        directives: &[Directive],
        scope: &Scope,
        block: &Block,
        site: &mut Site,
    ) {
        let Some(own) = directives.iter().find(|it| it.name == "types") else { return };
        if !block.has_no_types {
            let reason = "types of files are not translated; see `set_headers`";
            self.notes.left(&own.place, "types", reason);
            return;
        }
        let mut rule = Rule::at(place, scope.clone());
        let value = block.default_type.clone().unwrap_or_else(|| "text/plain".to_owned());
        rule.headers.set.insert("Content-Type".to_owned(), value);
        site.rules.push(rule);
    }

    /// Says where nginx would have chosen another location than one that refuses.
    fn precedence(
        &mut self,
        place: &Place,
        found: &Match,
        refusals: &[Rule],
        locations: &Locations,
        name: &str,
    ) {
        let Match::Prefix(path, is_final) = found else { return };
        if refusals.is_empty() {
            return;
        }
        let is_script = |it: &Match| matches!(it, Match::Pattern(own) if pattern::is_in(own, &format!("{path}/a.php")));
        let asks = refusals.iter().all(|rule| rule.asks().is_some());
        let guarded = if asks { "behind a password" } else { "refused" };
        if !is_final && locations.all.iter().any(|(_, other, _)| is_script(other)) {
            let reason = format!(
                "nginx asks the location with the expression for scripts there, and runs them; \
                    here they are {guarded}, too"
            );
            self.notes.differs(place, name, reason);
        }
        for (inner, other, _) in &locations.all {
            if let Match::Prefix(other, _) | Match::Exact(other) = other
                && other.len() > path.len()
                && other.starts_with(path.as_str())
            {
                let reason = format!("it is below {name}, which is {guarded} with all below it");
                self.notes.differs(inner, other, reason);
            }
        }
    }

    fn script_location(
        &mut self,
        place: &Place,
        (found, region): (&Match, &Scope),
        block: &Block,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let named = block.params.get("SCRIPT_FILENAME").map(|(_, file)| file.as_str());
        let only = named.and_then(|file| php::named_script(file, site));
        if let Some(script) = only.filter(|script| *found != Match::Exact(script.clone())) {
            self.one_script(place, region, script, block, site, plan);
            return;
        }
        let scripts = match found {
            Match::Exact(path) if path.ends_with(".php") => {
                Some(php::Scripts::named(vec![path.clone()], false))
            }
            Match::Prefix(path, _) if path.ends_with(".php") => {
                // php-fpm refuses names that only begin so.
                let longer = Scope::pattern(format!("^{}[^/]", regex_lite::escape(path)));
                site.rules.push(Rule::at(place, longer).refuse_all(403));
                Some(php::Scripts::named(vec![path.clone()], true))
            }
            // A list of expressions is that of a whole site.
            Match::Pattern(expression) => php::of_expression(expression)
                .filter(|scripts| scripts.expression.is_none() || self.depth == 0),
            _ => None,
        };
        let Some(scripts) = scripts else {
            let reason = "which scripts run there cannot be said by a rule, so these paths are \
                refused; see `scripts`";
            self.notes.refused(place, &describe(found), reason);
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        };
        if !self.params(place, block, site) {
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        }
        if let Match::Pattern(expression) = found {
            self.others(place, found, expression, site);
        }
        if block.is_internal {
            plan.internal.push((place.clone(), found.refused()));
        }
        if let Some(directive) = &block.try_files {
            self.missing_script(directive, region, block, site, plan);
        } else if let Some(page) = block.missing.as_ref().filter(|_| block.intercepts) {
            // php-fpm may run another script then, or refuse it.
            let reason = "scripts that do not exist are 404, also where their answers are \
                intercepted; write `try_files` into their location";
            self.notes.left(
                place,
                &format!("error_page 404 = {}", page.args.last().map_or("", String::as_str)),
                reason,
            );
        }
        if let Some(rule) = hidden_headers(place, block, &Block::default()) {
            site.rules.push(rule);
        }
        if scripts.expression.is_some() {
            plan.fallback.push(super::steps::only(place, region, Serve::Existing));
        }
        let path_info = block.params.get("PATH_INFO").map(|(_, value)| self.path_info_of(value));
        plan.path_infos.extend(path_info.unwrap_or_default());
        plan.intercepts.push((place.clone(), block.intercepts));
        plan.php.push(scripts);
    }
}

/// The index files without a line that names any.
pub(super) fn default_index() -> Vec<String> {
    vec!["index.html".to_owned()]
}

/// A region without the paths that the locations within it take.
fn within(mut region: Scope, inner: &[Directive]) -> Scope {
    for directive in inner {
        let (kind, text) = kind(&directive.args);
        let found = match kind {
            "~" | "~*" => pattern::translate(text, kind == "~*").ok().map(Match::Pattern),
            "=" => Some(Match::Exact(text.to_owned())),
            _ => Some(Match::Prefix(text.to_owned(), false)),
        };
        region.and.extend(found.and_then(|found| found.elsewhere()));
    }
    region
}

pub(super) fn is_script(target: &str) -> bool {
    let (path, _) = target::without_query(target);
    path.starts_with('/') && path.ends_with(".php") && !path.contains('$')
}

pub(super) fn has_fastcgi(directive: &Directive) -> bool {
    let block = directive.block.iter().flatten();
    block.clone().any(|inner| inner.name == "fastcgi_pass")
}

/// Whether it is a location that runs all scripts.
fn runs_all_scripts(directive: &Directive) -> bool {
    let is_expression =
        directive.name == "location" && matches!(kind(&directive.args).0, "~" | "~*");
    is_expression
        && has_fastcgi(directive)
        && php::of_expression(kind(&directive.args).1).is_some_and(|it| it.are_all())
}

/// A location as in the file.
pub(super) fn describe(found: &Match) -> String {
    match found {
        Match::Exact(path) => format!("location = {path}"),
        Match::Prefix(path, true) => format!("location ^~ {path}"),
        Match::Prefix(path, false) => format!("location {path}"),
        Match::Pattern(expression) => format!("location ~ {expression}"),
    }
}

/// How a location is compared, and with what; nginx also takes both as one word.
pub(super) fn kind(args: &[String]) -> (&str, &str) {
    let first = args.first().map_or("", String::as_str);
    if let [kind, text, ..] = args {
        return (kind, text);
    }
    for kind in ["^~", "~*", "=", "~", "@"] {
        if let Some(text) = first.strip_prefix(kind) {
            return (kind, text);
        }
    }
    ("", first)
}
