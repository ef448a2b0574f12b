//! The paths that directives are for.

use crate::model::Scope;
use crate::pattern;

use super::name::Names;

/// A path that is refused in each site of Apache.
pub(super) const HIDDEN: &str = "/.ht";

/// The paths that directives are for.
#[derive(Clone, Debug)]
pub(super) struct Area {
    pub scope: Scope,
    /// The path of the folder, with a slash at its end, if the directives are those of one.
    pub folder: Option<String>,
}

impl Area {
    /// The whole site.
    pub(super) fn server() -> Area {
        Area { scope: Scope::default(), folder: None }
    }

    /// A folder.
    pub(super) fn folder(scope: Scope, path: &str) -> Area {
        Area { scope, folder: Some(path.to_owned()) }
    }

    /// Folders in whose paths an expression is found.
    pub(super) fn found(expression: String) -> Area {
        Area { scope: Scope::pattern(expression), folder: None }
    }

    /// Names of files in it.
    pub(super) fn files(&self, names: Names) -> Area {
        let expression = names.found;
        // A folder is no file, and this is the one with a dot whose files are sent.
        let is_of_dots = expression.starts_with("/\\.")
            && !expression.contains('|')
            && pattern::is_in(&expression, "/.well-known/x");
        let mut scope = Scope { pattern: Some(expression), ..self.scope.clone() };
        scope.and.extend(is_of_dots.then(|| "!^/\\.well-known/".to_owned()));
        scope.and.extend(names.but.iter().map(|own| format!("!{own}")));
        scope.and.extend(self.scope.pattern.clone());
        Area { scope, folder: None }
    }
}
