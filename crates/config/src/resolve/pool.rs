//! The processes of a site: how many there may be.

use super::{Reader, number};
use crate::model::{Mode, Pool, PoolSize};
use crate::option;
use crate::option::Manager;
use crate::origin::Given;
use crate::value::{Auto, Count};

/// Four for each core, or eight.
fn most(cores: usize) -> usize {
    (cores * 4).clamp(8, 256)
}

/// One for each core: a further process that computes only takes turns with the others, which on
/// two cores cost 36 instead of 25 µs of CPU for an empty endpoint. On one core there are two, so
/// that a request that waits does not delay others. Those that mostly wait get company. A sealed
/// worker is forked from the image within a millisecond and has only its own changes for itself, so
/// there may be eight times as many.
fn auto_size(cores: usize, mode: Mode) -> PoolSize {
    let times = if mode == Mode::Sealed { 8 } else { 1 };
    PoolSize::Auto { least: cores.clamp(2, 256), max: (most(cores) * times).min(256) }
}

impl Reader<'_> {
    pub(super) fn pool(&mut self, pool: &option::Pool, mode: Mode) -> Pool {
        Pool {
            size: self.pool_size(pool, mode),
            queue: number(pool.queue.value.0),
            queue_timeout: pool.queue_timeout.value,
            max_requests: pool.max_requests.value.0,
            max_memory: pool.max_memory.value.0,
            request_timeout: pool.request_timeout.value,
            slow: pool.slow.value,
        }
    }

    fn pool_size(&mut self, pool: &option::Pool, mode: Mode) -> PoolSize {
        let cores = self.around.cores;
        let workers = or(&pool.workers, most(cores));
        match pool.manager.value {
            Manager::Auto if matches!(pool.workers.value, Auto::Word) => auto_size(cores, mode),
            Manager::Auto => PoolSize::Static { workers },
            Manager::Static => PoolSize::Static { workers },
            Manager::Ondemand => PoolSize::Ondemand { max: workers, idle: pool.idle.value },
            Manager::Dynamic => {
                let max_spare = or(&pool.max_spare, (workers * 3 / 4).max(1));
                let min_spare = or(&pool.min_spare, (workers / 4).clamp(1, max_spare));
                let start = or(&pool.start, min_spare + max_spare.saturating_sub(min_spare) / 2);
                if max_spare > workers {
                    let problem = format!(
                        "{max_spare} is more than workers ({workers}); lower it or raise workers"
                    );
                    self.report("site.pool", "max_spare", pool.max_spare.origin, problem);
                }
                if min_spare > max_spare {
                    let problem = format!(
                        "{min_spare} is more than max_spare ({max_spare}); lower it or raise \
                            max_spare"
                    );
                    self.report("site.pool", "min_spare", pool.min_spare.origin, problem);
                } else if !(min_spare..=max_spare).contains(&start) {
                    let problem = format!(
                        "{start} must lie between min_spare ({min_spare}) and max_spare \
                            ({max_spare})"
                    );
                    self.report("site.pool", "start", pool.start.origin, problem);
                }
                PoolSize::Dynamic { start, min_spare, max_spare, max: workers }
            }
        }
    }
}

pub(super) fn or(given: &Given<Auto<Count>>, auto: usize) -> usize {
    match given.value {
        Auto::Word => auto,
        Auto::Is(Count(count)) => number(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_workers_that_wait_get_more_company() {
        let max = |cores, mode| auto_size(cores, mode).max();
        assert_eq!([1, 2, 4, 100].map(|cores| max(cores, Mode::Worker)), [8, 8, 16, 256]);
        assert_eq!([1, 2, 4, 100].map(|cores| max(cores, Mode::Sealed)), [64, 64, 128, 256]);
    }
}
