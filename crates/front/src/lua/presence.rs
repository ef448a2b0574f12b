//! Who is being served by all event loops, for scripts that show it. Nothing is noted unless one
//! has asked lately, so that a server whose scripts do not ask pays for one look at a number.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use http::{HeaderMap, Request, Response};
use tokamak_lua::{Attribute, Item, Other};

use super::attributes::Origin;
use crate::connection::{Addresses, Link};
use crate::server::{Loop, Place};

/// For how long requests are noted after a script has asked, in nanoseconds. Chosen arbitrarily:
/// longer than people look away from a status page.
const LATELY: u64 = 600_000_000_000;

/// Requests that a script is shown at most. Chosen arbitrarily.
const MOST: usize = 1000;

/// The requests that are being served, as far as they are noted.
#[derive(Default)]
pub struct Presence {
    /// When a script last asked; 0: none ever has.
    asked: AtomicU64,
    visits: Mutex<Vec<Arc<Visit>>>,
}

/// A request that is being served.
struct Visit {
    place: usize,
    addresses: Arc<Addresses>,
    parts: Parts,
    began: u64,
    count: u32,
    status: AtomicU16,
    head: AtomicU64,
    sent: AtomicU64,
}

/// A request that is noted as long as this lives.
pub struct Attendance {
    presence: Arc<Presence>,
    visit: Arc<Visit>,
}

impl Presence {
    fn visits(&self) -> MutexGuard<'_, Vec<Arc<Visit>>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request that begins now, if a script has asked lately.
    pub fn note<B>(
        self: &Arc<Self>,
        place: impl FnOnce() -> usize,
        link: &Link,
        request: &Request<B>,
        now: u64,
    ) -> Option<Attendance> {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked == 0 || now.saturating_sub(asked) > LATELY {
            return None;
        }
        let mut parts = Request::new(()).into_parts().0;
        parts.method = request.method().clone();
        parts.uri = request.uri().clone();
        parts.version = request.version();
        parts.headers = request.headers().clone();
        let visit = Arc::new(Visit {
            place: place(),
            addresses: link.addresses.clone(),
            parts,
            began: now,
            count: link.requests(),
            status: AtomicU16::new(0),
            head: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        self.visits().push(visit.clone());
        Some(Attendance { presence: self.clone(), visit })
    }
}

impl Attendance {
    /// The response's head is there.
    pub fn answered<B>(&self, response: &Response<B>) {
        self.visit.status.store(response.status().as_u16(), Ordering::Relaxed);
        let line = "HTTP/1.1 200 OK\r\n\r\n".len() as u64;
        self.visit.head.store(line + length(response.headers()), Ordering::Relaxed);
    }

    /// So much of its body has been handed over.
    pub fn sent(&self, bytes: u64) {
        self.visit.sent.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut visits = self.presence.visits();
        if let Some(place) = visits.iter().position(|visit| Arc::ptr_eq(visit, &self.visit)) {
            visits.swap_remove(place);
        }
    }
}

/// Bytes of header fields.
pub fn length(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + 4) as u64).sum()
}

/// The requests that are being served, but for the one that comes from `own`.
pub fn others(home: &Loop, own: &Addresses) -> Vec<Other> {
    home.presence.asked.store(tokamak_cost::now(), Ordering::Relaxed);
    let visits: Vec<Arc<Visit>> = home.presence.visits().iter().take(MOST).cloned().collect();
    let others = visits.iter().filter(|visit| !std::ptr::eq(&*visit.addresses, own));
    others.map(|visit| visit.other(&home.places[visit.place])).collect()
}

impl Visit {
    fn other(&self, place: &Place) -> Other {
        let origin = Origin {
            place,
            addresses: &self.addresses,
            parts: &self.parts,
            original: &self.parts.uri,
        };
        let value = |attribute: Attribute| match attribute {
            // In lighttpd's words.
            Attribute::Stage if self.status.load(Ordering::Relaxed) > 0 => Some(b"write".to_vec()),
            attribute => origin.attribute(attribute),
        };
        let attribute = |attribute: &Attribute| Some((*attribute, value(*attribute)?));
        let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec())
        };
        Other {
            attributes: Attribute::ALL.iter().filter_map(attribute).collect(),
            items: Item::ALL.iter().map(|item| (*item, self.item(*item))).collect(),
            fields: self.parts.headers.iter().map(field).collect(),
        }
    }

    fn item(&self, item: Item) -> (i64, i64) {
        let head = self.head.load(Ordering::Relaxed);
        let number = match item {
            Item::StartTime => return super::time_of_day(self.began),
            Item::BytesIn | Item::RequestHeaderLen => {
                super::head_length(&self.parts, &self.parts.uri)
            }
            Item::BytesOut => head + self.sent.load(Ordering::Relaxed),
            Item::ResponseHeaderLen => head,
            Item::RequestCount => self.count.into(),
            Item::HttpStatus => self.status.load(Ordering::Relaxed).into(),
            Item::KeepAlive => 1,
            Item::StreamId => 0,
        };
        (number as i64, 0)
    }
}
