//! Other processes for one site, because a client wants them: the front and the other sites go on.

use std::time::Duration;

use super::{Fleet, Outside, text};
use crate::asker::Asker;
use crate::generation::{Generation, Handover, Life};
use crate::log::Level;
use crate::succession::Role;
use crate::watch::since;

/// Time that event loops have for taking over a site's new processes, beyond what a Lua script may
/// hold them up. They need microseconds. With a tenth, a busy machine would make a reload fail that
/// does not; with ten times more, who asks would wait for minutes for a front that is stuck.
const HANDOVER_LIMIT: Duration = Duration::from_secs(10);

/// A client that waits for a site's new processes.
#[derive(Debug)]
pub struct SiteReload {
    client: Asker,
    site: String,
    /// The generation, and its pool that is to take over; absent before that starts.
    begun: Option<(u32, u32)>,
}

/// How one of them stands.
enum Standing {
    Waits,
    /// This is the answer.
    Ends(String),
    /// A reload of all sites answers the client.
    IsReload,
}

impl Fleet {
    /// A client wants other processes for this site.
    pub fn reload_site(&mut self, site: String, client: Asker) {
        self.site_reloads.push(SiteReload { client, site, begun: None });
    }

    pub(super) fn advance_site_reloads(&mut self, outside: &mut dyn Outside, now: u64) {
        for mut wanted in std::mem::take(&mut self.site_reloads) {
            match self.stand(&mut wanted, outside, now) {
                Standing::Waits => self.site_reloads.push(wanted),
                Standing::Ends(answer) => outside.answer(wanted.client, answer),
                Standing::IsReload => {}
            }
        }
    }

    fn stand(&mut self, wanted: &mut SiteReload, outside: &mut dyn Outside, now: u64) -> Standing {
        if self.stopping {
            return Standing::Ends("error the server is stopping\n".into());
        }
        let Some((number, pool)) = wanted.begun else {
            return self.begin_site_reload(wanted, outside, now);
        };
        let current = self.current().filter(|current| current.number == number);
        let site_pool = current.and_then(|current| Some((current, current.site_pool(pool)?)));
        match site_pool
            .map(|(current, site_pool)| (current, site_pool, site_pool.role, site_pool.handover))
        {
            Some((_, _, Role::Next(_), _)) => Standing::Waits,
            // Even if others have replaced it since.
            Some((.., Handover::Done)) => {
                Standing::Ends(format!("ok new processes serve {}\n", wanted.site))
            }
            Some((current, _, Role::Serving, Handover::Since(from))) => {
                let limit = HANDOVER_LIMIT + current.server().lua.time;
                if since(from, now) <= limit {
                    return Standing::Waits;
                }
                Standing::Ends(format!(
                    "error new processes of {} are there, but after {} s not all event loops use \
                        them: requests may still reach the old ones; see the error log\n",
                    wanted.site,
                    limit.as_secs()
                ))
            }
            // Another reload has replaced it before all event loops knew it. What serves now has
            // read the files later.
            Some((current, site_pool, _, Handover::Since(_))) => {
                let serving = current.serving(site_pool.pool.site_index);
                wanted.begun = serving.map(|serving| (number, serving));
                Standing::Waits
            }
            Some((_, site_pool, _, Handover::None)) => {
                let why = site_pool.pool.failure();
                Standing::Ends(format!("error {}\n", why.unwrap_or("it was not ready in time")))
            }
            // The generation has ended meanwhile. The next one may have begun before this was
            // asked for.
            None => {
                wanted.begun = None;
                Standing::Waits
            }
        }
    }

    fn begin_site_reload(
        &mut self,
        wanted: &mut SiteReload,
        outside: &mut dyn Outside,
        now: u64,
    ) -> Standing {
        let serves = |generation: &Generation| generation.life() == Life::Serving;
        let at = self.generations.iter().rposition(serves);
        let Some(at) = at.filter(|_| self.reload.is_none()) else { return Standing::Waits };
        let generation = &self.generations[at];
        let Some(pool) = generation.pools().find(|pool| pool.site.name == wanted.site) else {
            let answer = format!("error there is no site `{}` with PHP workers\n", wanted.site);
            return Standing::Ends(answer);
        };
        let site_index = pool.site_index;
        // What starts already may have read the files before they changed.
        if generation.is_renewing(site_index) {
            return Standing::Waits;
        }
        pool.say(Level::Info, format_args!("reload of this site: other processes start"));
        if self.has_moved(outside, at, site_index) {
            self.reload_with(outside, self.configured.clone(), Some(wanted.client), now);
            return Standing::IsReload;
        }
        let generation = &mut self.generations[at];
        match generation.renew(site_index, now) {
            Ok(pool) => {
                wanted.begun = Some((generation.number, pool));
                Standing::Waits
            }
            Err(error) => Standing::Ends(format!("error {}\n", text(error))),
        }
    }
}
