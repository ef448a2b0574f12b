//! How many processes a pool should have: numbers in, a number out.
//!
//! Workers that are asked to leave still hold their place until they are gone, but are not counted
//! on. In async mode those that only finish what they have hold no place of the pool's size: it may
//! take hours.

use std::time::Duration;

use tokamak_config::PoolSize;

/// Most processes started at one look. php-fpm's number.
const MOST_AT_ONCE: usize = 32;
/// Time between two reductions of a dynamic pool, so that a short lull does not empty it. php-fpm's
/// number.
const SHRINK_EVERY: Duration = Duration::from_secs(1);

/// Time after which an idle worker of an automatic pool is one too many.
pub const REST: Duration = Duration::from_secs(10);

/// What the supervisor sees of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Forked, not ready yet.
    pub starting: usize,
    /// Waiting for a request.
    pub idle: usize,
    /// Serving one.
    pub busy: usize,
    /// Finishing what they have, in async mode.
    pub draining: usize,
    /// Asked to leave, or killed, and still there.
    pub leaving: usize,
    /// Requests that wait for a worker.
    pub waiting: usize,
    /// Idle ones that have been so for longer than an on-demand or automatic pool allows.
    pub rested: usize,
    /// Busy ones that compute, or could if there were a processor for them. Absent: not known.
    pub computing: Option<usize>,
    /// Whether too little memory is left for more than compute at once.
    pub lacks_memory: bool,
}

impl Count {
    /// Those that serve or are about to.
    pub fn active(&self) -> usize {
        self.starting + self.idle + self.busy
    }

    /// Whether requests wait although fewer workers compute than could. More workers that compute
    /// would only take turns on the cores.
    pub fn is_blocked(&self, least: usize) -> bool {
        self.waiting > 0
            && self.idle + self.starting == 0
            && self.computing.is_some_and(|computing| computing < least)
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Keep,
    /// Start so many.
    Grow(usize),
    /// Ask so many idle ones to leave.
    Shrink(usize),
}

/// What has to be remembered between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizer {
    /// Processes that may be started at the next look; doubles while there are too few.
    rate: usize,
    shrunk: u64,
    started: bool,
}

impl Default for Sizer {
    fn default() -> Sizer {
        Sizer { rate: 1, shrunk: 0, started: false }
    }
}

impl Sizer {
    /// One look at a pool.
    pub fn look(&mut self, size: &PoolSize, count: Count, now: u64) -> Change {
        let room = size.max().saturating_sub(count.active() + count.leaving);
        match *size {
            PoolSize::Auto { least, .. } => {
                let missing = least.saturating_sub(count.active());
                if missing > 0 {
                    return grow(missing.min(room));
                }
                if count.is_blocked(least) && !count.lacks_memory {
                    let step = count.waiting.min(self.rate).min(room);
                    self.rate = (self.rate * 2).min(MOST_AT_ONCE);
                    return grow(step);
                }
                self.rate = 1;
                let surplus =
                    if count.waiting == 0 { count.rested.min(count.active() - least) } else { 0 };
                if surplus == 0 { Change::Keep } else { Change::Shrink(surplus) }
            }
            PoolSize::Static { workers } => grow(workers.saturating_sub(count.active()).min(room)),
            PoolSize::Dynamic { start, min_spare, max_spare, .. } => {
                if !self.started {
                    self.started = true;
                    return grow(start.saturating_sub(count.active()).min(room));
                }
                // Each waiting request will take one of the spare ones.
                let spare = count.idle + count.starting;
                let missing = (min_spare + count.waiting).saturating_sub(spare).min(room);
                if missing > 0 {
                    let step = missing.min(self.rate);
                    self.rate = (self.rate * 2).min(MOST_AT_ONCE);
                    return Change::Grow(step);
                }
                self.rate = 1;
                let pause = now.saturating_sub(self.shrunk) < SHRINK_EVERY.as_nanos() as u64;
                if count.idle > max_spare && count.waiting == 0 && !pause {
                    self.shrunk = now;
                    return Change::Shrink(1);
                }
                Change::Keep
            }
            PoolSize::Ondemand { .. } => {
                let spare = count.idle + count.starting;
                let missing = count.waiting.saturating_sub(spare).min(room).min(MOST_AT_ONCE);
                if missing == 0 && count.rested > 0 && count.waiting == 0 {
                    return Change::Shrink(count.rested);
                }
                grow(missing)
            }
        }
    }

    /// Workers that a new pool has to show before it counts as ready.
    pub fn at_start(size: &PoolSize) -> usize {
        match *size {
            PoolSize::Auto { least, max } => least.min(max),
            PoolSize::Static { workers } => workers,
            PoolSize::Dynamic { start, max, .. } => start.min(max),
            PoolSize::Ondemand { .. } => 0,
        }
    }
}

fn grow(count: usize) -> Change {
    if count == 0 { Change::Keep } else { Change::Grow(count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Change::{Grow, Keep, Shrink};

    const SECOND: u64 = 1_000_000_000;
    const STATIC: PoolSize = PoolSize::Static { workers: 4 };
    const DYNAMIC: PoolSize = PoolSize::Dynamic { start: 2, min_spare: 2, max_spare: 4, max: 50 };
    const ONDEMAND: PoolSize = PoolSize::Ondemand { max: 3, idle: Duration::from_secs(10) };

    fn count(starting: usize, idle: usize, busy: usize) -> Count {
        Count { starting, idle, busy, ..Count::default() }
    }

    fn running() -> Sizer {
        Sizer { started: true, ..Sizer::default() }
    }

    #[test]
    fn an_automatic_pool_grows_while_its_workers_wait() {
        let auto = PoolSize::Auto { least: 2, max: 6 };
        let with = |count: Count, waiting, computing| Count { waiting, computing, ..count };
        let mut sizer = Sizer::default();
        assert_eq!(sizer.look(&auto, count(0, 0, 0), 0), Grow(2));
        assert_eq!(sizer.look(&auto, with(count(0, 0, 2), 9, None), 0), Keep, "nobody knows yet");
        assert_eq!(sizer.look(&auto, with(count(0, 0, 2), 9, Some(2)), 0), Keep, "they compute");
        assert_eq!(sizer.look(&auto, with(count(0, 0, 2), 9, Some(1)), 0), Grow(1));
        assert_eq!(
            sizer.look(&auto, with(count(1, 0, 2), 9, Some(1)), 0),
            Keep,
            "one is on its way"
        );
        assert_eq!(sizer.look(&auto, with(count(0, 0, 3), 9, Some(0)), 0), Grow(1), "slowly again");
        assert_eq!(sizer.look(&auto, with(count(0, 0, 4), 9, Some(0)), 0), Grow(2));
        let scarce = Count { lacks_memory: true, ..with(count(0, 0, 4), 9, Some(0)) };
        assert_eq!(sizer.look(&auto, scarce, 0), Keep, "no memory");
        assert_eq!(sizer.look(&auto, with(count(0, 0, 6), 9, Some(0)), 0), Keep, "no room");
        let rested = |idle, rested| Count { rested, ..count(0, idle, 0) };
        assert_eq!(sizer.look(&auto, rested(6, 0), 0), Keep);
        assert_eq!(sizer.look(&auto, rested(6, 3), 0), Shrink(3));
        assert_eq!(sizer.look(&auto, rested(3, 3), 0), Shrink(1), "never below the fewest");
        assert_eq!(sizer.look(&auto, rested(2, 2), 0), Keep);
    }

    #[test]
    fn a_static_pool_is_filled() {
        let mut sizer = Sizer::default();
        assert_eq!(sizer.look(&STATIC, count(0, 0, 0), 0), Grow(4));
        assert_eq!(sizer.look(&STATIC, count(1, 1, 1), 0), Grow(1));
        assert_eq!(sizer.look(&STATIC, count(0, 0, 4), 0), Keep);
        let leaving = Count { leaving: 1, ..count(0, 3, 0) };
        assert_eq!(sizer.look(&STATIC, leaving, 0), Keep, "its place is still taken");
        let draining = Count { draining: 1, ..count(0, 3, 0) };
        assert_eq!(sizer.look(&STATIC, draining, 0), Grow(1), "its successor starts beside it");
        assert_eq!(sizer.look(&STATIC, count(0, 9, 0), 0), Keep);
    }

    #[test]
    fn a_dynamic_pool_starts_with_its_number() {
        let mut sizer = Sizer::default();
        assert_eq!(sizer.look(&DYNAMIC, count(0, 0, 0), 0), Grow(2));
        assert_eq!(sizer.look(&DYNAMIC, count(2, 0, 0), 0), Keep);
    }

    #[test]
    fn a_dynamic_pool_grows_ever_faster_while_it_lacks_spare_ones() {
        let mut sizer = running();
        let mut busy = 2;
        let mut steps = Vec::new();
        for _ in 0..8 {
            let look = Count { waiting: 40, ..count(0, 0, busy) };
            match sizer.look(&DYNAMIC, look, 0) {
                Grow(step) => {
                    steps.push(step);
                    busy += step;
                }
                other => steps.push(if other == Keep { 0 } else { 99 }),
            }
        }
        assert_eq!(steps, [1, 2, 4, 8, 16, 17, 0, 0], "50 at most");
        assert_eq!(sizer.look(&DYNAMIC, count(0, 2, 0), 0), Keep);
        assert_eq!(sizer.look(&DYNAMIC, count(0, 0, 5), 0), Grow(1), "slow again after enough");
    }

    #[test]
    fn the_growth_at_one_look_is_capped() {
        let mut sizer = Sizer { rate: 32, ..running() };
        let size = PoolSize::Dynamic { start: 1, min_spare: 1, max_spare: 2, max: 200 };
        let look = Count { waiting: 150, ..count(0, 0, 1) };
        assert_eq!(sizer.look(&size, look, 0), Grow(32));
        assert_eq!(sizer.look(&size, look, 0), Grow(32));
    }

    #[test]
    fn a_dynamic_pool_shrinks_one_a_second() {
        let mut sizer = running();
        assert_eq!(sizer.look(&DYNAMIC, count(0, 4, 0), 10 * SECOND), Keep);
        assert_eq!(sizer.look(&DYNAMIC, count(0, 6, 0), 10 * SECOND), Shrink(1));
        assert_eq!(sizer.look(&DYNAMIC, count(0, 5, 0), 10 * SECOND + 1), Keep);
        assert_eq!(sizer.look(&DYNAMIC, count(0, 5, 0), 11 * SECOND), Shrink(1));
        let waiting = Count { waiting: 1, ..count(0, 6, 0) };
        assert_eq!(sizer.look(&DYNAMIC, waiting, 20 * SECOND), Keep);
    }

    #[test]
    fn an_ondemand_pool_has_what_is_asked_for() {
        let mut sizer = Sizer::default();
        assert_eq!(sizer.look(&ONDEMAND, count(0, 0, 0), 0), Keep);
        let ask = |waiting, count: Count| Count { waiting, ..count };
        assert_eq!(sizer.look(&ONDEMAND, ask(1, count(0, 0, 0)), 0), Grow(1));
        assert_eq!(sizer.look(&ONDEMAND, ask(1, count(1, 0, 0)), 0), Keep, "one is coming");
        assert_eq!(sizer.look(&ONDEMAND, ask(1, count(0, 1, 0)), 0), Keep, "one is free");
        assert_eq!(sizer.look(&ONDEMAND, ask(9, count(0, 0, 1)), 0), Grow(2), "at most 3");
        assert_eq!(sizer.look(&ONDEMAND, ask(9, count(0, 0, 3)), 0), Keep);
        let full = Count { leaving: 1, ..ask(9, count(0, 0, 2)) };
        assert_eq!(sizer.look(&ONDEMAND, full, 0), Keep);
    }

    #[test]
    fn an_ondemand_pool_sends_the_rested_home() {
        let mut sizer = Sizer::default();
        let rested = |rested, waiting| Count { rested, waiting, ..count(0, 3, 0) };
        assert_eq!(sizer.look(&ONDEMAND, rested(2, 0), 0), Shrink(2));
        assert_eq!(sizer.look(&ONDEMAND, rested(0, 0), 0), Keep);
        assert_eq!(sizer.look(&ONDEMAND, rested(2, 1), 0), Keep);
    }

    #[test]
    fn at_start() {
        assert_eq!(Sizer::at_start(&STATIC), 4);
        assert_eq!(Sizer::at_start(&DYNAMIC), 2);
        assert_eq!(Sizer::at_start(&ONDEMAND), 0);
    }
}
