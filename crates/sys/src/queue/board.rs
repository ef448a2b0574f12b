//! The board: what each worker does now.

use std::sync::atomic::Ordering;

use super::layout::{BoardEntry, URI_MAX};
use super::segment::Segment;

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// No worker has this place.
    Empty,
    /// Booting the application.
    Starting,
    /// Waiting for a request.
    Idle,
    /// Serving a request.
    Busy,
    /// Ending.
    Leaving,
}

impl WorkerState {
    fn from_number(n: u32) -> WorkerState {
        match n {
            1 => WorkerState::Starting,
            2 => WorkerState::Idle,
            3 => WorkerState::Busy,
            4 => WorkerState::Leaving,
            _ => WorkerState::Empty,
        }
    }
}

/// A copy of one worker's entry. Every value is the worker's own word: good for showing and for deciding
/// about that worker, for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What it does.
    pub state: WorkerState,
    /// Process id, as the worker says.
    pub pid: u32,
    /// Which worker wrote this; another than expected means that the entry is stale.
    pub instance: u32,
    /// Nanoseconds ([`tokamak_cost::now`]) since when it is in this state.
    pub since: u64,
    /// Requests served so far.
    pub requests: u64,
    /// Memory held by PHP, in bytes, after the last request.
    pub memory: u64,
    /// Duration of the last roll-back, in nanoseconds; 0: there was none. Sealed mode.
    pub roll_back: u64,
    /// Pages that it copied.
    pub hot_pages: u32,
    /// Method of the current or last request.
    pub method: String,
    /// Target of the current or last request, cut to 256 bytes; control characters are escaped.
    pub uri: String,
}

/// A worker's own entry.
#[derive(Clone, Copy)]
pub struct Board<'a>(pub(super) &'a BoardEntry);

impl Board<'_> {
    /// Takes the place for a new worker.
    pub fn enter(&self, instance: u32) {
        let e = self.0;
        e.bell.store(0, Ordering::Relaxed);
        e.pid.store(std::process::id(), Ordering::Relaxed);
        e.requests.store(0, Ordering::Relaxed);
        e.memory.store(0, Ordering::Relaxed);
        e.roll_back.store(0, Ordering::Relaxed);
        e.hot_pages.store(0, Ordering::Relaxed);
        e.method_len.store(0, Ordering::Relaxed);
        e.uri_len.store(0, Ordering::Relaxed);
        e.instance.store(instance, Ordering::Release);
        self.set_state(WorkerState::Starting);
    }

    /// Says what the worker does from now on.
    pub fn set_state(&self, state: WorkerState) {
        self.set_state_at(state, tokamak_cost::now());
    }

    pub(super) fn set_state_at(&self, state: WorkerState, now: u64) {
        self.0.since.store(now, Ordering::Relaxed);
        self.0.state.store(state as u32, Ordering::Release);
    }

    /// Says which request is being served.
    pub fn set_request(&self, method: &[u8], uri: &[u8]) {
        let e = self.0;
        let method = &method[..method.len().min(e.method.len())];
        let uri = &uri[..uri.len().min(URI_MAX)];
        // SAFETY: bounded by the arrays, which only this worker writes. Readers may see a mix of two requests
        // and know it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                method.as_ptr(),
                (&raw const e.method).cast::<u8>().cast_mut(),
                method.len(),
            );
            std::ptr::copy_nonoverlapping(
                uri.as_ptr(),
                (&raw const e.uri).cast::<u8>().cast_mut(),
                uri.len(),
            );
        }
        e.method_len.store(method.len() as u32, Ordering::Relaxed);
        e.uri_len.store(uri.len() as u32, Ordering::Release);
    }

    /// Books one more served request, and the memory that PHP holds after it.
    pub fn count_request(&self, memory: u64) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.memory.store(memory, Ordering::Relaxed);
    }

    /// Says how long the last roll-back took, and how many pages it copied.
    pub fn set_roll_back(&self, took_ns: u64, pages: u32) {
        self.0.roll_back.store(took_ns, Ordering::Relaxed);
        self.0.hot_pages.store(pages, Ordering::Relaxed);
    }

    /// Whether the supervisor wants the worker to leave.
    pub fn is_retired(&self) -> bool {
        self.0.retire.load(Ordering::SeqCst) != 0
    }
}

impl Segment {
    /// Copies the entry of the worker at `index`.
    ///
    /// # Panics
    /// If `index` is not below the geometry's number of workers.
    pub fn board(&self, index: u16) -> Snapshot {
        let e = self.board_entry(index);
        let state = WorkerState::from_number(e.state.load(Ordering::Acquire));
        Snapshot {
            state,
            pid: e.pid.load(Ordering::Relaxed),
            instance: e.instance.load(Ordering::Acquire),
            since: e.since.load(Ordering::Relaxed),
            requests: e.requests.load(Ordering::Relaxed),
            memory: e.memory.load(Ordering::Relaxed),
            roll_back: e.roll_back.load(Ordering::Relaxed),
            hot_pages: e.hot_pages.load(Ordering::Relaxed),
            method: copy_text(
                &raw const e.method as *const u8,
                e.method_len.load(Ordering::Relaxed),
                e.method.len(),
            ),
            uri: copy_text(&raw const e.uri as *const u8, e.uri_len.load(Ordering::Acquire), URI_MAX),
        }
    }

    /// Tells the worker at `index` to leave after its request, and wakes it.
    pub fn retire(&self, index: u16) {
        self.board_entry(index).retire.store(1, Ordering::SeqCst);
        self.ring_worker(index);
    }

    /// Makes the place `index` free for a new worker: the one that had it is dead.
    pub fn clear_place(&self, index: u16) {
        let e = self.board_entry(index);
        self.header().sleepers.0[usize::from(index) / 64].fetch_and(!(1 << (index % 64)), Ordering::SeqCst);
        e.instance.store(0, Ordering::Relaxed);
        e.pid.store(0, Ordering::Relaxed);
        e.retire.store(0, Ordering::SeqCst);
        e.state.store(WorkerState::Empty as u32, Ordering::Release);
    }
}

fn copy_text(from: *const u8, len: u32, max: usize) -> String {
    let mut bytes = vec![0; (len as usize).min(max)];
    // SAFETY: `from` points to an array of `max` bytes in the mapping; a torn copy is only shown.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    bytes.escape_ascii().to_string()
}
