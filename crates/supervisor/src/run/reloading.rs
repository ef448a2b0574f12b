//! Reloads as the loop carries them out: begun, awaited, answered; and log files opened anew.

use std::os::fd::{AsFd, OwnedFd};

use tokamak_config::{Server, restart_needed};
use tokamak_fpm as fpm;
use tokamak_sys::control::ToFront;
use tokamak_sys::process;

use super::{Supervisor, announce_fpm, log_to};
use crate::change::Changes;
use crate::front::open_log;
use crate::generation::{Generation, Life, Patience};
use crate::identities::Identities;
use crate::log::{self, Level};
use crate::notify::{self, Notice};
use crate::reload::{Progress, Reload};
use crate::settings;

/// Says in php-fpm's words that requests are served with a new configuration.
fn reloaded_fpm(old: &Server, new: &Server) {
    let Some(global) = new.fpm.as_ref().map(|fpm| &fpm.global) else { return };
    log::write_as_fpm(global);
    for (nth, (socket, _)) in new.fpm_sockets().enumerate() {
        if !old.fpm_sockets().any(|(other, _)| other.address == socket.address) {
            continue;
        }
        // The number of a descriptor, which only has a meaning there, is the place among the
        // sockets here.
        let message = format_args!("using inherited socket fd={nth}, \"{}\"", socket.address);
        log::fpm(fpm::Level::Notice, message);
    }
    announce_fpm();
}

impl Supervisor {
    /// Begins a reload with a configuration read anew. The client that asked, if any, is told how
    /// it ends.
    pub(super) fn reload(&mut self, client: Option<u64>, now: u64) {
        match (self.setup.reread)() {
            Ok(server) => {
                let before = self.numbered;
                self.reload_with(server, client, now);
                // The configuration counts again, once this generation serves.
                if let Some(new) = self.generations.last_mut().filter(|new| new.number > before) {
                    new.inherit(Changes::default());
                }
            }
            Err(wrong) => self.refuse(client, &wrong),
        }
    }

    fn reload_with(&mut self, server: Server, client: Option<u64>, now: u64) {
        if self.stopping {
            return self.refuse(client, "the server is stopping");
        }
        if let Some(reload) = &mut self.reload {
            return reload.again(client);
        }
        match self.prepare(server, now) {
            Ok(number) => {
                notify::tell(Notice::Reloading, "reloading");
                let own = format_args!("reload: generation {number} starts");
                log::either(own, format_args!("Reloading in progress ..."));
                self.reload = Some(Reload::new(number, client));
            }
            Err(wrong) => self.refuse(client, &wrong),
        }
    }

    /// Lets another front take over from one of whose event loops one is stuck. The others answer
    /// what they have.
    pub(super) fn unstick(&mut self, now: u64) {
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
        self.reload_with(self.configured.clone(), None, now);
    }

    /// Gives a site other processes, if it wants them. With the configuration that is in force:
    /// no new one was asked for.
    pub(super) fn renew(&mut self, now: u64) {
        if self.stopping || self.reload.is_some() {
            return;
        }
        let serves = |generation: &Generation| generation.life() == Life::Serving;
        let Some(at) = self.generations.iter().rposition(serves) else { return };
        let Some(place) = self.generations[at].wants_renewal(now) else { return };
        self.generations[at].announce_renewal(place, now);
        // The front looks for files where the site's paths led when it started.
        let resolved = settings::resolve(&self.configured);
        let has_moved =
            |resolved: Server| resolved.sites[place] != self.generations[at].server().sites[place];
        if resolved.is_ok_and(has_moved) {
            self.generations[at].end_renewal(place, now);
            return self.reload_with(self.configured.clone(), None, now);
        }
        if let Err(error) = self.generations[at].renew(place, now) {
            log::line(Level::Error, format_args!("cannot start other processes: {error}"));
            self.generations[at].end_renewal(place, now);
        }
    }

    /// Begins a generation of this configuration; if that fails, nothing is left of the attempt.
    fn prepare(&mut self, server: Server, now: u64) -> Result<u32, String> {
        let prepared = self.open_and_begin(server, now);
        if prepared.is_err() {
            self.go_back();
        }
        prepared
    }

    fn open_and_begin(&mut self, server: Server, now: u64) -> Result<u32, String> {
        let resolved = settings::resolve(&server).map_err(|wrong| wrong.to_string())?;
        let identities = Identities::of(&resolved).map_err(|wrong| wrong.to_string())?;
        self.listeners.open(&server.listen).map_err(|wrong| wrong.to_string())?;
        self.sockets.open(&server).map_err(|wrong| wrong.to_string())?;
        for key in restart_needed(&self.configured, &server) {
            log::line(
                Level::Warn,
                format_args!("{key} has changed; it takes effect at the next start"),
            );
        }
        // Before any process of the new generation: all of them inherit it. Anew even if its name
        // has not changed: the file may have been moved away.
        log_to(&server, &self.stderr).map_err(|error| error.to_string())?;
        let patience = Patience::Careful;
        self.begin(server, resolved, identities, patience, now).map_err(|error| error.to_string())
    }

    /// Everything is as the configuration in force wants it: the error log, and the sockets that
    /// are open.
    fn go_back(&mut self) {
        if let Err(error) = log_to(&self.configured, &self.stderr) {
            log::line(Level::Error, format_args!("the old error log cannot be opened: {error}"));
        }
        self.close_unused();
    }

    fn refuse(&mut self, client: Option<u64>, wrong: &str) {
        log::line(
            Level::Error,
            format_args!("reload refused, the old configuration stays: {wrong}"),
        );
        if let Some(client) = client {
            self.control.answer(client, format!("error {wrong}\n"));
        }
    }

    /// Opens the log files anew, after a log rotation has moved them away. The workers hold the old
    /// error log, so they are replaced too.
    pub(super) fn reopen(&mut self, now: u64) {
        let server = self.configured.clone();
        let error = server.log.error.as_deref();
        let access =
            server.log.access.as_ref().map(|log| log.path.as_path()).filter(|path| *path != "-");
        let files = (error.map(open_log).transpose(), access.map(open_log).transpose());
        let (error, access) = match files {
            (Ok(error), Ok(access)) => (error, access),
            (Err(wrong), _) | (_, Err(wrong)) => {
                return log::line(Level::Error, format_args!("logs are not reopened: {wrong}"));
            }
        };
        if let Some(file) = &error
            && let Err(wrong) = process::redirect_stderr(file.as_fd())
        {
            return log::line(Level::Error, format_args!("logs are not reopened: {wrong}"));
        }
        let message = ToFront::Reopen { error: error.is_some(), access: access.is_some() };
        for generation in &mut self.generations {
            let fds = error.iter().chain(&access).map(|file| file.try_clone().map(OwnedFd::from));
            if let Ok(fds) = fds.collect() {
                generation.tell_front(&message, fds);
            }
        }
        log::either(
            format_args!("log files are reopened"),
            format_args!("error log file re-opened"),
        );
        if error.is_some() {
            self.reload_with(server, None, now);
        }
    }

    pub(super) fn finish_reload(&mut self, reload: Reload, answer: &str) {
        for client in reload.clients {
            self.control.answer(client, answer.to_owned());
        }
    }

    pub(super) fn advance_reload(&mut self, now: u64) {
        let Some(mut reload) = self.reload.take() else { return };
        let new = self.generations.iter().position(|generation| generation.number == reload.number);
        let verdict = reload.look(new.map(|at| &self.generations[at]), now);
        match verdict {
            Progress::Wait => self.reload = Some(reload),
            Progress::Done => {
                let number = reload.number;
                let mut accepts = false;
                for old in self.generations.iter_mut().filter(|old| old.number < number) {
                    old.drain(now);
                    accepts |= old.accepts();
                }
                // The clients may rely on the new code from now on.
                if accepts && !reload.is_overdue(now) {
                    self.reload = Some(reload);
                    return;
                }
                if let Some(at) = new {
                    self.configured = self.generations[at].configured.clone();
                    self.changes = self.generations[at].changes().clone();
                }
                log::either(
                    format_args!("reload: generation {number} serves"),
                    format_args!("reloading: generation {number} has taken over"),
                );
                if let Some(at) = new {
                    reloaded_fpm(&self.configured, self.generations[at].server());
                }
                notify::tell(Notice::Ready, "serving");
                let again = reload.take_next();
                self.finish_reload(reload, &format!("ok generation {number} serves\n"));
                if let Some(clients) = again {
                    self.reload_again(clients, now);
                }
            }
            Progress::Failed(why) => {
                if let Some(at) = new {
                    self.generations[at].kill(now);
                }
                // Before the line below, which ends the old log.
                self.go_back();
                log::line(
                    Level::Error,
                    format_args!("reload failed, the old generation goes on: {why}"),
                );
                notify::tell(Notice::Ready, "serving; the last reload failed");
                let again = reload.take_next();
                self.finish_reload(reload, &format!("error {why}\n"));
                if let Some(clients) = again {
                    self.reload_again(clients, now);
                }
            }
        }
    }

    /// The reload that was asked for while another one was under way.
    fn reload_again(&mut self, clients: Vec<u64>, now: u64) {
        self.reload(None, now);
        match &mut self.reload {
            Some(reload) => reload.clients = clients,
            None => {
                for client in clients {
                    self.control.answer(client, "error refused; see the log\n".to_owned());
                }
            }
        }
    }
}
