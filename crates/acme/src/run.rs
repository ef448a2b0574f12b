//! The main loop of the ACME process: it handles one name after the other, whenever an order, a
//! renewal or a check of its certificate is due.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use instant_acme::CertificateIdentifier;
use tokamak_config::{Acme, AcmeChallenge, Secret, Tier};
use tokamak_sys::channel::Channel;
use tokamak_sys::control::StateFile;
use tokamak_sys::outlet::try_stderr;
use tokamak_tls::PairFiles;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::sleep;

use crate::authority::Authority;
use crate::board::Board;
use crate::error::Error;
use crate::follow::{Arrived, follow};
use crate::line::SupervisorLink;
use crate::name::{AWAITED, Name, NameCertificate};
use crate::now;
use crate::operator::Operator;
use crate::order::{self, OrderRequest};
use crate::plan::{self, Cause, Window};
use crate::shared::Shared;
use crate::tries::{self, Tries};

/// Longest sleep of the loop. It notices after that time that the clock was set.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Longest time between two looks at a name, in seconds.
const LOOK_EVERY: u64 = 24 * 3600;

/// Seconds until the next look at a name whose order another node has locked. When that node has a
/// certificate, it is taken over at once; this is for a node that dies.
const LOOK_AT_LOCKED: u64 = 15;

/// Names that failed on demand and whose waits are remembered. With ten times more, names that the
/// operator's program allows without looking would take megabytes.
const MOST_FAILED: usize = 1000;

/// Certificates of other nodes that are heard of and not looked at yet.
const MOST_ARRIVED: usize = 1024;

/// Seconds after which the log says that another node orders for a name: longer than an order.
const LONG_LOCK: u64 = 1800;

/// Exit status of a process whose supervisor is gone, or that cannot start.
const FAILED: u8 = 1;

/// What the process starts with.
pub struct Start {
    /// The authorities to ask, the contact, and the other settings of `[acme]`.
    pub settings: Acme,
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

/// Gets certificates until the supervisor is gone. What it returns is the exit status.
pub fn run(start: Start) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            try_stderr(format_args!("tokamak: certificates: {error}"));
            return FAILED;
        }
    };
    runtime.block_on(serve(start));
    FAILED
}

async fn serve(start: Start) {
    let (name_sender, name_receiver) = unbounded_channel();
    let Ok((line, is_gone)) = SupervisorLink::over(start.channel, name_sender) else { return };
    let settings = tries::fingerprint(&start.settings);
    // The fork has the random state of the supervisor, which other processes have, too.
    fastrand::seed(tokamak_tls::random());
    let directories = &start.settings.directories;
    let shared = start.shared.as_ref();
    let shared = shared.and_then(|(tier, secret)| Shared::new(tier, secret.reveal(), directories));
    let (board, operator) = (
        Board::new(line.clone(), shared.as_ref()),
        start.settings.on_demand.as_ref().map(|ask| Operator::new(ask.url.clone())),
    );
    let named = start.names.into_iter().map(|(name, pair)| (name, pair, false));
    let on_demand = start.on_demand.into_iter().map(|(name, pair)| (name, Some(pair), true));
    let names = named.chain(on_demand).map(|(name, pair, is_on_demand)| {
        let tries = Tries::read(start.tries.get(&name).map(Vec::as_slice), settings);
        // The supervisor keeps key and certificate in one file.
        let file = pair.map(|pair| pair.certificate);
        Name { is_on_demand, ..Name::new(name, file, tries) }
    });
    let mut work = Work {
        authorities: (start.settings.directories.iter())
            .map(|url| Authority::new(url.clone(), start.accounts.get(url).cloned()))
            .collect(),
        fingerprint: settings,
        settings: start.settings,
        line: &line,
        board: &board,
        operator: operator.as_ref(),
        shared: shared.as_ref(),
        failed: BTreeMap::new(),
        unshared: None,
    };
    let (allow, allowed) = unbounded_channel();
    let (arrive, arrived) = channel(MOST_ARRIVED);
    let following = async {
        match &shared {
            Some(shared) => follow(shared, &board, &line, &arrive).await,
            None => pending().await,
        }
    };
    tokio::select! {
        _ = is_gone => {}
        () = ask_operator(operator.as_ref(), &line, name_receiver, allow) => {}
        () = following => {}
        () = work.go_on(names.collect(), allowed, arrived) => {}
    }
}

/// Asks the operator's program for each name that a handshake waits for. Beside the orders, which
/// take much longer. Ends when the supervisor is gone.
async fn ask_operator(
    operator: Option<&Operator>,
    line: &SupervisorLink,
    mut name_receiver: UnboundedReceiver<String>,
    allow: UnboundedSender<String>,
) {
    let is_down = Arc::new(AtomicBool::new(false));
    while let Some(name) = name_receiver.recv().await {
        let Some(operator) = operator.cloned() else {
            line.declined(&name).await;
            continue;
        };
        let (line, allow, is_down) = (line.clone(), allow.clone(), is_down.clone());
        // The supervisor bounds how many there are.
        tokio::spawn(async move {
            let answer = operator.allows(&name).await;
            // Names may be invented, so it is said once.
            match (&answer, is_down.swap(answer.is_err(), Ordering::Relaxed)) {
                (Err(problem), false) => {
                    let text = format!("no certificate for {name}: `ask` has failed: {problem}");
                    line.note(true, text).await;
                }
                (Ok(_), true) => line.note(false, "`ask` is answered again".into()).await,
                _ => {}
            }
            match answer {
                // The other side lives as long as this.
                Ok(true) => drop(allow.send(name)),
                Ok(false) | Err(_) => line.declined(&name).await,
            }
        });
    }
}

/// The position of the name that is due, if any is: one for which a handshake waits, or another
/// one, if there are both.
fn next_due(names: &[Name], is_wanted: bool, now: u64) -> Option<usize> {
    let due = || names.iter().enumerate().filter(|(_, name)| plan::is_due(name.next, now));
    let preferred = due().filter(|(_, name)| name.is_awaited() == is_wanted);
    let first = preferred.min_by_key(|(_, name)| name.next);
    first.or_else(|| due().min_by_key(|(_, name)| name.next)).map(|(at, _)| at)
}

/// The state that the orders of all names share.
struct Work<'a> {
    settings: Acme,
    fingerprint: u64,
    authorities: Vec<Authority>,
    line: &'a SupervisorLink,
    board: &'a Board<'a>,
    operator: Option<&'a Operator>,
    shared: Option<&'a Shared>,
    /// How tries have gone for names that were first seen in a handshake and have no certificate.
    failed: BTreeMap<String, Tries>,
    /// Why Redis, by which the nodes share certificates, did not answer the last time.
    unshared: Option<String>,
}

/// The outcome of an order.
enum Ordered {
    /// An authority has issued this certificate.
    Got(Vec<u8>),
    /// Another node had one, which is stored already.
    TakenOver,
    /// Another node orders it now.
    Elsewhere,
    /// The next attempt must wait, so no authority was asked.
    Waits,
    /// All authorities have refused or failed.
    Failed(Error),
    /// Redis does not answer, so nothing was ordered: other nodes might order as well, and could
    /// not show the challenge.
    Unshared(Error),
}

impl Work<'_> {
    async fn go_on(
        &mut self,
        mut names: Vec<Name>,
        mut allowed: UnboundedReceiver<String>,
        mut arrived: Receiver<Arrived>,
    ) {
        let mut is_wanted_next = true;
        loop {
            while let Ok(name) = allowed.try_recv() {
                self.want(&mut names, name).await;
            }
            while let Ok(news) = arrived.try_recv() {
                self.take_over(&mut names, &news).await;
            }
            let now = now();
            if let Some(at) = next_due(&names, is_wanted_next, now) {
                // In turns, so that neither can hold up the other.
                is_wanted_next = !names[at].is_awaited();
                let may_go = self.attend(&mut names[at]).await;
                if may_go && names[at].is_on_demand && !names[at].is_served() {
                    self.give_up(names.swap_remove(at)).await;
                }
                continue;
            }
            let next = names.iter().map(|name| name.next).min().unwrap_or(u64::MAX);
            let pause = Duration::from_secs(next.saturating_sub(now)).min(LONGEST_SLEEP);
            tokio::select! {
                () = sleep(pause) => {}
                Some(name) = allowed.recv() => self.want(&mut names, name).await,
                Some(news) = arrived.recv() => self.take_over(&mut names, &news).await,
            }
        }
    }

    /// A handshake waits for a certificate, and the operator allows it.
    async fn want(&mut self, names: &mut Vec<Name>, name: String) {
        let tries = self.failed.remove(&name).unwrap_or_else(|| Tries::new(self.fingerprint));
        if let Some(known) = names.iter_mut().find(|known| known.name == name) {
            known.next = AWAITED;
            return;
        }
        let name = Name { is_on_demand: true, next: AWAITED, ..Name::new(name, None, tries) };
        if self.may_ask(&name) {
            // Somebody waits, so it comes first.
            names.push(name);
        } else {
            self.give_up(name).await;
        }
    }

    /// No certificate is got for a name that was first seen in a handshake, or none soon. It is
    /// ordered when a handshake is the next to name it, and the authorities may be asked.
    async fn give_up(&mut self, name: Name) {
        self.line.declined(&name.name).await;
        if self.failed.len() >= MOST_FAILED {
            // The one whose wait ends first.
            let first = self.failed.iter().min_by_key(|(_, tries)| tries.first());
            if let Some(first) = first.map(|(name, _)| name.clone()) {
                self.failed.remove(&first);
            }
        }
        self.failed.insert(name.name, name.tries);
    }

    /// Whether any authority may be asked for this name now.
    fn may_ask(&self, name: &Name) -> bool {
        let now = now();
        self.authorities.iter().any(|authority| {
            plan::is_due(authority.rests, now) && name.tries.may_ask(&authority.url, now)
        })
    }

    /// Another node has another certificate for a name: if it lasts longer, it is used here too.
    async fn take_over(&self, names: &mut [Name], news: &Arrived) {
        let Some(shared) = self.shared else { return };
        let Some(name) = names.iter_mut().find(|name| name.name == news.name) else { return };
        if name.held.as_ref().is_some_and(|held| held.validity.ends >= news.ends) {
            return;
        }
        // What cannot be read now is asked for before the next order.
        if let Ok(Some(file)) = shared.certificate(&name.name).await {
            self.take(name, &file).await;
        }
    }

    /// Uses the certificate of another node, if it is good and lasts longer. False if it does not.
    async fn take(&self, name: &mut Name, file: &[u8]) -> bool {
        let ends = name.held.as_ref().map_or(0, |held| held.validity.ends);
        let is_new = NameCertificate::of(file.to_vec())
            .is_some_and(|other| other.validity.ends > ends && other.renew > now());
        if !is_new || order::check(&name.name, file).is_err() {
            return false;
        }
        self.store(name, file.to_vec(), 0).await;
        true
    }

    /// Does what is due for a name, and decides what is next. Whether a handshake that waits for
    /// its certificate waits in vain.
    async fn attend(&mut self, name: &mut Name) -> bool {
        if let Some(held) = &mut name.held
            && plan::is_due(held.ask, now())
            && let Some(id) = &held.id
        {
            let (window, again) = self.window(id).await;
            held.set_window(window, again);
        }
        if let Some(held) = &name.held {
            let floor = if plan::is_due(name.floor, now()) { 0 } else { name.floor };
            let renew = held.renew.max(floor);
            if now() < renew {
                let at = if held.id.is_some() { renew.min(held.ask) } else { renew };
                name.next = at.min(now() + LOOK_EVERY);
                self.line.name(&name.name, renew, String::new()).await;
                self.publish(name).await;
                return false;
            }
        }
        if let Some((file, failures)) = name.take_unsaved() {
            self.store(name, file, failures).await;
            return false;
        }
        if !self.is_still_allowed(name).await {
            return true;
        }
        self.line.ordering(true).await;
        let is_in_vain = self.get(name).await;
        self.line.ordering(false).await;
        is_in_vain
    }

    /// Gets a certificate for a name. Whether a handshake that waits for it waits in vain.
    async fn get(&mut self, name: &mut Name) -> bool {
        let ordered = match self.shared {
            Some(shared) => self.order_in_turn(shared, name).await,
            None => self.order(name).await,
        };
        if !matches!(ordered, Ordered::Elsewhere) {
            name.elsewhere = None;
        }
        if !matches!(ordered, Ordered::Unshared(_)) {
            self.unshared = None;
        }
        match ordered {
            Ordered::Got(file) => self.store(name, file, 0).await,
            Ordered::TakenOver => {}
            Ordered::Elsewhere => {
                name.next = now() + LOOK_AT_LOCKED;
                let since = *name.elsewhere.get_or_insert(now());
                if now().saturating_sub(since) > LONG_LOCK {
                    name.elsewhere = Some(now());
                    let failure = "another node has held the lock for half an hour";
                    self.report(name, "no new certificate for", failure, true).await;
                }
                return false;
            }
            Ordered::Waits => {
                // Nothing is known of a try in which the process has ended.
                let failure = match name.tries.failure() {
                    "" => "a try has ended before its outcome was known".to_owned(),
                    failure => failure.to_owned(),
                };
                self.wait(name, "no new certificate yet for", &failure, false).await;
                return true;
            }
            Ordered::Failed(error) => {
                self.wait(name, "no new certificate for", &error.to_string(), true).await;
                return true;
            }
            Ordered::Unshared(error) => {
                name.next = now() + LOOK_AT_LOCKED;
                // Once for all names, unless it is another problem.
                let problem = error.to_string();
                if self.unshared.as_ref() != Some(&problem) {
                    self.report(name, "no new certificate for", &problem, true).await;
                    self.unshared = Some(problem);
                }
                self.line.name(&name.name, name.next, error.to_string()).await;
                return true;
            }
        }
        false
    }

    /// Gives a certificate to the other nodes if they have none, or one that ends earlier: as after
    /// Redis was emptied, or away when the certificate came.
    async fn publish(&self, name: &Name) {
        let (Some(shared), Some(held)) = (self.shared, &name.held) else { return };
        let Ok(other) = shared.certificate(&name.name).await else { return };
        let ends = other.and_then(NameCertificate::of).map_or(0, |other| other.validity.ends);
        if ends < held.validity.ends {
            // What fails now is done at the next look.
            let _ = shared.keep_certificate(&name.name, &held.file, held.validity.ends).await;
        }
    }

    /// Whether the operator still wants a certificate for a name that was first seen in a handshake
    /// and has had one. If not, or without an answer, it is not renewed now.
    async fn is_still_allowed(&self, name: &mut Name) -> bool {
        let Some(operator) = self.operator.filter(|_| name.is_on_demand && name.held.is_some())
        else {
            return true;
        };
        let failure = match operator.allows(&name.name).await {
            Ok(true) => return true,
            Ok(false) => "`ask` does not allow it any more".to_owned(),
            Err(problem) => format!("`ask` has failed: {problem}"),
        };
        name.next = now() + plan::UNASKED;
        self.report(name, "no new certificate for", &failure, true).await;
        false
    }

    /// Has a new certificate stored, which brings it into use.
    async fn store(&self, name: &mut Name, file: Vec<u8>, failures: u32) {
        let kept = StateFile::Certificate(name.name.clone());
        match self.line.store(kept, file.clone()).await {
            Ok(()) => name.has(file),
            Err(error) => {
                let failures = failures + 1;
                let wait = plan::retry(failures, error.cause, fastrand::f64());
                name.unsaved = Some((file, failures));
                name.next = now() + wait.as_secs().max(1);
                self.report(name, "no new certificate for", &error.to_string(), true).await;
            }
        }
    }

    /// Waits until the first authority may be asked again.
    async fn wait(&self, name: &mut Name, what: &str, failure: &str, is_problem: bool) {
        let next = |authority: &Authority| name.tries.next(&authority.url).max(authority.rests);
        let next = self.authorities.iter().map(next).min().unwrap_or_default();
        name.next = next.clamp(now() + 1, now() + LOOK_EVERY);
        self.report(name, what, failure, is_problem).await;
    }

    /// Says that there is no new certificate, and when the next try is.
    async fn report(&self, name: &Name, what: &str, failure: &str, is_problem: bool) {
        let seconds = name.next.saturating_sub(now());
        let meanwhile =
            if name.held.is_some() { "the old one stays in use" } else { "there is none" };
        let name_of = &name.name;
        let text =
            format!("{what} {name_of}: {failure}; {meanwhile}, and the next try is in {seconds} s");
        self.line.note(is_problem, text).await;
        self.line.name(name_of, name.next, failure.to_owned()).await;
    }

    /// What the authorities say about a certificate: the first one that knows it.
    async fn window(
        &mut self,
        id: &CertificateIdentifier<'static>,
    ) -> (Option<Window>, Option<Duration>) {
        for authority in &mut self.authorities {
            if let Ok((Some(window), again)) =
                authority.window(id, &self.settings, self.line, self.shared).await
            {
                return (Some(window), Some(again));
            }
        }
        (None, None)
    }

    /// Orders a certificate if no other node does.
    async fn order_in_turn(&mut self, shared: &Shared, name: &mut Name) -> Ordered {
        let lock = match shared.lock_order(&name.name).await {
            Ok(Some(lock)) => lock,
            Ok(None) => return Ordered::Elsewhere,
            Err(error) => return Ordered::Unshared(error),
        };
        let ordered = tokio::select! {
            never = lock.hold() => match never {},
            ordered = self.take_or_order(shared, name) => ordered,
        };
        lock.release().await;
        ordered
    }

    /// Takes the certificate of another node if there is a new one, and orders one if not.
    async fn take_or_order(&mut self, shared: &Shared, name: &mut Name) -> Ordered {
        match shared.certificate(&name.name).await {
            Ok(Some(file)) if self.take(name, &file).await => return Ordered::TakenOver,
            Ok(_) => {}
            Err(error) => return Ordered::Unshared(error),
        }
        // Authorities count the failures of all nodes together.
        // Those of a node with other settings say nothing of these.
        if let Ok(Some(tries)) = shared.tries(&name.name).await
            && let Some(tries) = Tries::of(&tries, self.fingerprint)
        {
            name.tries = tries;
        }
        let ordered = self.order(name).await;
        if let Ordered::Got(file) = &ordered
            && let Some(held) = NameCertificate::of(file.clone())
            && let Err(error) = shared.keep_certificate(&name.name, file, held.validity.ends).await
        {
            // They get it when this node looks at the name the next time.
            self.line.note(true, format!("other nodes have no new certificate: {error}")).await;
        }
        ordered
    }

    /// Orders a certificate of the first authority that gives one.
    async fn order(&mut self, name: &mut Name) -> Ordered {
        let mut first = None;
        for at in 0..self.authorities.len() {
            let authority = &self.authorities[at];
            let may_ask = plan::is_due(authority.rests, now());
            if !may_ask || !name.tries.may_ask(&authority.url, now()) {
                continue;
            }
            name.tries.begin(&authority.url, now());
            self.keep_tries(name).await;
            match self.order_of(at, name).await {
                Ok(file) => return Ordered::Got(file),
                Err(error) => {
                    let url = &self.authorities[at].url;
                    name.tries.failed(url, &error, now(), fastrand::f64());
                    self.keep_tries(name).await;
                    // A node that reaches no authority holds up no other node.
                    if error.cause == Cause::Unavailable
                        && name.tries.refusals() == 0
                        && let Some(shared) = self.shared
                    {
                        let _ = shared.forget_tries(&name.name).await;
                    }
                    if at + 1 < self.authorities.len() {
                        let text = format!("{}: {error}; the next authority is asked", name.name);
                        self.line.note(true, text).await;
                    }
                    first = first.or(Some(error));
                }
            }
        }
        first.map_or(Ordered::Waits, Ordered::Failed)
    }

    /// Orders a certificate of one authority.
    async fn order_of(&mut self, at: usize, name: &Name) -> Result<Vec<u8>, Error> {
        let challenge = if name.name.starts_with("*.") {
            AcmeChallenge::Dns
        } else {
            let ways = &self.settings.challenges;
            ways[name.tries.refusals() % ways.len().max(1)]
        };
        let request = OrderRequest {
            name: &name.name,
            challenge,
            dns_hook: self.settings.dns_hook.as_deref(),
            replaces: name.held.as_ref().and_then(|held| held.id.as_ref()),
        };
        let authority = &mut self.authorities[at];
        let account = authority.account(&self.settings, self.line, self.shared).await;
        let account = account.inspect_err(|error| {
            // It does not know the name yet, so it would say the same of the others.
            if let Cause::Limited(wait) = error.cause {
                authority.rests = now() + plan::retry(1, Cause::Limited(wait), 0.0).as_secs();
            }
        })?;
        let text = format!("a certificate for {} is ordered", name.name);
        self.line.note(false, text).await;
        order::place(authority, &account, &request, self.line, self.board).await
    }

    /// Has it kept how the tries for a name have gone.
    async fn keep_tries(&self, name: &Name) {
        let file = name.tries.file();
        if let Some(shared) = self.shared {
            // If that fails, another node may ask sooner than it would have.
            let _ = shared.keep_tries(&name.name, &file).await;
        }
        // A name that was first seen in a handshake is not asked for again by itself.
        if name.is_on_demand && name.held.is_none() {
            return;
        }
        let kept = self.line.store(StateFile::Tries(name.name.clone()), file).await;
        if let Err(error) = kept {
            let problem = "a restart would ask the authorities too soon";
            self.line.note(true, format!("{problem}: {error}")).await;
        }
    }
}
