//! System primitives: shared memory, the queue, wake-ups, processes, signals.
//!
//! Unsafe room 1. Every other crate but the PHP worker forbids `unsafe`; what they need from the
//! kernel is here, without policy.

pub mod access_list;
pub mod channel;
pub mod control;
pub mod control_groups;
pub mod file_lock;
pub mod hub;
pub mod log_file;
pub mod memory;
pub mod memory_file;
pub mod outlet;
pub mod proc;
pub mod process;
pub mod queue;
pub mod signal;
pub mod time;
pub mod unopened;
