//! What the protocols share on whose connections several requests are under way at the same time.

mod budget;
mod head;
mod priority;
mod refusal;
mod response;
mod state;

pub use budget::Budget;
pub use head::{Pseudo, shape};
pub use priority::Priority;
pub use refusal::refuse;
pub use response::{Pace, complete, remove_connection_fields};
pub use state::ConnState;
