//! Dictionaries that the scripts of all event loops share: `tokamak.shared`.
//!
//! A dictionary is split into shards by its keys, each with a lock that is held for one operation:
//! so those that read and write are atomic, and loops rarely meet. A shard that is full lets go of
//! what was not used for the longest time.

mod shard;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shard::Shard;

/// Bytes that a shard has at least, so that a value of that size fits into every dictionary that is
/// larger.
const SMALLEST_PART: usize = 1 << 20;

/// Parts of a dictionary, at most; each has a lock of its own. Far fewer would make event loops
/// wait for each other; far more would leave each shard too small for a large value, because a
/// value has to fit its shard.
const MOST_PARTS: usize = 16;

/// The dictionaries of an engine by their names.
pub type Dictionaries = BTreeMap<String, Arc<Dictionary>>;

/// What a key may have.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// Any bytes.
    Text(Arc<[u8]>),
}

/// How long a value stays; `None`: until it has to make room.
pub type Lifetime = Option<Duration>;

/// Which keys an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Any.
    Any,
    /// Those that have no value.
    Absent,
    /// Those that have one.
    Present,
}

/// Why an operation did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key has a value.
    Exists,
    /// It has none.
    NotFound,
    /// Its value is no number.
    NotANumber,
    /// The value is larger than what a shard of the dictionary holds.
    NoMemory,
}

impl Refusal {
    /// For scripts, in the words that they may know from elsewhere.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Exists => "exists",
            Refusal::NotFound => "not found",
            Refusal::NotANumber => "not a number",
            Refusal::NoMemory => "no memory",
        }
    }
}

/// One dictionary.
#[derive(Debug)]
pub struct Dictionary {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    capacity: usize,
}

impl Dictionary {
    /// A dictionary of that many bytes, which it takes when it needs them.
    pub fn new(capacity: usize) -> Dictionary {
        let count = (capacity / SMALLEST_PART).clamp(1, MOST_PARTS);
        let shard = |_| Mutex::new(Shard::new(capacity / count));
        Dictionary { hasher: RandomState::new(), shards: (0..count).map(shard).collect(), capacity }
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        let count = self.shards.len();
        // One shard needs no choice.
        let at = if count == 1 { 0 } else { self.hasher.hash_one(key) as usize % count };
        lock(&self.shards[at])
    }

    fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.shard(key).get(key).map(|entry| entry.value.clone())
    }

    /// Gives a key a value. Whether another key lost its own for want of room.
    ///
    /// # Errors
    /// Fails if the key is not one of `keys`, or there is no room.
    pub fn set(
        &self,
        keys: Keys,
        key: &[u8],
        value: Value,
        lifetime: Lifetime,
    ) -> Result<bool, Refusal> {
        let mut shard = self.shard(key);
        match keys {
            Keys::Absent if shard.get(key).is_some() => Err(Refusal::Exists),
            Keys::Present if shard.get(key).is_none() => Err(Refusal::NotFound),
            _ => shard.put(key, value, lifetime),
        }
    }

    /// Takes a key's value away.
    pub fn remove(&self, key: &[u8]) {
        self.shard(key).remove(key);
    }

    /// Adds to the number that a key has, or to `initial` if it has none, which then lives as long
    /// as that says. The sum, and whether another key lost its value for want of room.
    ///
    /// # Errors
    /// Fails if there is nothing to add to, or no room.
    pub fn add(
        &self,
        key: &[u8],
        by: f64,
        initial: Option<(f64, Lifetime)>,
    ) -> Result<(f64, bool), Refusal> {
        let mut shard = self.shard(key);
        match (shard.get(key).map(|entry| &mut entry.value), initial) {
            (Some(Value::Number(number)), _) => {
                *number += by;
                Ok((*number, false))
            }
            (Some(_), _) => Err(Refusal::NotANumber),
            (None, Some((initial, lifetime))) => {
                let sum = initial + by;
                shard.put(key, Value::Number(sum), lifetime).map(|forced| (sum, forced))
            }
            (None, None) => Err(Refusal::NotFound),
        }
    }

    /// How long the value of a key still stays, if it has one.
    pub fn lifetime(&self, key: &[u8]) -> Option<Lifetime> {
        self.shard(key).get(key).map(|entry| entry.left())
    }

    /// Has the value of a key stay that long from now on. Whether there is one.
    pub fn set_lifetime(&self, key: &[u8], lifetime: Lifetime) -> bool {
        self.shard(key).get(key).map(|entry| entry.keep(lifetime)).is_some()
    }

    /// Some keys that have values, as many as there are or as are wanted.
    pub fn keys(&self, most: usize) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        for shard in self.shards() {
            keys.extend(shard.keys().take(most - keys.len()).map(Box::from));
        }
        keys
    }

    /// Takes the values of all keys away.
    pub fn clear(&self) {
        self.shards().for_each(|mut shard| shard.clear());
    }

    /// Frees the room of values whose time is over, of at most `most`. How many those were.
    pub fn remove_expired(&self, most: usize) -> usize {
        self.shards().fold(0, |count, mut shard| count + shard.remove_expired(most - count))
    }

    /// Bytes that fit into it, with what it needs for itself.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that are not in use.
    pub fn free(&self) -> usize {
        self.capacity - self.shards().map(|shard| shard.used()).sum::<usize>()
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(length: usize) -> Value {
        Value::Text(vec![b'x'; length].into())
    }

    #[test]
    fn what_is_used_least_makes_room() {
        let dictionary = Dictionary::new(4096);
        let set = |key: &str| dictionary.set(Keys::Any, key.as_bytes(), text(1000), None);
        assert_eq!((set("a"), set("b"), set("c")), (Ok(false), Ok(false), Ok(false)));
        assert!(dictionary.get(b"a").is_some());
        assert_eq!(set("d"), Ok(true));
        let there = |key: &str| dictionary.get(key.as_bytes()).is_some();
        assert_eq!(["a", "b", "c", "d"].map(there), [true, false, true, true]);
        assert!(dictionary.free() < 1000);
        dictionary.clear();
        assert_eq!((dictionary.free(), dictionary.keys(10).len()), (4096, 0));
    }

    #[test]
    fn a_value_that_never_fits_leaves_the_old_one() {
        let dictionary = Dictionary::new(4096);
        assert_eq!(dictionary.set(Keys::Any, b"a", text(10), None), Ok(false));
        assert_eq!(dictionary.set(Keys::Any, b"a", text(5000), None), Err(Refusal::NoMemory));
        assert_eq!(dictionary.get(b"a"), Some(text(10)));
    }

    /// Whatever is done, what is in use is the sum of what is there.
    #[test]
    fn room_is_neither_lost_nor_won() {
        let dictionary = Dictionary::new(1 << 16);
        let mut state = 7u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (state >> 24).to_string();
            let key = key.as_bytes();
            let brief = (state & 4 == 0).then_some(Duration::ZERO);
            match state >> 8 & 7 {
                0..3 => {
                    let value = text((state >> 12 & 2047) as usize);
                    let _ = dictionary.set(Keys::Any, key, value, brief);
                }
                3 => drop(dictionary.add(key, 1.0, Some((0.0, brief)))),
                4 => dictionary.remove(key),
                5 => drop(dictionary.set(Keys::Absent, key, Value::Boolean(true), None)),
                6 => drop(dictionary.remove_expired(3)),
                _ => drop(dictionary.set_lifetime(key, brief)),
            }
            assert!(dictionary.free() <= dictionary.capacity());
        }
        for key in dictionary.keys(usize::MAX) {
            dictionary.remove(&key);
        }
        dictionary.remove_expired(usize::MAX);
        assert_eq!(dictionary.free(), dictionary.capacity());
    }

    #[test]
    fn many_threads_add_up() {
        let dictionary = Dictionary::new(4 << 20);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..10_000 {
                        let key = (n % 10).to_string();
                        dictionary.add(key.as_bytes(), 1.0, Some((0.0, None))).expect("room");
                    }
                });
            }
        });
        for n in 0..10 {
            assert_eq!(dictionary.get(n.to_string().as_bytes()), Some(Value::Number(4000.0)));
        }
    }
}
