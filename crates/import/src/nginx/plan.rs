//! What the locations of a site say together.

use crate::model::{Rule, Scope};
use crate::pattern::BEHIND;
use crate::source::Place;

use super::condition::PathInfos;
use super::php::Scripts;
use super::regions::Region;

/// What the locations of a site say together.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Which scripts run.
    pub php: Vec<Scripts>,
    /// Where scripts run, and whether error pages replace what they answer there.
    pub intercepts: Vec<(Place, bool)>,
    /// The paths that `location /` takes.
    pub rest: Option<Scope>,
    /// Rewrites for paths without a file.
    pub fallback: Vec<Rule>,
    /// Paths that go on behind the name of a script and are 404.
    pub files: Vec<(Place, Scope)>,
    /// What is handed to scripts as `PATH_INFO`, if that is a part of the path.
    pub path_infos: PathInfos,
    /// Scripts that clients cannot ask for by their names.
    pub internal: Vec<(Place, Scope)>,
    /// The headers of the locations.
    pub regions: Vec<Region>,
    /// Which locations list folders; those that nginx prefers come first.
    pub listings: Vec<(Place, Scope, bool)>,
}

impl Plan {
    /// A location that runs scripts of `region` asks for this file first. What goes on behind the
    /// name of a script is no file, unless `split` took it off.
    pub(super) fn asks_for(
        &mut self,
        place: &Place,
        region: &Scope,
        file: &str,
        split: Option<&str>,
    ) {
        let behind = match split.filter(|_| file.ends_with("$fastcgi_script_name")) {
            None => BEHIND,
            // A slash alone stays.
            Some(split) if split.contains("(/.+)") => "\\.php/+$",
            Some(_) => return,
        };
        let and = region.and.iter().chain(&region.pattern).cloned().collect();
        let behind = Scope { pattern: Some(behind.to_owned()), and, ..region.clone() };
        self.files.push((place.clone(), behind));
    }
}
