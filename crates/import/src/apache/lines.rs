//! Which directives of a configuration are for a path, whatever lies in folders.

use crate::directive::Directive;
use crate::model::Route;

/// Whether a section is for a path and all below it.
pub(super) fn is_of_path(section: &Directive) -> bool {
    let name = section.arg(0);
    section.name == "location"
        && section.args.len() == 1
        && section.block.is_some()
        && name.starts_with('/')
        && !name.contains(['*', '?', '['])
}

/// The directives of a configuration that hold for a path: those of all of it, and of the
/// sections for a path around it.
pub(super) fn lines_for<'a>(all: &'a [Directive], path: &str) -> Vec<&'a Directive> {
    let holds = |section: &Directive| {
        let around = section.arg(0).trim_end_matches('/').to_owned();
        is_of_path(section) && Route { path: around, ..Route::default() }.has(path)
    };
    let sections = all.iter().filter(|it| holds(it));
    let plain = all.iter().filter(|it| it.block.is_none());
    plain.chain(sections.flat_map(|it| it.inner())).collect()
}

/// The same for sections that are for a part of what is below a path.
pub(super) fn lines_within<'a>(all: &'a [Directive], path: &str) -> Vec<&'a Directive> {
    let own = Route { path: path.to_owned(), ..Route::default() };
    let is_part = |section: &Directive| {
        let inner = section.arg(0).trim_end_matches('/');
        let is_within = inner != path && own.has(inner);
        let is_unknown = matches!(&*section.name, "locationmatch" | "if")
            || (section.name == "location" && !is_of_path(section));
        is_unknown || (is_of_path(section) && is_within)
    };
    all.iter().filter(|it| is_part(it)).flat_map(|it| it.inner()).collect()
}
