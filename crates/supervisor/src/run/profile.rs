//! Profiles: the zygote of a site lets a process of its own take one and answer the client, so that
//! nobody here waits for it.

use tokamak_sys::control::ToZygote;

use super::Supervisor;
use crate::asker::Asker;
use crate::control_socket::ProfileCommand;
use crate::fleet::Outside;
use crate::pool::Pool;

impl Supervisor {
    /// Has a profile taken. Of a front that is asked over the network there is no way to hand a
    /// client on.
    pub(super) fn profile(&mut self, asker: Asker, command: &ProfileCommand, now: u64) {
        let Asker::Socket(client) = asker else {
            return self.host.answer(asker, "error unknown command\n".into());
        };
        let Err(why) = self.begin_profile(client, command, now) else { return };
        self.host.answer(asker, format!("error {why}\n"));
    }

    fn begin_profile(
        &mut self,
        client: u64,
        command: &ProfileCommand,
        now: u64,
    ) -> Result<(), String> {
        let ProfileCommand { site, rate, milliseconds, prefix } = command;
        let current = self.fleet.current_mut().ok_or("no front serves")?;
        let names: Vec<_> = current.pools().map(|pool| pool.site.name.clone()).collect();
        let is_wanted = |pool: &&mut Pool| pool.site.name == *site;
        let Some(pool) = current.pools_mut().find(is_wanted) else {
            return Err(format!("no site {site} has PHP workers; those are: {}", names.join(", ")));
        };
        // One that still starts begins the profile when it has.
        if pool.endpoint().is_none() {
            return Err(format!("the PHP of site {site} does not run; the error log says why"));
        }
        let order =
            ToZygote::Profile { rate: *rate, milliseconds: *milliseconds, prefix: prefix.clone() };
        if let Some(stream) = self.host.control.hand_over(client) {
            pool.take_profile(&order, stream, now);
        }
        Ok(())
    }
}
