//! Responses that are being read into the cache (fills), and the requests that wait for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokamak_cache::{Entry, Key, Request};
use tokio::sync::watch;

/// The state of a fill.
#[derive(Clone)]
pub enum FillState {
    /// The response is still coming.
    Pending,
    /// The response is in the cache.
    Stored(Arc<Entry>),
    /// The response is not shared with other requests, or there is none.
    Abandoned,
}

/// The fills by key, and by whether the request is personal (it has cookies or credentials).
/// Personal requests and others do not wait for each other, because the response to one may not be
/// for the other.
type Map = HashMap<(Key, bool), Fill>;

struct Fill {
    state: watch::Receiver<FillState>,
    is_outdated: Arc<AtomicBool>,
}

/// All fills.
#[derive(Clone, Default)]
pub struct Fills(Arc<Mutex<Map>>);

/// What a request does about a missing response.
pub enum Joined {
    /// It asks the backend, and other requests wait for it.
    Lead(Lead),
    /// It waits for another request.
    Wait(Waiting),
    /// It asks the backend for itself alone.
    Alone,
}

impl Fills {
    fn map(&self) -> MutexGuard<'_, Map> {
        // If a panic has poisoned the lock, it has been reported. Each change is a single call, so
        // the map is intact.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Joins the fill of a response, or begins one.
    pub fn join(&self, key: Key, request: &Request) -> Joined {
        let name = (key, request.is_own());
        let mut map = self.map();
        if let Some(fill) = map.get(&name) {
            return Joined::Wait(Waiting(fill.state.clone()));
        }
        let (state, seen) = watch::channel(FillState::Pending);
        let is_outdated = Arc::new(AtomicBool::new(false));
        map.insert(name.clone(), Fill { state: seen, is_outdated: is_outdated.clone() });
        Joined::Lead(Lead { fills: self.clone(), name, state, is_outdated })
    }

    /// Marks the fills of this key as outdated, so that they are not stored: a request has changed
    /// the resource meanwhile.
    pub fn outdate(&self, key: &[u8]) {
        let map = self.map();
        let fills = [false, true].map(|is_own| map.get(&(Key::of(key), is_own)));
        fills
            .into_iter()
            .flatten()
            .for_each(|fill| fill.is_outdated.store(true, Ordering::Release));
    }
}

/// A request's wait for another one's response.
pub struct Waiting(watch::Receiver<FillState>);

impl Waiting {
    /// Waits for the end of the fill.
    pub async fn ended(&mut self) -> FillState {
        let ended = self.0.wait_for(|state| !matches!(state, FillState::Pending)).await;
        ended.map_or(FillState::Abandoned, |state| state.clone())
    }
}

/// Held by the request that asks the backend. Dropping it releases the waiting requests without a
/// response.
pub struct Lead {
    fills: Fills,
    name: (Key, bool),
    state: watch::Sender<FillState>,
    is_outdated: Arc<AtomicBool>,
}

impl Lead {
    /// The key that is being filled.
    pub fn key(&self) -> &Key {
        &self.name.0
    }

    /// Whether a request has changed the resource meanwhile.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Acquire)
    }

    /// Ends the fill: the waiting requests get this entry.
    pub fn complete(self, entry: Arc<Entry>) {
        self.state.send_replace(FillState::Stored(entry));
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.fills.map().remove(&self.name);
        let _ = self.state.send_if_modified(|state| {
            let is_lost = matches!(state, FillState::Pending);
            if is_lost {
                *state = FillState::Abandoned;
            }
            is_lost
        });
    }
}

/// Carries a lead with a subrequest until that reaches the cache.
pub struct Refresh(Mutex<Option<Lead>>);

impl Refresh {
    /// Wraps a lead.
    pub fn new(lead: Lead) -> Refresh {
        Refresh(Mutex::new(Some(lead)))
    }

    /// Takes the lead. Only the first call gets it.
    pub fn take(&self) -> Option<Lead> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use tokamak_cache::{Lifetimes, Selection};

    use super::*;

    fn key() -> Key {
        Key::of(b"a/")
    }

    fn entry() -> Arc<Entry> {
        let parts = (StatusCode::OK, HeaderMap::new(), Bytes::new());
        Arc::new(Entry::new(parts, Selection::default(), Vec::new(), Lifetimes::default(), 0))
    }

    #[tokio::test]
    async fn one_leads_and_the_others_wait() {
        let fills = Fills::default();
        let Joined::Lead(lead) = fills.join(key(), &Request::default()) else {
            panic!("the first leads")
        };
        let Joined::Wait(mut second) = fills.join(key(), &Request::default()) else {
            panic!("it waits")
        };
        let own = Request { has_cookies: true, ..Request::default() };
        assert!(matches!(fills.join(key(), &own), Joined::Lead(_)), "not for somebody's own");
        lead.complete(entry());
        assert!(matches!(second.ended().await, FillState::Stored(_)));
        assert!(
            matches!(fills.join(key(), &Request::default()), Joined::Lead(_)),
            "the next one leads again"
        );
    }

    #[tokio::test]
    async fn a_lead_that_gives_up_frees_the_others() {
        let fills = Fills::default();
        let Joined::Lead(lead) = fills.join(key(), &Request::default()) else {
            panic!("the first leads")
        };
        let Joined::Wait(mut second) = fills.join(key(), &Request::default()) else {
            panic!("it waits")
        };
        fills.outdate(b"b/");
        assert!(!lead.is_outdated());
        fills.outdate(b"a/");
        assert!(lead.is_outdated());
        drop(lead);
        assert!(matches!(second.ended().await, FillState::Abandoned));
    }
}
