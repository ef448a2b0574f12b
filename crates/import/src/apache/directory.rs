//! `<Directory>`: the sections of folders, and the `.htaccess` files in them.

use std::path::{Path, PathBuf};

use crate::directive::Directive;
use crate::model::{Rule, Scope, Site};

use super::access::{Access, OF_ACCESS, access};
use super::area::Area;
use super::folder::is_folder;
use super::login::{Settings, has_other_provider};
use super::overriding::Overriding;
use super::reach::{self, LAST, Reach, sections_of};
use super::{Reader, listing, parse};

impl Reader<'_> {
    /// The sections of folders: of the root, of mounted folders, and below them.
    pub(super) fn directories(&mut self, directives: &[Directive], site: &mut Site) {
        let mut mounts = std::mem::take(&mut site.mounts);
        for target in std::iter::once(&mut *site).chain(&mut mounts) {
            let Some(root) = target.root.clone() else { continue };
            self.folders_of(&root, directives, target);
        }
        site.mounts = mounts;
    }

    fn folders_of(&mut self, root: &str, directives: &[Directive], site: &mut Site) {
        let mut deciding = None;
        let overriding = Overriding::of(directives, root);
        self.find_rewriting(root, directives, &overriding, site);
        let mut inner = Vec::new();
        for (reach, section) in sections_of(directives, root) {
            let reach = match reach {
                // What rewrites see depends on the folder, of which there are several.
                Reach::Found(_) if has_rewrites(section.inner()) => Reach::Unknown,
                reach => reach,
            };
            let length = match &reach {
                Reach::Nothing => continue,
                Reach::Whole(length) => *length,
                Reach::Path(_) => LAST,
                Reach::Found(own) => {
                    if section.args.iter().any(|it| it.contains('$')) {
                        let reason = "it is for what lies below these folders, too";
                        self.notes.differs(&section.place, &section.line(), reason);
                    }
                    inner.push((Area::found(own.clone()), section));
                    continue;
                }
                Reach::Unknown => {
                    self.unknown(section, &Area::server(), site);
                    continue;
                }
            };
            if let Reach::Path(path) = &reach {
                inner.push((Area::folder(Scope::path(path), &format!("{path}/")), section));
            } else {
                self.unasked(section.inner(), &Scope::default());
                let inner = self.denied(section.inner(), &Area::server(), site);
                let own = access(&inner, &Settings::default().with(&inner));
                // What an expression of folders opens is not known.
                if own != Access::Unsaid && (own != Access::Open || length != LAST) {
                    deciding = match deciding {
                        Some((before, _)) if before > length => deciding,
                        _ => Some((length, (&section.place, own))),
                    };
                }
                let own = inner.into_iter().filter(|it| !OF_ACCESS.contains(&&*it.name));
                let own: Vec<Directive> = own.collect();
                // Names of files in it have its settings.
                let settings = Settings::default().with(section.inner());
                let around = std::mem::replace(&mut self.settings, settings);
                self.directives(&own, &Area::folder(Scope::default(), "/"), site);
                self.settings = around;
            }
        }
        let around = directives.iter().filter(|it| is_folder(it)).filter_map(|section| {
            let Reach::Whole(length) = reach::of(section, root) else { return None };
            Some((root.get(..length).unwrap_or(root).to_owned(), section.inner()))
        });
        if let Some(lists) = listing::of_folders(around.collect()) {
            site.index_listing = lists;
        }
        if let Some((_, (place, access))) = deciding {
            self.access(place, access, &Area::server(), site);
        }
        for (area, section) in inner {
            self.directives(section.inner(), &area, site);
        }
        if site.path.is_none() {
            self.around_public_folder(site);
        }
        if overriding.is_any_below(root) {
            self.overrides(root, &|file| overriding.is_for(file), site);
        }
    }

    /// The `.htaccess` files below a root, of those that are read.
    pub(super) fn overrides(
        &mut self,
        root: &str,
        is_read: &dyn Fn(&Path) -> bool,
        site: &mut Site,
    ) {
        let Some(files) = self.disk.find(Path::new(root), ".htaccess") else {
            let reason = "too many folders to look for .htaccess files, so the site is refused";
            self.notes.refused(&site.place, root, reason);
            let place = site.place.clone();
            site.refuse(&place);
            return;
        };
        let files = files.into_iter().filter(|file| is_read(file));
        let above: Vec<PathBuf> = match site.path {
            Some(_) => Path::new(root).ancestors().skip(1).map(|it| it.join(".htaccess")).collect(),
            None => Vec::new(),
        };
        let above = above.into_iter().filter(|file| self.disk.is_file(file) && is_read(file));
        for file in above.collect::<Vec<_>>() {
            self.around(&file, site);
        }
        for file in files {
            let folder = file.parent().and_then(|folder| folder.strip_prefix(root).ok());
            let path = match folder.map(|folder| folder.to_string_lossy()) {
                Some(folder) if !folder.is_empty() => format!("/{folder}"),
                _ => String::new(),
            };
            let scope = if path.is_empty() { Scope::default() } else { Scope::path(&path) };
            let area = Area::folder(scope, &format!("{path}/"));
            match parse::load(&file, &self.prefix, self.disk) {
                Ok(directives) => {
                    self.has_other_provider |= has_other_provider(&directives);
                    self.directives(&directives, &area, site);
                }
                Err(error) => {
                    self.notes.refused(&error.place, "", "its folder is refused instead");
                    site.rules.push(Rule::at(&error.place, area.scope).refuse_all(403));
                }
            }
        }
    }

    /// An `.htaccess` above a folder that is mounted, without what is for paths of its own folder.
    fn around(&mut self, file: &Path, site: &mut Site) {
        match parse::load(file, &self.prefix, self.disk) {
            Ok(mut directives) => {
                self.rewrite_around(file, &directives, site);
                let of_paths =
                    |name: &str| name.starts_with("rewrite") || name.starts_with("redirect");
                directives.retain(|it| !of_paths(&it.name));
                self.directives(&directives, &Area::folder(Scope::default(), "/"), site);
            }
            Err(error) => {
                self.notes.refused(&error.place, "", "the folder below is refused instead");
                site.refuse(&error.place);
            }
        }
    }
}

/// Whether paths are rewritten within.
fn has_rewrites(directives: &[Directive]) -> bool {
    directives.iter().any(|it| it.name == "rewriterule" || has_rewrites(it.inner()))
}
