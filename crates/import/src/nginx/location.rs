//! `location` blocks as rules, and as sites that are mounted.
//!
//! nginx chooses one location: an exact one, else the longest prefix if it says `^~`, else the
//! first expression that fits, else the longest prefix. Rules add up instead. So whatever a
//! location refuses is refused for all of its paths, also where nginx would choose another one; the
//! notes say so where that can be seen.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::pattern::{self, BEHIND};
use crate::source::Place;

use super::block::{Block, default_index};
use super::exceptions::{except, except_final, except_sent};
use super::locations::{Location, Locations, has_fastcgi, within};
use super::matcher::{Match, describe};
use super::missing::refuses_missing;
use super::mount::mounted;
use super::plan::Plan;
use super::reader::Reader;
use super::regions::Region;
use super::steps::End;
use super::target;

impl Reader<'_> {
    pub(super) fn location(
        &mut self,
        (place, found, directives): &Location,
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
        block.resolve_missing();
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
        if let Some(pass) = block.proxy.clone() {
            let location = (place.clone(), found.clone(), Vec::new());
            let around = (&block, outer);
            if let Err(problem) = self.proxied(&location, around, locations, site, plan) {
                let reason = format!("{problem}; {name} is refused instead");
                self.notes.refused(&pass.place, &pass.line(), reason);
                site.rules.push(Rule::at(place, found.refused()).refuse_all(404));
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
        let runs_elsewhere = locations.scripts_before(found);
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
        self.logging_of(place, found, locations, &block, outer, site);
        // What nginx hands to no other location: it sends scripts there, and runs none.
        let runs_nothing = match found {
            Match::Prefix(_, is_final) => *is_final,
            Match::Pattern(_) => is_before_php,
            // The index file of a folder is asked for by its own path.
            Match::Exact(path) => !path.ends_with('/'),
        };
        let has_inner = block.locations.iter().any(has_fastcgi);
        if block.fastcgi.is_some() {
            self.script_location(place, found, &region, &block, site, plan);
        } else if let Some(directive) = block.try_files.as_ref().or(block.missing.as_ref()) {
            if runs_nothing && !has_inner {
                site.rules.push(Rule::at(place, region.clone()).serve(Serve::Files));
            }
            let mut directive = directive.clone();
            if !matches!(found, Match::Pattern(_)) && !self.captures && block.steps.is_empty() {
                for own in &mut directive.args {
                    *own = target::without_groups(own);
                }
            }
            self.try_files(&directive, found, &region, locations, site, plan);
        } else if !is_main && !matches!(found, Match::Exact(path) if path.ends_with('/')) {
            let is_closed = runs_nothing && !has_inner;
            let serve = if is_closed { Serve::Files } else { Serve::Existing };
            site.rules.push(Rule::at(place, region.clone()).serve(serve));
        }
        if !runs_nothing && block.sends_files() && found.is_of_files() {
            // What goes on behind the name of a script is no file.
            let mut behind = region.clone();
            behind.and.push(BEHIND.to_owned());
            plan.files.push((place.clone(), behind));
        }
        plan.regions.push(Region::of(place, found, &block));
        self.own_error_pages(&block, outer);
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

    /// Says which error pages are left out, as they are not those of the site.
    pub(super) fn own_error_pages(&mut self, block: &Block, outer: &Block) {
        for (status, (place, page)) in &block.error_pages {
            if outer.error_pages.get(status).is_none_or(|(_, own)| own != page) {
                let line = format!("error_page {status} {page}");
                self.notes.left(place, &line, "error pages are those of a whole site");
            }
        }
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
    pub(super) fn precedence(
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
}
