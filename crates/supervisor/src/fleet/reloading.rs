//! Reloads: begun, awaited, answered; and other processes for one site.

use tokamak_config::{Server, restart_needed};

use super::{Fleet, Outside, finish_reload, text};
use crate::asker::Asker;
use crate::change::Changes;
use crate::generation::{Generation, Life, Patience};
use crate::identities::Identities;
use crate::log::{self, Level};
use crate::notify::Notice;
use crate::reload::{Progress, Reload};

impl Fleet {
    /// Begins a reload with a configuration read anew. A client, if one asked, hears how it ends.
    pub fn reload(&mut self, outside: &mut dyn Outside, client: Option<Asker>, now: u64) {
        match outside.reread() {
            Ok(server) => {
                let before = self.numbered;
                self.reload_with(outside, server, client, now);
                // The configuration counts again, once this generation serves.
                if let Some(new) = self.generations.last_mut().filter(|new| new.number > before) {
                    new.inherit(Changes::default());
                }
            }
            Err(wrong) => refuse(outside, client, &wrong),
        }
    }

    /// Begins a reload with this configuration.
    pub fn reload_with(
        &mut self,
        outside: &mut dyn Outside,
        server: Server,
        client: Option<Asker>,
        now: u64,
    ) {
        if self.stopping {
            return refuse(outside, client, "the server is stopping");
        }
        if let Some(reload) = &mut self.reload {
            return reload.again(client);
        }
        match self.prepare(outside, server, now) {
            Ok(number) => {
                outside.notify(Notice::Reloading, "reloading");
                let own = format_args!("reload: generation {number} starts");
                log::either(own, format_args!("Reloading in progress ..."));
                self.reload = Some(Reload::new(number, client));
            }
            Err(wrong) => refuse(outside, client, &wrong),
        }
    }

    /// Whether one is under way.
    pub fn reloads(&self) -> bool {
        self.reload.is_some()
    }

    /// Lets another front take over from one of whose event loops one is stuck. The others answer
    /// what they have.
    pub(super) fn unstick(&mut self, outside: &mut dyn Outside, now: u64) {
        if self.stopping || self.reload.is_some() || !self.unsticking.allowed(now) {
            return;
        }
        let Some(current) = self.current().filter(|current| current.life() == Life::Serving) else {
            return;
        };
        let Some(event_loop) = current.stuck_loop() else { return };
        let pid = current.front().map_or(0, |front| front.pid());
        let message = format_args!(
            "event loop {event_loop} of the front does not turn any more, another front starts \
                pid={pid}"
        );
        log::line(Level::Error, message);
        self.unsticking.begun(now);
        self.unsticking.ended(now);
        self.reload_with(outside, self.configured.clone(), None, now);
    }

    /// Gives a site other processes, if it wants them. With the configuration that is in force:
    /// no new one was asked for.
    pub(super) fn renew(&mut self, outside: &mut dyn Outside, now: u64) {
        if self.stopping || self.reload.is_some() {
            return;
        }
        let serves = |generation: &Generation| generation.life() == Life::Serving;
        let Some(at) = self.generations.iter().rposition(serves) else { return };
        let Some(site_index) = self.generations[at].wants_renewal(now) else { return };
        self.generations[at].announce_renewal(site_index, now);
        if self.has_moved(outside, at, site_index) {
            self.generations[at].end_renewal(site_index, now);
            return self.reload_with(outside, self.configured.clone(), None, now);
        }
        if let Err(error) = self.generations[at].renew(site_index, now) {
            log::line(Level::Error, format_args!("cannot start other processes: {error}"));
            self.generations[at].end_renewal(site_index, now);
        }
    }

    /// Whether a site's paths lead elsewhere by now: the front looks for files where they led when
    /// it started.
    pub(super) fn has_moved(&self, outside: &dyn Outside, at: usize, site_index: usize) -> bool {
        let has_moved = |(resolved, _): (Server, Identities)| {
            resolved.sites[site_index] != self.generations[at].server().sites[site_index]
        };
        outside.resolve(&self.configured).is_ok_and(has_moved)
    }

    /// Begins a generation of this configuration; if that fails, nothing is left of the attempt.
    fn prepare(
        &mut self,
        outside: &mut dyn Outside,
        server: Server,
        now: u64,
    ) -> Result<u32, String> {
        let prepared = self.open_and_begin(outside, server, now);
        if prepared.is_err() {
            self.go_back(outside);
        }
        prepared
    }

    fn open_and_begin(
        &mut self,
        outside: &mut dyn Outside,
        server: Server,
        now: u64,
    ) -> Result<u32, String> {
        let resolved = outside.resolve(&server)?;
        outside.open(&server)?;
        for key in restart_needed(&self.configured, &server) {
            log::line(
                Level::Warn,
                format_args!("{key} has changed; it takes effect at the next start"),
            );
        }
        // Before any process of the new generation: all of them inherit it. Anew even if its name
        // has not changed: the file may have been moved away.
        outside.log_to(&server).map_err(text)?;
        let (resolved, identities) = resolved;
        self.begin(outside, server, resolved, identities, Patience::Careful, now).map_err(text)
    }

    /// Everything is as the configuration in force wants it: the error log, and the sockets that
    /// are open.
    fn go_back(&self, outside: &mut dyn Outside) {
        if let Err(error) = outside.log_to(&self.configured) {
            log::line(Level::Error, format_args!("the old error log cannot be opened: {error}"));
        }
        self.close_unused(outside);
    }

    pub(super) fn advance_reload(&mut self, outside: &mut dyn Outside, now: u64) {
        let Some(mut reload) = self.reload.take() else { return };
        let new = self.generations.iter().position(|generation| generation.number == reload.number);
        let verdict = reload.look(new.map(|at| &self.generations[at]), now);
        match verdict {
            Progress::Wait => self.reload = Some(reload),
            Progress::Done => {
                let number = reload.number;
                let mut accepts = false;
                for old in self.generations.iter_mut().filter(|old| old.number < number) {
                    old.drain(true, now);
                    accepts |= old.accepts();
                }
                // Who asked may rely on the new code from now on.
                if accepts && !reload.is_overdue(now) {
                    self.reload = Some(reload);
                    return;
                }
                if let Some(at) = new {
                    let new = &self.generations[at];
                    self.configured = new.configured.clone();
                    self.changes = new.changes().clone();
                    outside.has_taken_over(number, &self.configured, new.server());
                }
                outside.notify(Notice::Ready, "serving");
                let again = reload.take_next();
                finish_reload(outside, reload, &format!("ok generation {number} serves\n"));
                if let Some(clients) = again {
                    self.reload_again(outside, clients, now);
                }
            }
            Progress::Failed(why) => {
                if let Some(at) = new {
                    self.generations[at].kill(now);
                }
                // Before the line below, which is for those who read the old log.
                self.go_back(outside);
                log::line(
                    Level::Error,
                    format_args!("reload failed, the old generation goes on: {why}"),
                );
                outside.notify(Notice::Ready, "serving; the last reload failed");
                let again = reload.take_next();
                finish_reload(outside, reload, &format!("error {why}\n"));
                if let Some(clients) = again {
                    self.reload_again(outside, clients, now);
                }
            }
        }
    }

    /// The reload that was asked for while another one was under way.
    fn reload_again(&mut self, outside: &mut dyn Outside, clients: Vec<Asker>, now: u64) {
        self.reload(outside, None, now);
        match &mut self.reload {
            Some(reload) => reload.clients = clients,
            None => {
                for client in clients {
                    outside.answer(client, "error refused; see the log\n".to_owned());
                }
            }
        }
    }
}

fn refuse(outside: &mut dyn Outside, client: Option<Asker>, wrong: &str) {
    log::line(Level::Error, format_args!("reload refused, the old configuration stays: {wrong}"));
    if let Some(client) = client {
        outside.answer(client, format!("error {wrong}\n"));
    }
}
