//! The process that gets certificates from authorities (ACME). It is the only one of ours that
//! speaks to the network of its own accord, so it is apart: it runs as the front's user, and its
//! only descriptor is this channel. It is forked and not executed anew, so its memory begins as a
//! copy of the supervisor's. Files are read for it and written for it here, by root if need be, and
//! what it wants to have written is checked first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::Duration;

use tokamak_config::{self as config, Secret, Server, Tier};
use tokamak_sys::channel::Channel;
use tokamak_sys::control::{FromAcme, Heard, StateFile, Status, ToAcme};
use tokamak_sys::process;
use tokamak_tls::{Credentials, PairFiles};

use crate::automatic;
use crate::certificates::Certificates;
use crate::endpoint::Endpoint;
use crate::identities::Identities;
use crate::log::{self, Level};
use crate::means::Process;
use crate::state_dir::{Refused, StateDir};
use crate::storm::Storm;
use crate::watch::since;

/// Time between two lines that say why no certificate can be got. Certificates last for weeks, so a
/// line a day is seen in time and fills no log.
const COMPLAIN_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Names that wait for a certificate at a time. The fronts have a bound of their own; with ten
/// times more, one that was taken over could have the operator's program asked without end.
const MOST_WANTED: usize = 128;

/// How long a process that is to be replaced may go on with an order. Authorities look within
/// seconds; with ten times more, one that hangs would hold up a change of the names for ten
/// minutes.
const FINISHES: Duration = Duration::from_secs(60);

/// Messages that are handled before others have their turn.
const AT_ONCE: usize = 16;

/// What the process starts with. It holds no other descriptors than the channel and 0, 1, 2.
#[derive(Debug)]
pub struct AcmeStart {
    /// Whom to ask, and how.
    pub settings: config::Acme,
    /// The names, each with the certificate that it has.
    pub names: BTreeMap<String, Option<PairFiles>>,
    /// Names that were first seen in a handshake, each with its certificate.
    pub on_demand: BTreeMap<String, PairFiles>,
    /// The accounts by the URLs of the authorities' directories.
    pub accounts: BTreeMap<String, Vec<u8>>,
    /// How the tries for the names have gone, where that is known.
    pub tries: BTreeMap<String, Vec<u8>>,
    /// Where other nodes have the same certificates, and what they are encrypted with there.
    pub shared: Option<(Tier, Secret)>,
    /// The line to the supervisor.
    pub channel: Channel,
}

/// The code of the process; what it returns is its exit status.
pub type AcmeMain = dyn Fn(AcmeStart) -> u8;

/// How a name stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameStatus {
    /// When the next certificate is ordered, in seconds since 1970.
    pub next: u64,
    /// What went wrong last; empty if nothing has since the last success.
    pub failure: String,
}

/// The process, if one is needed, and what it is for.
#[derive(Debug)]
pub struct Acme {
    directory: PathBuf,
    state: Option<StateDir>,
    /// When it was said last that the directory cannot be used.
    complained: Option<u64>,
    running: Option<Running>,
    storm: Storm,
    /// How the names stand.
    pub names: BTreeMap<String, NameStatus>,
    /// Names for which handshakes wait. A process that begins hears of them.
    wanted: BTreeSet<String>,
    /// Names for which they wait in vain.
    declined: Vec<String>,
    /// When it was said last that there are too many names.
    said_full: Option<u64>,
}

/// What a process was started for.
#[derive(Debug, PartialEq, Eq)]
struct Task {
    settings: config::Acme,
    shared: Option<(Tier, Secret)>,
    names: BTreeSet<String>,
    /// Ends of the names that are got on demand.
    on_demand: BTreeSet<String>,
}

impl Task {
    fn of(server: &Server) -> Task {
        let names = server.public_names().into_iter().map(str::to_owned);
        let on_demand = server.on_demand_hosts().map(str::to_owned);
        let (settings, shared) = (server.acme.clone(), Task::shared(server));
        Task { settings, shared, names: names.collect(), on_demand: on_demand.collect() }
    }

    fn shared(server: &Server) -> Option<(Tier, Secret)> {
        Some((server.tls.redis.clone()?, server.tls.redis_secret.clone()?))
    }

    fn is_of(&self, server: &Server) -> bool {
        let on_demand: BTreeSet<&str> = server.on_demand_hosts().collect();
        self.settings == server.acme
            && self.shared == Task::shared(server)
            && self.names.iter().eq(server.public_names())
            && self.on_demand.iter().eq(on_demand)
    }
}

#[derive(Debug)]
struct Running {
    child: Box<dyn Process>,
    endpoint: Endpoint,
    task: Task,
    begun: u64,
    presenting: Option<Presenting>,
    /// Whether an order is under way.
    is_ordering: bool,
    /// Since when it is known that another one, or none, is to take its place.
    outdated: Option<u64>,
    /// Whether it was ended because another one, or none, is to take its place.
    is_dismissed: bool,
}

/// Challenges that not all fronts are known to have.
#[derive(Debug)]
struct Presenting {
    number: u32,
    /// The number of the message to fronts that has them, once it was sent.
    message: Option<u32>,
    /// The generations whose fronts have not said that they use them.
    waiting: BTreeSet<u32>,
}

impl Running {
    fn dismiss(&mut self) {
        self.is_dismissed = true;
        self.child.kill();
    }
}

impl Acme {
    /// No process yet; this is the state directory.
    pub fn new(directory: PathBuf) -> Acme {
        Acme {
            directory,
            state: None,
            complained: None,
            running: None,
            storm: Storm::default(),
            names: BTreeMap::new(),
            wanted: BTreeSet::new(),
            declined: Vec::new(),
            said_full: None,
        }
    }

    /// The line to the process, to listen to.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.running.as_ref().map(|running| &running.endpoint)
    }

    /// Starts a process if this configuration needs one, or ends one that is for another.
    pub fn tick(
        &mut self,
        server: &Server,
        certificates: &Certificates,
        main: &AcmeMain,
        now: u64,
    ) {
        if let Some(running) = &mut self.running {
            if !running.task.is_of(server) {
                // An order under way would be lost, and authorities count it.
                let from = *running.outdated.get_or_insert(now);
                if !running.is_ordering || since(from, now) >= FINISHES {
                    running.dismiss();
                }
            }
            if self.storm.failures() > 0 && since(running.begun, now).as_secs() > 60 {
                self.storm.over();
            }
            return;
        }
        let names = server.public_names();
        self.names.retain(|name, _| names.contains(&**name));
        // The configuration may be another one than when they were wanted.
        let (wanted, declined) = std::mem::take(&mut self.wanted)
            .into_iter()
            .partition(|name| server.gets_on_demand(name));
        self.wanted = wanted;
        self.declined.extend::<BTreeSet<String>>(declined);
        let has_on_demand = server.on_demand_hosts().next().is_some();
        if (names.is_empty() && !has_on_demand) || self.storm.allowed(1, 0, now) == 0 {
            return;
        }
        let missing = names.iter().filter(|name| certificates.automatic(name).is_none());
        let missing: Vec<&str> = missing.copied().collect();
        if !self.has_state(&missing, now) {
            self.declined.extend(std::mem::take(&mut self.wanted));
            return;
        }
        match self.start(server, certificates, main, now) {
            Ok(running) => {
                self.running = Some(running);
                for name in self.wanted.clone() {
                    self.send(&ToAcme::Want { name });
                }
            }
            Err(error) => {
                let problem = "cannot start the process that gets certificates";
                log::line(Level::Error, format_args!("{problem}: {error}"));
                self.storm.failed(now);
            }
        }
    }

    /// Whether the directory is this server's. `missing` are names without a certificate.
    fn has_state(&mut self, missing: &[&str], now: u64) -> bool {
        if self.state.is_some() {
            return true;
        }
        match StateDir::open(&self.directory) {
            Ok(state) => self.state = Some(state),
            Err(refused) => {
                self.storm.failed(now);
                if self.complained.is_none_or(|said| since(said, now) >= COMPLAIN_EVERY) {
                    self.complained = Some(now);
                    complain(refused, missing);
                }
            }
        }
        self.state.is_some()
    }

    fn start(
        &self,
        server: &Server,
        certificates: &Certificates,
        main: &AcmeMain,
        now: u64,
    ) -> io::Result<Running> {
        let names = server.public_names().into_iter();
        let names: BTreeMap<String, Option<PairFiles>> =
            names.map(|name| (name.to_owned(), certificates.automatic(name).cloned())).collect();
        let on_demand = certificates.on_demand().filter(|name| server.gets_on_demand(name));
        let on_demand = on_demand
            .filter_map(|name| Some((name.to_owned(), certificates.automatic(name)?.clone())));
        let on_demand: BTreeMap<String, PairFiles> = on_demand.collect();
        let mut accounts = BTreeMap::new();
        for url in &server.acme.directories {
            let kept = self.state.as_ref().map_or(Ok(None), |state| state.account(url));
            if let Some(file) = kept.map_err(io::Error::other)? {
                accounts.insert(url.clone(), file);
            }
        }
        let mut tries = BTreeMap::new();
        for name in names.keys().chain(on_demand.keys()) {
            match self.state.as_ref().map_or(Ok(None), |state| state.tries(name)) {
                Ok(file) => tries.extend(file.map(|file| (name.clone(), file))),
                // No reason to have no certificate.
                Err(problem) => log::line(Level::Warn, format_args!("not used: {problem}")),
            }
        }
        let task = Task::of(server);
        let identity = Identities::of(server)?.front;
        let (ours, channel) = Channel::pair()?;
        let (settings, shared) = (task.settings.clone(), task.shared.clone());
        let start = AcmeStart { settings, names, on_demand, accounts, tries, shared, channel };
        let keep = [start.channel.as_fd().as_raw_fd()];
        let child = process::fork(&keep, identity.as_ref(), move || {
            process::forbid_tracing();
            main(start)
        })?;
        let endpoint = Endpoint::over(Box::new(ours));
        let child = Box::new(child);
        Ok(Running {
            child,
            endpoint,
            task,
            begun: now,
            presenting: None,
            is_ordering: false,
            outdated: None,
            is_dismissed: false,
        })
    }

    /// A handshake waits for a certificate for this name: it is ordered, unless the name is none of
    /// those for which that is allowed.
    pub fn want(&mut self, name: &str, server: &Server, certificates: &mut Certificates, now: u64) {
        if !server.gets_on_demand(name) {
            return self.declined.push(name.to_owned());
        }
        if certificates.has_on_demand(name) {
            return;
        }
        if self.wanted.contains(name) {
            return;
        }
        if self.wanted.len() >= MOST_WANTED || !self.has_room(server, certificates, now) {
            return self.declined.push(name.to_owned());
        }
        self.wanted.insert(name.to_owned());
        self.send(&ToAcme::Want { name: name.to_owned() });
    }

    /// Whether one more name may get a certificate on demand. Those whose certificates have ended
    /// make room.
    fn has_room(&mut self, server: &Server, certificates: &mut Certificates, now: u64) -> bool {
        let most = server.acme.on_demand.as_ref().map_or(0, |on_demand| on_demand.names);
        let wanted = self.wanted.len();
        let count = |certificates: &Certificates| certificates.on_demand().count() + wanted;
        if count(certificates) < most {
            return true;
        }
        let is_over = |name: &&str| certificates.automatic(name).is_none();
        let over: Vec<String> =
            certificates.on_demand().filter(is_over).map(str::to_owned).collect();
        for name in &over {
            self.forget(name, certificates);
        }
        let has_room = count(certificates) < most;
        if !has_room && self.said_full.is_none_or(|said| since(said, now) >= COMPLAIN_EVERY) {
            self.said_full = Some(now);
            log::line(
                Level::Warn,
                format_args!(
                    "{most} names have certificates that clients asked for; further names are \
                        refused: raise `ask_names` in `[acme]` if these are all yours"
                ),
            );
        }
        has_room
    }

    /// Forgets a name that was first seen in a handshake, with its certificate.
    fn forget(&self, name: &str, certificates: &mut Certificates) {
        certificates.forget_on_demand(name);
        if let Some(Err(problem)) = self.state.as_ref().map(|dir| dir.forget_on_demand(name)) {
            log::line(Level::Warn, format_args!("{problem}"));
        }
    }

    /// Names for which handshakes wait in vain.
    pub fn take_declined(&mut self) -> Vec<String> {
        std::mem::take(&mut self.declined)
    }

    /// Ends the process.
    pub fn kill(&mut self) {
        if let Some(running) = &mut self.running {
            running.dismiss();
        }
    }

    /// Ends the process, and lets another server have the state directory.
    pub fn release(&mut self) {
        self.kill();
        self.state = None;
    }

    /// A child has ended; whether it was the process.
    pub fn child_exited(
        &mut self,
        pid: u32,
        status: Status,
        certificates: &mut Certificates,
        now: u64,
    ) -> bool {
        let Some(running) = self.running.take_if(|running| running.child.id() == pid) else {
            return false;
        };
        certificates.present(Vec::new());
        // After one that was ended for another configuration the next begins at once.
        if !running.is_dismissed
            && let Some(wait) = self.storm.failed(now)
        {
            let seconds = wait.as_secs_f64();
            log::line(
                Level::Error,
                format_args!(
                    "the process that gets certificates has ended ({status:?}); another one starts \
                        in {seconds:.1} s pid={pid}"
                ),
            );
        }
        true
    }

    /// Hears what the process says.
    pub fn hear(&mut self, certificates: &mut Certificates) {
        for _ in 0..AT_ONCE {
            let Some(running) = &mut self.running else { return };
            let message = match running.endpoint.receive::<FromAcme>() {
                Ok(Heard::Message(message, _)) => message,
                Ok(Heard::Nothing | Heard::Closed) => return,
                Err(_) => return running.child.kill(),
            };
            match message {
                FromAcme::Present { number, challenges } => {
                    let Ok(credentials) = Credentials::decode(&challenges) else {
                        return running.child.kill();
                    };
                    certificates.present(credentials.challenges);
                    let waiting = BTreeSet::new();
                    running.presenting = Some(Presenting { number, message: None, waiting });
                }
                FromAcme::Store { number, file, bytes } => {
                    let outcome = self.store(&file, &bytes, certificates);
                    self.send(&ToAcme::Stored { number, outcome });
                }
                FromAcme::Note { is_problem, text } => {
                    let level = if is_problem { Level::Warn } else { Level::Info };
                    // On one line; but quotes are to be read.
                    let text = text.escape_debug().to_string();
                    let text = text.replace("\\'", "'").replace("\\\"", "\"");
                    log::line(level, format_args!("{text}"));
                }
                FromAcme::Name { name, next, failure } => {
                    let mut on_demand = certificates.on_demand();
                    if running.task.names.contains(&name) || on_demand.any(|one| one == name) {
                        self.names.insert(name, NameStatus { next, failure });
                    }
                }
                FromAcme::Ordering { is_under_way } => running.is_ordering = is_under_way,
                FromAcme::Declined { name } => {
                    self.wanted.remove(&name);
                    if running.task.names.contains(&name) {
                        continue;
                    }
                    self.names.remove(&name);
                    if certificates.automatic(&name).is_none() {
                        // It has ended, and no other one is to be started.
                        self.forget(&name, certificates);
                    }
                    self.declined.push(name);
                }
            }
        }
    }

    fn store(
        &mut self,
        file: &StateFile,
        bytes: &[u8],
        certificates: &mut Certificates,
    ) -> Result<(), String> {
        let task = self.running.as_ref().map(|running| &running.task).ok_or("not running")?;
        let state = self.state.as_ref().ok_or("the state directory is not open")?;
        let is_on_demand = |name: &String| certificates.on_demand().any(|one| one == name);
        match file {
            StateFile::Certificate(name) if task.names.contains(name) => {
                let pair = automatic::check(name, bytes)?;
                state.keep_certificate(name, bytes)?;
                certificates.renew(name, pair, false);
                self.wanted.remove(name);
                Ok(())
            }
            StateFile::Certificate(name) if self.wanted.contains(name) || is_on_demand(name) => {
                let pair = automatic::check(name, bytes)?;
                state.keep_on_demand(name, bytes)?;
                certificates.renew(name, pair, true);
                self.wanted.remove(name);
                Ok(())
            }
            StateFile::Tries(name) if task.names.contains(name) || is_on_demand(name) => {
                state.keep_tries(name, bytes)
            }
            StateFile::Account(url) if task.settings.directories.contains(url) => {
                state.keep_account(url, bytes)
            }
            _ => Err("that is nothing to be kept".into()),
        }
    }

    /// Certificates with this number were sent to the fronts of these generations, and with them
    /// the challenges.
    pub fn credentials_sent(&mut self, message: u32, generations: impl Iterator<Item = u32>) {
        let presenting = self.running.as_mut().and_then(|running| running.presenting.as_mut());
        if let Some(presenting) = presenting.filter(|presenting| presenting.message.is_none()) {
            presenting.message = Some(message);
            presenting.waiting = generations.collect();
        }
    }

    /// The front of a generation uses the certificates with this number.
    pub fn acknowledged(&mut self, generation: u32, message: u32) {
        let presenting = self.running.as_mut().and_then(|running| running.presenting.as_mut());
        if let Some(presenting) = presenting
            && presenting.message.is_some_and(|sent| sent <= message)
        {
            presenting.waiting.remove(&generation);
        }
    }

    /// Tells the process that all fronts have the challenges, once they have. A front that is gone,
    /// or has been started since, needs no answer. `is_current`: the certificates that were sent
    /// last have them.
    pub fn advance(&mut self, has_front: impl Fn(u32) -> bool, is_current: bool) {
        let Some(running) = &mut self.running else { return };
        let Some(presenting) = &mut running.presenting else { return };
        presenting.waiting.retain(|generation| has_front(*generation));
        if (presenting.message.is_some() || is_current) && presenting.waiting.is_empty() {
            let number = presenting.number;
            running.presenting = None;
            self.send(&ToAcme::Presented { number });
        }
    }

    /// Sends what waited for room.
    pub fn flush(&mut self) {
        if let Some(running) = &mut self.running {
            // If it is gone, the supervisor learns that when it reaps it.
            let _ = running.endpoint.flush();
        }
    }

    fn send(&mut self, message: &ToAcme) {
        if let Some(running) = &mut self.running
            && running.endpoint.send(message, Vec::new()).is_err()
        {
            running.child.kill();
        }
    }
}

/// Says why this server gets no certificates.
fn complain(refused: Refused, missing: &[&str]) {
    let taken =
        "another server gets certificates for this state directory; this one uses them, too";
    match refused {
        Refused::Taken if missing.is_empty() => log::line(Level::Info, format_args!("{taken}")),
        Refused::Taken => {
            // A line is not to have thousands of names.
            let missing = missing[..missing.len().min(10)].join(", ");
            let advice = "unless that server gets them, set another `state_dir` here";
            log::line(
                Level::Warn,
                format_args!("{taken}, and gets none itself. Without one: {missing}; {advice}"),
            );
        }
        Refused::Broken(problem) => {
            log::line(Level::Error, format_args!("no certificates can be got: {problem}"));
        }
    }
}
