//! The file that says of php-fpm's pools what php-fpm does not know of them: the mode and what
//! belongs to it. A file of its own, so that php-fpm still understands its own one.

use std::path::Path;

use crate::error::{Errors, Location};
use crate::model::{Mode, Site};
use crate::parse::parse_pools;
use crate::raw::Raw;
use crate::resolve::{self, Surroundings};

/// Reads such a file: the name of each pool, and a site that has only what the file says.
/// `directory` is the current one.
///
/// # Errors
/// Fails with everything that is wrong with it.
pub fn pools(file: &Path, directory: &Path) -> Result<Vec<(String, Site)>, Errors> {
    let location = Location::File(file.to_owned(), None);
    let text = std::fs::read_to_string(directory.join(file))
        .map_err(|error| Errors::one(location.clone(), format!("cannot be read: {error}")))?;
    let mut errors = Errors::default();
    let Some(named) = parse_pools(&text, file, &mut errors) else { return errors.unless_any(None) };
    let around = Surroundings { directory, cores: 1, state: directory, path: None };
    let mut pools = Vec::new();
    for (name, site) in named {
        // Each by itself: several sites need host names, which tell pools nothing.
        let mut raw = Raw::new(Some(&directory.join(file)));
        raw.sites.push(site);
        pools.extend(
            resolve::sites(&raw, &around, &mut errors).into_iter().map(|site| (name.clone(), site)),
        );
    }
    if pools.iter().any(|(_, site)| matches!(site.mode, Mode::Fastcgi | Mode::Async)) {
        errors.add(
            location,
            "pool.mode",
            "a pool has workers of its own: classic, worker or sealed",
        );
    }
    errors.unless_any(Some(pools))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, Site)>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("boot.php"), "").unwrap();
        std::fs::write(folder.path().join("pools.toml"), text).unwrap();
        pools(Path::new("pools.toml"), folder.path()).map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_pool_has_a_mode() {
        let found = read(
            "[[pool]]\nname = \"www\"\nroot = \".\"\nmode = \"sealed\"\nboot = \"boot.php\"\nwarm \
                = [\"/\"]\n\
             [[pool]]\nname = \"Plain\"\nroot = \".\"\n",
        )
        .unwrap();
        let seen: Vec<_> = found.iter().map(|(name, site)| (name.as_str(), site.mode)).collect();
        assert_eq!(seen, [("www", Mode::Sealed), ("Plain", Mode::Classic)]);
        assert!(found[0].1.boot.as_ref().is_some_and(|boot| boot.ends_with("boot.php")));
        assert_eq!(found[0].1.warm, ["/"]);
    }

    #[test]
    fn errors_name_file_line_and_key() {
        for (text, problem) in [
            ("[[pool]]\nmode = \"sealed\"\n", "pools.toml:1: pool.name: not set"),
            ("[[pool]]\nname = \"a\"\nmood = 1\n", "pools.toml:3: pool.mood: unknown key"),
            ("[[pool]]\nname = \"a\"\nindex = []\n", "pools.toml:3: pool.index: unknown key"),
            ("[[pool]]\nname = \"a\"\nmode = \"loud\"\n", "pools.toml:3: pool.mode"),
            ("[[pool]]\nname = \"a\"\nmode = \"fastcgi\"\n", "pool.mode: a pool has workers"),
            ("[[site]]\n", "pools.toml:1: site: unknown"),
            ("pool = 1\n", "must be a list of tables"),
            ("[[pool]\n", "this is not TOML"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(problem), "{said}");
        }
    }
}
