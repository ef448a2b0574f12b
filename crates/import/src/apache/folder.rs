//! Paths of folders, and the sections that name them.

use crate::directive::Directive;

/// The path of a directory in one spelling, as Apache compares them: without `.`, `..`, doubled
/// slashes, and one at the end.
pub(super) fn plain(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

pub(super) fn is_folder(directive: &Directive) -> bool {
    matches!(&*directive.name, "directory" | "directorymatch") && directive.block.is_some()
}

/// The folder of a section, if it is for one that is known.
pub(super) fn folder_of(section: &Directive) -> Option<String> {
    let folder = section.arg(0);
    let is_plain = section.name == "directory"
        && section.args.len() == 1
        && folder.starts_with('/')
        && !folder.contains(['*', '?', '[', '$']);
    is_plain.then(|| plain(folder))
}

/// What of a path is below a folder, both as [`plain`] writes them.
pub(super) fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}
