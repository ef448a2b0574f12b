//! Profiles: the zygote of a site lets a process of its own take one and answer the client, so that
//! the supervisor does not wait for it.

use std::os::fd::OwnedFd;

use tokamak_sys::control::ToZygote;

use super::Supervisor;
use crate::asker::Asker;
use crate::control_socket::ProfileCommand;
use crate::fleet::Outside;
use crate::pool::Pool;

/// Milliseconds of the longest profile, and most samples a second, for a client of the admin
/// listener. It asks through a front that faces the network: one that was taken over gets no more
/// than what is known to cost little.
const LONGEST_FOR_ADMIN: u32 = 60_000;
const RATE_FOR_ADMIN: u16 = 99;

impl Supervisor {
    /// Has a profile taken.
    pub(super) fn profile(&mut self, asker: Asker, command: &ProfileCommand, now: u64) {
        if let Err(why) = self.begin_profile(asker, command, now) {
            self.host.answer(asker, format!("error {why}\n"));
        }
    }

    fn begin_profile(
        &mut self,
        asker: Asker,
        command: &ProfileCommand,
        now: u64,
    ) -> Result<(), String> {
        let ProfileCommand { site, rate, milliseconds, prefix } = command;
        if matches!(asker, Asker::Admin { .. })
            && (*milliseconds > LONGEST_FOR_ADMIN || *rate > RATE_FOR_ADMIN)
        {
            return Err(format!(
                "it may take {} s and {RATE_FOR_ADMIN} samples a second at most",
                LONGEST_FOR_ADMIN / 1000
            ));
        }
        let current = self.fleet.current().ok_or("no front serves")?;
        let Some(pool) = current.pools().find(|pool| pool.site.name == *site) else {
            let names: Vec<_> = current.pools().map(|pool| &pool.site.name[..]).collect();
            return Err(format!("no site {site} has PHP workers; those are: {}", names.join(", ")));
        };
        // One that still starts begins the profile when it has.
        if pool.endpoint().is_none() {
            return Err(format!("the PHP of site {site} does not run; the error log says why"));
        }
        // If the client has gone, the profile is not needed.
        let Some(client) = self.client(asker)? else { return Ok(()) };
        let order =
            ToZygote::Profile { rate: *rate, milliseconds: *milliseconds, prefix: prefix.clone() };
        let is_wanted = |pool: &&mut Pool| pool.site.name == *site;
        if let Some(current) = self.fleet.current_mut()
            && let Some(pool) = current.pools_mut().find(is_wanted)
        {
            pool.take_profile(&order, client, now);
        }
        Ok(())
    }

    /// The socket at which the client gets an answer from another process. None: it has gone.
    fn client(&mut self, asker: Asker) -> Result<Option<OwnedFd>, String> {
        match asker {
            Asker::Socket(client) => Ok(self.host.control.hand_over(client)),
            Asker::Admin { generation, question } => self.stream_to_front(generation, question),
        }
    }
}
