//! The rim of a PHP pool: requests into the shared-memory queue, responses out of it.
//!
//! Each event loop of the front has a [`Rim`] for each pool. A request becomes an [`Exchange`];
//! whoever polls it gets the response piece by piece. The rim itself works when the event loop is
//! about to sleep ([`Bell::before_sleep`]): it empties the response rings of all slots in which
//! something happened into private memory and refills body rings, so a worker never waits for a
//! slow client until the exchange holds more than its bound.
//!
//! What is where: a slot is held from the submission until the worker has finished or is dead,
//! whatever becomes of the exchange; the exchange may outlive its slot (a slow client reads what
//! the worker left long ago).

mod bell;
mod exchange;
mod gate;
mod health;
mod rim;
#[cfg(test)]
mod tests;

pub use bell::Bell;
pub use exchange::{Event, Exchange, ResponseHead, Told};
pub use gate::{Alarm, Farewell, Gate, Source, Want};
pub use tokamak_sys::queue::{Account, DECLINED, Outcome};

pub use rim::{Bounds, Death, Fault, Refused, Rim};
