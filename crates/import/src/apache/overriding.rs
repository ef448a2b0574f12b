//! `AllowOverride`: where `.htaccess` files are read.

use std::path::Path;

use crate::directive::Directive;

use super::folder::below;
use super::reach::{Reach, sections_of};

/// Where `.htaccess` files are read.
#[derive(Default)]
pub(super) struct Overriding {
    /// Folders with what was said of them and all below.
    folders: Vec<(String, bool)>,
    /// Whether it was said of folders that are not known.
    is_anywhere: bool,
}

impl Overriding {
    /// In all folders.
    pub(super) fn anywhere() -> Overriding {
        Overriding { is_anywhere: true, ..Overriding::default() }
    }

    /// By what the sections of folders say of a root.
    pub(super) fn of(directives: &[Directive], root: &str) -> Overriding {
        let mut overriding = Overriding::default();
        for (reach, section) in sections_of(directives, root) {
            let is_on = overrides(section.inner());
            let folder = match &reach {
                Reach::Nothing => continue,
                Reach::Whole(length) => root.get(..*length).unwrap_or(root).to_owned(),
                Reach::Path(path) => format!("{root}{path}"),
                Reach::Found(_) | Reach::Unknown => {
                    overriding.is_anywhere |= is_on == Some(true);
                    continue;
                }
            };
            overriding.folders.extend(is_on.map(|is_on| (folder, is_on)));
        }
        overriding
    }

    pub(super) fn is_any_below(&self, root: &str) -> bool {
        let is_near = |folder: &str| below(folder, root).or(below(root, folder)).is_some();
        self.is_anywhere || self.folders.iter().any(|(folder, is_on)| *is_on && is_near(folder))
    }

    /// Whether Apache reads this file: the innermost folder decides, and of the same ones the last.
    pub(super) fn is_for(&self, file: &Path) -> bool {
        let file = file.to_string_lossy();
        let around = self.folders.iter().filter(|(folder, _)| below(&file, folder).is_some());
        let deciding = around.max_by_key(|(folder, _)| folder.len());
        self.is_anywhere || deciding.is_some_and(|(_, is_on)| *is_on)
    }
}

/// What a folder's section says of `.htaccess` files.
pub(super) fn overrides(directives: &[Directive]) -> Option<bool> {
    let said = directives.iter().filter(|it| it.name.starts_with("allowoverride"));
    said.map(|it| !it.arg(0).eq_ignore_ascii_case("none")).reduce(|one, other| one || other)
}
