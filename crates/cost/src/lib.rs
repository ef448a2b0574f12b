//! The request ledger: it shows where a request's time went.
//!
//! A request passes through named [`Phase`]s. The code that ends a phase stamps it; logs, metrics,
//! the status page and `Server-Timing` read the ledger and nothing else. One clock for all
//! processes: `CLOCK_MONOTONIC`.

mod calls;
mod clock;
mod date;
mod ledger;
mod phase;
mod request_id;

pub use calls::{CallKind, CallSum, Calls};
pub use clock::{coarse, now, process_time, thread_time};
pub use date::{Timestamp, date};
pub use ledger::{Ledger, Step};
pub use phase::Phase;
pub use request_id::RequestId;
