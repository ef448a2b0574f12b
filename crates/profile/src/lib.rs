//! Profiles of PHP workers: read as the sampler of a site writes them, and shown as a table, as
//! folded text, as a page with a flame graph, or in the format of pprof.

mod folded;
mod page;
mod pprof;
mod profile;
mod read;
mod table;
mod taken;
mod tree;

pub use folded::folded;
pub use page::{SCRIPT_DIGEST, STYLE_DIGEST, page};
pub use pprof::pprof;
pub use profile::{By, Call, Clock, Profile, Sample};
pub use read::read;
pub use table::table;
pub use taken::{Taken, gather};
