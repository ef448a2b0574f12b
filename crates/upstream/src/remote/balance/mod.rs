//! Which address a request goes to: decided from numbers alone, without sockets or clocks, and
//! without allocating.
//!
//! [`Rotation`] holds what the [`Balancing`] remembers between two requests; requests with a
//! [`Key`] are decided by it alone ([`hash`]), so every event loop and every server comes to the
//! same result. [`health`] says which addresses are not to be asked at present.

pub mod hash;
pub mod health;
mod rotation;
#[cfg(test)]
mod tests;

pub use hash::Key;
pub use rotation::Rotation;

/// How requests without a key are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancing {
    /// Each address in turn, as often as its weight says.
    RoundRobin,
    /// The address with the fewest requests for its weight.
    LeastBusy,
}

/// One address, as far as choosing it is concerned.
pub trait Candidate {
    /// Its share, at least 1.
    fn weight(&self) -> u32;
    /// What keys are hashed with: the same for an address that comes back.
    fn identity(&self) -> u64;
    /// Requests that it has now, waiting ones included.
    fn busy(&self) -> usize;
}

/// The index of the candidate that a request goes to, of those that are usable.
pub fn choose<C: Candidate>(
    policy: Balancing,
    rotation: &Rotation,
    candidates: &[C],
    key: Option<Key>,
    is_usable: impl Fn(&C) -> bool,
) -> Option<usize> {
    match (key, policy) {
        (Some(key), _) => hash::choose(key, candidates, is_usable),
        (None, Balancing::RoundRobin) => rotation.turn(candidates, is_usable),
        (None, Balancing::LeastBusy) => rotation.least_busy(candidates, is_usable),
    }
}
