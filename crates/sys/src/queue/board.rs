//! The board: what each worker does now.

use std::sync::atomic::{AtomicU32, Ordering};

use tokamak_metrics::Reading;

use super::fifo::Fifo;
use super::layout::{BoardEntry, POOL_NUMBERS};
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
    /// The response of a request over FastCGI is complete, its script goes on.
    Finishing,
    /// Takes no more requests, and has some under way. Async mode.
    Draining,
}

impl WorkerState {
    fn from_number(n: u32) -> WorkerState {
        match n {
            1 => WorkerState::Starting,
            2 => WorkerState::Idle,
            3 => WorkerState::Busy,
            4 => WorkerState::Leaving,
            5 => WorkerState::Finishing,
            6 => WorkerState::Draining,
            _ => WorkerState::Empty,
        }
    }
}

/// A copy of one worker's entry. Every value is the worker's own word: good for showing and for
/// deciding about that worker, for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// How many of its answers were errors of the server (5xx).
    pub errors: u64,
    /// Memory held by PHP, in bytes, after the last request.
    pub memory: u64,
    /// Duration of the last roll-back, in nanoseconds; 0: there was none. Sealed mode.
    pub roll_back: u64,
    /// Pages that it copied.
    pub dirty_pages: u32,
    /// Requests under way, in async mode; the one that is shown began first.
    pub under_way: u32,
    /// Waits, in async mode, that held all requests of the worker.
    pub held: u32,
    /// Nanoseconds ([`tokamak_cost::now`]) at which the worker began.
    pub started: u64,
}

/// The request that a worker has, or had last, by its own word. Control characters are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownRequest {
    /// Its method.
    pub method: String,
    /// Its target, cut to 256 bytes.
    pub uri: String,
    /// The file of its script, cut to 256 bytes. This and the following only over FastCGI.
    pub script: String,
    /// User of its authentication, cut to 32 bytes.
    pub user: String,
    /// Bytes of its body.
    pub body_len: u64,
    /// CPU time of the last finished request, in microseconds.
    pub last_cpu: u64,
    /// Nanoseconds that it took.
    pub last_took: u64,
}

macro_rules! pool_numbers {
    ($($Name:ident $field:ident $what:literal,)*) => {
        /// A number of a pool of `tokamak fpm`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum PoolNumber {
            $(#[doc = $what] $Name,)*
        }

        /// What is known of a pool of `tokamak fpm` beyond its workers: for a status that is shown.
        /// The supervisor and the front write it and believe none of it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PoolNumbers {
            $(#[doc = $what] pub $field: u64,)*
            /// Requests that wait.
            pub listen_queue: u64,
        }

        impl Segment {
            /// What was said of the pool.
            pub fn pool_numbers(&self) -> PoolNumbers {
                let of = |number: PoolNumber| self.header().pool.0[number as usize].load(Ordering::Relaxed);
                PoolNumbers { $($field: of(PoolNumber::$Name),)* listen_queue: self.depth().into() }
            }
        }

        const _: () = assert!([$(PoolNumber::$Name),*].len() == POOL_NUMBERS);
    };
}

pool_numbers! {
    Manager manager "How many workers there are is decided by: 1 `static`, 2 `dynamic`, 3 \
        `ondemand`.",
    Started started "Seconds since 1970 at which the pool began.",
    Accepted accepted "Requests that were accepted.",
    MaxListenQueue max_listen_queue "Most requests that waited at any time.",
    ListenQueueLen listen_queue_len "How many may wait.",
    MaxActive max_active "Most workers that were busy at any time.",
    MaxChildrenReached max_children_reached "How often no further worker was allowed.",
    SlowRequests slow_requests "Requests that took longer than the slow log's limit.",
}

/// A worker's own entry.
#[derive(Clone, Copy)]
pub struct Board<'a>(pub(super) &'a BoardEntry);

impl Board<'_> {
    /// Takes the place for a new worker.
    pub fn enter(&self, instance: u32) {
        self.enter_at(instance, tokamak_cost::now());
    }

    /// The same, at this time.
    pub fn enter_at(&self, instance: u32, now: u64) {
        let e = self.0;
        e.bell.store(0, Ordering::Relaxed);
        e.pid.store(std::process::id(), Ordering::Relaxed);
        e.requests.store(0, Ordering::Relaxed);
        e.errors.store(0, Ordering::Relaxed);
        e.memory.store(0, Ordering::Relaxed);
        e.roll_back.store(0, Ordering::Relaxed);
        e.dirty_pages.store(0, Ordering::Relaxed);
        e.roll_backs.clear();
        e.pages.clear();
        e.under_way.store(0, Ordering::Relaxed);
        e.held.store(0, Ordering::Relaxed);
        for len in [&e.method_len, &e.uri_len, &e.script_len, &e.user_len] {
            len.store(0, Ordering::Relaxed);
        }
        for number in [&e.body_len, &e.last_cpu, &e.last_took] {
            number.store(0, Ordering::Relaxed);
        }
        e.unfinished.store(0, Ordering::SeqCst);
        e.started.store(now, Ordering::Relaxed);
        e.instance.store(instance, Ordering::Release);
        self.set_state_at(WorkerState::Starting, now);
    }

    /// Says what the worker does from now on.
    pub fn set_state(&self, state: WorkerState) {
        self.set_state_at(state, tokamak_cost::now());
    }

    /// The same, at this time.
    pub fn set_state_at(&self, state: WorkerState, now: u64) {
        self.0.since.store(now, Ordering::Relaxed);
        self.0.state.store(state as u32, Ordering::Release);
    }

    /// Says how many requests are under way, and how many waits have held all of them.
    pub fn set_under_way(&self, count: u32, held: u32) {
        self.0.under_way.store(count, Ordering::Relaxed);
        self.0.held.store(held, Ordering::Relaxed);
    }

    /// Says which request is being served.
    pub fn set_request(&self, method: &[u8], uri: &[u8]) {
        let e = self.0;
        put_text(&raw const e.method, &e.method_len, method);
        put_text(&raw const e.uri, &e.uri_len, uri);
    }

    /// Says what else is known of a request over FastCGI.
    pub fn set_details(&self, script: &[u8], user: &[u8], body_len: u64) {
        let e = self.0;
        put_text(&raw const e.script, &e.script_len, script);
        put_text(&raw const e.user, &e.user_len, user);
        e.body_len.store(body_len, Ordering::Relaxed);
    }

    /// Says what a request over FastCGI cost: CPU time in microseconds, time in nanoseconds.
    pub fn set_cost(&self, cpu: u64, took: u64) {
        self.0.last_cpu.store(cpu, Ordering::Relaxed);
        self.0.last_took.store(took, Ordering::Relaxed);
    }

    /// Says that the response is complete. The request is as old as before.
    pub fn set_finishing(&self) {
        self.0.state.store(WorkerState::Finishing as u32, Ordering::Release);
    }

    /// Books one more served request, and the memory that PHP holds after it.
    pub fn count_request(&self, memory: u64, status: u16) {
        if status >= 500 {
            self.0.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.memory.store(memory, Ordering::Relaxed);
    }

    /// Says how long the last roll-back took, and how many pages it copied.
    pub fn set_roll_back(&self, took_ns: u64, pages: u32) {
        self.0.roll_back.store(took_ns, Ordering::Relaxed);
        self.0.dirty_pages.store(pages, Ordering::Relaxed);
        self.0.roll_backs.observe(took_ns);
        self.0.pages.observe(u64::from(pages) * 1000);
    }

    /// Whether a line that the worker has written may still have to be ended, as far as the
    /// supervisor has read.
    pub fn has_unfinished_line(&self) -> bool {
        self.0.unfinished.load(Ordering::SeqCst) != 0
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
            errors: e.errors.load(Ordering::Relaxed),
            memory: e.memory.load(Ordering::Relaxed),
            roll_back: e.roll_back.load(Ordering::Relaxed),
            dirty_pages: e.dirty_pages.load(Ordering::Relaxed),
            under_way: e.under_way.load(Ordering::Relaxed),
            held: e.held.load(Ordering::Relaxed),
            started: e.started.load(Ordering::Relaxed),
        }
    }

    /// The request of the worker at `index`, which may be another one by now than that of its
    /// [`Snapshot`].
    ///
    /// # Panics
    /// As [`Segment::board`].
    pub fn shown_request(&self, index: u16) -> ShownRequest {
        let e = self.board_entry(index);
        ShownRequest {
            method: copy_text(&raw const e.method, &e.method_len),
            uri: copy_text(&raw const e.uri, &e.uri_len),
            script: copy_text(&raw const e.script, &e.script_len),
            user: copy_text(&raw const e.user, &e.user_len),
            body_len: e.body_len.load(Ordering::Relaxed),
            last_cpu: e.last_cpu.load(Ordering::Relaxed),
            last_took: e.last_took.load(Ordering::Relaxed),
        }
    }

    /// Adds the roll-backs of the worker at `index`: their times, and the pages that each has
    /// copied. As little to be believed as the rest of its entry.
    ///
    /// # Panics
    /// If `index` is not below the geometry's number of workers.
    pub fn add_roll_backs(&self, index: u16, times: &mut Reading, pages: &mut Reading) {
        let entry = self.board_entry(index);
        entry.roll_backs.read(times);
        entry.pages.read(pages);
    }

    /// Says that a number of the pool is at least this.
    pub fn raise_pool_number(&self, number: PoolNumber, value: u64) {
        self.header().pool.0[number as usize].fetch_max(value, Ordering::Relaxed);
    }

    /// Says that a number of the pool is one more.
    pub fn count_pool_number(&self, number: PoolNumber) {
        self.header().pool.0[number as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Asks the worker at `index` to leave after its request, and wakes it.
    pub fn retire(&self, index: u16) {
        self.board_entry(index).retire.store(1, Ordering::SeqCst);
        self.ring(index);
    }

    /// Says whether the worker at `index` may have written a line without an end. A worker that
    /// finds its pipe empty and this unsaid has nothing to end: so it is said before the pipe is
    /// read, and taken back after.
    pub fn note_unfinished_line(&self, index: u16, is_unfinished: bool) {
        self.board_entry(index).unfinished.store(is_unfinished.into(), Ordering::SeqCst);
    }

    /// The process id of a worker, as it says itself, while it is there.
    pub fn pid_of(&self, instance: u32) -> Option<u32> {
        let mut entries = (0..self.geometry().workers).map(|index| self.board_entry(index));
        let entry = entries.find(|entry| entry.instance.load(Ordering::Acquire) == instance)?;
        Some(entry.pid.load(Ordering::Relaxed))
    }

    /// The process ids of all workers that are there, as they say themselves.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        let entries = (0..self.geometry().workers).map(|index| self.board_entry(index));
        entries
            .filter(|entry| entry.state.load(Ordering::Acquire) != WorkerState::Empty as u32)
            .map(|entry| entry.pid.load(Ordering::Relaxed))
    }

    /// The place of a worker, while it is there.
    pub(super) fn index_of(&self, instance: u32) -> Option<u16> {
        let has =
            |index: &u16| self.board_entry(*index).instance.load(Ordering::Acquire) == instance;
        (0..self.geometry().workers).find(has)
    }

    /// Whether this worker is there, and does not say that it waits for a request.
    pub fn is_at_work(&self, instance: u32) -> bool {
        let mut entries = (0..self.geometry().workers).map(|index| self.board_entry(index));
        let entry = entries.find(|entry| entry.instance.load(Ordering::Acquire) == instance);
        entry.is_some_and(|it| it.state.load(Ordering::Acquire) != WorkerState::Idle as u32)
    }

    /// Whether any worker says that it waits for a request.
    pub fn has_idle_worker(&self) -> bool {
        let mut entries = (0..self.geometry().workers).map(|index| self.board_entry(index));
        entries.any(|entry| entry.state.load(Ordering::Acquire) == WorkerState::Idle as u32)
    }

    /// Workers that are there, whatever they do.
    pub fn worker_count(&self) -> usize {
        let entries = (0..self.geometry().workers).map(|index| self.board_entry(index));
        let is_there =
            |entry: &&BoardEntry| entry.state.load(Ordering::Relaxed) != WorkerState::Empty as u32;
        entries.filter(is_there).count()
    }

    /// Makes the place `index` free for a new worker: the one that had it is dead.
    pub fn clear_place(&self, index: u16) {
        let e = self.board_entry(index);
        self.header().sleepers.0[usize::from(index) / 64]
            .fetch_and(!(1 << (index % 64)), Ordering::SeqCst);
        e.instance.store(0, Ordering::Relaxed);
        e.pid.store(0, Ordering::Relaxed);
        e.retire.store(0, Ordering::SeqCst);
        e.state.store(WorkerState::Empty as u32, Ordering::Release);
    }
}

/// Writes what fits into a text of the worker's own entry. A reader may see a mix of two requests
/// and knows it.
fn put_text<const N: usize>(to: *const [u8; N], len: &AtomicU32, text: &[u8]) {
    let text = &text[..text.len().min(N)];
    // SAFETY: `to` is an array of a board entry, in memory that is mapped for writing and written
    // by this worker only.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>().cast_mut(), text.len()) };
    len.store(text.len() as u32, Ordering::Release);
}

fn copy_text<const N: usize>(from: *const [u8; N], len: &AtomicU32) -> String {
    let mut bytes = vec![0; (len.load(Ordering::Acquire) as usize).min(N)];
    // SAFETY: `from` is an array in the mapping; a torn copy is only shown.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), bytes.as_mut_ptr(), bytes.len()) };
    bytes.escape_ascii().to_string()
}
