//! The requests that workers hold now, read by an onlooker.

use std::sync::atomic::{Ordering, fence};

use tokamak_cost::{CallKind, Calls, Phase, RequestId};

use super::doing::{Peer, State, address};
use super::layout::{SlotHead, URI_MAX, WITHDRAWN};
use super::record::{self, Field, Origin, Reader};
use super::segment::Segment;

/// Bytes of a record that are looked at for method and target: both come first in a record of HTTP.
/// Less would miss them among the parameters of some requests over FastCGI; ten times more would
/// only be copied.
const LOOKED_AT: usize = 16 * 1024;
/// Bytes of a method that are shown.
const METHOD_MAX: usize = 16;
/// A request that waits and goes on faster than it can be read runs, for all that can be said.
const ATTEMPTS: usize = 3;

/// A request that a worker holds, by the words of front and worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Its slot, which is another one's as soon as it is answered.
    pub slot: u32,
    /// Its worker.
    pub instance: u32,
    /// Nanoseconds ([`tokamak_cost::now`]) at which it was claimed.
    pub claimed_at: u64,
    /// Its method, cut and escaped.
    pub method: String,
    /// Its target, cut to 256 bytes and escaped.
    pub uri: String,
    /// What it does.
    pub state: State,
    /// Since when, in nanoseconds; when it was claimed, if that is all that is known. A request
    /// that is ready has waited since then.
    pub since: u64,
    /// What it is called in the logs.
    pub id: RequestId,
}

/// What is known of a request beyond [`InFlight`], for those that are looked at closely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The script's file, cut to 256 bytes and escaped; empty if it is not known.
    pub script: String,
    /// The trace that it belongs to, if it says one.
    pub trace: Option<String>,
    /// Nanoseconds of each phase so far, in order.
    pub phases: Vec<(Phase, u64)>,
    /// What it has called so far; none if its site does not count calls.
    pub calls: Option<Calls>,
    /// The longest call so far, and its nanoseconds. Calls that have not returned count, too.
    pub longest_call: Option<(CallKind, u64)>,
}

/// What is the same for as long as a request is held: a slot is used again only after its worker
/// has said when it finished, and that is before the next one is claimed.
#[derive(PartialEq, Eq)]
struct Hold {
    claim: u64,
    claimed_at: u64,
    finished_at: u64,
}

impl Hold {
    /// Of a slot; none if no worker holds it.
    fn of(slot: &SlotHead) -> Option<Hold> {
        let hold = Hold {
            claim: slot.claim.load(Ordering::Acquire),
            claimed_at: slot.worker.claimed_at.load(Ordering::Acquire),
            finished_at: slot.worker.finished_at.load(Ordering::Acquire),
        };
        let is_held = !matches!(hold.instance(), 0 | WITHDRAWN)
            && slot.worker.outcome.load(Ordering::Acquire) == 0
            && hold.claimed_at > hold.finished_at;
        is_held.then_some(hold)
    }

    fn instance(&self) -> u32 {
        self.claim as u32
    }

    fn id(&self) -> RequestId {
        RequestId::new(self.claimed_at, (self.claim >> 32) as u32)
    }
}

impl Segment {
    /// The requests that workers hold at this time; of those that end meanwhile some are missing.
    pub fn in_flight(&self, now: u64) -> impl Iterator<Item = InFlight> {
        let (loops, each) = (u32::from(self.geometry().loops), self.geometry().slots_per_loop);
        (0..loops).flat_map(move |index| {
            let first = index * u32::from(each);
            // The front takes the slot that was given back last, so the first one without a trace
            // ends those that were ever used: memory is not touched, and so made, for the others.
            (first..first + u32::from(each))
                .take_while(|slot| self.was_used(*slot))
                .filter_map(move |slot| self.held(slot, now))
        })
    }

    fn was_used(&self, slot: u32) -> bool {
        let head = self.slot(slot);
        head.record_len.load(Ordering::Relaxed) != 0 || head.claim.load(Ordering::Relaxed) != 0
    }

    fn held(&self, slot: u32, now: u64) -> Option<InFlight> {
        let head = self.slot(slot);
        let hold = Hold::of(head)?;
        let len = (head.record_len.load(Ordering::Relaxed) as usize)
            .min(self.geometry().request as usize)
            .min(LOOKED_AT);
        let mut record = vec![0; len];
        self.request_area(slot, 0).get(0, &mut record);
        let (method, uri) = record::target(&record);
        let (state, since) = self.state(head, hold.instance(), now);
        fence(Ordering::Acquire);
        (Hold::of(head)? == hold).then(|| InFlight {
            slot,
            instance: hold.instance(),
            claimed_at: hold.claimed_at,
            method: shown(method, METHOD_MAX),
            uri: shown(uri, URI_MAX),
            state,
            since: since.max(hold.claimed_at).min(now),
            id: hold.id(),
        })
    }

    /// Looks closely at a request; none if it has ended.
    pub fn details(&self, request: &InFlight, now: u64) -> Option<Details> {
        let head = self.slot(request.slot);
        let is_held = || {
            Hold::of(head)
                .is_some_and(|hold| hold.instance() == request.instance && hold.id() == request.id)
        };
        if !is_held() {
            return None;
        }
        let len = head.record_len.load(Ordering::Relaxed).min(self.geometry().request);
        let mut record = vec![0; len as usize];
        self.request_area(request.slot, 0).get(0, &mut record);
        let (script, trace) = script_and_trace(&record);
        let claimed_at = request.claimed_at;
        let words = &head.worker;
        let counts = words.counts_calls.load(Ordering::Relaxed) != 0;
        let details = Details {
            script,
            trace,
            phases: head.booked.so_far(claimed_at, now),
            calls: counts.then(|| words.calls.read(claimed_at, now)),
            longest_call: words.calls.longest(claimed_at, now).filter(|_| counts),
        };
        fence(Ordering::Acquire);
        is_held().then_some(details)
    }

    /// What the request does, and since when.
    fn state(&self, head: &SlotHead, instance: u32, now: u64) -> (State, u64) {
        let doing = &head.worker.doing;
        let words = || (doing.state.load(Ordering::Acquire), doing.since.load(Ordering::Acquire));
        for _ in 0..ATTEMPTS {
            let (word, since) = words();
            let state = State::read(word, now, |fd| self.peer(instance, fd));
            fence(Ordering::Acquire);
            if words() == (word, since) {
                return (state, since);
            }
        }
        (State::Running, now)
    }

    /// Whom a descriptor of a worker is connected to, as it was written.
    fn peer(&self, instance: u32, fd: u32) -> Option<String> {
        let peer: &Peer = self.peers_of(self.index_of(instance)?)?.get(fd as usize)?;
        let mut bytes = [0; size_of::<Peer>()];
        let bytes =
            &mut bytes[..(peer.len.load(Ordering::Acquire) as usize).min(peer.address.len())];
        // SAFETY: the array is in the mapping, and as long as what is copied at least; the caller
        // looks whether the wait is still the same; nothing else changes it.
        unsafe {
            let from = (&raw const peer.address).cast::<u8>();
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
        (peer.owner.load(Ordering::Acquire) == instance).then(|| address(bytes)).flatten()
    }
}

/// The script and the trace of a record, as [`Details`] has them. The worker may have changed it.
fn script_and_trace(record: &[u8]) -> (String, Option<String>) {
    let Some(reader) = Reader::new(record) else { return Default::default() };
    let script = match reader.origin() {
        Origin::Http => Some(reader.field(Field::ScriptFilename)),
        Origin::FastCgi => {
            let name = Field::ScriptFilename.variable().as_bytes();
            reader.pairs().find(|pair| pair.0 == name).map(|(_, value)| value)
        }
    };
    let trace = record::trace(reader.pairs());
    (
        shown(script.unwrap_or_default(), URI_MAX),
        trace.map(|trace| String::from_utf8_lossy(trace).into_owned()),
    )
}

fn shown(text: &[u8], most: usize) -> String {
    text[..text.len().min(most)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests;
