//! The fuzz targets are a workspace of their own, with a lock file of its own: it names what the
//! server's does, so that they can be checked wherever the server was built. Reads files; starts
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::layers::{dependencies, root};

/// What brings `fuzz/Cargo.lock` up to date.
const ADVICE: &str = "copy Cargo.lock over fuzz/Cargo.lock, and run `cargo metadata` in fuzz/";

/// What nobody else needs.
const OWN: &[&str] = &["arbitrary", "jobserver", "libfuzzer-sys", "tokamak-fuzz"];

/// The packages of a lock file, by name and version, each with the names of what it needs.
fn packages(lock: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key));
        line.map_or("", |rest| rest.trim_start_matches(" = ")).trim_matches('"').to_owned()
    };
    let needs = |package: &str| {
        let names = package.lines().filter_map(|line| line.strip_prefix(" \""));
        names.filter_map(|line| line.split(['"', ' ']).next()).map(str::to_owned).collect()
    };
    lock.split("[[package]]\n")
        .skip(1)
        .map(|package| ((value(package, "name"), value(package, "version")), needs(package)))
        .collect()
}

fn read(path: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
    let packages = packages(&fs::read_to_string(root().join(path)).expect("a lock file"));
    assert!(packages.len() > 20, "{path}: {packages:?}");
    packages
}

#[test]
fn the_fuzz_targets_are_locked_to_what_the_server_uses() {
    let (server, targets) = (read("Cargo.lock"), read("fuzz/Cargo.lock"));
    let unknown = targets.keys().filter(|package| !server.contains_key(package));
    let unknown: Vec<_> = unknown.filter(|(name, _)| !OWN.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "{ADVICE}: {unknown:?}");
    for ((name, _), needs) in &targets {
        let Some(name) = name.strip_prefix("tokamak-").filter(|name| *name != "fuzz") else {
            continue;
        };
        let manifest = dependencies(&root().join("crates").join(name).join("Cargo.toml"));
        let listed = ["dependencies", "build-dependencies"].map(|section| manifest.get(section));
        let listed: BTreeSet<_> = listed.into_iter().flatten().flatten().cloned().collect();
        assert_eq!(*needs, listed, "{name}: {ADVICE}");
    }
}

#[test]
fn packages_are_read() {
    let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\ndependencies = [\n \
                \"b\",\n \"c 2.0.0\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";
    let of = |name: &str, version: &str| (name.to_owned(), version.to_owned());
    let expected = [
        (of("a", "1.0.0"), ["b", "c"].map(str::to_owned).into()),
        (of("b", "0.1.0"), BTreeSet::new()),
    ];
    assert_eq!(packages(lock), expected.into());
}
