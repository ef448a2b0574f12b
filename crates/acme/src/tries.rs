//! How the tries to get a certificate for a name have gone. That outlives the process and the
//! server: authorities count failures, and one that was asked at each start would soon answer no
//! more.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};
use tokamak_config::{Acme, AcmeChallenge};

use crate::error::Error;
use crate::plan::{self, Cause};

/// The tries for a name since the last success.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tries {
    /// The settings that they were made with, as [`fingerprint`] says. Others may be the remedy, so
    /// tries that were made with others do not count.
    settings: u64,
    /// How often an authority has said no. Only these are a reason to try another challenge.
    refusals: u32,
    /// What was wrong last.
    failure: String,
    /// By the URLs of the authorities' directories: a try at one of them costs nothing at another.
    authorities: BTreeMap<String, AtAuthority>,
}

/// The tries at one authority.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AtAuthority {
    /// Failures in a row.
    failures: u32,
    /// How many of them it has counted, too. Files of older versions do not say.
    #[serde(default)]
    refused: u32,
    /// When it may be asked again, in seconds since 1970.
    #[serde(skip)]
    next: u64,
    /// The same for a process that begins later: never so soon that a server that is started again
    /// and again would ask all the time.
    after_restart: u64,
}

/// A number that is another one for other settings. Another version of the compiler may find
/// another one, too: then there is one try that would have waited.
pub fn fingerprint(settings: &Acme) -> u64 {
    // What the operator allows on demand is no matter of the authorities.
    let Acme { email, directories, eab, challenges, dns_hook, on_demand: _ } = settings;
    let mut hasher = DefaultHasher::new();
    (email, directories, dns_hook).hash(&mut hasher);
    for (url, key) in eab {
        (url, key.reveal()).hash(&mut hasher);
    }
    for challenge in challenges {
        let number = match challenge {
            AcmeChallenge::Http => 1,
            AcmeChallenge::TlsAlpn => 2,
            AcmeChallenge::Dns => 3,
        };
        number.hash(&mut hasher);
    }
    hasher.finish()
}

impl Tries {
    /// None so far, with the settings of this fingerprint.
    pub fn new(settings: u64) -> Tries {
        Tries { settings, ..Tries::default() }
    }

    /// Those that were kept, if they can be read and were made with the same settings.
    pub fn read(file: Option<&[u8]>, settings: u64) -> Tries {
        file.and_then(|file| Tries::of(file, settings)).unwrap_or_else(|| Tries::new(settings))
    }

    /// The same; [`None`] if they cannot be read, or were made with other settings.
    pub fn of(file: &[u8], settings: u64) -> Option<Tries> {
        let kept = serde_json::from_slice::<Tries>(file).ok();
        let mut kept = kept.filter(|kept| kept.settings == settings)?;
        for tries in kept.authorities.values_mut() {
            tries.next = tries.after_restart;
        }
        Some(kept)
    }

    /// When the first authority may be asked again.
    pub fn first(&self) -> u64 {
        self.authorities.values().map(|tries| tries.next).min().unwrap_or(0)
    }

    /// As they are kept.
    pub fn file(&self) -> Vec<u8> {
        // Only maps with keys that are no texts can fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether the authority with this directory may be asked now.
    pub fn may_ask(&self, url: &str, now: u64) -> bool {
        plan::is_due(self.next(url), now)
    }

    /// When it may be asked.
    pub fn next(&self, url: &str) -> u64 {
        self.authorities.get(url).map_or(0, |tries| tries.next)
    }

    /// A try begins. If nothing more is heard of it, because the process or the machine dies, it
    /// counts as one that was refused.
    pub fn begin(&mut self, url: &str, now: u64) {
        let tries = self.authorities.entry(url.to_owned()).or_default();
        // Not by all failures: after an hour without a network that would be six hours more.
        let wait = plan::retry(tries.refused.saturating_add(1), Cause::Refused, 0.0);
        tries.next = now;
        tries.after_restart = now + wait.as_secs();
    }

    /// It has failed.
    pub fn failed(&mut self, url: &str, error: &Error, now: u64, share: f64) {
        self.failure = error.to_string();
        let tries = self.authorities.entry(url.to_owned()).or_default();
        tries.failures = tries.failures.saturating_add(1);
        tries.refused = tries.refused.saturating_add(u32::from(error.cause == Cause::Refused));
        tries.next = now + plan::retry(tries.failures, error.cause, share).as_secs().max(1);
        tries.after_restart = match error.cause {
            // Nothing was counted, and who has mended the network or the hook starts the server
            // again. But an order may have been made.
            Cause::Unavailable => now + plan::retry(1, Cause::Refused, 0.0).as_secs(),
            Cause::Refused | Cause::Limited(_) => tries.next,
        };
        self.refusals += u32::from(error.cause == Cause::Refused);
    }

    /// There is a certificate: what was before does not count any more.
    pub fn succeeded(&mut self) {
        *self = Tries::new(self.settings);
    }

    /// How often an authority has said no.
    pub fn refusals(&self) -> usize {
        self.refusals as usize
    }

    /// What was wrong last; empty if nothing was.
    pub fn failure(&self) -> &str {
        &self.failure
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokamak_config::Secret;

    use super::*;

    const NOW: u64 = 2_000_000_000;

    fn again(tries: &Tries) -> Tries {
        Tries::read(Some(&tries.file()), 7)
    }

    #[test]
    fn a_refusal_by_one_authority_is_none_of_another() {
        let mut tries = Tries::new(7);
        for (failures, unreachable, refused) in [(1, 1, 60), (2, 2, 120), (3, 4, 240)] {
            for (url, cause) in [("a", Cause::Unavailable), ("b", Cause::Refused)] {
                tries.begin(url, NOW);
                tries.failed(url, &Error::new(cause, url), NOW, 0.0);
            }
            assert_eq!((tries.next("a"), tries.next("b")), (NOW + unreachable, NOW + refused));
            assert_eq!(tries.refusals(), failures);
        }
        assert!(tries.may_ask("a", NOW + 4) && !tries.may_ask("b", NOW + 4));
        assert!(tries.may_ask("c", NOW), "one that was never asked");
    }

    #[test]
    fn a_restart_is_no_reason_to_ask_again() {
        let mut tries = Tries::new(7);
        tries.begin("a", NOW);
        assert_eq!(again(&tries).next("a"), NOW + 60, "what has become of it is not known");
        tries.failed("a", &Error::new(Cause::Refused, "no"), NOW, 0.0);
        tries.begin("b", NOW);
        tries.failed("b", &Error::here("no network"), NOW, 0.0);
        tries.begin("c", NOW);
        let limited = Cause::Limited(Duration::from_secs(3600));
        tries.failed("c", &Error::new(limited, "later"), NOW, 0.0);
        let kept = again(&tries);
        let next = ["a", "b", "c"].map(|url| kept.next(url) - NOW);
        assert_eq!(next, [60, 60, 3600]);
        assert_eq!((kept.failure(), kept.refusals()), ("later", 1));
        // A clock that was wrong has no say.
        assert!(kept.may_ask("c", NOW - 40 * 24 * 3600));
        // Other settings may be the remedy, and a file that is broken is nothing to wait for.
        assert_eq!(Tries::read(Some(&tries.file()), 8), Tries::new(8));
        assert_eq!(Tries::read(Some(b"{"), 7), Tries::new(7));
        assert_eq!(Tries::read(None, 7), Tries::new(7));
    }

    /// Who mends the network starts the server again, and that is likely within a try: each one
    /// waits for an answer.
    #[test]
    fn a_restart_within_a_try_waits_by_refusals_alone() {
        let mut tries = Tries::new(7);
        for _ in 0..8 {
            tries.begin("a", NOW);
            tries.failed("a", &Error::here("no network"), NOW, 0.0);
        }
        tries.begin("a", NOW);
        assert_eq!(again(&tries).next("a"), NOW + 60);
        for _ in 0..2 {
            tries.failed("a", &Error::new(Cause::Refused, "no"), NOW, 0.0);
            tries.begin("a", NOW);
        }
        assert_eq!(again(&again(&tries)).next("a"), NOW + 240);
    }

    #[test]
    fn each_setting_counts() {
        let plain = Acme { directories: vec!["https://a/".into()], ..Acme::default() };
        let others = [
            Acme { email: Some("a@b".into()), ..plain.clone() },
            Acme { directories: vec!["https://b/".into()], ..plain.clone() },
            Acme { eab: [("a".into(), Secret::new("b"))].into(), ..plain.clone() },
            Acme { challenges: vec![AcmeChallenge::Http], ..plain.clone() },
            Acme { challenges: vec![AcmeChallenge::TlsAlpn], ..plain.clone() },
            Acme { dns_hook: Some("/hook".into()), ..plain.clone() },
        ];
        let mut all: Vec<u64> = others.iter().chain([&plain]).map(fingerprint).collect();
        assert_eq!(fingerprint(&plain.clone()), fingerprint(&plain));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 7);
    }
}
