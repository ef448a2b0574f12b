use std::sync::{Arc, Mutex, MutexGuard};

use tokamak_sys::queue::{Segment, Tickets};

use super::error::{Death, Refused};
use super::queue_client::QueueClient;
use super::queued_request::QueuedRequest;
use super::requests::{Bounds, Metadata};
use crate::body::Body;
use crate::spool::SpoolQuota;

/// Tells the supervisor that a request waits in the queue with this number and no worker could be
/// woken.
pub type Want = Arc<dyn Fn(u32) + Send + Sync>;

/// Tells the supervisor that the queue with this number is spoiled, and why.
pub type Alarm = Arc<dyn Fn(u32, &str) + Send + Sync>;

/// One event loop's way to a site's workers. A site may get other workers with another queue while
/// the loop runs: then new requests go there, and those that are in the queue before it are still
/// answered from there.
pub struct Gate {
    index: u16,
    bounds: Bounds,
    quota: Option<Arc<SpoolQuota>>,
    want: Option<Want>,
    alarm: Option<Alarm>,
    queues: Mutex<Queues>,
}

struct Queues {
    current: Queue,
    leaving: Vec<(Queue, OnLastDrop)>,
}

/// A queue and its number, by which the supervisor knows it.
struct Queue {
    number: u32,
    segment: Arc<Segment>,
    client: Arc<QueueClient>,
}

/// Calls its function when the last event loop has dropped it: all of them have done something.
#[derive(Clone)]
pub struct OnLastDrop(#[expect(dead_code, reason = "only its end matters")] Arc<OnDrop>);

struct OnDrop(Box<dyn Fn() + Send + Sync>);

impl OnLastDrop {
    /// Will call this.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> OnLastDrop {
        OnLastDrop(Arc::new(OnDrop(Box::new(call))))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A queue as an event loop gets it.
#[derive(Clone)]
pub struct Source {
    /// Its number, unique in the life of the front.
    pub number: u32,
    /// Its memory.
    pub segment: Arc<Segment>,
    /// Tickets given out, shared by all event loops.
    pub tickets: Arc<Tickets>,
}

impl Gate {
    /// The way of event loop `index`. Responses for slow clients go to files as far as `quota`
    /// allows, if there is one.
    pub fn new(
        source: Source,
        index: u16,
        bounds: Bounds,
        quota: Option<Arc<SpoolQuota>>,
        want: Option<Want>,
        alarm: Option<Alarm>,
    ) -> Gate {
        let current = Queue::new(source, index, bounds, quota.clone(), want.as_ref());
        Gate {
            index,
            bounds,
            quota,
            want,
            alarm,
            queues: Mutex::new(Queues { current, leaving: Vec::new() }),
        }
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn submit(
        &self,
        record: &[u8],
        body: Body,
        metadata: Metadata<'_>,
    ) -> Result<QueuedRequest, (Refused, Body)> {
        // The time only bounds the wait.
        self.submit_at(record, body, metadata, tokamak_cost::coarse())
    }

    /// The same, at this time.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn submit_at(
        &self,
        record: &[u8],
        body: Body,
        metadata: Metadata<'_>,
        now: u64,
    ) -> Result<QueuedRequest, (Refused, Body)> {
        self.lock().current.client.submit_at(record, body, metadata, now)
    }

    /// If the queue with the number `old` is in use, requests go to another one from now on.
    /// `drained` is dropped when the old one has no more.
    pub fn renew(&self, old: u32, source: Source, drained: OnLastDrop) {
        let mut queues = self.lock();
        if queues.current.number == old {
            let quota = self.quota.clone();
            let next = Queue::new(source, self.index, self.bounds, quota, self.want.as_ref());
            let before = std::mem::replace(&mut queues.current, next);
            queues.leaving.push((before, drained));
        }
    }

    /// A worker of the queue with this number has died.
    pub fn worker_died(&self, number: u32, instance: u32, death: Death) {
        self.for_each(|queue| {
            if queue.number == number {
                queue.client.worker_died(instance, death);
            }
        });
    }

    /// All workers of a queue that is not in use any more are dead, and what is left in it is lost.
    pub fn forget(&self, number: u32) {
        for (queue, _) in self.lock().leaving.extract_if(.., |(queue, _)| queue.number == number) {
            queue.client.give_up();
        }
    }

    /// Ends the waits that have become too long, and looks whether the queue can still work. Called
    /// a few times a second.
    pub fn tick(&self, now: u64) {
        self.for_each(|queue| queue.client.tick(now));
        let (number, wrong) = {
            let queues = self.lock();
            (queues.current.number, queues.current.client.examine(now))
        };
        if let (Some(alarm), Some(wrong)) = (&self.alarm, wrong) {
            alarm(number, wrong);
        }
        self.lock().leaving.retain(|(queue, _)| !queue.client.is_idle());
    }

    /// The process ids of the workers, as these say themselves.
    pub fn workers(&self) -> Vec<u32> {
        self.lock().all().flat_map(|queue| queue.segment.pids()).collect()
    }

    /// See [`QueueClient::attend`].
    pub fn attend(&self) {
        self.for_each(|queue| queue.client.attend());
    }

    /// See [`super::Notifier::before_sleep`].
    pub fn fall_asleep(&self) {
        self.for_each(|queue| queue.client.fall_asleep());
    }

    /// See [`super::Notifier::after_sleep`].
    pub fn wake_up(&self) {
        self.for_each(|queue| queue.client.wake_up());
    }

    /// Whether it has fallen asleep, and no worker has rung it since.
    pub fn is_asleep(&self) -> bool {
        self.lock().all().all(|queue| queue.client.is_asleep())
    }

    fn for_each(&self, visit: impl Fn(&Queue)) {
        self.lock().all().for_each(visit);
    }

    #[cfg(test)]
    pub(super) fn client(&self) -> Arc<QueueClient> {
        self.lock().current.client.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        // A panic while the lock is held is a bug that has been reported; the list is whole at
        // every moment.
        self.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Queues {
    fn all(&self) -> impl Iterator<Item = &Queue> {
        std::iter::once(&self.current).chain(self.leaving.iter().map(|(queue, _)| queue))
    }
}

impl Queue {
    fn new(
        source: Source,
        index: u16,
        bounds: Bounds,
        quota: Option<Arc<SpoolQuota>>,
        want: Option<&Want>,
    ) -> Queue {
        let Source { number, segment, tickets } = source;
        let want =
            want.cloned().map(|want| Box::new(move || want(number)) as Box<dyn Fn() + Send + Sync>);
        let client = QueueClient::new(segment.clone(), index, tickets, bounds, quota, want);
        Queue { number, segment, client }
    }
}
