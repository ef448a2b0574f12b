//! `handle_path`: files of a folder under another path, as of a site that is mounted there.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};

use super::Reader;
use super::matcher::{self, Named};
use super::site::TUNING;

/// Directives that come before a `handle_path`, or beside it, and may change what it gets.
const BEFORE: [&str; 9] =
    ["handle", "handle_path", "header", "method", "redir", "rewrite", "route", "try_files", "uri"];

impl Reader<'_> {
    /// Mounts what serves nothing but files; gives the directives that are done by that.
    pub(super) fn mounts<'a>(
        &mut self,
        directives: &'a [Directive],
        site: &mut Site,
    ) -> Vec<&'a Directive> {
        let named = matcher::named(directives, &Named::new(), self.hides_clients);
        let mut done = Vec::new();
        for directive in directives.iter().filter(|it| it.name == "handle_path") {
            let [text] = &directive.args[..] else { continue };
            let Some(path) = text.strip_suffix("/*").filter(|path| is_plain(path)) else {
                continue;
            };
            let scope = Scope::path(format!("{path}/"));
            let may_change = |it: &&Directive| {
                let (own, _) = matcher::of(it, &named);
                // One without a matcher gets what no other one has; headers are handed down.
                let is_rest = own.is_all() && matches!(&*it.name, "handle" | "header");
                BEFORE.contains(&&*it.name)
                    && !is_rest
                    && own.refused().iter().any(|own| own.may_overlap(&scope))
            };
            let mut others = directives.iter().filter(|it| !std::ptr::eq(*it, directive));
            if others.any(|it| may_change(&it)) {
                continue;
            }
            let has_root = directives.iter().any(|it| it.name == "root");
            if let Some(mount) = self.mounted(directive, path, &named, site, has_root) {
                site.mounts.push(mount);
                done.push(directive);
            }
        }
        done
    }

    fn mounted(
        &mut self,
        directive: &Directive,
        path: &str,
        named: &Named,
        site: &Site,
        has_root: bool,
    ) -> Option<Site> {
        let mut mount = Site::new(directive.place.clone());
        mount.path = Some(path.to_owned());
        mount.root.clone_from(&site.root);
        let inner = directive.inner().iter().filter(|it| !TUNING.contains(&&*it.name));
        let (roots, rest): (Vec<_>, Vec<_>) = inner.partition(|it| it.name == "root");
        match &roots[..] {
            // One of a `handle` is not that of this one.
            [] => has_root.then_some(())?,
            [root] => {
                let folder = match &root.args[..] {
                    [folder] => folder,
                    [all, folder] if all == "*" => folder,
                    _ => return None,
                };
                mount.root = Some(self.path(folder)?);
            }
            _ => return None,
        }
        let mut servers = 0;
        for own in &rest {
            let (matcher, _) = matcher::of(own, named);
            match &*own.name {
                "file_server" if matcher.is_all() => servers += 1,
                "header" if matcher.is_all() => {}
                _ => return None,
            }
        }
        mount.root.as_ref().filter(|_| servers == 1)?;
        for own in rest {
            let (matcher, args) = matcher::of(own, named);
            match own.name == "header" {
                true => self.header(own, &matcher, args, &mut mount),
                false if self.file_server(own, args, &mut mount) => {}
                false => return None,
            }
        }
        let place = mount.place.clone();
        mount.rules.push(Rule::at(&place, Scope::default()).serve(Serve::Files));
        mount.index.get_or_insert_with(|| vec!["index.html".to_owned(), "index.txt".to_owned()]);
        self.hide(&mut mount);
        Some(mount)
    }
}

/// Whether Caddy compares a path as it is written.
fn is_plain(path: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_".contains(&byte);
    path.len() > 1 && path.starts_with('/') && !path.contains("//") && path.bytes().all(is_letter)
}
