//! The generations together: which one serves, what becomes of the others, what follows when a
//! front dies. What this needs of the rest of the server it asks of [`Outside`].

mod moved;
mod reloading;
mod site_reloads;

use std::fmt;
use std::io;
use std::time::Duration;

use tokamak_config::Server;
use tokamak_sys::control::Status;

use crate::application::Folder;
use crate::asker::Asker;
use crate::change::Changes;
use crate::generation::{Beginning, Generation, Life, Patience};
use crate::identities::Identities;
use crate::liveness::{LOOK_EVERY, idle_look_every};
use crate::log::{self, Level};
use crate::means::Means;
use crate::notify::Notice;
use crate::reload::Reload;
use crate::renew::Renewals;
use crate::site_links::HubLines;
use crate::storm::Storm;
use crate::watch::since;
use moved::Moves;
use site_reloads::SiteReload;

/// What a fleet needs of the rest of the server.
pub trait Outside {
    /// Reads the configuration again; on failure says everything that is wrong with it.
    ///
    /// # Errors
    /// As said.
    fn reread(&self) -> Result<Server, String>;

    /// A configuration with the paths as they lead now, and who its processes are.
    ///
    /// # Errors
    /// A path that leads nowhere, a user that there is not.
    fn resolve(&self, server: &Server) -> Result<(Server, Identities), String>;

    /// Opens the sockets of a configuration that are not open yet.
    ///
    /// # Errors
    /// The first that cannot be had.
    fn open(&mut self, server: &Server) -> Result<(), String>;

    /// Closes the sockets that none of these needs.
    fn keep(&mut self, servers: &[&Server]);

    /// Lets standard error be the error log of this configuration.
    ///
    /// # Errors
    /// It cannot be opened.
    fn log_to(&mut self, server: &Server) -> io::Result<()>;

    /// The folder for the sockets of applications.
    ///
    /// # Errors
    /// It cannot be made.
    fn folder(&mut self) -> io::Result<&Folder>;

    /// Answers a client.
    fn answer(&mut self, client: Asker, answer: String);

    /// Tells the service manager.
    fn notify(&mut self, state: Notice, text: &str);

    /// Generation `number` of this configuration has taken over from one of that.
    fn has_taken_over(&mut self, number: u32, old: &Server, new: &Server);
}

/// All generations.
#[derive(Debug)]
pub struct Fleet {
    /// What is served, or will be again after a crash: the last configuration that worked.
    pub configured: Server,
    /// Oldest first. The last one that serves is the current one; those before it finish.
    pub generations: Vec<Generation>,
    /// The generation that a reload is waiting for.
    reload: Option<Reload>,
    /// Reloads of one site that are under way, or wait for another one.
    site_reloads: Vec<SiteReload>,
    /// What was changed by commands beside the configuration.
    pub changes: Changes,
    /// Whether a front dies again and again.
    front_storm: Storm,
    /// Reloads because an event loop was stuck.
    unsticking: Renewals,
    moves: Moves,
    /// Set by the first signal to stop.
    pub stopping: bool,
    hubs: HubLines,
    numbered: u32,
}

impl Fleet {
    /// None yet; this configuration is to be served.
    pub fn new(configured: Server) -> Fleet {
        Fleet {
            configured,
            generations: Vec::new(),
            reload: None,
            site_reloads: Vec::new(),
            changes: Changes::default(),
            front_storm: Storm::default(),
            unsticking: Renewals::default(),
            moves: Moves::default(),
            stopping: false,
            hubs: HubLines::default(),
            numbered: 0,
        }
    }

    /// Begins the first generation.
    ///
    /// # Errors
    /// Its queues or its sockets cannot be made.
    pub fn start(
        &mut self,
        outside: &mut dyn Outside,
        resolved: (Server, Identities),
        patience: Patience,
        now: u64,
    ) -> io::Result<()> {
        let configured = self.configured.clone();
        let (resolved, identities) = resolved;
        self.begin(outside, configured, resolved, identities, patience, now)?;
        Ok(())
    }

    /// How soon the next look should be, at the latest.
    pub fn next_look(&self, now: u64) -> Duration {
        let is_changing = self.stopping || self.reload.is_some() || !self.site_reloads.is_empty();
        let serves = |generation: &Generation| generation.life() == Life::Serving;
        let is_idle = !is_changing && self.generations.iter().all(serves);
        let generations = || self.generations.iter();
        let pools = generations().flat_map(|one| one.all_pools()).map(|pool| pool.next_look(now));
        let applications = generations().flat_map(|one| one.applications());
        let looks = pools.chain(applications.map(|application| application.next_look()));
        let idle = idle_look_every(self.configured.timeouts.watchdog);
        let longest = if is_idle { idle } else { LOOK_EVERY };
        looks.fold(longest, Duration::min)
    }

    /// The generation that serves, or will as the first one.
    pub fn current(&self) -> Option<&Generation> {
        let serves = |generation: &&Generation| generation.life() == Life::Serving;
        self.generations.iter().rev().find(serves).or(self.generations.last())
    }

    /// The same, to change it.
    pub fn current_mut(&mut self) -> Option<&mut Generation> {
        let number = self.current()?.number;
        self.generations.iter_mut().find(|generation| generation.number == number)
    }

    /// Looks at everything whose time may have come.
    pub fn tick(&mut self, means: &dyn Means, now: u64) {
        for generation in &mut self.generations {
            generation.tick(means, now);
        }
    }

    /// These children have ended.
    pub fn reap(&mut self, ended: impl Iterator<Item = (u32, Status)>, now: u64) {
        let mut strangers = Vec::new();
        for (pid, status) in ended {
            let known = self
                .generations
                .iter_mut()
                .any(|generation| generation.child_exited(pid, status, now));
            if !known {
                strangers.push((pid, status));
            }
        }
        // After the zygotes: a worker is an orphan only once its zygote is known to be dead.
        for (pid, status) in strangers {
            self.generations
                .iter_mut()
                .any(|generation| generation.orphan_exited(pid, status, now));
        }
    }

    /// Adds a generation, which takes over what has been changed beside the configuration.
    fn begin(
        &mut self,
        outside: &mut dyn Outside,
        configured: Server,
        resolved: Server,
        identities: Identities,
        patience: Patience,
        now: u64,
    ) -> io::Result<u32> {
        self.numbered += 1;
        let number = self.numbered;
        let spawns = resolved.upstreams.iter().any(|upstream| upstream.spawn.is_some());
        let folder = spawns.then(|| outside.folder()).transpose()?;
        self.hubs.keep(&resolved);
        let beginning = Beginning { number, folder, hubs: &mut self.hubs, patience, now };
        let mut generation = Generation::new(configured, resolved, identities, beginning)?;
        generation.inherit(self.changes.clone());
        self.generations.push(generation);
        Ok(number)
    }

    /// Lets all generations finish.
    pub fn drain(&mut self, now: u64) {
        self.generations.iter_mut().for_each(|generation| generation.drain(false, now));
    }

    /// Ends all processes at once.
    pub fn kill(&mut self, now: u64) {
        self.generations.iter_mut().for_each(|generation| generation.kill(now));
    }

    /// No generation begins any more, and the service ends.
    pub fn begin_stop(&mut self, outside: &mut dyn Outside) {
        outside.notify(Notice::Stopping, "stopping");
        self.begin_end(outside);
    }

    /// No generation begins any more.
    pub fn begin_end(&mut self, outside: &mut dyn Outside) {
        self.stopping = true;
        if let Some(mut reload) = self.reload.take() {
            let again = reload.take_next().unwrap_or_default();
            reload.clients.extend(again);
            finish_reload(outside, reload, "error the server is stopping\n");
        }
        // Waiting connections are refused from now on, once the fronts have closed their copies.
        outside.keep(&[]);
    }

    /// What follows from where the generations are now.
    pub fn advance(&mut self, outside: &mut dyn Outside, now: u64) {
        self.advance_reload(outside, now);
        self.renew(outside, now);
        self.advance_site_reloads(outside, now);
        self.unstick(outside, now);
        self.follow_moves(outside, now);
        let before = self.generations.len();
        self.generations.retain(|generation| !generation.is_gone());
        if self.stopping {
            return;
        }
        if self.generations.len() < before {
            self.close_unused(outside);
        }
        // A front that serves for a while ends a storm of dying ones.
        let calm = |other: &Generation| {
            other.life() == Life::Serving && since(other.begun, now).as_secs() > 10
        };
        if self.front_storm.failures() > 0 && self.generations.iter().any(calm) {
            self.front_storm.over();
        }
        let alive =
            |other: &Generation| !matches!(other.life(), Life::Draining(_) | Life::Ending(_));
        if !self.generations.iter().any(alive) {
            self.replace_front(outside, now);
        }
    }

    /// Closes the sockets that no generation and no configuration in force needs.
    pub fn close_unused(&self, outside: &mut dyn Outside) {
        let used = self.generations.iter().map(Generation::server);
        outside.keep(&used.chain([&self.configured]).collect::<Vec<_>>());
    }

    /// The front died and took its connections with it; everything else is still known, so another
    /// generation starts from the same configuration.
    fn replace_front(&mut self, outside: &mut dyn Outside, now: u64) {
        if self.front_storm.allowed(1, 0, now) == 0 {
            return;
        }
        if let Some(wait) = self.front_storm.failed(now) {
            let seconds = wait.as_secs_f64();
            log::line(
                Level::Warn,
                format_args!("another generation starts; after a next failure in {seconds:.1} s"),
            );
        }
        let configured = self.configured.clone();
        let begun = outside.resolve(&configured).and_then(|(resolved, identities)| {
            let patience = Patience::Eager;
            self.begin(outside, configured, resolved, identities, patience, now).map_err(text)
        });
        if let Err(wrong) = begun {
            log::line(Level::Error, format_args!("cannot start a generation: {wrong}"));
        }
    }
}

fn finish_reload(outside: &mut dyn Outside, reload: Reload, answer: &str) {
    for client in reload.clients {
        outside.answer(client, answer.to_owned());
    }
}

fn text(wrong: impl fmt::Display) -> String {
    wrong.to_string()
}
