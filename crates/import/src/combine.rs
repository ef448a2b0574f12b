//! Fits sites together: which of them answers for unknown names, which redirects belong to which
//! site, on which addresses each is served.

mod addresses;
mod bodies;
mod logins;
mod mounts;

use std::collections::BTreeSet;
use std::path::Path;

use crate::model::{Action, Description, Listen, Moved, Route, Rule, Scope, Serve, Site};
use crate::note::Notes;
use crate::source::{Disk, Place};
use crate::within::{Within, expression_behind, holds_behind, path_behind};
use crate::{hsts, pattern, validity};

/// Completes the sites of a description.
pub(crate) fn combine(description: &mut Description, disk: &dyn Disk, notes: &mut Notes) {
    bodies::write_limits(description);
    let sites = &mut description.sites;
    addresses::unify(sites, notes);
    // The first site answers for unknown names.
    sites.sort_by_key(|site| !site.is_default);
    redirects(sites, notes);
    same_names(sites, notes);
    roots(sites, notes);
    addresses::order(sites, notes);
    mounts_of_unknown_names(sites, notes);
    log_formats(description.access_log.as_ref(), sites, notes);
    for site in sites.iter_mut() {
        hsts::take_from_headers(site);
        hand_down(site, notes);
        mounts::close_to_rewrites(site, notes);
        finish(site, disk, notes);
    }
    description.divides_addresses = addresses::differ(sites);
    let routes = sites.iter().flat_map(|site| &site.routes);
    let names: BTreeSet<_> = routes.filter_map(|route| route.upstream.as_deref()).collect();
    description.upstreams.retain(|upstream| names.contains(&*upstream.name));
}

/// A site without documents may be what refuses unknown names: without it, the next one would
/// answer for them. So it refuses, with the root of another one.
fn roots(sites: &mut Vec<Site>, notes: &mut Notes) {
    let has_services = sites.iter().any(|site| site.applications().next().is_some());
    let other = sites.iter().find(|site| is_root(site)).and_then(|site| site.root.clone());
    // Where services alone answer, no site has documents.
    let other = other.or_else(|| has_services.then(|| ".".to_owned()));
    sites.retain_mut(|site| {
        if is_root(site) {
            return true;
        }
        if site.applications().next().is_some() {
            without_root(site, other.clone());
            return true;
        }
        if !site.refuses_all() || other.is_none() {
            let is_redirect = |rule: &Rule| matches!(rule.action, Some(Action::Redirect { .. }));
            if other.is_none() || !site.rules.iter().any(|it| is_redirect(it) && it.is_for_all()) {
                let reason = "the site has no document root, so all but its redirects is refused; \
                    name the folder of its files there, and import it again, or write `root` into \
                    its `[[site]]`";
                notes.refused(&site.place, "", reason);
            }
            // Nothing of the other root is ever served.
            site.rules.retain(|rule| is_redirect(rule) || rule.guards());
            site.rules.push(Rule::at(&site.place, Scope::default()).refuse_all(404));
        }
        site.root.clone_from(&other);
        site.front_controller = None;
        site.mounts.clear();
        site.internal.clear();
        site.error_pages.clear();
        other.is_some()
    });
}

/// A site without documents of which applications answer at least a part: the rest is refused, and
/// so nothing of the folder is served that stands for a root.
fn without_root(site: &mut Site, other: Option<String>) {
    site.root = other;
    site.front_controller = None;
    site.internal.clear();
    site.error_pages.clear();
    let paths: Vec<String> = site.applications().map(str::to_owned).collect();
    let (routes, kept): (Vec<_>, Vec<_>) =
        std::mem::take(&mut site.routes).into_iter().partition(|route| route.upstream.is_some());
    site.routes = routes.into_iter().map(|route| Route { files: false, ..route }).collect();
    let mut refused: Vec<Scope> = kept.into_iter().map(|route| Scope::path(route.path)).collect();
    if paths.iter().all(|path| !path.is_empty()) {
        refused.push(Scope::default());
    }
    for scope in refused {
        let is_within = |path: &&String| !path.is_empty() && scope.fits(path);
        let except = paths.iter().filter(is_within).cloned().collect();
        let rule = Rule::at(&site.place, scope).refuse_all(404);
        // `is_of_scripts`: mounted sites are left out, since they have documents of their own.
        site.rules.push(Rule { except, is_of_scripts: true, ..rule });
    }
}

/// Lines of one file have one shape: that of the first site that writes it.
fn log_formats(server: Option<&(String, String)>, sites: &mut [Site], notes: &mut Notes) {
    let mut known: Vec<_> = server.cloned().into_iter().collect();
    for site in sites {
        let Some((file, format)) = &mut site.access_log else { continue };
        match known.iter().find(|(other, _)| other == file) {
            Some((_, other)) if other != format => {
                let reason = format!("another site writes {file} with lines that are `{other}`");
                notes.differs(&site.place, "", reason);
                format.clone_from(other);
            }
            Some(_) => {}
            None => known.push((file.clone(), format.clone())),
        }
    }
}

/// Sites that only redirect: by `https_redirect` of the site that they redirect to, or by a rule.
fn redirects(sites: &mut Vec<Site>, notes: &mut Notes) {
    let (moved, mut kept): (Vec<Site>, Vec<Site>) =
        std::mem::take(sites).into_iter().partition(|site| site.moved.is_some());
    let is_tls = |site: &Site| site.listen.iter().any(|listen| listen.tls);
    for mut site in moved {
        let mut hosts = std::mem::take(&mut site.hosts);
        let is_for_all = hosts.is_empty();
        let moved = site.moved.take();
        let (to_https, own) = match &moved {
            Some(Moved::Host { scheme, host, .. }) => (*scheme == "https", Some(host.clone())),
            _ => (true, None),
        };
        // The site of the same name, which is now reached by https alone.
        let mut is_used = false;
        for secure in kept.iter_mut().filter(|site| is_tls(site) && to_https) {
            let is_same = |name: &String| own.as_ref().is_none_or(|own| own == name);
            let has = |name: &String| is_same(name) && covers(&secure.hosts, name);
            let fits = (is_for_all && own.is_none()) || hosts.iter().any(has);
            if !fits {
                continue;
            }
            hosts.retain(|name| !has(name));
            if secure.access_log != site.access_log {
                let reason = "its redirects are in the log of the site that they lead to";
                notes.differs(&site.place, "", reason);
            }
            secure.https_redirect = true;
            add(&mut secure.listen, &site.listen);
            secure.default_on.extend(site.default_on.iter().cloned());
            secure.is_default |= site.is_default && is_for_all;
            is_used = true;
        }
        if hosts.is_empty() && (is_used || own.is_none()) {
            if !is_used {
                notes.left(&site.place, "", "redirects to https, and no site has a certificate");
            }
            continue;
        }
        let Some(Moved::Host { scheme, host, status }) = moved else {
            let reason = format!("no site with TLS has the name {}", hosts.join(", "));
            notes.left(&site.place, "", reason);
            continue;
        };
        let target = kept.iter().find(|site| covers(&site.hosts, &host));
        let scheme = match (scheme, target) {
            ("", Some(target)) if is_tls(target) => "https",
            ("", _) if is_tls(&site) => "https",
            ("", _) => "http",
            (scheme, _) => scheme,
        };
        // Nothing of it is ever served, but each site has a root.
        site.root = site.root.or_else(|| target.and_then(|target| target.root.clone()));
        site.hosts = hosts;
        let everything = Scope::pattern("^/(.*)$");
        site.rules = vec![
            Rule::at(&site.place, everything).redirect(format!("{scheme}://{host}/$1"), status),
            Rule::at(&site.place, Scope::default()).refuse_all(404),
        ];
        kept.push(site);
    }
    kept.sort_by_key(|site| !site.is_default);
    *sites = kept;
}

fn covers(hosts: &[String], name: &str) -> bool {
    hosts.iter().any(|own| {
        own == name
            || own
                .strip_prefix('*')
                .is_some_and(|end| name.len() > end.len() && name.ends_with(end))
    })
}

/// Two sites of the same names become one if they are the same but for their addresses. Otherwise
/// each answers on its own; on those of both, the first one does.
fn same_names(sites: &mut Vec<Site>, notes: &mut Notes) {
    let mut kept: Vec<Site> = Vec::new();
    for mut site in std::mem::take(sites) {
        let twin = kept.iter_mut().find(|kept| kept.hosts == site.hosts && is_same(kept, &site));
        if let Some(twin) = twin {
            add(&mut twin.listen, &site.listen);
            twin.default_on.append(&mut site.default_on);
            twin.https_redirect |= site.https_redirect;
            if twin.certificate.is_empty() {
                (twin.certificate, twin.key) = (site.certificate, site.key);
            }
            continue;
        }
        let (is_named, is_bound) = (!site.hosts.is_empty(), !site.listen.is_empty());
        for other in &kept {
            let are_everywhere = !is_bound && other.listen.is_empty();
            let is_shared = |listen: &Listen| other.listen.contains(listen);
            if !are_everywhere && !site.listen.iter().any(is_shared) {
                continue;
            }
            if other.hosts == site.hosts {
                let reason = "another site has the same names, and answers for them on the same \
                    addresses";
                notes.left(&site.place, "", reason);
                site.listen.retain(|listen| !is_shared(listen));
                site.hosts.retain(|_| !are_everywhere);
                continue;
            }
            site.hosts.retain(|name| {
                let is_taken = other.hosts.contains(name);
                if is_taken {
                    let reason = format!("another site has the name {name}, and answers for it");
                    notes.left(&site.place, "", reason);
                }
                !is_taken
            });
        }
        let is_left_out = (is_named && site.hosts.is_empty())
            || (is_bound && site.listen.is_empty())
            || (!is_named && !is_bound && kept.iter().any(|kept| kept.hosts.is_empty()));
        match is_left_out {
            true => notes.left(&site.place, "", "no client could reach it"),
            false => kept.push(site),
        }
    }
    *sites = kept;
}

/// Whether two sites, or what is mounted in them, say the same.
fn is_same(one: &Site, other: &Site) -> bool {
    let said = |site: &Site| {
        // Where it stands, and on which addresses it is served, makes no difference.
        let place = one.place.clone();
        let routes = site.routes.iter().map(|it| Route { place: place.clone(), ..it.clone() });
        let rules = site.rules.iter().map(|rule| Rule { place: place.clone(), ..rule.clone() });
        Site {
            place: place.clone(),
            rules: rules.collect(),
            routes: routes.collect(),
            mounts: Vec::new(),
            listen: Vec::new(),
            certificate: Vec::new(),
            key: Vec::new(),
            is_default: false,
            default_on: Vec::new(),
            https_redirect: false,
            ..site.clone()
        }
    };
    said(one) == said(other)
        && one.mounts.len() == other.mounts.len()
        && one.mounts.iter().zip(&other.mounts).all(|(one, other)| is_same(one, other))
}

fn add(all: &mut Vec<Listen>, more: &[Listen]) {
    for listen in more {
        if !all.contains(listen) {
            all.push(listen.clone());
        }
    }
}

/// A site without names cannot have mounts of its own beside others: without names, a mount is in
/// all sites.
fn mounts_of_unknown_names(sites: &mut [Site], notes: &mut Notes) {
    if sites.len() < 2 {
        return;
    }
    for site in sites.iter_mut().filter(|site| site.hosts.is_empty()) {
        for mount in std::mem::take(&mut site.mounts) {
            let path = mount.path.unwrap_or_default();
            let reason = "a site without names cannot mount another folder beside other sites; \
                give it its names";
            notes.refused(&mount.place, &path, reason);
            site.rules.push(Rule::at(&mount.place, Scope::path(path)).refuse_all(404));
        }
    }
}

/// What a site refuses everywhere, it refuses in the sites that are mounted in it, too; so it is
/// with passwords, and its headers are theirs. Rules do not reach there by themselves.
pub(crate) fn hand_down(site: &mut Site, notes: &mut Notes) {
    let refuses = |rule: &&Rule| rule.guards();
    let is_of_all = |rule: &&Rule| {
        let holds = !rule.headers.is_empty() || rule.limit.is_some() || rule.is_unlogged;
        rule.scope.is_all() && holds
    };
    for mount in &mut site.mounts {
        let path = mount.path.clone().unwrap_or_default();
        let mut own = Vec::new();
        let is_own =
            |rule: &&Rule| rule.of_answer || (mount.owns_headers && !rule.headers.is_empty());
        let rules = site.rules.iter().filter(|rule| !rule.is_of_scripts);
        let rules = rules.filter(|rule| refuses(rule) || is_of_all(rule));
        let is_elsewhere = |rule: &&Rule| {
            let found = rule.scope.and.iter().filter(|own| !own.starts_with('!'));
            found.map(|own| expression_behind(own, &path)).any(|own| own == Within::Nowhere)
        };
        for rule in rules.filter(|rule| !is_own(rule) && !is_elsewhere(rule)) {
            let within = match &rule.scope.path {
                None => Within::Everywhere,
                Some(own) => path_behind(own, &path),
            };
            let found = match &rule.scope.pattern {
                None => Within::Everywhere,
                Some(own) => expression_behind(own, &path),
            };
            let scope = match (within, found) {
                (Within::Nowhere, _) | (_, Within::Nowhere) => continue,
                (Within::Unknown, _) | (_, Within::Unknown) => {
                    let is = if rule.asks().is_some() { "behind a password" } else { "refused" };
                    let reason = format!("it may be for {path}, too, so all of {path} is {is}");
                    let line = rule.scope.pattern.clone().unwrap_or_default();
                    notes.refused(&rule.place, &line, reason);
                    Scope::default()
                }
                (within, found) => {
                    // Without one of them the rule holds for more.
                    let mut and = rule.scope.and.clone();
                    and.retain(|own| match own.strip_prefix('!') {
                        // What is not found in the whole path is not found in a part of it.
                        Some(own) => !["^", "\\b", "\\B", "\\A"].iter().any(|it| own.contains(it)),
                        None => holds_behind(own, &path),
                    });
                    Scope { path: within.text(), pattern: found.text(), and }
                }
            };
            if rule.limit.is_some() {
                let reason = format!("what is asked for below {path} is counted by itself");
                notes.differs(&rule.place, "", reason);
            }
            let (scripts, serve) = Default::default();
            let (body, index_listing) = (None, None);
            // An exception around the whole mount would leave nothing of what guards it.
            let except = rule.except.iter().filter_map(|own| path_behind(own, &path).text());
            let except = except.collect();
            own.push(Rule { scope, except, scripts, serve, body, index_listing, ..rule.clone() });
        }
        own.append(&mut mount.rules);
        mount.rules = own;
    }
}

/// Whether a site has a root that can be written.
fn is_root(site: &Site) -> bool {
    let is_path = |root: &String| !root.is_empty() && !root.chars().any(char::is_control);
    site.root.as_ref().is_some_and(is_path)
}

/// A front controller answers for other paths without a question to the refusals for its own. Where
/// there are any, it becomes a rewrite: after that, all refusals are asked again.
fn guard_front_controller(site: &mut Site, notes: &mut Notes) {
    let is_rest = |rule: &&Rule| {
        let pattern = rule.scope.pattern.as_deref().filter(|own| !pattern::ANY.contains(own));
        let rest = Scope { pattern: pattern.map(str::to_owned), ..rule.scope.clone() };
        rule.unless_file && rest.is_rest()
    };
    let fallbacks = site.rules.iter().filter(is_rest);
    let targets = fallbacks.filter_map(|rule| match &rule.action {
        Some(Action::Rewrite(to)) => Some(to.split('?').next().unwrap_or(to).to_owned()),
        _ => None,
    });
    let own = site.front_controller.as_ref().map(|script| format!("/{script}"));
    let paths: BTreeSet<String> = targets.chain(own.clone()).collect();
    let refused: Vec<_> = paths.iter().filter_map(|path| refusing(site, path)).collect();
    for (place, path) in refused {
        let reason = format!("it is for {path}, too, so all pages that this makes are refused");
        notes.refused(&place, "", reason);
    }
    let is_for =
        |rule: &&Rule, path: &String| !rule.scope.is_all() && !rule.internal && rule.is_for(path);
    if let Some(path) = own
        && site.rules.iter().filter(|rule| is_for(rule, &path)).any(Rule::guards)
    {
        let mut rule = Rule { unless_file: true, ..Rule::at(&site.place, Scope::default()) };
        rule.except = site.applications().map(str::to_owned).collect();
        site.rules.push(rule.rewrite(path));
        site.front_controller = None;
    }
}

/// What refuses a path to everybody.
fn refusing(site: &Site, path: &str) -> Option<(Place, String)> {
    let all = |rule: &&Rule| {
        let refused = Rule::at(&rule.place, rule.scope.clone());
        [403, 404, 410]
            .iter()
            .any(|status| rule.action == refused.clone().refuse_all(*status).action)
    };
    let is_for = |rule: &&Rule| {
        !rule.scope.is_all() && !rule.internal && rule.conditions.is_empty() && rule.is_for(path)
    };
    let mut rules = site.rules.iter().filter(is_for);
    rules.find(all).map(|rule| (rule.place.clone(), path.to_owned()))
}

/// Says where the front controller comes before a list, and leaves out what says in vain that
/// folders are not listed.
fn listings(site: &mut Site, notes: &mut Notes) {
    let is_listed = |rule: &Rule| rule.index_listing == Some(true);
    if !site.index_listing && !site.rules.iter().any(is_listed) {
        site.rules.iter_mut().for_each(|rule| rule.index_listing = None);
    }
    if site.front_controller.is_none() {
        return;
    }
    let reason = "the front controller answers for folders without an index file, unless a rule \
        with `serve` leaves it out";
    if site.index_listing {
        notes.differs(&site.place, "index_listing", reason);
    }
    for rule in site.rules.iter().filter(|rule| is_listed(rule)) {
        let leaves_out =
            |other: &Rule| other.serve != Serve::All && other.scope.may_overlap(&rule.scope);
        if !site.rules.iter().any(leaves_out) {
            notes.differs(&rule.place, "index_listing", reason);
        }
    }
}

/// Leaves out of a site what `tokamak check` would refuse.
fn finish(site: &mut Site, disk: &dyn Disk, notes: &mut Notes) {
    let root = site.root.clone().unwrap_or_default();
    let root = Path::new(&root);
    site.error_pages.retain(|status, page| {
        let file = root.join(page.trim_start_matches('/'));
        let is_there = validity::path(page).is_ok() && disk.is_file(&file);
        if !is_there {
            let reason = format!("the error page of {status}, {}, is not there", file.display());
            notes.left(&site.place, page, reason);
        }
        is_there
    });
    for table in [&mut site.env, &mut site.php_value, &mut site.php_admin_value] {
        table.retain(|name, text| {
            let is_wrong = |char: char| char.is_control() || char == '=';
            let is_kept = !name.is_empty() && !name.contains(is_wrong) && !text.contains('\0');
            if !is_kept {
                notes.left(&site.place, name, "no name of a variable or of a setting of PHP");
            }
            is_kept
        });
    }
    logins::error_pages(site, notes);
    site.internal.retain(|path, folder| {
        let is_kept = path.len() > 1
            && validity::path(path).is_ok()
            && !path.contains('*')
            && !folder.is_empty()
            && !folder.chars().any(char::is_control);
        if !is_kept {
            notes.left(&site.place, path, "no path and folder of `internal`");
        }
        is_kept
    });
    if let Some(script) = &site.front_controller
        && !disk.is_file(&root.join(script))
    {
        let reason = format!("{} is not there", root.join(script).display());
        notes.left(&site.place, script, reason);
        site.front_controller = None;
    }
    if let Some(index) = &mut site.index {
        index.retain(|name| {
            let is_wrong = |char: char| char.is_control() || matches!(char, '/' | '$');
            let is_name = !name.is_empty() && !name.contains(is_wrong) && !name.starts_with('.');
            if !is_name {
                notes.left(&site.place, name, "an index file is a plain name of a file");
            }
            is_name
        });
    }
    // Apache's `Header` comes after `ExpiresByType`, and that counts more than `ExpiresDefault`.
    site.rules.sort_by_key(|rule| match rule.headers.keeps_own {
        true => u8::from(!rule.content_types.is_empty()),
        false => 2,
    });
    guard_front_controller(site, notes);
    listings(site, notes);
    logins::refuse_nested(site, notes);
    let mut is_closed = false;
    site.rules.retain(|rule| match validity::rule(rule) {
        Ok(()) => !rule.is_idle(),
        Err(problem) if rule.guards() => {
            let reason = format!("{problem}; the whole site is refused instead");
            notes.refused(&rule.place, "", reason);
            is_closed = true;
            false
        }
        Err(problem) => {
            notes.left(&rule.place, "", problem);
            false
        }
    });
    if is_closed {
        let place = site.place.clone();
        site.refuse(&place);
    }
    for mount in std::mem::take(&mut site.mounts) {
        let path = mount.path.clone().unwrap_or_default();
        let is_path = path.len() > 1 && validity::path(&path).is_ok();
        if is_path && !path.contains("/.") && is_root(&mount) {
            site.mounts.push(mount);
            continue;
        }
        let reason = "a folder cannot be mounted so; its path is refused instead";
        notes.refused(&mount.place, &path, reason);
        match is_path {
            true => site.rules.push(Rule::at(&mount.place, Scope::path(path)).refuse_all(404)),
            false => site.refuse(&mount.place),
        }
    }
    site.mounts.iter_mut().for_each(|mount| finish(mount, disk, notes));
}
