//! The loop: one thread that waits for signals, children, the control socket and the clock.

mod questions;
mod reloading;

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use tokamak_config::Server;
use tokamak_fpm as fpm;
use tokamak_sys::channel::{Watch, poll};
use tokamak_sys::process;
use tokamak_sys::signal::{Signal, Signals};

use crate::application::Folder;
use crate::banner;
use crate::bounds;
use crate::change::Changes;
use crate::client;
use crate::control_socket::{Command, ControlSocket};
use crate::emergency::Emergency;
use crate::front::{FrontMain, open_log};
use crate::generation::{Generation, Life, Patience};
use crate::identities::Identities;
use crate::listen::Listeners;
use crate::log::{self, Level};
use crate::means::System;
use crate::notify::{self, Notice};
use crate::pool::Pool;
use crate::reload::Reload;
use crate::renew::Renewals;
use crate::settings;
use crate::sockets::Sockets;
use crate::storm::Storm;
use crate::watch::since;
use questions::{Query, Questions};

/// What the supervisor is given.
pub struct Setup {
    /// The configuration to start with.
    pub server: Server,
    /// Reads the configuration again, for a reload; on failure says everything that is wrong with
    /// it.
    pub reread: Box<dyn Fn() -> Result<Server, String>>,
    /// The worker program.
    pub php: PathBuf,
    /// The code of the front, run in a child of its own.
    pub front: Box<FrontMain>,
}

/// Why a server could not start or had to end.
#[derive(Debug)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

fn failure(what: impl fmt::Display) -> Failure {
    Failure(what.to_string())
}

/// What woke the loop.
#[derive(Clone, Copy, Debug)]
enum Token {
    Signals,
    Control,
    Front(usize),
    Zygote(usize, usize),
    Output(usize, usize, usize),
    Application(usize, usize, usize),
}

/// The whole state of the server.
struct Supervisor {
    setup: Setup,
    signals: Signals,
    /// Standard error as it was at the start; `log.error` may have put a file in its place.
    stderr: OwnedFd,
    listeners: Listeners,
    sockets: Sockets,
    control: ControlSocket,
    /// For the sockets of applications; made when the first one is started.
    folder: Option<Folder>,
    /// What is served, or will be again after a crash: the last configuration that worked.
    configured: Server,
    /// Oldest first. The last one in service is the current one; those before it finish.
    generations: Vec<Generation>,
    /// The generation that a reload is waiting for.
    reload: Option<Reload>,
    /// What was changed by commands beside the configuration.
    changes: Changes,
    /// What the front has been asked.
    questions: Questions,
    /// Whether a front dies again and again.
    front_storm: Storm,
    /// Reloads because an event loop was stuck.
    unsticking: Renewals,
    /// Notifications for the service manager.
    watchdog: Option<notify::Watchdog>,
    started: u64,
    /// Set by the first signal to stop.
    stopping: bool,
    announced: bool,
    numbered: u32,
    /// Faults of workers' memory.
    emergency: Emergency,
}

/// Serves until it is told to stop. The calling process must have a single thread.
///
/// # Errors
/// Fails if the server cannot start. Later failures are logged and handled.
pub fn serve(setup: Setup) -> Result<(), Failure> {
    if let Some(fpm) = &setup.server.fpm {
        log::write_as_fpm(&fpm.global);
    }
    let passed = process::passed_sockets();
    let mut listeners = Listeners::with_passed(passed).map_err(failure)?;
    listeners.open(&setup.server.listen).map_err(failure)?;
    let mut sockets = Sockets::default();
    sockets.open(&setup.server).map_err(failure)?;
    let resolved = settings::resolve(&setup.server).map_err(failure)?;
    let identities = Identities::of(&resolved).map_err(failure)?;
    let lent = listeners.lend(&setup.server.listen).map_err(failure)?;
    let default_path = match lent.first() {
        Some((address, _)) => client::default_path(*address),
        None if setup.server.fpm.is_some() => client::fpm_path(),
        None => return Err(failure("there is no address to listen on")),
    };
    drop(lent);
    let path = setup.server.control.clone().unwrap_or(default_path);
    if setup.server.control.is_none() && client::is_foreign(&path) {
        return Err(failure(format_args!(
            "the directory of {} belongs to somebody else",
            path.display()
        )));
    }
    let control = ControlSocket::open(&path).map_err(|error| {
        failure(format_args!("cannot open the control socket {}: {error}", path.display()))
    })?;
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map_err(failure)?;
    log_to(&setup.server, &stderr).map_err(failure)?;
    if let Some(fpm) = &setup.server.fpm {
        bounds::of_master(&fpm.global).map_err(|message| failure(message.text))?;
    }
    if let Err(error) = process::raise_open_files() {
        log::line(Level::Warn, format_args!("cannot raise the limit of open files: {error}"));
    }
    process::adopt_orphans().map_err(failure)?;
    // It holds the settings of all sites, and may run as the same user as their scripts.
    process::forbid_tracing();
    for warning in crate::identities::warnings(&setup.server, process::is_root()) {
        log::line(Level::Warn, format_args!("{warning}"));
    }
    let signals = Signals::take().map_err(failure)?;
    let _pid_file = PidFile::write(setup.server.pid_file.clone()).map_err(failure)?;
    log::line(
        Level::Info,
        format_args!("started pid={} control={}", std::process::id(), control.path().display()),
    );
    let now = tokamak_cost::now();
    let mut supervisor = Supervisor {
        signals,
        stderr,
        listeners,
        sockets,
        control,
        folder: None,
        configured: setup.server.clone(),
        generations: Vec::new(),
        reload: None,
        changes: Changes::default(),
        questions: Questions::default(),
        front_storm: Storm::default(),
        unsticking: Renewals::default(),
        watchdog: notify::Watchdog::from_environment(),
        started: now,
        stopping: false,
        announced: false,
        numbered: 0,
        emergency: Emergency::default(),
        setup,
    };
    let configured = supervisor.configured.clone();
    supervisor.begin(configured, resolved, identities, Patience::Eager, now).map_err(failure)?;
    supervisor.run()
}

/// Lets standard error be the error log of this configuration.
fn log_to(server: &Server, stderr: &OwnedFd) -> std::io::Result<()> {
    match &server.log.error {
        Some(path) => process::redirect_stderr(open_log(path)?.as_fd()),
        None => process::redirect_stderr(stderr.as_fd()),
    }
}

/// What the supervisor starts processes with: a borrow of these fields alone.
macro_rules! system {
    ($self:ident) => {
        System {
            php: &$self.setup.php,
            listeners: &$self.listeners,
            sockets: &$self.sockets,
            front: &*$self.setup.front,
        }
    };
}

impl Supervisor {
    fn run(mut self) -> Result<(), Failure> {
        loop {
            let tokens = self.wait();
            let now = tokamak_cost::now();
            for token in tokens {
                match token {
                    Token::Signals => {} // below, after what the children said before they ended
                    Token::Control => self.commands(now),
                    Token::Front(at) => {
                        let means = system!(self);
                        let answers = self.generations[at].hear_front(&means, now);
                        answers.into_iter().for_each(|answer| self.hear_answer(answer, now));
                    }
                    Token::Zygote(at, pool) => {
                        let means = system!(self);
                        self.generations[at].hear_pool(pool, &means, now);
                    }
                    Token::Output(at, pool, worker) => {
                        self.generations[at].hear_output(pool, worker)
                    }
                    Token::Application(at, number, process) => {
                        self.generations[at].hear_application(number, process);
                    }
                }
            }
            while let Some(signal) = self.signals.next() {
                // What workers said before it stands before what follows from it.
                self.generations.iter_mut().for_each(Generation::hear_outputs);
                self.signal(signal, now);
            }
            let means = system!(self);
            for generation in &mut self.generations {
                generation.tick(&means, now);
            }
            if let Some(watchdog) = &mut self.watchdog {
                watchdog.tick(now);
            }
            self.mind_faults(now);
            self.give_up_questions(now);
            self.advance(now)?;
            if self.stopping && self.generations.is_empty() {
                log::either(format_args!("stopped"), format_args!("exiting, bye-bye!"));
                return Ok(());
            }
        }
    }

    /// Waits for something to do, at most until something may be due.
    fn wait(&self) -> Vec<Token> {
        let now = tokamak_cost::now();
        let mut tokens = vec![Token::Signals];
        let mut watches = vec![Watch::read(self.signals.as_fd())];
        for (fd, writes) in self.control.watches() {
            tokens.push(Token::Control);
            watches.push(Watch::read_write(fd, writes));
        }
        let mut limit = Duration::from_millis(250);
        limit = limit.min(self.watchdog.as_ref().map_or(limit, notify::Watchdog::every));
        for (at, generation) in self.generations.iter().enumerate() {
            if let Some(front) = generation.front()
                && let Some(fd) = front.endpoint().fd()
            {
                tokens.push(Token::Front(at));
                watches.push(Watch::read_write(fd, front.endpoint().wants_write()));
            }
            for (number, pool) in generation.all_pools().enumerate() {
                limit = limit.min(pool.next_look(now));
                if let Some(endpoint) = pool.endpoint()
                    && let Some(fd) = endpoint.fd()
                {
                    tokens.push(Token::Zygote(at, number));
                    watches.push(Watch::read_write(fd, endpoint.wants_write()));
                }
                for (worker, output) in pool.outputs() {
                    tokens.push(Token::Output(at, number, worker));
                    watches.push(Watch::read(output));
                }
            }
            for (number, application) in generation.applications().iter().enumerate() {
                limit = limit.min(application.next_look());
                for (process, output) in application.outputs() {
                    tokens.push(Token::Application(at, number, process));
                    watches.push(Watch::read(output));
                }
            }
        }
        if let Err(error) = poll(&mut watches, Some(limit)) {
            log::line(Level::Error, format_args!("cannot wait for events: {error}"));
            std::thread::sleep(limit);
        }
        let ready =
            watches.iter().zip(&tokens).filter(|(watch, _)| watch.readable || watch.writable);
        let mut ready: Vec<Token> = ready.map(|(_, token)| *token).collect();
        // Several clients are one token: the control socket serves them together.
        ready.dedup_by(|a, b| matches!((a, b), (Token::Control, Token::Control)));
        ready
    }

    fn signal(&mut self, signal: Signal, now: u64) {
        match signal {
            // As php-fpm, whose workers then end in the middle of their requests.
            Signal::Terminate | Signal::Interrupt if self.configured.fpm.is_some() => {
                self.terminate(now)
            }
            Signal::Terminate | Signal::Interrupt | Signal::Quit => self.stop(now),
            Signal::HangUp | Signal::User2 => self.reload(None, now),
            Signal::User1 => self.reopen(now),
            Signal::Child => self.reap(now),
        }
    }

    /// Restarts everything if too many workers died of faults in memory.
    fn mind_faults(&mut self, now: u64) {
        let faults: Vec<u64> =
            self.generations.iter_mut().flat_map(Generation::take_faults).collect();
        let Some(global) = self.configured.fpm.as_ref().map(|fpm| &fpm.global) else { return };
        let mut is_emergency = false;
        for fault in faults {
            is_emergency |= self.emergency.fault(global, fault);
        }
        if is_emergency {
            let (count, seconds) =
                (global.emergency_restart_threshold, global.emergency_restart_interval.as_secs());
            log::fpm(
                fpm::Level::Warning,
                format_args!(
                    "failed processes threshold ({count} in {seconds} sec) is reached, initiating \
                        reload"
                ),
            );
            self.reload(None, now);
        }
    }

    fn reap(&mut self, now: u64) {
        let mut strangers = Vec::new();
        while let Some((pid, status)) = process::reap() {
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

    fn commands(&mut self, now: u64) {
        for (client, command) in self.control.serve() {
            match command {
                Command::Status => self.ask_front(client, Query::Status { json: false }, now),
                Command::StatusJson => self.ask_front(client, Query::Status { json: true }, now),
                Command::Upstream(command) => {
                    self.ask_front(client, Query::Upstreams(command), now)
                }
                Command::Purge(command) => self.ask_front(client, Query::Purge(command), now),
                Command::Reload => self.reload(Some(client), now),
                Command::Stop => {
                    self.control.answer(client, "ok stopping\n".into());
                    self.stop(now);
                }
            }
        }
    }

    /// The generation that serves, or will as the first one.
    fn current(&self) -> Option<&Generation> {
        let serves = |generation: &&Generation| generation.life() == Life::Serving;
        self.generations.iter().rev().find(serves).or(self.generations.last())
    }

    /// Adds a generation, which takes over what has been changed beside the configuration.
    fn begin(
        &mut self,
        configured: Server,
        resolved: Server,
        identities: Identities,
        patience: Patience,
        now: u64,
    ) -> std::io::Result<u32> {
        self.numbered += 1;
        let number = self.numbered;
        if self.folder.is_none()
            && resolved.upstreams.iter().any(|upstream| upstream.spawn.is_some())
        {
            self.folder = Some(Folder::create()?);
        }
        let folder = self.folder.as_ref();
        let mut generation =
            Generation::new(number, configured, resolved, identities, folder, patience, now)?;
        generation.inherit(self.changes.clone());
        self.generations.push(generation);
        Ok(number)
    }

    /// The first time drains, the second time ends at once.
    fn stop(&mut self, now: u64) {
        if !self.stopping {
            log::either(
                format_args!("stopping: running requests are finished"),
                format_args!("Finishing ..."),
            );
            self.begin_stop();
            self.generations.iter_mut().for_each(|generation| generation.drain(now));
        } else if self.configured.fpm.is_none() {
            log::line(Level::Warn, format_args!("stopping at once"));
            self.generations.iter_mut().for_each(|generation| generation.kill(now));
        }
    }

    /// Ends at once.
    fn terminate(&mut self, now: u64) {
        log::fpm(fpm::Level::Notice, format_args!("Terminating ..."));
        if !self.stopping {
            self.begin_stop();
        }
        self.generations.iter_mut().for_each(|generation| generation.kill(now));
    }

    fn begin_stop(&mut self) {
        self.stopping = true;
        notify::tell(Notice::Stopping, "stopping");
        if let Some(reload) = self.reload.take() {
            self.finish_reload(reload, "error the server is stopping\n");
        }
        // Waiting connections are refused from now on, once the fronts have closed their copies.
        self.listeners.keep(&[]);
        self.sockets.keep(&[]);
    }

    /// What follows from where the generations are now.
    fn advance(&mut self, now: u64) -> Result<(), Failure> {
        self.finish_first_start(now)?;
        self.advance_reload(now);
        self.renew(now);
        self.unstick(now);
        let before = self.generations.len();
        self.generations.retain(|generation| !generation.is_gone());
        if self.stopping {
            return Ok(());
        }
        if self.generations.len() < before {
            self.close_unused();
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
            self.replace_front(now);
        }
        Ok(())
    }

    /// Closes the sockets that no generation and no configuration in force needs.
    fn close_unused(&mut self) {
        let used = self.generations.iter().map(|other| other.server().listen.as_slice());
        let used: Vec<_> = used.chain([self.configured.listen.as_slice()]).collect();
        self.listeners.keep(&used);
        let used = self.generations.iter().map(Generation::server);
        self.sockets.keep(&used.chain([&self.configured]).collect::<Vec<_>>());
    }

    /// Says that the server serves; or, if PHP cannot even start for the first time, gives up: what
    /// is wrong with the installation is better said at once than every few seconds. An application
    /// that does not boot may wait for its database, so it is tried again.
    fn finish_first_start(&mut self, now: u64) -> Result<(), Failure> {
        if self.announced || self.stopping {
            return Ok(());
        }
        let Some(first) = self.generations.first() else { return Ok(()) };
        if first.life() == Life::Serving {
            self.announced = true;
            let urls = self.listeners.lend(&first.server().listen).unwrap_or_default();
            let urls: Vec<_> = urls.iter().map(|(address, _)| *address).collect();
            if first.server().fpm.is_some() {
                announce_fpm();
            } else {
                banner::print(first.server(), &urls);
            }
            notify::tell(Notice::Ready, "serving");
            return Ok(());
        }
        if first.life() != Life::Booting {
            return Ok(());
        }
        let without_php = |pool: &&Pool| !pool.has_zygote() && !pool.is_sealed();
        let why = first.pools().filter(without_php).find_map(Pool::failure).map(str::to_owned);
        if let Some(why) = why {
            self.generations.iter_mut().for_each(|generation| generation.kill(now));
            self.reap(now);
            return Err(Failure(why));
        }
        Ok(())
    }

    /// The front died and took its connections with it; everything else is still known, so another
    /// generation starts from the same configuration.
    fn replace_front(&mut self, now: u64) {
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
        let begun = settings::resolve(&configured).map_err(failure).and_then(|resolved| {
            let identities = Identities::of(&resolved).map_err(failure)?;
            self.begin(configured, resolved, identities, Patience::Eager, now).map_err(failure)
        });
        if let Err(wrong) = begun {
            log::line(Level::Error, format_args!("cannot start a generation: {wrong}"));
        }
    }
}

/// Says in php-fpm's words that requests are served.
fn announce_fpm() {
    log::fpm(fpm::Level::Notice, format_args!("fpm is running, pid {}", std::process::id()));
    log::fpm(fpm::Level::Notice, format_args!("ready to handle connections"));
}

/// The file with the supervisor's process id, while it runs.
struct PidFile(Option<PathBuf>);

impl PidFile {
    fn write(path: Option<PathBuf>) -> Result<PidFile, Failure> {
        if let Some(path) = &path {
            fs::write(path, format!("{}\n", std::process::id())).map_err(|error| {
                failure(format_args!("cannot write {}: {error}", path.display()))
            })?;
        }
        Ok(PidFile(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The file may have been removed already.
            let _ = fs::remove_file(path);
        }
    }
}
