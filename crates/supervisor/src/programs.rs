//! The programs that run PHP: one for each version that a site asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokamak_config::{Server, Site};
use tokamak_sys::process::Executable;

/// Finds the program of a version of PHP; of none: the one that serves sites that ask for none. The
/// error says what is installed.
pub type FindPhp = dyn Fn(Option<&str>) -> Result<PathBuf, String>;

/// The programs that are open, by the version that sites ask for. All zygotes of a version are
/// started from the file that was found at first, since another release may lay out the memory that
/// it shares with this one differently.
#[derive(Default)]
pub struct Programs(BTreeMap<Option<String>, Executable>);

impl Programs {
    /// Opens what the sites of a server need and is not open yet.
    ///
    /// # Errors
    /// Fails if one is not installed, or cannot be read; the message names the site.
    pub fn open(&mut self, server: &Server, find: &FindPhp) -> Result<(), String> {
        for site in server.sites.iter().filter(|site| site.has_workers()) {
            if self.0.contains_key(&site.php) {
                continue;
            }
            let wrong = |reason: String| format!("site {}: {reason}", site.name);
            let path = find(site.php.as_deref()).map_err(wrong)?;
            let program = Executable::open(&path)
                .map_err(|error| wrong(format!("cannot open {}: {error}", path.display())))?;
            self.0.insert(site.php.clone(), program);
        }
        Ok(())
    }

    /// Closes what none of these needs.
    pub fn keep(&mut self, servers: &[&Server]) {
        let sites = || servers.iter().flat_map(|server| &server.sites);
        self.0.retain(|version, _| sites().any(|site| site.php == *version));
    }

    /// The program of a site, which was opened with its server.
    pub fn of(&self, site: &Site) -> Option<&Executable> {
        self.0.get(&site.php)
    }

    /// Those whose files were replaced since they were opened.
    pub fn replaced(&self) -> impl Iterator<Item = &Executable> {
        self.0.values().filter(|program| program.is_replaced())
    }
}
