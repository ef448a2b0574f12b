//! A release that was switched by a link, and whose old folder was removed: its site would find
//! nothing any more, until somebody reloads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokamak_config::Site;

use super::{Fleet, Outside};
use crate::generation::{Generation, Life};
use crate::log::{self, Level};
use crate::renew::Renewals;
use crate::watch::since;

/// Time between two looks at the folders of all sites. They take microseconds each; with ten times
/// more, visitors would find nothing for ten seconds after the folder is gone.
const EVERY: Duration = Duration::from_secs(1);

/// What is remembered between two looks.
#[derive(Debug, Default)]
pub(super) struct Moves {
    looked: u64,
    pace: Renewals,
    /// What the log says is gone.
    logged: Option<PathBuf>,
}

/// What a site needs that is gone.
fn gone(site: &Site) -> Option<&Path> {
    let all = [Some(&site.root), site.worker.as_ref(), site.boot.as_ref()];
    all.into_iter().flatten().map(PathBuf::as_path).find(|path| !path.exists())
}

impl Fleet {
    /// Reloads when the folder of a site is gone and its path leads elsewhere by now.
    pub(super) fn follow_moves(&mut self, outside: &mut dyn Outside, now: u64) {
        // In php-fpm's pools, PHP's workers find their scripts themselves.
        let is_due = since(self.moves.looked, now) >= EVERY && self.moves.pace.allowed(now);
        if self.stopping || self.reload.is_some() || self.configured.fpm.is_some() || !is_due {
            return;
        }
        self.moves.looked = now;
        let serves = |generation: &&Generation| generation.life() == Life::Serving;
        let Some(current) = self.current().filter(serves) else { return };
        let sites = current.server().sites.iter().enumerate();
        let lost = sites.filter_map(|(index, site)| Some((index, site, gone(site)?))).next();
        let Some((index, site, path)) = lost else {
            self.moves.logged = None;
            return;
        };
        let (name, path) = (site.name.clone(), path.to_owned());
        let leads = outside.resolve(&self.configured);
        if leads.is_ok_and(|(server, _)| server.sites[index] != *site) {
            log::site(
                Level::Warn,
                &name,
                format_args!(
                    "{} is gone, and the paths of the site lead elsewhere now: everything is \
                        reloaded",
                    path.display()
                ),
            );
            self.moves.pace.begun(now);
            self.moves.pace.ended(now);
            self.reload_with(outside, self.configured.clone(), None, now);
        } else if self.moves.logged.as_ref() != Some(&path) {
            log::site(
                Level::Error,
                &name,
                format_args!(
                    "{} is gone: requests fail until it is there again, or the path of the site \
                        leads elsewhere",
                    path.display()
                ),
            );
            self.moves.logged = Some(path);
        }
    }
}
