//! Where the front sends requests. Without this crate the front would have to know how each kind of
//! backend queues, answers, stalls and dies.
//!
//! A backend is reached through a rim: the shared-memory queue to a PHP pool ([`shm`]), or
//! connections to a FastCGI application ([`fcgi`]).

pub mod body;
pub mod fcgi;
pub mod shm;
pub mod socket;

pub use tokamak_sys::queue::record;
pub use tokamak_sys::queue::{Geometry, PoolNumber, Segment, Snapshot, WorkerState};
