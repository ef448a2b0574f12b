//! `location` blocks as rules, and as sites that are mounted.
//!
//! nginx chooses one location: an exact one, else the longest prefix if it says `^~`, else the
//! first expression that fits, else the longest prefix. Rules add up instead. So whatever a
//! location refuses is refused for all of its paths, also where nginx would choose another one; the
//! notes say so where that can be seen.

use crate::combine::{Within, expression_behind};
use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::pattern;
use crate::source::Place;

use super::Reader;
use super::block::Block;
use super::php;
use super::regions::{self, Region};
use super::server::{Plan, hidden_headers};
use super::sizes;
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
    fn refused(&self) -> Scope {
        match self {
            Match::Exact(path) if path.len() > 1 && !path.ends_with('/') => Scope::path(path),
            other => closed(&other.scope()),
        }
    }

    /// Whether it is for scripts, wherever they are.
    pub(super) fn runs_scripts(&self) -> bool {
        matches!(self, Match::Pattern(own) if pattern::is_in(own, "/a.php"))
    }

    /// The scripts that locations which nginx prefers to this one run, if this one is for scripts,
    /// and whether these run with more behind their names, too.
    fn scripts_before(&self, locations: &Locations) -> Vec<(String, bool)> {
        if !self.runs_scripts() {
            return Vec::new();
        }
        let finals = locations.final_prefixes();
        let before = locations.all.iter().take_while(|(_, found, _)| found != self);
        let named = |scripts: php::Scripts| -> Vec<(String, bool)> {
            scripts.names.into_iter().map(|name| (name, scripts.has_path_info)).collect()
        };
        let scripts = before.map(|(_, found, inner)| match found {
            Match::Prefix(path, true) if inner.iter().any(runs_all_scripts) => {
                let below = format!("{path}*");
                if finals.contains(&below) { vec![(below, true)] } else { Vec::new() }
            }
            _ if inner.iter().all(|it| it.name != "fastcgi_pass") => Vec::new(),
            Match::Exact(path) if path.ends_with(".php") => vec![(path.clone(), false)],
            Match::Pattern(own) => php::of_expression(own).map(named).unwrap_or_default(),
            _ => Vec::new(),
        });
        scripts.flatten().collect()
    }

    /// What nginx prefers comes first: rules are asked in their order.
    fn rank(&self) -> (u8, std::cmp::Reverse<usize>) {
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
    /// Those with a name, `@name`.
    pub named: Vec<(String, Vec<Directive>)>,
    /// The root that `location /` names.
    pub root: Option<String>,
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
}

impl Reader<'_> {
    /// Sorts locations. One with an expression that is not translated becomes a refusal of all.
    pub(super) fn locations(&mut self, place: &Place, directives: &[Directive]) -> Locations {
        let mut locations = Locations::default();
        for directive in directives {
            let block = directive.inner().to_vec();
            let (kind, text) = kind(&directive.args);
            let found = match kind {
                "@" => {
                    locations.named.push((text.to_owned(), block));
                    continue;
                }
                "=" => Match::Exact(text.to_owned()),
                "^~" => Match::Prefix(text.to_owned(), true),
                "~" | "~*" => match pattern::translate(text, kind == "~*") {
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
            }
            locations.all.push((directive.place.clone(), found, block));
        }
        locations.all.sort_by_key(|(_, found, _)| found.rank());
        if let Some(well_known) = self.well_known(place, &locations) {
            locations.all[well_known].1 =
                Match::Pattern(pattern::translate("/\\.(?!well-known)", false).unwrap_or_default());
        }
        locations
    }

    /// `location ~ /\. { deny all; }` beside one that nginx prefers for `/.well-known`.
    fn well_known(&mut self, _place: &Place, locations: &Locations) -> Option<usize> {
        let is_hidden = |found: &Match| {
            let hidden = ["/\\.", "/\\..*", "/\\.(.*)", "(^|/)\\.", "(?:^|/)\\."];
            matches!(found, Match::Pattern(own) if hidden.contains(&&**own))
        };
        let at = locations.all.iter().position(|(_, found, _)| is_hidden(found))?;
        let is_open = |found: &Match| match found {
            Match::Exact(path) | Match::Prefix(path, true) => path.starts_with("/.well-known"),
            Match::Pattern(own) => own.contains("/\\.well-known"),
            Match::Prefix(_, false) => false,
        };
        locations.all[..at].iter().any(|(_, found, _)| is_open(found)).then_some(at)
    }

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
        let is_main = *found == Match::Prefix("/".to_owned(), false);
        let scope = found.scope();
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
            self.mount(place, path, folder, &block, outer, site);
            return;
        }
        if block.alias.is_some() || (is_other_root && !block.is_internal) {
            refuse(self, place, "root, alias", "only a folder can lie elsewhere");
            return;
        }
        let mut refusals = self.access(place, &found.refused(), &block, outer);
        let runs_elsewhere = found.scripts_before(locations);
        except(&mut refusals, 0, &runs_elsewhere);
        self.precedence(place, found, &refusals, locations, &name);
        let is_refused = refusals
            .iter()
            .any(|rule| *rule == Rule::at(&rule.place, rule.scope.clone()).refuse_all(403));
        site.rules.extend(refusals);
        if is_refused {
            return;
        }
        let before = site.rules.len();
        let end = self.steps(&block.steps, &scope, false, site);
        except(&mut site.rules, before, &runs_elsewhere);
        if end == End::Answered {
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
            self.script_location(place, found, &block, site, plan);
        } else if let Some(directive) = &block.try_files {
            if runs_nothing && !has_inner {
                site.rules.push(only(place, &scope, Serve::Files));
            }
            self.try_files(directive, found, locations, site, plan);
            plan.has_fallback |= is_main;
        } else if !is_main && !matches!(found, Match::Exact(path) if path.ends_with('/')) {
            let is_closed = runs_nothing && !has_inner;
            let serve = if is_closed { Serve::Files } else { Serve::Existing };
            site.rules.push(only(place, &scope, serve));
        }
        if matches!(found, Match::Pattern(_)) {
            // nginx asks no expression below such a prefix, so its front controller answers there.
            let own = site.rules[before..].iter_mut().filter(|it| it.serve == Serve::Existing);
            own.for_each(|rule| rule.except.extend(locations.final_prefixes()));
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
        self.types(place, directives, &scope, &block, site);
        let before = plan.php.len();
        self.nested(place, found, &block, site, plan);
        // After those within it, which nginx prefers.
        plan.listings.push((place.clone(), scope.clone(), block.index_listing));
        // Others than those of its own locations do not run there either.
        let own = &plan.php[before..];
        if runs_nothing && !own.is_empty() && own.iter().all(|own| !own.names.is_empty()) {
            let mut rule = Rule::at(place, scope);
            rule.scripts = own.iter().flat_map(|own| own.names.clone()).collect();
            site.rules.push(rule);
        }
        self.body_of(&found.scope(), &block, outer, site);
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

    /// A location whose folder is not below the root: a site that is mounted.
    fn mount(
        &mut self,
        place: &Place,
        path: &str,
        folder: String,
        block: &Block,
        outer: &Block,
        site: &mut Site,
    ) {
        let path = path.trim_end_matches('/');
        let mut mount = Site::new(place.clone());
        mount.path = Some(path.to_owned());
        mount.root = Some(folder);
        mount.index = block.index.clone().or_else(|| site.index.clone());
        mount.index_listing = block.index_listing;
        mount.charset = block.charset.clone();
        mount.body = Some(block.body.as_ref().map_or(sizes::BODY, |body| body.most));
        if block.is_unlogged && !outer.is_unlogged {
            mount.rules.push(sizes::unlogged(place, Scope::default()));
        }
        let refusals = self.access(place, &Scope::default(), block, outer);
        mount.rules.extend(refusals);
        self.depth += 1;
        let around = Match::Prefix("/".to_owned(), false);
        let none = Locations::default();
        let limits = self.limits(Some((&around, &none)), &Scope::default(), block, outer);
        mount.rules.extend(limits);
        mount.owns_headers = block.headers != outer.headers || block.expires != outer.expires;
        if !block.steps.is_empty() || block.fastcgi.is_some() {
            let step = block.steps.first().or(block.fastcgi.as_ref()).map(Directive::line);
            let reason = "not translated in a folder that lies elsewhere; all of it is refused";
            self.notes.refused(place, &step.unwrap_or_default(), reason);
            mount.refuse(place);
        }
        let mut inner = self.locations(place, &block.locations);
        inner.all.retain_mut(|(place, found, _)| {
            let within = match &*found {
                Match::Exact(own) => behind(own, path).map(Match::Exact),
                Match::Prefix(own, is_final) => {
                    behind(own, path).map(|own| Match::Prefix(own, *is_final))
                }
                Match::Pattern(own) => match expression_behind(own, path) {
                    Within::At(own) => Some(Match::Pattern(own)),
                    _ => None,
                },
            };
            if within.is_none() {
                let reason = "not translated in a folder that lies elsewhere; all of it is refused";
                self.notes.refused(place, &describe(found), reason);
                mount.refuse(place);
            }
            within.map(|within| *found = within).is_some()
        });
        let mut plan = Plan::default();
        let around = Block { root: mount.root.clone(), alias: None, ..block.clone() };
        if let Some(directive) = &block.try_files {
            let found = Match::Prefix("/".to_owned(), false);
            let mut directive = directive.clone();
            if let Some(last) = directive.args.last_mut() {
                *last = last.strip_prefix(path).unwrap_or(last).to_owned();
            }
            self.try_files(&directive, &found, &inner, &mut mount, &mut plan);
            plan.has_fallback = true;
        }
        let mut is_before_php = true;
        for (place, found, directives) in &inner.all {
            // `root` of an inner location names the folder above the mount.
            let own = |it: &&Directive| !matches!(&*it.name, "root" | "alias");
            let directives: Vec<Directive> = directives.iter().filter(own).cloned().collect();
            self.location(
                place,
                found,
                &directives,
                &around,
                &inner,
                is_before_php,
                &mut mount,
                &mut plan,
            );
            is_before_php &= !directives.iter().any(|it| it.name == "fastcgi_pass");
        }
        self.depth -= 1;
        regions::settle(place, &plan.regions, block, &mut mount);
        self.conclude(place, &Block::default(), plan, &mut mount);
        site.mounts.push(mount);
    }

    fn script_location(
        &mut self,
        place: &Place,
        found: &Match,
        block: &Block,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let scripts = match found {
            Match::Exact(path) if path.ends_with(".php") => {
                let names = vec![path.clone()];
                Some(php::Scripts { names, has_path_info: false })
            }
            Match::Pattern(expression) => php::of_expression(expression),
            _ => None,
        };
        let Some(scripts) = scripts else {
            let reason = "which scripts run there cannot be said by a rule, so these paths are \
                refused; see `scripts`";
            self.notes.refused(place, &describe(found), reason);
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        };
        let script = match found {
            Match::Exact(path) => Some(path.as_str()),
            _ => None,
        };
        if !self.params(place, block, script, site) {
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        }
        if block.is_internal {
            plan.internal.push((place.clone(), found.refused(), scripts.names.clone()));
        }
        if let Some(directive) = &block.try_files {
            match directive.args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [
                    "$uri" | "$fastcgi_script_name" | "$document_root$fastcgi_script_name",
                    "=404",
                ] => {}
                ["$uri" | "$fastcgi_script_name", fallback] if is_script(fallback) => {
                    site.front_controller_for.push("php");
                }
                _ => {
                    let reason = "scripts that do not exist are 404";
                    self.notes.left(&directive.place, &directive.line(), reason);
                }
            }
        }
        if let Some(rule) = hidden_headers(place, block, &Block::default()) {
            site.rules.push(rule);
        }
        plan.intercepts.push((place.clone(), block.intercepts));
        plan.php.push(scripts);
    }

    /// `try_files`, whose last argument says what a path without a file becomes.
    fn try_files(
        &mut self,
        directive: &Directive,
        found: &Match,
        locations: &Locations,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let place = &directive.place;
        let Some((fallback, files)) = directive.args.split_last() else { return };
        let is_usual = |file: &String| matches!(&**file, "$uri" | "$uri/");
        let scope = found.scope();
        if !files.iter().any(|file| file == "$uri") {
            let reason = "files are not served there, so its paths are refused";
            self.notes.refused(place, &directive.line(), reason);
            site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
            return;
        }
        if let Some(other) = files.iter().find(|file| !is_usual(file)) {
            self.notes.left(place, other, "only `$uri` and `$uri/` are translated");
        }
        if !files.iter().any(|file| file == "$uri/") && scope.is_all() {
            // Folders have no index file then.
            site.index = Some(Vec::new());
        }
        if fallback.starts_with('=') {
            if !scope.is_all() {
                site.rules.push(only(place, &scope, Serve::Existing));
            }
            return;
        }
        if let Some(name) = fallback.strip_prefix('@') {
            let named = locations.named.iter().find(|(own, _)| own == name);
            let steps = named.map(|(_, steps)| steps.clone()).unwrap_or_default();
            self.named(directive, &steps, &scope, site, plan);
            return;
        }
        let (path, _) = target::without_query(fallback);
        if path.starts_with('/') && !path.contains(['$', '?']) {
            match is_script(path) && scope.is_all() {
                true => {
                    site.front_controller = Some(path.trim_start_matches('/').to_owned());
                    site.front_controller_for.push("hidden");
                }
                false => plan.fallback.push(missing(place, &scope).rewrite(path)),
            }
            return;
        }
        // `/index.php?q=$uri&$args`
        let rewritten = path.replacen("$uri", "/$1", 1);
        let is_known = scope.pattern.is_none()
            && rewritten.starts_with('/')
            && rewritten.replacen("$1", "", 1) == rewritten.replace('$', "").replacen('1', "", 1);
        if is_known && rewritten.contains("$1") {
            let scope = Scope { pattern: Some("^/(.*)$".to_owned()), ..scope };
            plan.fallback.push(missing(place, &scope).rewrite(rewritten));
            return;
        }
        self.notes.left(place, &directive.line(), "its last argument is not translated");
    }

    /// The rewrites of a location `@name`.
    fn named(
        &mut self,
        directive: &Directive,
        steps: &[Directive],
        scope: &Scope,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        if steps.is_empty() || !steps.iter().all(|step| step.name == "rewrite") {
            let reason = "the location of that name does more than rewrite; paths without a file \
                are 404";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        }
        let mut own = Site::new(directive.place.clone());
        self.steps(steps, scope, true, &mut own);
        site.front_controller_for.push("hidden");
        plan.fallback.extend(own.rules);
    }

    fn nested(
        &mut self,
        place: &Place,
        found: &Match,
        block: &Block,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let locations = self.locations(place, &block.locations);
        // nginx asks the expressions of an inner block before those around it.
        let mut is_before_php = true;
        self.depth += 1;
        for (place, inner, directives) in &locations.all {
            let asks_before = is_before_php;
            is_before_php &= !inner.runs_scripts();
            let is_main = *found == Match::Prefix("/".to_owned(), false);
            match (found, inner) {
                (_, Match::Exact(_) | Match::Prefix(..)) => {}
                _ if is_main => {}
                (Match::Prefix(path, _), Match::Pattern(expression)) => {
                    let within = Match::Pattern(expression.clone());
                    let around = (path.as_str(), block);
                    self.nested_pattern(
                        place,
                        around,
                        &within,
                        directives,
                        asks_before,
                        site,
                        plan,
                    );
                    continue;
                }
                _ => {
                    let reason = "an expression within an expression is not translated, so the \
                        outer one is refused";
                    self.notes.refused(place, &describe(inner), reason);
                    site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
                    continue;
                }
            }
            self.location(place, inner, directives, block, &locations, asks_before, site, plan);
        }
        self.depth -= 1;
    }

    /// An expression within a prefix: both have to fit. Refusals and headers can say that.
    #[expect(clippy::too_many_arguments, reason = "what is around a location")]
    fn nested_pattern(
        &mut self,
        place: &Place,
        (path, block): (&str, &Block),
        found: &Match,
        directives: &[Directive],
        is_before_php: bool,
        site: &mut Site,
        plan: &mut Plan,
    ) {
        let mut inner = Site::new(place.clone());
        inner.root = site.root.clone();
        let mut own = Plan::default();
        let around = Block { root: site.root.clone(), ..block.clone() };
        let none = Locations::default();
        self.location(
            place,
            found,
            directives,
            &around,
            &none,
            is_before_php,
            &mut inner,
            &mut own,
        );
        plan.intercepts.extend(own.intercepts);
        plan.internal.extend(own.internal);
        plan.regions.extend(own.regions.into_iter().map(|region| region.within(path)));
        for scripts in own.php {
            let is_all = scripts.names.is_empty();
            let names = if is_all { vec![format!("{path}*")] } else { scripts.names };
            plan.php.push(php::Scripts { names, ..scripts });
        }
        for (place, scope, lists) in own.listings {
            let path = scope.path.or_else(|| Some(format!("{path}*")));
            plan.listings.push((place, Scope { path, ..scope }, lists));
        }
        for mut rule in inner.rules {
            if rule.scope.path.is_none() && !rule.scope.is_all() {
                rule.scope.path = Some(format!("{path}*"));
            }
            site.rules.push(rule);
        }
        site.env.extend(inner.env);
        site.php_value.extend(inner.php_value);
        site.php_admin_value.extend(inner.php_admin_value);
    }
}

/// The folder of a location that is not the site's own for its path.
fn mounted(block: &Block, found: &Match, is_other_root: bool) -> Option<String> {
    let Match::Prefix(path, _) = found else { return None };
    if path == "/" {
        return None;
    }
    if let Some(alias) = &block.alias {
        // `location /a/ { alias /b; }` would be `/bc` for `/a/c`.
        let is_folder = alias.ends_with('/') || !path.ends_with('/');
        let is_file = alias.rsplit('/').next().is_some_and(|name| name.contains('.'));
        let clean = alias.trim_end_matches('/');
        return (is_folder && !is_file && !clean.is_empty() && !clean.contains('$'))
            .then(|| clean.to_owned());
    }
    let root = block.root.as_ref().filter(|root| is_other_root && !root.contains('$'))?;
    Some(format!("{}{}", root.trim_end_matches('/'), path.trim_end_matches('/')))
}

/// Leaves scripts that other locations run out of refusals, but not what stands behind their names
/// if nobody runs that.
fn except(rules: &mut Vec<Rule>, from: usize, scripts: &[(String, bool)]) {
    let mut behind = Vec::new();
    for rule in rules[from..].iter_mut().filter(|rule| rule.guards()) {
        for (name, _) in scripts.iter().filter(|(_, has_path_info)| !has_path_info) {
            if rule.scope.fits(&format!("{name}/a")) {
                let pattern = format!("^{}/", regex_lite::escape(name));
                behind.push(Rule { scope: Scope::pattern(pattern), ..rule.clone() });
            }
        }
        rule.except.extend(scripts.iter().map(|(name, _)| name.clone()));
    }
    rules.extend(behind);
}

/// A rule for paths without a file.
fn missing(place: &Place, scope: &Scope) -> Rule {
    Rule { unless_file: true, ..Rule::at(place, scope.clone()) }
}

/// A path behind that of a mounted folder.
fn behind(path: &str, mount: &str) -> Option<String> {
    let rest = path.strip_prefix(mount)?;
    rest.starts_with('/').then(|| rest.to_owned())
}

fn is_script(target: &str) -> bool {
    let (path, _) = target::without_query(target);
    path.starts_with('/') && path.ends_with(".php") && !path.contains('$')
}

fn has_fastcgi(directive: &Directive) -> bool {
    let block = directive.block.iter().flatten();
    block.clone().any(|inner| inner.name == "fastcgi_pass")
}

/// Whether it is a location that runs all scripts.
fn runs_all_scripts(directive: &Directive) -> bool {
    let is_expression =
        directive.name == "location" && matches!(kind(&directive.args).0, "~" | "~*");
    is_expression
        && has_fastcgi(directive)
        && php::of_expression(kind(&directive.args).1).is_some_and(|it| it.names.is_empty())
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
fn kind(args: &[String]) -> (&str, &str) {
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
