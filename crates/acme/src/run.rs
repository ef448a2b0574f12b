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

/// Longest sleep: a clock that was set meanwhile is noticed after it.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

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
        let mut work = Work {
            authorities: (start.settings.directories.iter())
                .map(|url| Authority::new(url.clone(), start.accounts.get(url).cloned()))
                .collect(),
            settings: start.settings,
            line,
        };
        let names = start.names.into_iter().map(|(name, pair)| Name::new(name, pair));
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
    /// A certificate that could not be stored yet.
    unsaved: Option<Vec<u8>>,
    /// Failures in a row, and those of them that an authority has found: only these are a reason to
    /// try another challenge.
    failures: u32,
    refusals: u32,
    /// When something is to be done.
    next: u64,
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
    fn new(name: String, pair: Option<PairFiles>) -> Name {
        let held = pair.and_then(|pair| Held::of(&pair.certificate, &pair.key));
        Name { name, held, unsaved: None, failures: 0, refusals: 0, next: 0 }
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
            let Some(name) = names.iter_mut().min_by_key(|name| name.next) else { return };
            let wait = Duration::from_secs(name.next.saturating_sub(now()));
            if wait.is_zero() {
                self.attend(name).await;
            } else {
                sleep(wait.min(LONGEST_SLEEP)).await;
            }
        }
    }

    /// Does what is due for a name, and decides what is next.
    async fn attend(&mut self, name: &mut Name) {
        if let Some(held) = &mut name.held
            && now() >= held.ask
            && let Some(id) = &held.id
        {
            let (window, again) = self.window(id).await;
            held.heard(window, again);
        }
        if let Some(held) = &name.held
            && now() < held.renew
        {
            let at = if held.id.is_some() { held.renew.min(held.ask) } else { held.renew };
            name.next = at;
            return self.line.name(&name.name, at, String::new()).await;
        }
        let file = match name.unsaved.take() {
            Some(file) => Ok(file),
            None => self.order(name).await,
        };
        let stored = match file {
            Ok(file) => {
                let kept = StateFile::Certificate(name.name.clone());
                let stored = self.line.store(kept, file.clone()).await;
                if stored.is_err() {
                    name.unsaved = Some(file.clone());
                }
                stored.map(|()| file)
            }
            Err(error) => Err(error),
        };
        match stored {
            Ok(file) => {
                (name.failures, name.refusals) = (0, 0);
                name.held = Held::of(&file, &file);
                // The authority may want to say when, so it is asked at once.
                name.next = now();
            }
            Err(error) => {
                name.failures += 1;
                name.refusals += u32::from(error.cause == Cause::Refused);
                let wait = plan::retry(name.failures, error.cause, fastrand::f64());
                name.next = now() + wait.as_secs().max(1);
                let seconds = wait.as_secs().max(1);
                let meanwhile =
                    if name.held.is_some() { "the old one stays in use" } else { "there is none" };
                let text = format!(
                    "no new certificate for {}: {error}; {meanwhile}, and the next try is in \
                        {seconds} s",
                    name.name
                );
                self.line.note(true, text).await;
                self.line.name(&name.name, name.next, error.to_string()).await;
            }
        }
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

    /// Orders a certificate of the first authority that gives one.
    async fn order(&mut self, name: &Name) -> Result<Vec<u8>, Error> {
        let challenge = if name.name.starts_with("*.") {
            AcmeChallenge::Dns
        } else {
            let ways = &self.settings.challenges;
            ways[name.refusals as usize % ways.len().max(1)]
        };
        let wanted = Wanted {
            name: &name.name,
            challenge,
            dns_hook: self.settings.dns_hook.as_deref(),
            replaces: name.held.as_ref().and_then(|held| held.id.as_ref()),
        };
        let mut first = None;
        for authority in &mut self.authorities {
            let outcome = match authority.account(&self.settings, &self.line).await {
                Ok(account) => {
                    let text = format!("a certificate for {} is ordered", name.name);
                    self.line.note(false, text).await;
                    order::place(authority, &account, &wanted, &self.line).await
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(file) => return Ok(file),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| Error::new(Cause::Refused, "no authority is named")))
    }
}
