//! Names that are first seen in a handshake. The handshake waits while the supervisor has a
//! certificate ordered, if the operator allows that for the name. All of it is bounded: anybody can
//! begin handshakes with invented names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokamak_config as config;
use tokamak_tls::ServerConfig;
use tokio::sync::watch;

use crate::throttle::Pace;

/// Asks the supervisor to order a certificate for a name. New credentials that have it, or a call
/// of [`crate::Front::decline`], follow. False if the message could not be sent.
pub type WantName = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Names for which handshakes wait. With a tenth, a few customers of a slow authority would keep
/// others out; with ten times more, clients that invent names could keep the supervisor busy.
const MOST_NAMES: usize = 64;

/// Most handshakes that wait. Each holds memory and a descriptor for as long as a handshake may
/// take.
const MOST_HANDSHAKES: usize = 256;

/// The rate of requests to the operator's program: so many names a second, and the burst beyond
/// that. Each invented name costs one request within this rate.
const OPERATOR_RATE: (u32, u32) = (10, 100);

/// How long a name stays declined. With a tenth, a client that tries again and again would have the
/// operator asked each time; with ten times more, a shop that was just added would wait for long.
const DECLINED_FOR: u64 = Duration::from_secs(60).as_nanos() as u64;

/// Names that are known to be declined. With ten times more, they would take megabytes.
const MOST_DECLINED: usize = 4096;

/// Names that are first seen in a handshake.
pub struct OnDemand {
    config: Arc<config::Server>,
    want: WantName,
    /// The configuration for names without a certificate, which refuses the handshake. Without it,
    /// the client would get the certificate of another name.
    pub refusing: Arc<ServerConfig>,
    pace: Pace,
    state: Mutex<State>,
    /// Wakes waiting handshakes, which look for a certificate again.
    news: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// How many handshakes wait for each name.
    waiting: HashMap<String, usize>,
    /// When each name was declined, on the clock of [`tokamak_cost::now`].
    declined: HashMap<String, u64>,
    /// The state of the rate limit; see [`Pace::admit`].
    empty_at: u64,
}

/// A handshake that waits.
struct Waiting<'a> {
    on_demand: &'a OnDemand,
    name: &'a str,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.on_demand.state();
        if let Some(count) = state.waiting.get_mut(self.name) {
            *count -= 1;
            if *count == 0 {
                state.waiting.remove(self.name);
            }
        }
    }
}

impl OnDemand {
    /// Certificates are ordered as this configuration allows.
    ///
    /// # Errors
    /// As [`tokamak_tls::refusing_config`].
    pub fn new(config: Arc<config::Server>, want: WantName) -> Result<OnDemand, String> {
        Ok(OnDemand {
            config,
            want,
            refusing: tokamak_tls::refusing_config()?,
            pace: Pace::new(OPERATOR_RATE.0, Duration::from_secs(1), OPERATOR_RATE.1),
            state: Mutex::default(),
            news: watch::Sender::new(()),
        })
    }

    /// Whether a certificate for this name, in lower case, may be ordered.
    pub fn is_for(&self, name: &str) -> bool {
        self.config.gets_on_demand(name)
    }

    /// Waits for a certificate; false if none will come. `is_known` says whether there is one now.
    pub async fn wait(&self, name: &str, is_known: impl Fn(&str) -> bool) -> bool {
        // It listens before its first look, so that it misses no news in between.
        let mut news = self.news.subscribe();
        let Some(_waiting) = self.enter(name, tokamak_cost::now()) else { return false };
        loop {
            if is_known(name) {
                return true;
            }
            if self.state().declined.contains_key(name) || news.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Begins to wait for a name, if there is room. The first handshake asks for a certificate.
    fn enter<'a>(&'a self, name: &'a str, now: u64) -> Option<Waiting<'a>> {
        let mut state = self.state();
        if let Some(at) = state.declined.get(name) {
            if now.saturating_sub(*at) < DECLINED_FOR {
                return None;
            }
            state.declined.remove(name);
        }
        if state.waiting.values().sum::<usize>() >= MOST_HANDSHAKES {
            return None;
        }
        if let Some(count) = state.waiting.get_mut(name) {
            *count += 1;
            return Some(Waiting { on_demand: self, name });
        }
        if state.waiting.len() >= MOST_NAMES {
            return None;
        }
        state.empty_at = self.pace.admit(state.empty_at, now).ok()?;
        state.waiting.insert(name.to_owned(), 1);
        drop(state);
        let waiting = Waiting { on_demand: self, name };
        if !(self.want)(name) {
            // Others may wait for it already.
            self.decline(name);
            return None;
        }
        Some(waiting)
    }

    /// The supervisor says that no certificate is ordered for this name, or that none comes soon.
    pub fn decline(&self, name: &str) {
        let (mut state, now) = (self.state(), tokamak_cost::now());
        if state.declined.len() >= MOST_DECLINED {
            state.declined.retain(|_, at| now.saturating_sub(*at) < DECLINED_FOR);
        }
        if state.declined.len() >= MOST_DECLINED {
            // The operator is asked again, at the pace that holds for all names.
            state.declined.clear();
        }
        state.declined.insert(name.to_owned(), now);
        drop(state);
        self.look_again();
    }

    /// The certificates have changed.
    pub fn look_again(&self) {
        self.news.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    fn counting() -> (Arc<OnDemand>, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let want: WantName = Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            true
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "").unwrap();
        let request = config::Request {
            path: None,
            config: None,
            flags: Vec::new(),
            environment: Vec::new(),
            directory: folder.path().to_owned(),
        };
        let server = Arc::new(request.load().unwrap());
        (Arc::new(OnDemand::new(server, want).unwrap()), asked)
    }

    async fn turn() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn handshakes_for_a_name_wait_together() {
        let (on_demand, asked) = counting();
        let known = Arc::new(AtomicBool::new(false));
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let (on_demand, known) = (on_demand.clone(), known.clone());
                tokio::spawn(async move {
                    on_demand.wait("a.example", |_| known.load(Ordering::Relaxed)).await
                })
            })
            .collect();
        turn().await;
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        // News of another name.
        on_demand.decline("b.example");
        turn().await;
        assert!(waiting.iter().all(|one| !one.is_finished()));
        known.store(true, Ordering::Relaxed);
        on_demand.look_again();
        for one in waiting {
            assert!(one.await.unwrap());
        }
        assert!(on_demand.state().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_declined_name_is_not_asked_for_at_once() {
        let (on_demand, asked) = counting();
        let other = on_demand.clone();
        let waiting = tokio::spawn(async move { other.wait("a.example", |_| false).await });
        turn().await;
        on_demand.decline("a.example");
        assert!(!waiting.await.unwrap());
        assert!(!on_demand.wait("a.example", |_| false).await);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let later = tokamak_cost::now() + DECLINED_FOR;
        assert!(on_demand.enter("a.example", later).is_some());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn everything_is_bounded() {
        let (on_demand, asked) = counting();
        let names: Vec<String> = (0..1000).map(|number| format!("{number}.example")).collect();
        let enter = |name: &'static str| on_demand.enter(name, 1);
        let held: Vec<_> = names.iter().filter_map(|name| on_demand.enter(name, 1)).collect();
        assert_eq!((held.len(), asked.load(Ordering::Relaxed)), (MOST_NAMES, MOST_NAMES));
        let again: Vec<_> = std::iter::from_fn(|| enter("1.example")).take(1000).collect();
        assert_eq!(again.len(), MOST_HANDSHAKES - MOST_NAMES);
        drop((held, again));
        // Names that are left at once are asked for at a pace.
        let entered = names.iter().filter(|name| on_demand.enter(name, 1).is_some()).count();
        assert_eq!(entered + MOST_NAMES, OPERATOR_RATE.1 as usize + 1);
        for name in &names[..] {
            (0..10).for_each(|number| on_demand.decline(&format!("{number}.{name}")));
        }
        assert!(on_demand.state().declined.len() <= MOST_DECLINED);
    }
}
