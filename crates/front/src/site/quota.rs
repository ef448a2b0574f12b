//! What the responses of sites may take in temporary files, because of slow clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokamak_config as config;
use tokamak_upstream::unopened::Explained;
use tokamak_upstream::{SpoolBudget, SpoolProblem, SpoolQuota};

use crate::log;

/// Shortest time between two log lines of a site, in nanoseconds. As long as there is no room, each
/// slow client would write a line twice a second; ten minutes later an operator might miss the
/// reason of what is slow now.
const QUIET: u64 = 60_000_000_000;

/// The quotas of all sites, in the order of the configuration.
pub fn quotas(server: &config::Server) -> Vec<Arc<SpoolQuota>> {
    let all = Arc::new(SpoolBudget::new(server.limits.spool));
    let quota = |site: &config::Site| {
        let (name, logged_at) = (site.name.clone(), AtomicU64::new(0));
        // Without files for a site, waiting is what the operator wants.
        let is_wanted = site.spool > 0 && server.limits.spool > 0;
        let alarm = move |problem: SpoolProblem| {
            let (now, last) = (tokamak_cost::now(), logged_at.load(Ordering::Relaxed));
            let is_quiet = last > 0 && now.saturating_sub(last) < QUIET;
            if is_wanted && !is_quiet {
                logged_at.store(now, Ordering::Relaxed);
                log::unspooled(&name, &reason(&problem));
            }
        };
        SpoolQuota::new(site.spool, all.clone(), Box::new(alarm))
    };
    server.sites.iter().map(quota).collect()
}

fn reason(problem: &SpoolProblem) -> String {
    match problem {
        SpoolProblem::SiteFull => "the site's files have the size of site.spool".into(),
        SpoolProblem::AllFull => "the files of all sites have the size of limits.spool".into(),
        SpoolProblem::Failed(error) => {
            let folder = tempfile::env::temp_dir();
            format!(
                "a temporary file in {} cannot be written: {}",
                folder.display(),
                Explained(error)
            )
        }
    }
}
