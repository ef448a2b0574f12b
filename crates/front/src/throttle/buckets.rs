//! The buckets of all clients, in a table of a fixed size: what a flood of addresses takes is the
//! same as what one client takes.
//!
//! A client has its place in one of many small sets. In a full set the bucket goes that would be
//! the first to be empty, so a client that has exceeded its rate is the last to be forgotten: to
//! have its own bucket displaced, it needs eight other clients of the same set whose buckets are
//! fuller still, each of which has sent as many requests as itself, and it cannot know who is in
//! its set.

use std::sync::{Mutex, PoisonError};

use super::{ClientKey, Pace};

/// Buckets in a set. With four, clients of an ordinary site would displace each other at times; 16
/// would be two more cache lines to look at.
const WAYS: usize = 8;

/// Sets: with eight buckets each, 1.1 MB. They are enough for all clients whose buckets are not
/// empty at the same time: with a limit of one request a second, 65 thousand in a second.
const SETS: usize = 8192;

/// A client's bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    client: u64,
    /// When it is empty; 0: it is free.
    empty_at: u64,
}

type Set = Mutex<[Bucket; WAYS]>;

/// The buckets of all clients. Each set has a lock, so that the event loops count exactly.
pub struct Buckets(Box<[Set]>);

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets((0..SETS).map(|_| Set::default()).collect())
    }
}

impl Buckets {
    /// Takes one more request of a client.
    ///
    /// # Errors
    /// Its bucket is full; returns the nanoseconds after which there is room.
    pub fn admit(&self, client: ClientKey, pace: &Pace, now: u64) -> Result<(), u64> {
        self.with(client, |set| {
            let bucket = set.iter_mut().find(|bucket| bucket.client == client.0);
            match bucket {
                Some(bucket) => bucket.empty_at = pace.admit(bucket.empty_at, now)?,
                None => {
                    let empty_at = pace.admit(0, now)?;
                    if let Some(place) = set.iter_mut().min_by_key(|bucket| bucket.empty_at) {
                        *place = Bucket { client: client.0, empty_at };
                    }
                }
            }
            Ok(())
        })
    }

    /// Whether a request of a client would be taken now.
    ///
    /// # Errors
    /// Its bucket is full; returns the nanoseconds after which there is room.
    pub fn look(&self, client: ClientKey, pace: &Pace, now: u64) -> Result<(), u64> {
        self.with(client, |set| {
            let bucket = set.iter().find(|bucket| bucket.client == client.0);
            bucket.map_or(Ok(()), |bucket| pace.admit(bucket.empty_at, now).map(|_| ()))
        })
    }

    fn with<T>(&self, client: ClientKey, run: impl FnOnce(&mut [Bucket; WAYS]) -> T) -> T {
        let set = &self.0[client.0 as usize % SETS];
        // Nothing under the lock can panic half-way.
        run(&mut set.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: u64 = 1_000_000_000_000;

    /// Clients of the same set.
    fn neighbours() -> impl Iterator<Item = ClientKey> {
        (1..).map(|nth| ClientKey(nth * SETS as u64 + 7))
    }

    #[test]
    fn each_client_has_its_own_bucket() {
        let (buckets, pace) = (Buckets::default(), Pace::new(1, Duration::from_secs(1), 1));
        for client in neighbours().take(WAYS) {
            assert_eq!(buckets.admit(client, &pace, NOW), Ok(()));
        }
        for client in neighbours().take(WAYS) {
            assert_eq!(buckets.admit(client, &pace, NOW), Ok(()));
            assert_eq!(buckets.admit(client, &pace, NOW), Err(1_000_000_000));
            assert_eq!(buckets.admit(client, &pace, NOW + 1_000_000_000), Ok(()));
        }
    }

    #[test]
    fn a_flood_of_clients_does_not_displace_a_full_bucket() {
        let (buckets, pace) = (Buckets::default(), Pace::new(1, Duration::from_secs(1), 4));
        let mut all = neighbours();
        let own = all.next().unwrap();
        for _ in 0..5 {
            assert!(buckets.admit(own, &pace, NOW).is_ok());
        }
        // Four requests of each, as the own bucket must not be the first to be empty.
        for client in all.take(100_000) {
            for _ in 0..4 {
                assert!(buckets.admit(client, &pace, NOW).is_ok());
            }
        }
        assert!(buckets.admit(own, &pace, NOW).is_err());
    }

    #[test]
    fn to_look_takes_nothing() {
        let (buckets, pace) = (Buckets::default(), Pace::new(1, Duration::from_secs(1), 0));
        let client = ClientKey(7);
        for _ in 0..3 {
            assert_eq!(buckets.look(client, &pace, NOW), Ok(()));
        }
        assert!(buckets.admit(client, &pace, NOW).is_ok());
        assert_eq!(buckets.look(client, &pace, NOW), Err(1_000_000_000));
        assert_eq!(buckets.look(client, &pace, NOW + 1_000_000_000), Ok(()));
    }

    #[test]
    fn threads_count_exactly() {
        let (buckets, pace) = (Buckets::default(), Pace::new(1, Duration::from_secs(1), 999));
        let admitted = || {
            let ask = |_: &i32| buckets.admit(ClientKey(7), &pace, NOW).is_ok();
            (0..1000).filter(ask).count()
        };
        let sum: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(admitted)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(sum, 1000);
    }
}
