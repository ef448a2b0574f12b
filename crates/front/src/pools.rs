//! The PHP pools as the front gets them, and the queues that they have at the moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokamak_upstream::Segment;
use tokamak_upstream::shm::{Alarm, Source, Want};

use crate::fpm::Overview;

/// Shortest time between two calls for more workers, in nanoseconds. Much shorter, and a burst of
/// requests wakes the supervisor for each of them; much longer, and a pool grows visibly late.
const WANT_PAUSE: u64 = 10_000_000;

/// The way to one pool.
pub struct PoolLink {
    /// The place of its site in the configuration.
    pub site: usize,
    /// The number of its queue, by which the supervisor knows it.
    pub number: u32,
    /// Its shared memory.
    pub segment: Arc<Segment>,
    /// Eventfds by which its workers ring the event loops, in order.
    pub bells: Vec<OwnedFd>,
    /// PHP's version, if responses tell it.
    pub exposed_version: Option<String>,
    /// The file of its own access log, open for appending, if it has one.
    pub access_log: Option<File>,
    /// Called when a request waits and no worker sleeps; absent for pools that cannot grow.
    pub want: Option<Want>,
    /// Called when the queue is spoiled.
    pub alarm: Option<Alarm>,
}

/// A queue in use, as all event loops share it.
struct Queue {
    source: Source,
    /// If the pool has a status page.
    overview: Option<Arc<Overview>>,
}

/// The queues in use, as all event loops share them.
pub struct Queues(Vec<Queue>);

impl Queues {
    /// Those that the front starts with, in the order of the pools. Overviews by the places of the
    /// sites.
    pub fn new(pools: &[PoolLink], overviews: &BTreeMap<usize, Arc<Overview>>) -> Queues {
        let queue = |pool: &PoolLink| Queue {
            source: Source {
                number: pool.number,
                segment: pool.segment.clone(),
                tail: Arc::default(),
            },
            overview: overviews.get(&pool.site).cloned(),
        };
        Queues(pools.iter().map(queue).collect())
    }

    /// The queues, in the order of the pools.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.0.iter().map(|queue| &queue.source)
    }

    /// Another queue in the place of `old`, if that is in use: its number is `new`, this is its
    /// memory.
    ///
    /// # Errors
    /// The memory cannot be had.
    pub fn renew(&mut self, old: u32, new: u32, memory: OwnedFd) -> io::Result<Option<Source>> {
        let Some(queue) = self.0.iter_mut().find(|queue| queue.source.number == old) else {
            return Ok(None);
        };
        // Not the sizes that stand in it: its workers may have written there.
        let segment = Segment::map_as(memory, queue.source.segment.geometry())?;
        queue.source = Source { number: new, segment: Arc::new(segment), tail: Arc::default() };
        if let Some(overview) = &queue.overview {
            overview.renew(queue.source.segment.clone());
        }
        Ok(Some(queue.source.clone()))
    }
}

/// Lets `want` pass only now and then.
pub fn slowly(want: Want) -> Want {
    let last = AtomicU64::new(0);
    Arc::new(move |number| {
        let now = tokamak_cost::now();
        if now.saturating_sub(last.load(Ordering::Relaxed)) > WANT_PAUSE {
            last.store(now, Ordering::Relaxed);
            want(number);
        }
    })
}
