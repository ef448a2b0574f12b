//! Where everything lies in the segment. Both programs compile this file; [`LAYOUT_VERSION`] says
//! whether they compiled the same one.

use std::sync::atomic::{AtomicU32, AtomicU64};

use tokamak_metrics::Histogram;

use super::booked::BookedWords;
use super::calls::CallWords;
use super::doing::{Doing, PEERS, Peer};

/// Changes with every change of the layout or of its meaning.
pub const LAYOUT_VERSION: u32 = 17;

/// First word of a segment.
pub(super) const MAGIC: u32 = 0x544f_4b51; // "TOKQ"

/// See [`SlotHead::waits`].
pub(super) const SLEEPS: u32 = 1;
/// See [`SlotHead::waits`].
pub(super) const AT_THE_DOOR: u32 = 2;

/// Claim of a request that the front took back before a worker took it.
pub(super) const WITHDRAWN: u32 = u32::MAX;

/// Tickets that may lie between head and tail for each slot: a withdrawn request leaves its cell
/// behind until the head passes it. With a single one, a burst of withdrawn requests would fill the
/// queue; ten times more would only be memory.
const CELLS_PER_SLOT: u32 = 8;

/// The sizes from which all offsets follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Geometry {
    /// Event loops of the front.
    pub loops: u16,
    /// Slots that each event loop owns, thus its share of waiting and running requests.
    pub slots_per_loop: u16,
    /// Most workers that may exist at once.
    pub workers: u16,
    /// 1: workers wait for more than requests, and each is woken by an eventfd of its own, its
    /// doorbell; 0: they sleep on a futex.
    pub doorbells: u16,
    /// Bytes of a slot for the request record and, behind it, the body ring. A multiple of 4096.
    pub request: u32,
    /// Bytes of a slot's response ring. A multiple of 4096.
    pub response: u32,
}

impl Geometry {
    /// A geometry; sizes are rounded up to whole pages.
    pub fn new(loops: u16, slots_per_loop: u16, workers: u16, request: u32, response: u32) -> Self {
        let page = |n: u32| n.max(1).next_multiple_of(4096);
        Geometry {
            loops,
            slots_per_loop,
            workers,
            doorbells: 0,
            request: page(request),
            response: page(response),
        }
    }

    /// The same for workers that have doorbells.
    pub fn with_doorbells(self) -> Self {
        Geometry { doorbells: 1, ..self }
    }

    /// How many eventfds belong to a segment: one for each event loop of the front, then the
    /// workers' doorbells.
    pub fn bells(&self) -> usize {
        usize::from(self.loops) + usize::from(self.doorbells * self.workers)
    }

    /// Whether every count and size is within what the layout can hold.
    pub(super) fn is_sound(&self) -> bool {
        (1..=256).contains(&self.loops)
            && (1..=(READY_WORDS * 64) as u16).contains(&self.slots_per_loop)
            && (1..=(SLEEPER_WORDS * 64) as u16).contains(&self.workers)
            && self.doorbells <= 1
            && u32::from(self.loops) * u32::from(self.slots_per_loop) <= 1 << 16
            && self.request.is_multiple_of(4096)
            && (8192..=1 << 26).contains(&self.request)
            && self.response.is_multiple_of(4096)
            && (8192..=1 << 26).contains(&self.response)
    }

    pub(super) fn slots(&self) -> u32 {
        u32::from(self.loops) * u32::from(self.slots_per_loop)
    }

    /// A power of two.
    pub(super) fn cells(&self) -> u32 {
        (self.slots() * CELLS_PER_SLOT).next_power_of_two()
    }

    pub(super) fn loops_at(&self) -> usize {
        size_of::<Header>()
    }

    pub(super) fn cells_at(&self) -> usize {
        self.loops_at() + usize::from(self.loops) * size_of::<Loop>()
    }

    pub(super) fn board_at(&self) -> usize {
        (self.cells_at() + self.cells() as usize * size_of::<AtomicU64>())
            .next_multiple_of(align_of::<BoardEntry>())
    }

    /// Whom the descriptors of each worker are connected to, if workers have doorbells.
    pub(super) fn peers_at(&self) -> usize {
        (self.board_at() + usize::from(self.workers) * size_of::<BoardEntry>())
            .next_multiple_of(PAGE)
    }

    pub(super) fn slots_at(&self) -> usize {
        self.peers_at() + usize::from(self.workers * self.doorbells) * PEERS * size_of::<Peer>()
    }

    pub(super) fn slot_size(&self) -> usize {
        SLOT_HEAD + self.request as usize + self.response as usize
    }

    pub(super) fn len(&self) -> usize {
        self.slots_at() + self.slots() as usize * self.slot_size()
    }
}

/// Numbers that are said of a pool.
pub(super) const POOL_NUMBERS: usize = 8;
/// 64-bit words of the sleeper bitmap: at most 256 workers.
pub(super) const SLEEPER_WORDS: usize = 4;
/// 64-bit words of a loop's ready bitmap: at most 1024 slots.
pub(super) const READY_WORDS: usize = 16;
/// Bytes before a slot's request area; a page, so that both areas begin on one.
pub(super) const SLOT_HEAD: usize = PAGE;
/// Both areas of a slot begin with one and have no part of one.
pub(super) const PAGE: usize = 4096;

/// A value alone on its cache lines (two: the neighbour is prefetched with it).
#[repr(C, align(128))]
pub(super) struct CachePadded<T>(pub T);

#[repr(C, align(128))]
pub(super) struct Header {
    pub magic: AtomicU32,
    pub version: AtomicU32,
    pub geometry: Geometry,
    /// Nanoseconds that a request may take; 0: any time. For workers that see to it themselves.
    pub request_timeout: AtomicU64,
    /// 1: the front takes no more connections, and ends with its last request. For workers that
    /// may have requests which nothing would end. Written by the supervisor.
    pub draining: AtomicU32,
    /// Lines of PHP processes that did not fit into the pipe of the error log.
    pub lost_lines: AtomicU64,
    /// Those of them that a later line has reported.
    pub reported_lines: AtomicU64,
    /// Workers up to this instance serve an application that has changed since they began; 0: none
    /// does. Written by the zygote.
    pub outdated: AtomicU32,
    /// 1: no worker lives, and none boots. Written by the supervisor.
    pub barren: AtomicU32,
    /// Tickets given out; a copy for onlookers, of when a loop last woke workers. The front keeps
    /// its own.
    pub tail: CachePadded<AtomicU32>,
    /// The next ticket to be claimed.
    pub head: CachePadded<AtomicU32>,
    /// One bit a worker that sleeps and wants to be woken.
    pub sleepers: CachePadded<[AtomicU64; SLEEPER_WORDS]>,
    /// What is said of the pool: one number for each [`super::PoolNumber`].
    pub pool: CachePadded<[AtomicU64; POOL_NUMBERS]>,
}

/// One event loop of the front.
#[repr(C, align(128))]
pub(super) struct Loop {
    /// 1: the loop sleeps or is about to; the worker that sets it to 0 rings the loop's bell.
    pub asleep: CachePadded<AtomicU32>,
    /// One bit a slot of this loop in which something happened.
    pub ready: CachePadded<[AtomicU64; READY_WORDS]>,
}

/// What one worker says of itself. Read by the supervisor as untrusted numbers and bytes.
#[repr(C, align(128))]
pub(super) struct BoardEntry {
    /// Futex word: 1 while the worker sleeps for want of requests.
    pub bell: AtomicU32,
    /// 1: leave after the current request. Written by the supervisor.
    pub retire: AtomicU32,
    pub state: AtomicU32,
    pub pid: AtomicU32,
    pub instance: AtomicU32,
    pub method_len: AtomicU32,
    pub uri_len: AtomicU32,
    /// Pages copied by the last roll-back.
    pub dirty_pages: AtomicU32,
    /// Requests under way.
    pub under_way: AtomicU32,
    /// Waits that held all of them.
    pub held: AtomicU32,
    pub since: AtomicU64,
    pub requests: AtomicU64,
    /// Answers that were errors of the server (5xx).
    pub errors: AtomicU64,
    pub memory: AtomicU64,
    /// Nanoseconds of the last roll-back; 0: there was none.
    pub roll_back: AtomicU64,
    /// Nanoseconds at which the worker took its place.
    pub started: AtomicU64,
    /// Microseconds of CPU time, and nanoseconds, that the last request over FastCGI took.
    pub last_cpu: AtomicU64,
    pub last_took: AtomicU64,
    /// Of the request over FastCGI.
    pub body_len: AtomicU64,
    pub script_len: AtomicU32,
    pub user_len: AtomicU32,
    /// 1: of what the worker has written to its standard output or error, the last line has no end
    /// yet. Written by the supervisor.
    pub unfinished: AtomicU32,
    /// Times of all roll-backs, and the pages that each has copied.
    pub roll_backs: Histogram,
    pub pages: Histogram,
    pub method: [u8; 16],
    pub uri: [u8; URI_MAX],
    pub script: [u8; URI_MAX],
    pub user: [u8; USER_MAX],
}

/// Bytes of a request's target, and of its script, that the board shows.
pub(super) const URI_MAX: usize = 256;
/// Bytes of a user's name that it shows.
pub(super) const USER_MAX: usize = 32;

/// Head of a slot. It has one line for each side that writes, so that a request moves few lines
/// between processors. Here is what the front writes before the claim and while it reads the
/// response; of it, a worker writes only the claim.
#[repr(C, align(128))]
pub(super) struct SlotHead {
    /// Ticket in the upper half, instance of the holder in the lower.
    pub claim: AtomicU64,
    /// Bytes of the request record.
    pub record_len: AtomicU32,
    /// Where in the request area the body ring begins.
    pub body_at: AtomicU32,
    /// Length of the whole request body.
    pub body_len: AtomicU64,
    /// Body bytes written by the front.
    pub body_tail: AtomicU64,
    /// Response bytes read by the front.
    pub response_head: AtomicU64,
    /// 1: the client has gone.
    pub aborted: AtomicU32,
    /// What the ledger had booked when the request was queued; only in pools with a slow log.
    pub booked: BookedWords,
    pub worker: WorkersWords,
}

/// What the worker writes in a slot. The front sets it back before the next request.
#[repr(C, align(128))]
pub(super) struct WorkersWords {
    /// Response bytes published.
    pub response_tail: AtomicU64,
    /// Body bytes read.
    pub body_head: AtomicU64,
    /// Nanoseconds at which it claimed the request.
    pub claimed_at: AtomicU64,
    /// Nanoseconds at which it finished.
    pub finished_at: AtomicU64,
    /// 0 running, else an [`super::Outcome`].
    pub outcome: AtomicU32,
    /// Not 0 while it waits for ring space or body bytes. [`SLEEPS`]: on this word, as a futex.
    /// Larger: at its doorbell, which is that of the worker with this number minus [`AT_THE_DOOR`].
    /// The front sets it to 0.
    pub waits: AtomicU32,
    /// Not 0: the doorbell of the worker with this index plus 1 is rung when the client leaves.
    pub watcher: AtomicU32,
    /// 1: it writes `calls`.
    pub counts_calls: AtomicU32,
    /// What the request does; it is written only in async mode.
    pub doing: Doing,
    /// What the request has called.
    pub calls: CallWords,
}

const _: () = assert!(size_of::<SlotHead>() == 256 && size_of::<SlotHead>() <= SLOT_HEAD);
const _: () = assert!(size_of::<WorkersWords>() == 128);
