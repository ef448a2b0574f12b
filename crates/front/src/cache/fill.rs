//! Responses that are on their way into the cache, and those who wait for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokamak_cache::{Entry, Key, Request};
use tokio::sync::watch;

/// What became of a response that was on its way.
#[derive(Clone)]
pub enum Landing {
    /// It is still.
    Under,
    /// It is in the cache.
    Stored(Arc<Entry>),
    /// It is for nobody else, or there is none.
    Lost,
}

/// The fills, by what they are for: requests that are somebody's own do not wait for those that
/// are nobody's, since their responses may not be for them.
type Map = HashMap<(Key, bool), Fill>;

struct Fill {
    landing: watch::Receiver<Landing>,
    is_outdated: Arc<AtomicBool>,
}

/// All of them.
#[derive(Clone, Default)]
pub struct Fills(Arc<Mutex<Map>>);

/// What a request does about a response that is missing.
pub enum Joined {
    /// It asks, and others wait for it.
    Lead(Lead),
    /// It waits.
    Wait(Waiting),
    /// It asks for itself.
    Alone,
}

impl Fills {
    fn map(&self) -> MutexGuard<'_, Map> {
        // Poisoned by a panic that has been reported: each change of the map is a single call.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Joins the fill of a response, or begins it.
    pub fn join(&self, key: Key, request: &Request) -> Joined {
        let name = (key, request.is_own());
        let mut map = self.map();
        if let Some(fill) = map.get(&name) {
            return Joined::Wait(Waiting(fill.landing.clone()));
        }
        let (landing, seen) = watch::channel(Landing::Under);
        let is_outdated = Arc::new(AtomicBool::new(false));
        map.insert(name.clone(), Fill { landing: seen, is_outdated: is_outdated.clone() });
        Joined::Lead(Lead { fills: self.clone(), name, landing, is_outdated })
    }

    /// What is under way for this key is not to be stored: a request has changed it meanwhile.
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
pub struct Waiting(watch::Receiver<Landing>);

impl Waiting {
    /// What became of it.
    pub async fn landed(&mut self) -> Landing {
        let landed = self.0.wait_for(|landing| !matches!(landing, Landing::Under)).await;
        landed.map_or(Landing::Lost, |landing| landing.clone())
    }
}

/// The one who asks. Dropping it tells those who wait that there is nothing for them.
pub struct Lead {
    fills: Fills,
    name: (Key, bool),
    landing: watch::Sender<Landing>,
    is_outdated: Arc<AtomicBool>,
}

impl Lead {
    /// What it asks for.
    pub fn key(&self) -> &Key {
        &self.name.0
    }

    /// Whether a request has changed it meanwhile.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Acquire)
    }

    /// The response is there.
    pub fn land(self, entry: Arc<Entry>) {
        self.landing.send_replace(Landing::Stored(entry));
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.fills.map().remove(&self.name);
        let _ = self.landing.send_if_modified(|landing| {
            let is_lost = matches!(landing, Landing::Under);
            if is_lost {
                *landing = Landing::Lost;
            }
            is_lost
        });
    }
}

/// The lead, as it travels with a request of the server's own until it is at the cache again.
pub struct Refresh(Mutex<Option<Lead>>);

impl Refresh {
    /// With a lead.
    pub fn new(lead: Lead) -> Refresh {
        Refresh(Mutex::new(Some(lead)))
    }

    /// Takes it, once.
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
        lead.land(entry());
        assert!(matches!(second.landed().await, Landing::Stored(_)));
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
        assert!(matches!(second.landed().await, Landing::Lost));
    }
}
