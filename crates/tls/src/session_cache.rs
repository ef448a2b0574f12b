//! Sessions of TLS 1.2 that are kept here, for clients that know no tickets.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::StoresServerSessions;

/// How many sessions a generation has. Each is some hundred bytes, so that both take a few
/// megabytes at most. A tenth would forget the clients of a busy site before they come again; ten
/// times more would give a flood of handshakes more memory than the rest of the server has.
const SESSIONS: usize = 8192;

/// How long a generation is added to: a session is kept for this long, and at most for twice of it.
/// A tenth is shorter than many pauses of visitors; ten times longer, a thief of this memory could
/// read the recorded connections of several days.
const AGE: Duration = Duration::from_secs(3600);

/// Sessions in two generations. When the young one is full or old enough, it takes the place of the
/// other, which is forgotten.
#[derive(Debug)]
pub struct SessionCache(Mutex<Generations>);

struct Generations {
    began: Instant,
    young: HashMap<Vec<u8>, Vec<u8>>,
    old: HashMap<Vec<u8>, Vec<u8>>,
}

// Secrets are not printed.
impl std::fmt::Debug for Generations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generations").finish_non_exhaustive()
    }
}

impl Default for SessionCache {
    fn default() -> SessionCache {
        let (young, old) = (HashMap::new(), HashMap::new());
        SessionCache(Mutex::new(Generations { began: Instant::now(), young, old }))
    }
}

impl SessionCache {
    /// The sessions that are not too old at this time.
    fn at(&self, now: Instant) -> MutexGuard<'_, Generations> {
        // Each change is a single call, so the data are intact after a panic.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = now.saturating_duration_since(all.began);
        if age >= AGE || all.young.len() >= SESSIONS {
            let young = mem::take(&mut all.young);
            all.old = if age < 2 * AGE { young } else { HashMap::new() };
            all.began = now;
        }
        all
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.at(Instant::now()).young.insert(key, value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let all = self.at(Instant::now());
        all.young.get(key).or_else(|| all.old.get(key)).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut all = self.at(Instant::now());
        all.young.remove(key).or_else(|| all.old.remove(key))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_forgotten_by_age_and_by_number() {
        let kept = SessionCache::default();
        kept.put(vec![1], vec![2]);
        assert_eq!(kept.get(&[1]), Some(vec![2]));
        let now = Instant::now();
        assert_eq!(kept.at(now + AGE).old.len(), 1);
        assert_eq!(kept.at(now + 2 * AGE).old.len(), 0);
        for key in 0..3 * SESSIONS {
            kept.put(key.to_be_bytes().to_vec(), Vec::new());
        }
        let all = kept.at(now);
        assert!(all.young.len() <= SESSIONS && all.old.len() == SESSIONS);
    }
}
