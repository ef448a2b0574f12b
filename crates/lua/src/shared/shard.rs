//! One of the shards that a dictionary is split into by its keys; used under its own lock.

use std::time::Instant;

use lru::LruCache;

use super::{Lifetime, Refusal, Value};

/// What an entry needs beside its key and its text: its place in the table and in the list, and the
/// allocator's share. Seen where a dictionary was full of short ones.
const PER_ENTRY: usize = 160;

/// Entries in the order of their use, and how much room they take.
#[derive(Debug)]
pub struct Shard {
    entries: LruCache<Box<[u8]>, SharedValue>,
    used: usize,
    capacity: usize,
}

/// What a key has.
#[derive(Debug)]
pub struct SharedValue {
    /// Its value.
    pub value: Value,
    /// When that is over.
    until: Option<Instant>,
}

impl SharedValue {
    fn new(value: Value, lifetime: Lifetime) -> SharedValue {
        let mut entry = SharedValue { value, until: None };
        entry.keep(lifetime);
        entry
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// How long it stays.
    pub fn left(&self) -> Lifetime {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Has it stay that long from now on.
    pub fn keep(&mut self, lifetime: Lifetime) {
        // A time beyond the clock's range means never.
        self.until = lifetime.and_then(|lifetime| Instant::now().checked_add(lifetime));
    }
}

fn size(key: &[u8], value: &Value) -> usize {
    let text = if let Value::Text(text) = value { text.len() } else { 0 };
    PER_ENTRY + key.len() + text
}

impl Shard {
    /// An empty shard of that capacity in bytes.
    pub fn new(capacity: usize) -> Shard {
        Shard { entries: LruCache::unbounded(), used: 0, capacity }
    }

    /// What a key has, unless it is over; it is used now. The size of its value must not change.
    pub fn get(&mut self, key: &[u8]) -> Option<&mut SharedValue> {
        self.entries.get_mut(key).filter(|entry| !entry.is_over())
    }

    /// Gives a key a value. Whether another key lost its own, which was not over.
    pub fn put(&mut self, key: &[u8], value: Value, lifetime: Lifetime) -> Result<bool, Refusal> {
        let size = size(key, &value);
        if size > self.capacity {
            return Err(Refusal::NoMemory);
        }
        self.remove(key);
        let mut is_forced = false;
        while self.used + size > self.capacity
            && let Some((key, entry)) = self.entries.pop_lru()
        {
            is_forced |= !entry.is_over();
            self.forget(&key, &entry);
        }
        self.used += size;
        self.entries.put(key.into(), SharedValue::new(value, lifetime));
        Ok(is_forced)
    }

    /// Takes a key's value away.
    pub fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.entries.pop(key) {
            self.forget(key, &entry);
        }
    }

    fn forget(&mut self, key: &[u8], entry: &SharedValue) {
        self.used -= size(key, &entry.value);
    }

    /// Keys that have values, the last used ones first.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().filter(|(_, entry)| !entry.is_over()).map(|(key, _)| &**key)
    }

    /// Takes all values away.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.used = 0;
    }

    /// Removes what is over, at most so many. How many those were.
    pub fn remove_expired(&mut self, most: usize) -> usize {
        let over = self.entries.iter().filter(|(_, entry)| entry.is_over());
        let keys: Vec<Box<[u8]>> = over.map(|(key, _)| key.clone()).take(most).collect();
        keys.iter().for_each(|key| self.remove(key));
        keys.len()
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used
    }
}
