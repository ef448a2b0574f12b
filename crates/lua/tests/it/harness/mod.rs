//! A request in memory that scripts run for, and what runs them.

mod site;
mod usual;

pub use site::{Memory, Site, wait_for};
pub use usual::{request, run, show};
