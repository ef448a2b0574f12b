//! How many requests of each client are being served. There is an entry for as long as a request of
//! the client runs, so the limits on connections and streams bound the memory, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ClientKey;

/// Maps, each with a lock: with one, the event loops would wait for each other.
const PARTS: usize = 16;

/// The requests of clients that are being served.
#[derive(Default)]
pub struct Running([Mutex<HashMap<u64, u32>>; PARTS]);

/// A place among the requests of a client, until it is dropped.
pub struct Slot {
    running: Arc<Running>,
    client: ClientKey,
}

impl Running {
    /// Takes a place for one more request of a client; `None` if it has `most` already.
    pub fn enter(self: &Arc<Running>, client: ClientKey, most: u32) -> Option<Slot> {
        let mut part = self.part(client);
        let count = part.entry(client.0).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Slot { running: self.clone(), client })
    }

    fn part(&self, client: ClientKey) -> MutexGuard<'_, HashMap<u64, u32>> {
        let part = &self.0[client.0 as usize % PARTS];
        // Nothing under the lock can panic half-way.
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut part = self.running.part(self.client);
        match part.get_mut(&self.client.0) {
            Some(count @ 2..) => *count -= 1,
            _ => drop(part.remove(&self.client.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_forgotten() {
        let running = Arc::new(Running::default());
        let [one, other] = [ClientKey(1), ClientKey(1 + PARTS as u64)];
        let slots: Vec<_> = (0..3).filter_map(|_| running.enter(one, 2)).collect();
        assert_eq!(slots.len(), 2);
        assert!(running.enter(other, 1).is_some());
        drop(slots);
        assert!(running.0.iter().all(|part| part.lock().unwrap().is_empty()));
        assert!(running.enter(one, 1).is_some());
    }
}
