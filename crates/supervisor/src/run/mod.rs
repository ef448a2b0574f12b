//! The loop: one thread that waits for signals, children, the control socket and the clock.

mod acme;
mod admin;
mod host;
mod profile;
mod questions;
mod reloading;
mod start;
mod upgrade;

use std::fmt;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

use tokamak_config::Server;
use tokamak_fpm as fpm;
use tokamak_sys::channel::{Watch, poll};
use tokamak_sys::control::{FromFront, ToFront};
use tokamak_sys::process;
use tokamak_sys::signal::{Signal, Signals};

use crate::acme::{Acme, AcmeMain};
use crate::asker::Asker;
use crate::banner;
use crate::control_socket::Command;
use crate::emergency::Emergency;
use crate::fleet::{Fleet, Outside};
use crate::front::FrontMain;
use crate::front_questions::FrontQuestions;
use crate::generation::{Generation, Life};
use crate::liveness::LOOK_EVERY;
use crate::log::{self, Level};
use crate::notify::{self, Notice};
use crate::pool::Pool;
use crate::programs::FindPhp;
use crate::shared_tickets::{SharedTickets, TicketsMain};
use crate::upgrade::Predecessor;
use host::Host;
use questions::{Query, Questions};
pub use start::serve;
use upgrade::{OTHER_VERSION, Upgrade};

/// What the supervisor is given.
pub struct Setup {
    /// The configuration to start with.
    pub server: Server,
    /// Reads the configuration again, for a reload; on failure says everything that is wrong with
    /// it.
    pub reread: Box<dyn Fn() -> Result<Server, String>>,
    /// Finds the programs that run PHP.
    pub php: Box<FindPhp>,
    /// The code of the front, run in a child of its own.
    pub front: Box<FrontMain>,
    /// The code of the process that shares keys of session tickets, run in a child of its own.
    pub tickets: Box<TicketsMain>,
    /// The code of the process that gets certificates, run in a child of its own.
    pub acme: Box<AcmeMain>,
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
    Acme,
    /// The version that this one replaces, or that replaces this one.
    Version,
}

/// The whole state of the server.
struct Supervisor {
    fleet: Fleet,
    host: Host,
    signals: Signals,
    /// What the front has been asked.
    questions: Questions,
    /// What fronts ask.
    front_questions: FrontQuestions,
    /// What the service manager wants to hear now and then.
    watchdog: Option<notify::Watchdog>,
    started: u64,
    /// When a stop that gives balancers time begins to drain.
    drain_at: Option<u64>,
    announced: bool,
    /// Faults of workers' memory.
    emergency: Emergency,
    shared_tickets: SharedTickets,
    /// Gets certificates.
    acme: Acme,
    /// How often fronts were sent certificates.
    certificate_messages: u32,
    pid_file: PidFile,
    /// The version that this one replaces, until that has let go.
    predecessor: Option<Predecessor>,
    upgrade: Option<Upgrade>,
}

impl Supervisor {
    fn run(mut self) -> Result<(), Failure> {
        loop {
            let tokens = self.wait();
            log::flush();
            let now = tokamak_cost::now();
            for token in tokens {
                match token {
                    Token::Signals => {} // below, after what the children said before they ended
                    Token::Control => self.commands(now),
                    // The only word on it is its end.
                    Token::Version if self.predecessor.is_some() => self.follow(),
                    Token::Version => {} // below
                    Token::Front(at) => {
                        let means = self.host.means();
                        let answers = self.fleet.generations[at].hear_front(&means, now);
                        let generation = self.fleet.generations[at].number;
                        for answer in answers {
                            match answer {
                                FromFront::Asks { question, command } => {
                                    self.hear_admin(generation, question, command, now);
                                }
                                FromFront::Certificates { number } => {
                                    self.acme.acknowledged(generation, number);
                                }
                                FromFront::Wants { name } => self.want_certificate(&name, now),
                                answer => self.hear_answer(answer, now),
                            }
                        }
                    }
                    Token::Zygote(at, pool) => {
                        let means = self.host.means();
                        self.fleet.generations[at].hear_pool(pool, &means, now);
                    }
                    Token::Output(at, pool, worker) => {
                        self.fleet.generations[at].hear_output(pool, worker)
                    }
                    Token::Acme => {
                        self.acme.flush();
                        self.acme.hear(&mut self.host.certificates);
                    }
                    Token::Application(at, number, process) => {
                        self.fleet.generations[at].hear_application(number, process);
                    }
                }
            }
            while let Some(signal) = self.signals.next() {
                // What workers said before it stands before what follows from it.
                self.fleet.generations.iter_mut().for_each(Generation::hear_outputs);
                self.signal(signal, now);
            }
            self.run_admin_commands(now);
            let means = self.host.means();
            self.fleet.tick(&means, now);
            if let Some(watchdog) = &mut self.watchdog {
                watchdog.tick(now);
            }
            self.mind_tickets(now);
            self.mind_acme(now);
            self.mind_certificates(now);
            self.mind_users(now);
            self.mind_faults(now);
            self.mind_upgrade(now);
            if self.drain_at.is_some_and(|at| now >= at) {
                self.drain(now);
            }
            self.give_up_questions(now);
            self.advance(now)?;
            self.answer_fronts(now);
            if self.fleet.stopping && self.fleet.generations.is_empty() {
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
        // As long as another version listens there, too, it answers.
        for (fd, writes) in self.host.control.watches().filter(|_| self.predecessor.is_none()) {
            tokens.push(Token::Control);
            watches.push(Watch::read_write(fd, writes));
        }
        let old = self.predecessor.as_ref().filter(|_| self.announced).map(Predecessor::fd);
        let new = self.upgrade.as_ref().and_then(|upgrade| upgrade.successor.fd());
        for fd in old.into_iter().chain(new) {
            tokens.push(Token::Version);
            watches.push(Watch::read(fd));
        }
        if let Some(endpoint) = self.acme.endpoint()
            && let Some(fd) = endpoint.fd()
        {
            tokens.push(Token::Acme);
            watches.push(Watch::read_write(fd, endpoint.wants_write()));
        }
        let mut limit = self.fleet.next_look(now);
        let is_replacing = self.predecessor.is_some() || self.upgrade.is_some();
        if !self.announced || self.drain_at.is_some() || is_replacing || log::has_backlog() {
            limit = limit.min(LOOK_EVERY);
        }
        limit = limit.min(self.watchdog.as_ref().map_or(limit, notify::Watchdog::every));
        limit = limit.min(self.front_questions.pause(now).unwrap_or(limit));
        for (at, generation) in self.fleet.generations.iter().enumerate() {
            if let Some(front) = generation.front()
                && let Some(fd) = front.endpoint().fd()
            {
                tokens.push(Token::Front(at));
                watches.push(Watch::read_write(fd, front.endpoint().wants_write()));
            }
            for (number, pool) in generation.all_pools().enumerate() {
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
            Signal::Terminate | Signal::Interrupt if self.fleet.configured.fpm.is_some() => {
                self.terminate(now)
            }
            Signal::Terminate | Signal::Interrupt | Signal::Quit => self.stop(now),
            Signal::HangUp | Signal::User2 if self.upgrade.is_some() => {
                log::line(Level::Error, format_args!("reload refused: {OTHER_VERSION}"));
            }
            Signal::HangUp | Signal::User2 => self.fleet.reload(&mut self.host, None, now),
            Signal::User1 => self.reopen(now),
            Signal::Child => self.reap(now),
        }
    }

    /// Takes over keys of session tickets that other nodes use, too.
    fn mind_tickets(&mut self, now: u64) {
        let keys = self.shared_tickets.tick(&self.fleet.configured, &*self.host.setup.tickets, now);
        if let Some(keys) = keys {
            self.host.certificates.share_tickets(keys, now);
        }
    }

    /// Gives new files of users to the fronts.
    fn mind_users(&mut self, now: u64) {
        if !self.host.users.tick(now) {
            return;
        }
        for generation in &mut self.fleet.generations {
            match self.host.users.memory_file(generation.server()) {
                Ok(memory) => generation.send_to_front(&ToFront::Users, vec![memory]),
                Err(error) => {
                    let problem = "cannot give new users to the front";
                    log::line(Level::Error, format_args!("{problem}: {error}"));
                }
            }
        }
    }

    /// Restarts everything if too many workers died of faults in memory.
    fn mind_faults(&mut self, now: u64) {
        let faults: Vec<u64> =
            self.fleet.generations.iter_mut().flat_map(Generation::take_faults).collect();
        let Some(global) = self.fleet.configured.fpm.as_ref().map(|fpm| &fpm.global) else {
            return;
        };
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
            self.fleet.reload(&mut self.host, None, now);
        }
    }

    fn reap(&mut self, now: u64) {
        let ended: Vec<_> = std::iter::from_fn(process::reap).collect();
        let (acme, certificates) = (&mut self.acme, &mut self.host.certificates);
        let tickets = &mut self.shared_tickets;
        let others = ended.into_iter().filter(|(pid, status)| {
            !acme.child_exited(*pid, *status, certificates, now)
                && !tickets.child_exited(*pid, *status, now)
        });
        self.fleet.reap(others, now);
    }

    fn commands(&mut self, now: u64) {
        for (client, command) in self.host.control.serve() {
            self.command(Asker::Socket(client), command, now);
        }
    }

    fn command(&mut self, client: Asker, command: Command, now: u64) {
        match command {
            Command::Status => self.ask_front(client, Query::Status { json: false }, now),
            Command::StatusJson => self.ask_front(client, Query::Status { json: true }, now),
            Command::Metrics => {
                let answer = self.metrics(now);
                self.host.answer(client, answer);
            }
            Command::Ready => {
                let answer = match self.readiness(now) {
                    Ok(()) => "ok ready\n".into(),
                    Err(why) => format!("error {why}\n"),
                };
                self.host.answer(client, answer);
            }
            Command::Upstream(command) => self.ask_front(client, Query::Upstreams(command), now),
            Command::Purge(command) => self.ask_front(client, Query::Purge(command), now),
            Command::Profile(command) => self.profile(client, &command, now),
            Command::ReloadSite(_) | Command::Reload if self.upgrade.is_some() => {
                self.host.answer(client, format!("error {OTHER_VERSION}\n"));
            }
            Command::ReloadSite(site) => self.fleet.reload_site(site, client),
            Command::Reload => self.fleet.reload(&mut self.host, Some(client), now),
            Command::Upgrade => self.upgrade(client, now),
            Command::Stop => {
                self.host.answer(client, "ok stopping\n".into());
                self.stop(now);
            }
        }
    }

    /// The first time drains, after `timeouts.drain_delay`; the next time at once. A further time
    /// ends at once.
    fn stop(&mut self, now: u64) {
        let delay = self.fleet.configured.timeouts.drain_delay;
        if self.announced && !self.fleet.stopping && !delay.is_zero() && self.drain_at.is_none() {
            let seconds = delay.as_secs_f64();
            log::line(
                Level::Info,
                format_args!(
                    "stopping in {seconds:.1} s: the server is not ready any more, and still accepts \
                     connections"
                ),
            );
            self.drain_at = Some(now + delay.as_nanos() as u64);
        } else if !self.fleet.stopping {
            self.drain(now);
        } else if self.fleet.configured.fpm.is_none() {
            log::line(Level::Warn, format_args!("stopping at once"));
            self.fleet.kill(now);
        }
    }

    /// Lets running requests finish, and accepts no more.
    fn drain(&mut self, now: u64) {
        if self.fleet.stopping {
            return;
        }
        self.end_upgrade();
        log::either(
            format_args!("stopping: running requests are finished"),
            format_args!("Finishing ..."),
        );
        self.fleet.begin_stop(&mut self.host);
        self.fleet.drain(now);
    }

    /// Ends at once.
    fn terminate(&mut self, now: u64) {
        log::fpm(fpm::Level::Notice, format_args!("Terminating ..."));
        self.end_upgrade();
        if !self.fleet.stopping {
            self.fleet.begin_stop(&mut self.host);
        }
        self.fleet.kill(now);
    }

    /// What follows from where the generations are now.
    fn advance(&mut self, now: u64) -> Result<(), Failure> {
        self.finish_first_start(now)?;
        self.fleet.advance(&mut self.host, now);
        Ok(())
    }

    /// Says that the server serves; or, if PHP cannot even start for the first time, gives up: what
    /// is wrong with the installation is better said at once than every few seconds. An application
    /// that does not boot may wait for its database, so it is tried again.
    fn finish_first_start(&mut self, now: u64) -> Result<(), Failure> {
        if self.announced || self.fleet.stopping {
            return Ok(());
        }
        let Some(first) = self.fleet.generations.first() else { return Ok(()) };
        if first.life() == Life::Serving {
            self.announced = true;
            if first.server().fpm.is_some() {
                announce_fpm();
            } else {
                banner::print(&self.host.with_real_addresses(first.server()));
            }
            match &mut self.predecessor {
                // If that is gone, its line says so. The manager hears of this one from that.
                Some(predecessor) => drop(predecessor.tell()),
                None => notify::notify(Notice::Ready, "serving"),
            }
            return Ok(());
        }
        if first.life() != Life::Booting {
            return Ok(());
        }
        // Beside another version, no failure is tried again: that one serves.
        let is_first = self.predecessor.is_none();
        let without_php = |pool: &&Pool| !is_first || !pool.has_zygote() && !pool.is_sealed();
        let why = first.pools().filter(without_php).find_map(Pool::failure).map(str::to_owned);
        if let Some(why) = why {
            self.fleet.kill(now);
            self.reap(now);
            return Err(Failure(why));
        }
        Ok(())
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
        // It may have been removed already, or be another version's by now.
        let own = format!("{}\n", std::process::id());
        if let Some(path) = &self.0
            && fs::read_to_string(path).is_ok_and(|text| text == own)
        {
            let _ = fs::remove_file(path);
        }
    }
}
