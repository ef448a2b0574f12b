//! Where the front sends requests. Without this crate the front would have to know how each kind of
//! backend queues, answers, stalls and dies.
//!
//! There are two kinds of backends: PHP pools behind a shared-memory queue ([`shm`]), and FastCGI
//! applications behind connections ([`remote`]).

pub mod body;
mod flow;
pub mod live;
pub mod remote;
pub mod shm;
pub mod socket;
mod spool;

pub use flow::Flow;
pub use spool::{SpoolAlarm, SpoolBudget, SpoolProblem, SpoolQuota};
pub use tokamak_sys::process::{open_files, reserve};
pub use tokamak_sys::queue::record;
pub use tokamak_sys::queue::{Geometry, PoolNumber, Segment, Snapshot, WorkerState};
pub use tokamak_sys::unopened;
