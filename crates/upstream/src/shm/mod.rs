//! The client of a PHP pool: puts requests into the shared-memory queue and takes responses out.
//!
//! Each event loop of the front has a [`QueueClient`] for each pool. A request becomes a
//! [`QueuedRequest`]; polling it gives the response piece by piece. The client itself works when
//! the event loop is about to sleep ([`Notifier::before_sleep`]): it empties the response rings of
//! all slots in which something happened into private memory and refills body rings, so a worker
//! never waits for a slow client until the request holds more than its bound in memory. Beyond it
//! the response goes to a file, and the worker waits only if that may take no more.
//!
//! What is where: a slot is held from the submission until the worker has finished or is dead,
//! whatever happens to the [`QueuedRequest`]. That may outlive its slot: a slow client reads what
//! the worker left long ago.

mod error;
mod gate;
mod health;
mod notifier;
mod queue_client;
mod queued_request;
mod requests;
mod spooled;
#[cfg(test)]
mod tests;

pub use gate::{Alarm, Gate, OnLastDrop, Source, Want};
pub use notifier::Notifier;
pub use queued_request::{Event, HEAD_BODY_MOST, QueuedRequest, ResponseHead, UsageFrame};
pub use tokamak_sys::queue::{DECLINED, Outcome, Usage};

pub use error::{Death, Refused, WorkerError};
pub use queue_client::QueueClient;
pub use requests::{Bounds, Metadata};
