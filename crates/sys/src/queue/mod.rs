//! The shared-memory queue between the front and the PHP workers of one pool.
//!
//! One memfd holds everything: a FIFO of slot numbers, the slots (request record, request body
//! ring, response ring), a bitmap of finished slots for each event loop of the front, and the board
//! on which each worker says what it does. Neither side makes a system call unless the other one
//! sleeps.
//!
//! # Invariants
//!
//! 1. **A slot belongs to one event loop for ever.** Only that loop takes it, fills it and gives it
//!    back.
//! 2. **A claim is one atomic word.** `claim = (ticket, instance)`: the front publishes `(t, 0)`, a
//!    worker takes the request by the compare-exchange `(t, 0) → (t, its instance)`, the front
//!    withdraws it by `(t, 0) → (t, WITHDRAWN)`. So at any instant, whichever process is killed,
//!    each request is queued, held by one known worker, or withdrawn.
//! 3. **The head only ever passes cells whose slot is no longer `(ticket, 0)`.** Anyone may help it
//!    along, so a worker killed between its claim and its step of the head blocks no other one.
//! 4. **A ready bit is a hint, the slot is the truth.** A bit set twice, too late or by mistake
//!    costs a look.
//! 5. **Rings have one writer and one reader.** Positions only grow; `tail - head <= size`. A
//!    reader that finds this broken treats the slot as spoiled.
//! 6. **A slot is reused only when its worker has finished or is dead**, because until then that
//!    worker may write into it.
//! 7. **The front believes nothing.** Every number that a worker could have written is read once
//!    and checked before use; lengths are bounded by the geometry, which the front keeps in its own
//!    memory.
//!
//! ```text
//!            submit             claim                finish
//!   free ───────────► queued ───────────► held ───────────────► finished ──► free
//!    ▲                  │ withdraw          │ worker dies                      ▲
//!    └──────────────────┘                   └────── death notice, front ───────┘
//! ```

mod board;
mod booked;
mod calls;
mod consumer;
mod doing;
mod fifo;
mod frame;
mod in_flight;
mod job;
mod layout;
mod lost_lines;
mod producer;
pub mod record;
mod ring;
mod segment;
#[cfg(test)]
mod tests;
mod wake;

pub use board::{Board, PoolNumber, PoolNumbers, ShownRequest, Snapshot, WorkerState};
pub use calls::CallWords;
pub use consumer::{Claim, Consumer, Next, Search, Step};
pub use doing::{Cause, Doing, InWords, Peer, State};
pub use frame::{DECLINED, Frame, HeadFrame, Malformed, Usage, split_frame, split_headers};
pub use in_flight::{Details, InFlight};
pub use job::{Gone, Job, Outcome};
pub use layout::{Geometry, LAYOUT_VERSION};
pub use producer::{Drained, Full, Holder, Producer, Ready, SlotId, Tickets};
pub use segment::{BadSegment, Segment};
