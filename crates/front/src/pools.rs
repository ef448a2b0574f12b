//! The PHP pools as the front receives them, and their current queues.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokamak_sys::channel::Channel;
use tokamak_upstream::Segment;
use tokamak_upstream::shm::{Alarm, Source, Want};

use crate::fpm::Overview;

/// Shortest time between two calls for more workers, in nanoseconds. Much shorter, and a burst of
/// requests wakes the supervisor for each of them; much longer, and a pool grows visibly late.
const WANT_PAUSE: u64 = 10_000_000;

/// What the front needs to reach one pool.
pub struct PoolLink {
    /// The index of its site in the configuration.
    pub site_index: usize,
    /// The number of its queue, by which the supervisor knows it.
    pub number: u32,
    /// Its shared memory.
    pub segment: Arc<Segment>,
    /// Eventfds by which its workers wake the event loops, in the order of the loops.
    pub bells: Vec<OwnedFd>,
    /// The line by which its workers publish in the site's hub, if there is one.
    pub hub: Option<Channel>,
    /// PHP's version, if responses show it.
    pub exposed_version: Option<String>,
    /// The file of its own access log, open for appending, if it has one.
    pub access_log: Option<File>,
    /// Called when a request waits and no worker is idle; `None` for pools that cannot grow.
    pub want: Option<Want>,
    /// Called when the queue's memory is found damaged.
    pub alarm: Option<Alarm>,
}

/// A queue in use, as all event loops share it.
struct Queue {
    source: Source,
    /// Present if the pool has a status page.
    overview: Option<Arc<Overview>>,
}

/// The queues in use, as all event loops share them.
pub struct Queues(Vec<Queue>);

impl Queues {
    /// The queues at the start, in the order of the pools. `overviews` are by the indexes of the
    /// sites.
    pub fn new(pools: &[PoolLink], overviews: &BTreeMap<usize, Arc<Overview>>) -> Queues {
        let queue = |pool: &PoolLink| Queue {
            source: Source {
                number: pool.number,
                segment: pool.segment.clone(),
                tickets: Arc::default(),
            },
            overview: overviews.get(&pool.site_index).cloned(),
        };
        Queues(pools.iter().map(queue).collect())
    }

    /// The queues, in the order of the pools.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.0.iter().map(|queue| &queue.source)
    }

    /// Replaces the queue `old`, if it is in use, by the queue `new` in this memory.
    ///
    /// # Errors
    /// Fails if the memory cannot be mapped.
    pub fn renew(&mut self, old: u32, new: u32, memory: OwnedFd) -> io::Result<Option<Source>> {
        let Some(queue) = self.0.iter_mut().find(|queue| queue.source.number == old) else {
            return Ok(None);
        };
        let segment = queue.source.segment.successor(memory)?;
        queue.source = Source { number: new, segment: Arc::new(segment), tickets: Arc::default() };
        if let Some(overview) = &queue.overview {
            overview.renew(queue.source.segment.clone());
        }
        Ok(Some(queue.source.clone()))
    }
}

/// Limits how often `want` is called.
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
