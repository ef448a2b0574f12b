//! What a configuration may not mean as its author does: it is valid, and something that holds for
//! a whole site does not hold in a part of it.

use std::path::{Path, PathBuf};

use crate::model::{Proxies, Rule, Scripts, Serve, Server, Site};
use crate::resolve::around;

/// What an operator should look at, a line each.
pub fn warnings(server: &Server) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(of_scheme(&server.proxies));
    for site in &server.sites {
        for route in &site.routes {
            for (stage, of_site, of_route) in stages(&site.lua, &route.lua) {
                let dropped = missing(of_site, of_route);
                if !dropped.is_empty() {
                    warnings.push(format!(
                        "site {}: the route {} has its own {stage}, so these scripts of the site \
                         do not run there: {}",
                        site.name,
                        route.name(),
                        names(&dropped)
                    ));
                }
            }
        }
        warnings.extend(without_listing(site));
        warnings.extend(without_subscribers(site));
        if !site.path.is_empty() {
            let others = around(site, &server.sites).into_iter();
            warnings.extend(others.filter_map(|other| of_mount(site, other)));
        }
    }
    warnings.dedup();
    warnings
}

/// Says which fields are believed of proxies if nothing says so: one that speaks `https` with
/// clients is not believed by default, and its sites would redirect to `https` for ever.
fn of_scheme(proxies: &Proxies) -> Option<String> {
    let is_silent = !proxies.has_named_headers && proxies.protocol.is_empty();
    (is_silent && !proxies.trusted.is_empty()).then(|| {
        "trusted_headers is not set, so of trusted_proxies only X-Forwarded-For is believed: if your \
         proxy sets X-Forwarded-Proto in each request, whatever its client sent, write \
         trusted_headers = [\"x-forwarded-for\", \"x-forwarded-proto\"], and without that \
         trusted_headers = [\"x-forwarded-for\"]"
            .to_owned()
    })
}

/// Says so if no folder of a site is ever listed, because its front controller answers first.
fn without_listing(site: &Site) -> Option<String> {
    let is_wanted =
        site.index_listing || site.rules.iter().any(|it| it.index_listing == Some(true));
    let is_first = site.rules.iter().all(|rule| rule.serve == Serve::All);
    let script = site.front_controller.as_ref().filter(|_| is_wanted && is_first)?;
    Some(format!(
        "site {}: index_listing has no effect, because the front controller, {script}, answers for \
         folders; a rule with `serve = \"existing\"` leaves it out for some paths, and \
         `front_controller = \"none\"` for all",
        site.name
    ))
}

/// Says so if nobody can subscribe to a site's hub.
fn without_subscribers(site: &Site) -> Option<String> {
    let mercure = site.mercure.as_ref()?;
    (mercure.subscriber.is_none() && !mercure.anonymous).then(|| {
        format!(
            "site {}: nobody can subscribe to its hub; set `subscriber_key` in [site.mercure], or \
             `anonymous = true` if all updates are for everybody",
            site.name
        )
    })
}

/// The stages of scripts, with what a site and a route have of each.
fn stages<'a>(
    site: &'a Scripts,
    route: &'a Scripts,
) -> [(&'static str, &'a [PathBuf], &'a [PathBuf]); 5] {
    [
        ("lua_raw_url", &site.raw_url, &route.raw_url),
        ("lua_physical", &site.physical, &route.physical),
        ("lua_content", &site.content, &route.content),
        ("lua_response", &site.response, &route.response),
        ("lua_store", &site.store, &route.store),
    ]
}

fn missing<'a>(of_site: &'a [PathBuf], of_route: &[PathBuf]) -> Vec<&'a Path> {
    let is_missing = |script: &&PathBuf| !of_route.contains(script);
    of_site.iter().filter(is_missing).map(PathBuf::as_path).collect()
}

fn names(scripts: &[&Path]) -> String {
    let names: Vec<String> = scripts.iter().map(|script| script.display().to_string()).collect();
    names.join(", ")
}

/// What of a site around does not hold in one that is mounted in it, and does not say it itself.
fn of_mount(mount: &Site, around: &Site) -> Option<String> {
    let own: Vec<&Rule> = mount.rules.iter().filter(|rule| is_for(rule, "")).collect();
    let lacks = |is_said: &dyn Fn(&Rule) -> bool, is_same: &dyn Fn(&Rule, &Rule) -> bool| {
        let said = around.rules.iter().filter(|rule| is_for(rule, &mount.path) && is_said(rule));
        said.clone().any(|rule| !own.iter().any(|own| is_same(rule, own)))
    };
    let mut kinds = Vec::new();
    if lacks(&Rule::refuses, &|one, other| one.allow == other.allow && one.deny == other.deny) {
        kinds.push("allow or deny");
    }
    if lacks(&|rule| rule.login.is_some(), &|one, other| one.login == other.login) {
        kinds.push("auth_users");
    }
    if lacks(&|rule| !rule.headers.is_empty(), &|one, other| one.headers == other.headers) {
        kinds.push("headers");
    }
    let kinds = kinds.join(", ");
    (!kinds.is_empty()).then(|| {
        format!(
            "site {}: it is mounted in {}, whose rules with {kinds} do not hold in it; write them \
             below it, too",
            mount.name, around.name
        )
    })
}

/// Whether a rule is for all that is below a path of its site.
fn is_for(rule: &Rule, path: &str) -> bool {
    let holds = |own: &String| match own.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => {
            path.strip_prefix(own.as_str()).is_some_and(|it| it.is_empty() || it.starts_with('/'))
        }
    };
    let is_everywhere = rule.paths.is_empty() || rule.paths.iter().any(holds);
    is_everywhere && rule.pattern.is_none() && rule.extensions.is_empty()
}
