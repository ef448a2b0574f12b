//! A root whose rewrites lead all paths into one of its folders, as into `public/`: that folder
//! becomes the root, and what is said around it still holds.

use std::path::Path;

use crate::directive::Directive;
use crate::model::{Action, Rule, Scope, Serve, Site};
use crate::pattern;
use crate::source::Place;

use super::access::OF_ACCESS;
use super::area::{Area, HIDDEN};
use super::flags::Flags;
use super::folder::{below, is_folder};
use super::overriding::Overriding;
use super::reach::{self, Reach, sections_of};
use super::rewriting::is_any;
use super::unseen::rewrites;
use super::{Reader, parse, value};

/// Where all paths of a site are led.
#[derive(Debug)]
pub(super) struct PublicFolder {
    /// The folder, as a path of the root around it.
    pub path: String,
    place: Place,
    /// What the root around it says beside this.
    root: Vec<Directive>,
    /// What other folders say, by their paths, if they are around this one, or refuse something.
    others: Vec<(Area, Vec<Directive>)>,
    /// Expressions of paths that are not led there.
    stays: Vec<String>,
    /// Whether paths that only begin like the folder's name are not led there either.
    leaves_out_longer: bool,
}

/// What the rewrites of a root do, if they lead all paths to one folder.
#[derive(Default)]
struct Leading {
    path: String,
    /// Rewrites before it that refuse or redirect.
    before: Vec<Directive>,
    stays: Vec<String>,
    /// Whether it leaves out the folder itself.
    leaves_out: Option<String>,
}

impl Reader<'_> {
    /// Makes the folder into which all paths are led the root of a site. `own`: the `.htaccess` of
    /// the root, if it is what is read; `around`: what is said of the whole server.
    pub(super) fn use_public_folder(
        &mut self,
        own: Option<&[Directive]>,
        around: &[Directive],
        site: &mut Site,
    ) {
        self.public_folder =
            site.root.as_deref().and_then(|root| self.public_folder(root, own, around));
        if let (Some(root), Some(led)) = (&mut site.root, &self.public_folder) {
            root.push_str(&led.path);
        }
    }

    /// The path in front of what the rewrites of a site see.
    pub(super) fn prefix(&self, site: &Site) -> Option<String> {
        site.path.clone().or_else(|| self.public_folder.as_ref().map(|led| led.path.clone()))
    }

    fn public_folder(
        &self,
        root: &str,
        own: Option<&[Directive]>,
        around: &[Directive],
    ) -> Option<PublicFolder> {
        let overriding = match own {
            Some(_) => Overriding::anywhere(),
            None => Overriding::of(around, root),
        };
        let is_read = |file: &Path| overriding.is_for(file);
        let file = format!("{root}/.htaccess");
        let read = || parse::load(Path::new(&file), &self.prefix, self.disk).ok();
        let is_own = own.is_none() && is_read(Path::new(&file)) && self.disk.is_file(file.as_ref());
        let own = own.map(<[Directive]>::to_vec).or_else(|| read().filter(|_| is_own));
        let mut sections = around.iter().filter(|it| {
            is_folder(it) && reach::of(it, root) == Reach::Whole(root.len()) && rewrites(it.inner())
        });
        let (root_says, rules) = match own {
            Some(own) if rewrites(&own) => (own.clone(), own),
            own => (own.unwrap_or_default(), sections.next_back()?.inner().to_vec()),
        };
        let leading = leading(&rules)?;
        let folder = format!("{root}{}", leading.path);
        let files = self.disk.find(Path::new(root), ".htaccess").unwrap_or_default();
        let mut has_own =
            around.iter().any(|it| is_folder(it) && rewrites(it.inner()) && is_at(it, &folder));
        let mut others = Vec::new();
        for other in files.iter().filter(|it| is_read(it)) {
            let at = other.parent()?.to_string_lossy().into_owned();
            if at == root || below(&at, &folder).is_some_and(|rest| !rest.is_empty()) {
                continue;
            }
            let directives = parse::load(other, &self.prefix, self.disk).ok()?;
            if at == folder {
                has_own |= rewrites(&directives);
                continue;
            }
            others.push(self::other(&at, root, &folder, directives)?);
        }
        for (reach, section) in sections_of(around, root) {
            let area = match &reach {
                Reach::Path(path) if below(&folder, &format!("{root}{path}")).is_some() => continue,
                Reach::Path(path) if below(path, &leading.path).is_some() => continue,
                Reach::Path(path) => Area::folder(Scope::path(path), &format!("{path}/")),
                Reach::Found(expression) => Area::found(expression.clone()),
                Reach::Unknown if reach::of(section, &folder) != Reach::Unknown => return None,
                _ => continue,
            };
            others.push((area, restrictions(section.inner())?));
        }
        // Without either, Apache leads each path there for ever.
        // Other rules of the root would see paths behind the rewrite, too.
        let ends = has_own || leading.leaves_out.is_some() && leading.before.is_empty();
        let has_index = self.disk.is_file(Path::new(&format!("{folder}/index.php")));
        let is_alone = is_alone(around, root, &leading.path) && !sees_paths(&root_says);
        if !ends || !has_index || !is_alone {
            return None;
        }
        let is_rewrite = |it: &Directive| it.name.starts_with("rewrite");
        let mut said: Vec<Directive> = root_says.into_iter().filter(|it| !is_rewrite(it)).collect();
        said.extend(leading.before);
        let longer = format!("{}x", leading.path);
        Some(PublicFolder {
            place: rules.first()?.place.clone(),
            root: said,
            others,
            stays: leading.stays,
            leaves_out_longer: leading.leaves_out.is_some_and(|own| pattern::is_in(&own, &longer)),
            path: leading.path,
        })
    }

    /// What is said around the folder into which all paths are led.
    pub(super) fn around_public_folder(&mut self, site: &mut Site) {
        let Some(mut led) = self.public_folder.take() else { return };
        // Rewrites of the root around it see no paths of the folder.
        let inner = vec![format!("{}/", led.path)];
        let rewriting = std::mem::replace(&mut self.unseen.rewriting, inner);
        self.directives(&led.root, &Area::folder(Scope::default(), "/"), site);
        self.unseen.rewriting = rewriting;
        let leads = |it: &&Directive| it.name.starts_with("redirect");
        let redirects: Vec<Directive> = led.root.iter().filter(leads).cloned().collect();
        for (area, directives) in std::mem::take(&mut led.others) {
            self.directives(&directives, &area, site);
        }
        for stays in &led.stays {
            let rule = Rule::at(&led.place, Scope::pattern(stays));
            site.rules.push(rule.serve(Serve::Existing));
            let reason = format!("these paths are looked for in {}", led.path);
            self.notes.differs(&led.place, stays, reason);
        }
        if led.leaves_out_longer {
            let longer = Scope::pattern(format!("^{}[^/]", regex_lite::escape(&led.path)));
            site.guard(Rule::at(&led.place, longer).refuse_all(404));
        }
        self.public_folder = Some(led);
        // Apache asks them again behind the rewrite.
        for redirect in &redirects {
            self.redirect(redirect, &Area::folder(Scope::default(), "/"), site);
        }
    }

    /// Lets paths that name the folder themselves lead there, too.
    pub(super) fn settle_public_folder(&mut self, site: &mut Site) {
        let Some(led) = self.public_folder.take() else { return };
        let is_rewrite =
            |it: &Rule| matches!(&it.action, Some(Action::Rewrite(to)) if to != HIDDEN);
        let at = site.rules.iter().position(is_rewrite).unwrap_or(site.rules.len());
        let path = regex_lite::escape(&led.path);
        let rule = |expression: String| Rule::at(&led.place, Scope::pattern(expression));
        let folder = rule(format!("^{path}$")).redirect(format!("{}/", led.path), 301);
        site.rules.splice(at..at, [folder, rule(format!("^{path}/(.*)$")).rewrite("/$1")]);
    }
}

/// What a folder beside or around the one into which paths are led says of the site; nothing if
/// that cannot be said.
fn other(
    at: &str,
    root: &str,
    folder: &str,
    directives: Vec<Directive>,
) -> Option<(Area, Vec<Directive>)> {
    let path = below(at, root)?;
    if rewrites(&directives) {
        return None;
    }
    if below(folder, at).is_some() {
        let redirects = directives.iter().any(|it| it.name.starts_with("redirect"));
        return (!redirects).then(|| (Area::folder(Scope::default(), "/"), directives));
    }
    let area = Area::folder(Scope::path(path), &format!("{path}/"));
    Some((area, restrictions(&directives)?))
}

/// What of directives still holds for paths that are led elsewhere: who is let in. Nothing if they
/// redirect or rewrite.
fn restrictions(directives: &[Directive]) -> Option<Vec<Directive>> {
    let leads = |it: &Directive| ["redirect", "rewrite"].iter().any(|own| it.name.starts_with(own));
    let mut own = Vec::new();
    for directive in directives {
        match &directive.block {
            _ if leads(directive) => return None,
            _ if OF_ACCESS.contains(&&*directive.name) => own.push(directive.clone()),
            Some(inner) => {
                let block = Some(restrictions(inner)?);
                own.push(Directive { block, ..directive.clone() });
            }
            None => {}
        }
    }
    Some(own)
}

/// Whether a section is for exactly this folder.
fn is_at(section: &Directive, folder: &str) -> bool {
    reach::of(section, folder) == Reach::Whole(folder.len())
}

/// Whether nothing else of a server is for the paths behind a rewrite into a folder, or leads to
/// what lies beside it.
fn is_alone(around: &[Directive], root: &str, path: &str) -> bool {
    let is_within = format!("{path}/a");
    if sees_paths(around) {
        return false;
    }
    around.iter().all(|it| match &*it.name {
        "location" if it.arg(0) != "~" && !it.arg(0).contains(['*', '?', '[']) => {
            !is_within.starts_with(it.arg(0).trim_end_matches('/')) || it.arg(0) == "/"
        }
        _ if it.name == "location" && it.arg(0).contains(['*', '?', '[']) => false,
        "location" | "locationmatch" => {
            let expression = it.args.last().map_or("", String::as_str);
            pattern::translate(expression, false).is_ok_and(|it| !pattern::is_in(&it, &is_within))
        }
        "rewriterule" => it.arg(1).contains("://") || it.arg(1) == "-",
        "alias" => below(it.arg(1).trim_end_matches('/'), root).is_none(),
        _ => true,
    })
}

/// Whether anything but a rewrite goes by whole paths, also by those behind it.
fn sees_paths(directives: &[Directive]) -> bool {
    let is_path = |word: &String| word.to_ascii_lowercase().contains("request_uri");
    directives.iter().any(|it| {
        let is_own = it.name == "if" || it.name.starts_with("setenvif") || it.name == "require";
        is_own && it.args.iter().any(is_path) || sees_paths(it.inner())
    })
}

/// The folder into which rewrites lead all paths.
fn leading(directives: &[Directive]) -> Option<Leading> {
    let mut leading = Leading::default();
    let mut conditions: Vec<&Directive> = Vec::new();
    let mut has_empty = false;
    let mut lines = directives.iter().filter(|it| it.name.starts_with("rewrite"));
    while let Some(line) = lines.next() {
        let (expression, to) = (line.arg(0), line.arg(1));
        match &*line.name {
            "rewriteengine" if expression.eq_ignore_ascii_case("on") => continue,
            "rewritebase" if expression == "/" => continue,
            "rewritecond" => {
                conditions.push(line);
                continue;
            }
            "rewriterule" => {}
            _ => return None,
        }
        let own = std::mem::take(&mut conditions);
        let flags = Flags::of(line.arg(2));
        if flags.refuses.is_some() || flags.redirect.is_some() || to.contains("://") {
            let is_of_file = |it: &&Directive| {
                it.arg(0).contains("FILENAME") || it.arg(1).trim_start_matches('!').starts_with('-')
            };
            if flags.chains || own.iter().any(is_of_file) {
                return None;
            }
            leading.before.extend(own.into_iter().chain([line]).cloned());
            continue;
        }
        if flags.is_unknown || flags.drops_query || flags.chains || flags.sets_variable {
            return None;
        }
        let stays = to == "$1" || to == "-" && flags.ends;
        if stays && own.is_empty() && expression.starts_with("^(") && expression.ends_with(")$") {
            leading.stays.push(value::with_start(expression, "^/")?);
            continue;
        }
        let ends = ["$1", "%{REQUEST_URI}"];
        let start = ends.iter().find_map(|end| to.strip_suffix(end)).unwrap_or(to);
        let is_whole = start != to && is_any(expression) && !expression.starts_with("^/(");
        if !is_whole && expression != "^$" {
            return None;
        }
        let path = format!("/{}", start.trim_matches('/'));
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "/-_".contains(it);
        let is_known = leading.path.is_empty() || leading.path == path;
        if path == "/" || !path.chars().all(is_plain) || path.contains("//") || !is_known {
            return None;
        }
        if to.ends_with("$1") && !expression.contains('(') {
            return None;
        }
        leading.leaves_out = match own[..] {
            [] => None,
            [only] => Some(left_out(only, &path)?),
            _ => return None,
        };
        leading.path = path;
        if is_whole {
            let needs_some = pattern::translate(expression, false).ok()?;
            let is_complete = has_empty || pattern::is_in(&needs_some, "");
            let is_last = flags.ends || lines.next().is_none();
            return (is_complete && is_last).then_some(leading);
        }
        has_empty = true;
    }
    None
}

/// What a condition leaves out, if that is only what begins with a path.
fn left_out(condition: &Directive, path: &str) -> Option<String> {
    let own = condition
        .arg(1)
        .strip_prefix("!^")
        .filter(|_| condition.arg(0) == "%{REQUEST_URI}" && condition.args.len() == 2)?;
    let rest = own.strip_prefix(path)?;
    let is_known = matches!(rest, "" | "/" | "/.*" | ".*" | "(/|$)" | "(/.*)?$" | "(?:/|$)" | "/?");
    is_known.then(|| format!("^{}{rest}", regex_lite::escape(path)))
}
