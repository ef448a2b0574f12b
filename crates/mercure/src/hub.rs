//! The hub: one history, and the subscribers of all event loops.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use crate::history::History;
use crate::limits::Limits;
use crate::shard::{End, Ended, Piece, Shard, Wanted};
use crate::update::Update;

/// The hub has as many subscribers as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there are as many subscribers as there may be")
    }
}

/// What a hub has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Subscribers that are there.
    pub subscribers: usize,
    /// Updates that were published.
    pub updates: u64,
    /// Updates that subscribers got, each of them counted.
    pub deliveries: u64,
    /// Subscriptions that the hub has ended, in the order of [`End::ALL`].
    pub ended: Ended,
    /// Updates in history, and bytes that they take.
    pub history: (usize, usize),
}

/// A hub.
#[derive(Debug)]
pub struct Hub {
    limits: Limits,
    history: RwLock<History>,
    loops: Box<[Loop]>,
    subscribers: AtomicUsize,
    updates: AtomicU64,
    deliveries: AtomicU64,
}

/// What the hub has for one event loop. Where both are locked, the shard is before the history.
#[derive(Debug, Default)]
struct Loop {
    shard: Mutex<Shard>,
    /// Who gives out on this loop, while it waits for updates.
    giver: Mutex<Option<Waker>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic has been reported; lists of subscribers are still usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A hub for so many event loops.
    pub fn new(limits: Limits, loops: usize) -> Hub {
        Hub {
            limits,
            history: RwLock::new(History::new(limits.history, limits.history_bytes)),
            loops: (0..loops).map(|_| Loop::default()).collect(),
            subscribers: AtomicUsize::new(0),
            updates: AtomicU64::new(0),
            deliveries: AtomicU64::new(0),
        }
    }

    /// What it takes.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Publishes an update. Each event loop gives it out by itself.
    pub fn publish(&self, update: Update) {
        self.updates.fetch_add(1, Ordering::Relaxed);
        self.history.write().unwrap_or_else(PoisonError::into_inner).push(update);
        for each in &self.loops {
            if let Some(giver) = lock(&each.giver).take() {
                giver.wake();
            }
        }
    }

    /// Takes over updates of before. Who has subscribed already is ended, and comes back to what it
    /// has missed of them: nobody knows what of it is news for whom.
    pub fn load(&self, updates: impl IntoIterator<Item = Update>) {
        let mut shards: Vec<_> = self.loops.iter().map(|each| lock(&each.shard)).collect();
        let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
        updates.into_iter().for_each(|update| history.push(update));
        let woken: Vec<Waker> =
            shards.iter_mut().flat_map(|shard| shard.begin_anew(&history)).collect();
        drop((shards, history));
        woken.into_iter().for_each(Waker::wake);
    }

    /// Waits until there is something to give out on this loop. Returns whom to wake then; they are
    /// many at times, so the caller lets others take turns between them.
    pub fn poll_give_out(&self, index: usize, cx: &mut Context<'_>) -> Poll<Vec<Waker>> {
        // Before it is looked: what comes meanwhile wakes this again.
        *lock(&self.loops[index].giver) = Some(cx.waker().clone());
        let woken = self.with(index, Shard::give_out);
        if woken.is_empty() { Poll::Pending } else { Poll::Ready(woken) }
    }

    /// As [`Hub::poll_give_out`], for what is due by the clock: heartbeats of those who were silent
    /// for `heartbeat`, and the end of those whose permission has ended.
    pub fn tick(&self, index: usize, now: u64, heartbeat: u64) -> Vec<Waker> {
        lock(&self.loops[index].shard).tick(now, heartbeat)
    }

    /// Ends all subscribers of this loop, those to come, too: they are to come back elsewhere.
    pub fn close(&self, index: usize) {
        let mut woken = self.with(index, Shard::give_out);
        woken.extend(lock(&self.loops[index].shard).close());
        woken.into_iter().for_each(Waker::wake);
    }

    /// Whether this loop has no subscribers.
    pub fn is_idle(&self, index: usize) -> bool {
        lock(&self.loops[index].shard).is_empty()
    }

    fn with<T>(&self, index: usize, work: impl FnOnce(&mut Shard, &History) -> T) -> T {
        let mut shard = lock(&self.loops[index].shard);
        work(&mut shard, &self.history.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a subscriber to this loop.
    ///
    /// # Errors
    /// Fails if there are too many.
    pub fn subscribe(
        self: &Arc<Hub>,
        index: usize,
        wanted: Wanted,
        now: u64,
    ) -> Result<Subscription, Full> {
        let one_more = |count| (count < self.limits.subscribers).then_some(count + 1);
        self.subscribers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .map_err(|_| Full)?;
        let (woken, (key, before)) = self.with(index, |shard, history| {
            // So that it gets nothing twice of what it asks for from history.
            (shard.give_out(history), shard.add(wanted, history, now))
        });
        woken.into_iter().for_each(Waker::wake);
        Ok(Subscription { hub: self.clone(), index, key, before })
    }

    fn ended(&self) -> Ended {
        let mut sum = Ended::default();
        for each in &self.loops {
            let ended = lock(&each.shard).ended();
            sum.iter_mut().zip(ended).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    /// What it has counted.
    pub fn figures(&self) -> Figures {
        Figures {
            subscribers: self.subscribers.load(Ordering::Relaxed),
            updates: self.updates.load(Ordering::Relaxed),
            deliveries: self.deliveries.load(Ordering::Relaxed),
            ended: self.ended(),
            history: self.history.read().unwrap_or_else(PoisonError::into_inner).size(),
        }
    }
}

/// A subscriber's place in a hub, which is given back when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    index: usize,
    key: usize,
    before: Option<String>,
}

impl Subscription {
    /// The name of the update before the first one that it gets, if it has asked for earlier ones.
    pub fn before(&self) -> Option<&str> {
        self.before.as_deref()
    }

    /// A number of its own among the subscriptions of its event loop.
    pub fn number(&self) -> usize {
        self.key
    }

    /// Why it is ended, if it is.
    pub fn end(&self) -> Option<End> {
        lock(&self.hub.loops[self.index].shard).end_of(self.key)
    }

    /// Polls for what the client gets next. After an end there is nothing more.
    pub fn poll(&mut self, now: u64, cx: &mut Context<'_>) -> Poll<Piece> {
        let Subscription { hub, index, key, .. } = self;
        let polled = hub.with(*index, |shard, history| shard.poll(*key, history, now, cx));
        if let Poll::Ready(Piece::Update(_)) = &polled {
            hub.deliveries.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        lock(&self.hub.loops[self.index].shard).remove(self.key);
        self.hub.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
