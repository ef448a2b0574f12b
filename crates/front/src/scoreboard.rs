//! The requests that all event loops are serving, for scripts that show them. Requests are recorded
//! only if a script has asked recently. Otherwise a request costs one atomic load.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use http::{HeaderMap, Request, Response};

use crate::client::{Addresses, Client};

/// How long requests are recorded after a script has asked, in nanoseconds: longer than the pauses
/// of someone who watches a status page. Ten times longer would cost every request for hours after
/// one look; ten times shorter would show an empty page to a user who looks every few minutes.
const LATELY: u64 = 600_000_000_000;

/// Most requests that a script gets: more than a busy server has at once, and few enough to be
/// shown within a script's time limit.
const MOST: usize = 1000;

/// The recorded requests that are being served.
#[derive(Default)]
pub struct Scoreboard {
    /// When a script last asked; 0: never.
    asked: AtomicU64,
    served: Mutex<Vec<Arc<Served>>>,
}

/// A request that is being served.
pub struct Served {
    /// The index of its site.
    pub site_index: usize,
    /// The scheme of its URL.
    pub scheme: &'static str,
    /// The addresses of its client.
    pub addresses: Arc<Addresses>,
    /// Its head.
    pub parts: Parts,
    /// When it began, in nanoseconds.
    pub began: u64,
    /// The number of requests on its connection, including this one.
    pub count: u32,
    /// The status of the response; 0: there is none yet.
    pub status: AtomicU16,
    /// Bytes of the response's head.
    pub head: AtomicU64,
    /// Bytes of the response's body that have been handed over.
    pub sent: AtomicU64,
}

/// Keeps a request recorded as long as this lives.
pub struct ScoreboardEntry {
    scoreboard: Arc<Scoreboard>,
    served: Arc<Served>,
}

impl Scoreboard {
    fn served(&self) -> MutexGuard<'_, Vec<Arc<Served>>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request that begins now, if a script has asked recently.
    pub fn note<B>(
        self: &Arc<Self>,
        site_index: usize,
        client: &dyn Client,
        request: &Request<B>,
        now: u64,
    ) -> Option<ScoreboardEntry> {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked == 0 || now.saturating_sub(asked) > LATELY {
            return None;
        }
        let mut parts = Request::new(()).into_parts().0;
        parts.method = request.method().clone();
        parts.uri = request.uri().clone();
        parts.version = request.version();
        parts.headers = request.headers().clone();
        let served = Arc::new(Served {
            site_index,
            scheme: client.scheme(),
            addresses: client.addresses().clone(),
            parts,
            began: now,
            count: client.requests(),
            status: AtomicU16::new(0),
            head: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        self.served().push(served.clone());
        Some(ScoreboardEntry { scoreboard: self.clone(), served })
    }

    /// The recorded requests, for a script that asks now.
    pub fn ask(&self) -> Vec<Arc<Served>> {
        self.asked.store(tokamak_cost::now(), Ordering::Relaxed);
        self.served().iter().take(MOST).cloned().collect()
    }
}

impl ScoreboardEntry {
    /// Records the head of the response.
    pub fn answered<B>(&self, response: &Response<B>) {
        self.served.status.store(response.status().as_u16(), Ordering::Relaxed);
        let line = "HTTP/1.1 200 OK\r\n\r\n".len() as u64;
        self.served.head.store(line + length(response.headers()), Ordering::Relaxed);
    }

    /// Records how many bytes of the body have been handed over.
    pub fn sent(&self, bytes: u64) {
        self.served.sent.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for ScoreboardEntry {
    fn drop(&mut self) {
        let mut all = self.scoreboard.served();
        if let Some(position) = all.iter().position(|served| Arc::ptr_eq(served, &self.served)) {
            all.swap_remove(position);
        }
    }
}

/// The length of header fields on the wire.
pub fn length(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + 4) as u64).sum()
}
