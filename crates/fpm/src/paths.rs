//! Where relative paths begin, and which files a pattern names.

use std::path::{Path, PathBuf};

/// Below this, where nothing else is said.
pub const PREFIX: &str = "/usr";

/// Below this are the pid file and the error log, where nothing else is said.
pub const STATE: &str = "/var";

/// The configuration that is read when none is named.
pub const CONFIG: &str = "/etc/php-fpm.conf";

/// An absolute path, or one below the prefix.
pub fn below(path: &str, prefix: &str) -> String {
    if path.is_empty() || path.starts_with('/') {
        path.to_string()
    } else {
        format!("{prefix}/{path}")
    }
}

/// A path of a pool: below the pool's prefix, else the global one, else the built-in one.
pub fn of_pool(path: &str, own: Option<&str>, global: Option<&str>) -> String {
    let global = global.unwrap_or(PREFIX);
    below(&below(path, own.unwrap_or(global)), global)
}

/// Whether it is a folder.
pub fn is_folder(path: &str) -> bool {
    Path::new(path).is_dir()
}

/// The files that a pattern names, in alphabetical order. Names that begin with a dot must be asked
/// for with it.
pub fn matches(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let options = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let found = glob::glob_with(pattern, options).map_err(|error| error.to_string())?;
    found.collect::<Result<_, _>>().map_err(|error| error.to_string())
}
