//! No module may need another one that needs it: inside each crate, the top-level modules form no
//! import circle, and those of a folder none of more than two. Reads the source files; starts
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::layers::{manifests, root};

/// Which module of a folder uses which others of it.
pub type Edges = BTreeMap<String, BTreeSet<String>>;

/// The production code of a file: without comments, the texts of literals, and test modules at its
/// end.
fn production(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut out = String::new();
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or_default();
        // Every second piece lies between quotation marks.
        line.split('"').step_by(2).for_each(|piece| out.push_str(piece));
        out.push('\n');
    }
    out
}

/// The first names of the paths in `{a::b, c, d::{e, f}}`, without the outer braces.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut found, mut current) = (0, Vec::new(), String::new());
    for letter in list.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => found.push(std::mem::take(&mut current)),
            _ if depth == 0 => current.push(letter),
            _ => {}
        }
    }
    found.push(current);
    found
        .iter()
        .map(|path| word(path.trim_start()).to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// The identifier at the beginning of a text.
fn word(text: &str) -> &str {
    let end =
        text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    &text[..end]
}

/// What stands between the brace at the beginning of `text` and the one that closes it.
fn braced(text: &str) -> &str {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[1..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    ""
}

/// Names that stand behind `prefix`, as `crate::`, somewhere in the code.
fn used(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, prefix) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        match rest.starts_with('{') {
            true => names.extend(heads(braced(rest))),
            false => _ = names.insert(word(rest).to_owned()),
        }
    }
    names
}

/// What the root of a crate or folder re-exports: each name, and the module that it comes from.
fn exports(code: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in code.replace("pub(crate)", "pub").replace("pub(super)", "pub").split(';') {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        let Some((module, names)) = path.split_once("::") else { continue };
        let names = if names.starts_with('{') {
            heads(braced(names))
        } else {
            vec![word(names).to_owned()]
        };
        found.extend(names.into_iter().map(|name| (name, module.to_owned())));
    }
    found
}

pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Who uses whom among the modules of a folder, whose own code is in `root`, and whose names stand
/// behind `prefix` in the code of the crate.
fn edges(folder: &Path, root: &Path, prefix: &str) -> Edges {
    let read = |path: &Path| production(&fs::read_to_string(path).unwrap_or_default());
    let exports = exports(&read(root));
    let mut edges = Edges::new();
    for path in sources(folder) {
        let name = path.strip_prefix(folder).expect("below it").with_extension("");
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        if !is_rust
            || parts.iter().any(|part| part == "tests")
            || path == root
            || matches!(&*parts[0], "lib" | "main")
        {
            continue;
        }
        let depth = parts.len() - usize::from(parts.last().is_some_and(|last| last == "mod"));
        let code = read(&path).replace(&"super::".repeat(depth), prefix);
        let to = used(&code, prefix).into_iter();
        let to = to.map(|name| exports.get(&name).cloned().unwrap_or(name));
        edges.entry(parts[0].clone()).or_default().extend(to);
    }
    let modules: BTreeSet<String> = edges.keys().cloned().collect();
    for (from, to) in &mut edges {
        to.retain(|name| name != from && modules.contains(name));
    }
    edges
}

/// The circles of a folder of modules and of those in it, by the folders' names: each with the
/// modules that need each other.
fn circles_below(folder: &Path, root: &Path, prefix: &str) -> Vec<(String, Vec<String>)> {
    let edges = edges(folder, root, prefix);
    let own = circles(&edges).into_iter();
    let own = own.map(|circle| circle.into_iter().map(str::to_owned).collect());
    let mut found: Vec<_> = own.map(|circle| (prefix.to_owned(), circle)).collect();
    for name in edges.keys().filter(|name| folder.join(name).is_dir()) {
        let inner = folder.join(name);
        let roots = [inner.join("mod.rs"), inner.with_extension("rs")];
        if let Some(root) = roots.iter().find(|path| path.exists()) {
            found.extend(circles_below(&inner, root, &format!("{prefix}{name}::")));
        }
    }
    found
}

/// All that a module needs, directly or not.
fn reach<'a>(edges: &'a Edges, from: &str) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for to in edges.get(module).into_iter().flatten() {
            if seen.insert(to.as_str()) {
                next.push(to);
            }
        }
    }
    seen
}

/// Modules that need each other, in groups.
pub fn circles(edges: &Edges) -> BTreeSet<Vec<&str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|module| (module.as_str(), reach(edges, module))).collect();
    let group = |module: &str| -> Vec<&str> {
        reach
            .keys()
            .copied()
            .filter(|other| reach[module].contains(other) && reach[other].contains(module))
            .collect()
    };
    reach.keys().map(|module| group(module)).filter(|group| !group.is_empty()).collect()
}

/// The only larger circle: the body of a response is one of its sources, some of which are made of
/// others.
const BODIES: &str = "front: crate::response::";

#[test]
fn no_modules_need_each_other() {
    let mut found = Vec::new();
    for (name, manifest) in manifests() {
        let source = manifest.with_file_name("src");
        let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
        let root = roots.iter().find(|path| path.exists()).expect("a crate has a root");
        for (folder, circle) in circles_below(&source, root, "crate::") {
            let folder = format!("{name}: {folder}");
            let most = if folder.ends_with(" crate::") { 0 } else { 2 };
            if circle.len() > most && folder != BODIES {
                found.push(format!("{folder} {}", circle.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "modules that need each other:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut edges = Edges::new();
        for (from, to) in pairs {
            edges.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            edges.entry((*to).to_owned()).or_default();
        }
        edges
    };
    assert!(circles(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let round = edges(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]);
    assert_eq!(circles(&round), BTreeSet::from([vec!["a", "b", "c"]]));
}

#[test]
fn imports_are_seen() {
    let code = production(
        "use crate::{a::X, b, c::{d, e::f}};\nuse crate::g::h; // crate::no\nlet x = \
            \"crate::no\"; crate::i::j();\n\
         #[cfg(test)]\nmod tests { use crate::no; }\n",
    );
    assert_eq!(used(&code, "crate::"), ["a", "b", "c", "g", "i"].map(String::from).into());
    let exported = exports("mod a;\npub use a::{B, C};\npub use d::E;\nuse f::G;\n");
    let exported: Vec<_> = exported.iter().map(|(name, module)| (&**name, &**module)).collect();
    assert_eq!(exported, [("B", "a"), ("C", "a"), ("E", "d")]);
}

#[test]
fn this_file_reads_what_it_should() {
    let source = root().join("crates/config/src");
    let edges = edges(&source, &source.join("lib.rs"), "crate::");
    assert!(edges["parse"].contains("option") && !edges["unit"].contains("parse"), "{edges:?}");
    let front = root().join("crates/front/src");
    let known = circles_below(&front, &front.join("lib.rs"), "crate::");
    let body = known.iter().find(|(folder, _)| BODIES.ends_with(folder.as_str()));
    assert!(body.is_some_and(|(_, circle)| circle.len() > 2), "strike it from the list: {known:?}");
}
