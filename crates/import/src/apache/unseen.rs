//! Which requests the rewrites of a folder see: none below a folder with rewrites of its own, and
//! none that `ProxyPassMatch` hands to PHP before any folder is looked at; but those of a folder
//! below that is mounted elsewhere.

use std::path::Path;

use crate::combine::hand_down;
use crate::directive::Directive;
use crate::model::{Action, Rule, Scope, Site};
use crate::pattern;
use crate::source::Place;

use super::area::{Area, HIDDEN};
use super::folder::{below, folder_of, is_folder};
use super::overriding::Overriding;
use super::{Reader, parse};

/// What the rewrites of folders do not see, by expressions of paths.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// The folder of the site.
    root: Option<String>,
    /// What `ProxyPassMatch` takes.
    proxied: Vec<String>,
    /// Folders with rewrites of their own, with a slash at their ends.
    pub rewriting: Vec<String>,
}

impl Unseen {
    /// The expressions for a folder.
    pub(super) fn below(&self, folder: &str) -> Vec<String> {
        let is_below = |other: &&String| other.len() > folder.len() && other.starts_with(folder);
        let inner = self.rewriting.iter().filter(is_below);
        let inner = inner
            .map(|inner| format!("^{}(?:/|$)", regex_lite::escape(inner.trim_end_matches('/'))));
        self.proxied.iter().cloned().chain(inner).collect()
    }

    /// A folder with rewrites of its own, below another one, in which a target may be.
    pub(super) fn rewriting_below(&self, target: &str, folder: &str) -> Option<&String> {
        let start = target.split('$').next().unwrap_or(target);
        let mut inner = self.rewriting.iter().filter(|it| it.len() > folder.len());
        inner.find(|it| target.starts_with(&***it) || start.len() > 1 && it.starts_with(start))
    }

    /// Whether `ProxyPassMatch` takes a path.
    pub(super) fn is_proxied(&self, path: &str) -> bool {
        self.proxied.iter().any(|expression| pattern::is_in(expression, path))
    }
}

/// Lists no folder of a site.
fn close_listings(site: &mut Site) {
    site.index_listing = false;
    site.rules.iter_mut().for_each(|rule| rule.index_listing = None);
}

/// Whether a directive hands scripts to php-fpm by their paths.
pub(super) fn hands_scripts(directive: &Directive) -> bool {
    directive.name == "proxypassmatch"
        && directive.arg(1).contains("fcgi://")
        && directive.arg(0).contains("\\.php")
}

/// Whether a folder has rewrites of its own, so that those around it do not hold in it.
pub(super) fn rewrites(directives: &[Directive]) -> bool {
    let mut own = directives.iter().filter(|it| it.name.starts_with("rewrite")).peekable();
    let inherits = |it: &Directive| {
        let is_word = |word: &String| word.to_ascii_lowercase().starts_with("inherit");
        it.name == "rewriteoptions" && it.args.iter().any(is_word)
    };
    own.peek().is_some() && !own.any(inherits)
}

impl Reader<'_> {
    /// Finds out what a site hands to PHP by its path. In a folder that is mounted elsewhere such
    /// a path is that of no file.
    pub(super) fn hands_scripts(&mut self, directives: &[Directive], site: &mut Site) {
        let handing = || directives.iter().filter(|it| hands_scripts(it));
        let expressions = handing().filter_map(|it| pattern::translate(it.arg(0), false).ok());
        let (root, proxied) = (site.root.clone(), expressions.collect());
        self.unseen = Unseen { root, proxied, rewriting: Vec::new() };
        for mount in &mut site.mounts {
            let path = format!("{}/a.php", mount.path.as_deref().unwrap_or_default());
            if let Some(handing) = handing().next().filter(|_| self.unseen.is_proxied(&path)) {
                let scripts = Scope::pattern("\\.php(?:/|$)");
                mount.rules.push(Rule::at(&handing.place, scripts).refuse_all(404));
            }
        }
    }

    /// Finds the folders below a root that have rewrites of their own.
    pub(super) fn find_rewriting(
        &mut self,
        root: &str,
        sections: &[Directive],
        overriding: &Overriding,
        site: &Site,
    ) {
        let sections = sections.iter().filter(|it| is_folder(it) && rewrites(it.inner()));
        let mut folders: Vec<String> = sections.filter_map(folder_of).collect();
        let files = match overriding.is_any_below(root) {
            true => self.disk.find(Path::new(root), ".htaccess").unwrap_or_default(),
            false => Vec::new(),
        };
        for file in files.iter().filter(|file| overriding.is_for(file)) {
            let own = parse::load(file, &self.prefix, self.disk).is_ok_and(|it| rewrites(&it));
            let folder = file.parent().filter(|_| own);
            folders.extend(folder.map(|it| it.to_string_lossy().into_owned()));
        }
        let paths = folders.iter().filter_map(|folder| below(folder, root));
        self.unseen.rewriting = paths.map(|path| format!("{path}/")).collect();
        let own = self.unseen.root.as_deref().and_then(|own| below(root, own));
        if let (Some(own), Some(mount), false) = (own, &site.path, self.unseen.rewriting.is_empty())
        {
            let reason = format!(
                "rewrites in it lead to paths below {own}, with what is said of these; here they \
                 lead to paths below {mount}"
            );
            self.notes.differs(&site.place, mount, reason);
        }
    }

    /// Lets rules that a folder's rewrite has become leave out what it does not see. `before`: the
    /// front controller without it.
    pub(super) fn leave_out(
        &self,
        folder: &str,
        place: &Place,
        before: Option<&String>,
        site: &mut Site,
    ) {
        let unseen = self.unseen.below(folder);
        if unseen.is_empty() {
            return;
        }
        // One by `FallbackResource` is for all folders.
        let is_new = site.front_controller.as_ref() != before;
        if let Some(script) = site.front_controller.take_if(|_| is_new) {
            let rule = Rule { unless_file: true, ..Rule::at(place, Scope::default()) };
            site.rules.push(rule.rewrite(format!("/{script}")));
            site.front_controller_for = Vec::new();
        }
        let is_leading = |rule: &&mut Rule| {
            use Action::{Redirect, Refuse, Rewrite};
            matches!(rule.action, Some(Redirect { .. } | Rewrite(_) | Refuse { .. }))
        };
        // What refuses stands before other rules.
        let is_own = |rule: &&mut Rule| rule.place == *place;
        for rule in site.rules.iter_mut().filter(is_own).filter(is_leading) {
            let unseen = unseen.iter().map(|expression| format!("!{expression}"));
            let new = unseen.filter(|expression| !rule.scope.and.contains(expression));
            rule.scope.and.extend(new.collect::<Vec<_>>());
        }
    }

    /// Apache lists no folder if `ProxyPassMatch` would take one of its index files, also if there
    /// is no such file.
    pub(super) fn refuse_unlisted(&self, site: &mut Site) {
        let mount = site.path.as_deref().unwrap_or_default();
        let index = site.index.iter().flatten();
        if index.into_iter().any(|name| self.unseen.is_proxied(&format!("{mount}/{name}"))) {
            close_listings(site);
        }
    }

    /// Apache asks all rewrites again for the path that one of them leads to. Ours are asked once,
    /// so a rule leads to where the next one would.
    pub(super) fn lead_on(&self, site: &mut Site) {
        let target_of = |rule: &Rule| match &rule.action {
            Some(Action::Rewrite(target)) => Some(target.clone()),
            _ => None,
        };
        let root = site.root.clone().unwrap_or_default();
        let led = |own: &Rule| {
            let target = target_of(own)?;
            let (path, query) = match target.split_once('?') {
                Some((path, query)) => (path, Some(query)),
                None => (&*target, None),
            };
            // There a rewrite that refuses leads, and it is the last one.
            if path == HIDDEN {
                return None;
            }
            let is_there = self.disk.is_file(Path::new(&format!("{root}{path}")));
            let sees = |rule: &&Rule| {
                let is_asked = if is_there { !rule.unless_file } else { !rule.if_file };
                *rule != own && is_asked && rule.conditions.is_empty() && rule.scope.fits(path)
            };
            // It leads there again, which ends it.
            if !path.contains('$') && own.conditions.is_empty() && own.scope.fits(path) {
                return None;
            }
            let mut next = site.rules.iter().filter(sees);
            let (next, expression) =
                next.find_map(|rule| target_of(rule).zip(rule.scope.pattern.clone()))?;
            let found = regex_lite::Regex::new(&expression).ok()?.captures(path)?;
            let groups = found.iter().enumerate().map(|(number, group)| {
                (format!("${number}"), group.map_or("", |group| group.as_str()))
            });
            let next = groups.fold(next, |next, (name, group)| next.replace(&name, group));
            let is_end = path.contains('$') || next.contains('$');
            (!is_end && next.split('?').next() != Some(path)).then(|| match query {
                Some(query) if !next.contains('?') => format!("{next}?{query}"),
                Some(query) if !next.ends_with('?') => format!("{next}&{query}"),
                _ => next,
            })
        };
        let led: Vec<_> = site.rules.iter().map(led).collect();
        for (rule, target) in site.rules.iter_mut().zip(led) {
            if let Some(target) = target {
                rule.action = Some(Action::Rewrite(target));
            }
        }
    }

    /// The rewrites of an `.htaccess` above a folder that is mounted elsewhere. Apache looks there
    /// for its paths, too, as they are below that file's own folder.
    pub(super) fn rewrite_around(
        &mut self,
        file: &Path,
        directives: &[Directive],
        mount: &mut Site,
    ) {
        let has_own = self.unseen.rewriting.iter().any(|folder| folder == "/");
        let path = file
            .parent()
            .zip(mount.root.as_deref())
            .and_then(|(folder, root)| below(root, &folder.to_string_lossy()).map(str::to_owned));
        let Some(path) = path.filter(|_| !has_own && rewrites(directives)) else { return };
        let own = directives.iter().filter(|it| it.name.starts_with("rewrite"));
        let own: Vec<Directive> = own.cloned().collect();
        let mut around = Site::new(Place::start(file));
        // What is said of them is said of the site around.
        let said = std::mem::take(self.notes);
        let unseen = std::mem::take(&mut self.unseen);
        self.directives(&own, &Area::folder(Scope::default(), "/"), &mut around);
        self.unseen = unseen;
        *self.notes = said;
        let is_rewrite = |rule: &Rule| matches!(rule.action, Some(Action::Rewrite(_)));
        let is_answering = around.front_controller.is_some() || around.rules.iter().any(is_rewrite);
        if is_answering {
            let reason = format!(
                "its rewrites are also for what is mounted at {}; there they are left out, and \
                 what they would answer is refused or not found",
                mount.path.as_deref().unwrap_or_default()
            );
            self.notes.left(&mount.place, &file.to_string_lossy(), reason);
        }
        // Apache lists no folder if a rewrite refuses one of its index files, even a missing one.
        let named = directives.iter().filter(|it| it.name == "directoryindex");
        let names = named.flat_map(|it| &it.args).chain(mount.index.iter().flatten());
        let indexes: Vec<String> = names.map(|name| format!("{path}/{name}")).collect();
        let refuses = |rule: &Rule| {
            matches!(&rule.action, Some(Action::Rewrite(to)) if to == HIDDEN)
                && indexes.iter().any(|index| rule.scope.fits(index))
        };
        if around.rules.iter().any(refuses) {
            close_listings(mount);
        }
        for rule in &mut around.rules {
            // Apache may refuse what lies at these paths.
            if is_rewrite(rule) && !rule.unless_file {
                *rule = rule.clone().refuse_all(404);
                rule.if_file = false;
            }
        }
        let mut within = Site::new(mount.place.clone());
        within.path = Some(path);
        around.mounts.push(within);
        hand_down(&mut around, self.notes);
        let refused = around.mounts.pop().map(|within| within.rules).unwrap_or_default();
        mount.rules.extend(refused);
    }
}
