//! The process: one name after the other gets what it needs when its time has come.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use instant_acme::CertificateIdentifier;
use tokamak_config::{Acme, AcmeChallenge};
use tokamak_sys::channel::Channel;
use tokamak_sys::control::StateFile;
use tokamak_tls::{Certificate, Pair, PairFiles};
use tokio::time::sleep;

use crate::authority::Authority;
use crate::error::Error;
use crate::line::Line;
use crate::order::{self, Wanted};
use crate::plan::{self, Cause, Validity, Window};
use crate::tries::{self, Tries};

/// Longest sleep: a clock that was set meanwhile is noticed after it.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Longest time between two looks at a name, in seconds.
const LOOK_EVERY: u64 = 24 * 3600;

/// Exit status of a process whose supervisor is gone, or that cannot start.
const FAILED: u8 = 1;

/// What the process starts with.
pub struct Start {
    /// Whom to ask, and how.
    pub settings: Acme,
    /// The names, each with the certificate that it has.
    pub names: BTreeMap<String, Option<PairFiles>>,
    /// The accounts by the URLs of the authorities' directories.
    pub accounts: BTreeMap<String, Vec<u8>>,
    /// How the tries for the names have gone, where that is known.
    pub tries: BTreeMap<String, Vec<u8>>,
    /// The line to the supervisor.
    pub channel: Channel,
}

/// Gets certificates until the supervisor is gone. What it returns is the exit status.
pub fn run(start: Start) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("tokamak: certificates: {error}");
            return FAILED;
        }
    };
    runtime.block_on(async {
        let Ok((line, is_gone)) = Line::over(start.channel) else { return };
        let settings = tries::fingerprint(&start.settings);
        let mut work = Work {
            authorities: (start.settings.directories.iter())
                .map(|url| Authority::new(url.clone(), start.accounts.get(url).cloned()))
                .collect(),
            settings: start.settings,
            line,
        };
        let names = start.names.into_iter().map(|(name, pair)| {
            let tries = Tries::read(start.tries.get(&name).map(Vec::as_slice), settings);
            Name::new(name, pair, tries)
        });
        tokio::select! {
            _ = is_gone => {}
            () = work.go_on(names.collect()) => {}
        }
    });
    FAILED
}

/// A name, and how it stands.
struct Name {
    name: String,
    held: Option<Held>,
    /// A certificate that could not be stored yet, and how often that was tried.
    unsaved: Option<(Vec<u8>, u32)>,
    tries: Tries,
    /// When something is to be done.
    next: u64,
    /// Before when nothing is ordered, because the last order has succeeded.
    floor: u64,
}

/// A certificate that a name has.
struct Held {
    validity: Validity,
    id: Option<CertificateIdentifier<'static>>,
    renew: u64,
    /// When the authority is asked for its window again.
    ask: u64,
    /// Which point of the window is this server's.
    share: f64,
}

impl Name {
    fn new(name: String, pair: Option<PairFiles>, tries: Tries) -> Name {
        let held = pair.and_then(|pair| Held::of(&pair.certificate, &pair.key));
        Name { name, held, unsaved: None, tries, next: 0, floor: 0 }
    }
}

impl Held {
    fn of(chain: &[u8], key: &[u8]) -> Option<Held> {
        let certificate = Pair::read(chain, key).ok()?.certificate;
        let validity = Validity { begins: certificate.not_before, ends: certificate.not_after };
        let share = fastrand::f64();
        let renew = plan::renewal(validity, None, share, now());
        Some(Held { validity, id: identifier(&certificate), renew, ask: 0, share })
    }

    fn heard(&mut self, window: Option<Window>, again: Option<Duration>) {
        let now = now();
        self.renew = plan::renewal(self.validity, window, self.share, now);
        self.ask = now + plan::ask_again(again).as_secs();
    }
}

fn identifier(certificate: &Certificate) -> Option<CertificateIdentifier<'static>> {
    let (authority_key_identifier, serial) = certificate.renewal_id()?;
    Some(CertificateIdentifier {
        authority_key_identifier: authority_key_identifier.into(),
        serial: serial.into(),
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What all names share.
struct Work {
    settings: Acme,
    authorities: Vec<Authority>,
    line: Line,
}

impl Work {
    async fn go_on(&mut self, mut names: Vec<Name>) {
        loop {
            let now = now();
            let due = names.iter_mut().filter(|name| plan::is_due(name.next, now));
            if let Some(name) = due.min_by_key(|name| name.next) {
                self.attend(name).await;
                continue;
            }
            let Some(next) = names.iter().map(|name| name.next).min() else { return };
            sleep(Duration::from_secs(next.saturating_sub(now)).min(LONGEST_SLEEP)).await;
        }
    }

    /// Does what is due for a name, and decides what is next.
    async fn attend(&mut self, name: &mut Name) {
        if let Some(held) = &mut name.held
            && plan::is_due(held.ask, now())
            && let Some(id) = &held.id
        {
            let (window, again) = self.window(id).await;
            held.heard(window, again);
        }
        if let Some(held) = &name.held {
            let floor = if plan::is_due(name.floor, now()) { 0 } else { name.floor };
            let renew = held.renew.max(floor);
            if now() < renew {
                let at = if held.id.is_some() { renew.min(held.ask) } else { renew };
                name.next = at.min(now() + LOOK_EVERY);
                return self.line.name(&name.name, renew, String::new()).await;
            }
        }
        // One that could not be stored until its end is of no use any more.
        let is_good = |(file, _): &(Vec<u8>, u32)| order::check(&name.name, file).is_ok();
        let got = match name.unsaved.take().filter(is_good) {
            Some(unsaved) => Ok(Some(unsaved)),
            None => self.order(name).await.map(|file| file.map(|file| (file, 0))),
        };
        match got {
            Ok(Some((file, failures))) => self.store(name, file, failures).await,
            Ok(None) => {
                let failure = name.tries.failure().to_owned();
                self.wait(name, "no new certificate yet for", &failure, false).await;
            }
            Err(error) => {
                let failure = error.to_string();
                self.wait(name, "no new certificate for", &failure, true).await;
            }
        }
    }

    /// Has a new certificate stored, which brings it into use.
    async fn store(&mut self, name: &mut Name, file: Vec<u8>, failures: u32) {
        let kept = StateFile::Certificate(name.name.clone());
        match self.line.store(kept, file.clone()).await {
            Ok(()) => {
                name.tries.succeeded();
                name.held = Held::of(&file, &file);
                name.floor = name.held.as_ref().map_or(0, |held| plan::floor(held.validity, now()));
                // The authority may want to say when, so it is asked at once.
                name.next = now();
            }
            Err(error) => {
                let failures = failures + 1;
                let wait = plan::retry(failures, error.cause, fastrand::f64());
                name.unsaved = Some((file, failures));
                name.next = now() + wait.as_secs().max(1);
                self.tell(name, "no new certificate for", &error.to_string(), true).await;
            }
        }
    }

    /// Waits until the first authority may be asked again.
    async fn wait(&self, name: &mut Name, what: &str, failure: &str, is_problem: bool) {
        let next = |authority: &Authority| name.tries.next(&authority.url).max(authority.rests);
        let next = self.authorities.iter().map(next).min().unwrap_or_default();
        name.next = next.clamp(now() + 1, now() + LOOK_EVERY);
        self.tell(name, what, failure, is_problem).await;
    }

    /// Says that there is no new certificate, and when the next try is.
    async fn tell(&self, name: &Name, what: &str, failure: &str, is_problem: bool) {
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
                authority.window(id, &self.settings, &self.line).await
            {
                return (Some(window), Some(again));
            }
        }
        (None, None)
    }

    /// Orders a certificate of the first authority that gives one; [`None`] if none of them is to
    /// be asked now.
    async fn order(&mut self, name: &mut Name) -> Result<Option<Vec<u8>>, Error> {
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
                Ok(file) => return Ok(Some(file)),
                Err(error) => {
                    let url = &self.authorities[at].url;
                    name.tries.failed(url, &error, now(), fastrand::f64());
                    self.keep_tries(name).await;
                    first = first.or(Some(error));
                }
            }
        }
        first.map_or(Ok(None), Err)
    }

    /// Orders a certificate of one authority.
    async fn order_of(&mut self, at: usize, name: &Name) -> Result<Vec<u8>, Error> {
        let challenge = if name.name.starts_with("*.") {
            AcmeChallenge::Dns
        } else {
            let ways = &self.settings.challenges;
            ways[name.tries.refusals() % ways.len().max(1)]
        };
        let wanted = Wanted {
            name: &name.name,
            challenge,
            dns_hook: self.settings.dns_hook.as_deref(),
            replaces: name.held.as_ref().and_then(|held| held.id.as_ref()),
        };
        let authority = &mut self.authorities[at];
        let account = authority.account(&self.settings, &self.line).await;
        let account = account.inspect_err(|error| {
            // It does not know the name yet, so it would say the same of the others.
            if let Cause::Limited(wait) = error.cause {
                authority.rests = now() + plan::retry(1, Cause::Limited(wait), 0.0).as_secs();
            }
        })?;
        let text = format!("a certificate for {} is ordered", name.name);
        self.line.note(false, text).await;
        order::place(authority, &account, &wanted, &self.line).await
    }

    /// Has it kept how the tries for a name have gone.
    async fn keep_tries(&self, name: &Name) {
        let kept = self.line.store(StateFile::Tries(name.name.clone()), name.tries.file()).await;
        if let Err(error) = kept {
            let problem = "a restart would ask the authorities too soon";
            self.line.note(true, format!("{problem}: {error}")).await;
        }
    }
}
