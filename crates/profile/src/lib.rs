//! Profiles of PHP workers: read as the sampler of a site writes them, and shown as a table or as
//! folded text.

mod folded;
mod profile;
mod read;
mod table;

pub use folded::folded;
pub use profile::{By, Call, Clock, Profile, Sample};
pub use read::read;
pub use table::table;
