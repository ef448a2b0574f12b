//! A worker that fails while its neighbours do not: what it keeps from request to request is
//! broken, and since errors are quick it draws the requests of the others. Good answers between
//! them are no proof of health: other pages of the site may not need what is broken.

use std::time::Duration;

/// Time between two replacements in a pool. Where a page always fails, a worker that serves nothing
/// else would be replaced again and again; with a tenth, a pool would do little but boot.
pub const EVERY: Duration = Duration::from_secs(1);
/// Last answers of a worker that are compared, at least half as many: few to see soon that all of
/// them fail, and many to see that one page in a hundred does. With ten times more, good answers of
/// long ago hide the errors.
const LAST: [u64; 2] = [64, 2048];
/// Errors among them that may be no accident. With a tenth, a page that fails would cost a worker
/// each time somebody looks at it; with ten times more, so many visitors would be hurt first.
const SOME: u64 = 10;
/// Errors that are many. With half, chance alone would make one of two workers look broken at their
/// start, where a page fails everywhere.
const MANY: u64 = 20;
/// One answer in so many an error: the worker is of little use.
const OFTEN: u64 = 3;
/// How many times rarer errors are of a worker that is well. Of a page that fails everywhere each
/// worker has its share, and chance seldom makes it four times as large as another's.
const RARER: u64 = 4;
/// Errors that those that are well would have had if they failed as often. If they have answered
/// too little for so many, chance may have sent them no request for a page that fails everywhere.
const EXPECTED: u64 = 20;

/// How many answers a worker has given, and how many of them were errors of the server (5xx).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// All of them.
    pub count: u64,
    /// The errors.
    pub errors: u64,
}

impl Answers {
    /// Whether its errors are rare beside these.
    fn is_well_beside(self, worst: Answers) -> bool {
        self.errors * worst.count * RARER <= worst.errors * self.count
    }
}

/// The last answers of a worker.
#[derive(Clone, Debug, Default)]
pub struct Record {
    seen: Answers,
    last: [Answers; LAST.len()],
}

impl Record {
    /// Adds what the worker has answered since the last look; the worker counts since it began.
    pub fn look(&mut self, all: Answers) {
        let count = all.count.saturating_sub(self.seen.count);
        let errors = all.errors.saturating_sub(self.seen.errors).min(count);
        self.seen = all;
        for (last, most) in self.last.iter_mut().zip(LAST) {
            let (count, errors) =
                (last.count.saturating_add(count), last.errors.saturating_add(errors));
            // Whatever a worker says, the sums stay small.
            let halvings = (count / most).checked_ilog2().map_or(0, |log| log + 1);
            *last = Answers { count: count >> halvings, errors: errors >> halvings };
        }
    }
}

/// Which of these workers is to be replaced, and its last answers: the one with the most errors,
/// if it has many and most of the others have few.
pub fn outlier<'a>(
    workers: impl Iterator<Item = (u16, &'a Record)> + Clone,
) -> Option<(u16, Answers)> {
    let among = |last: usize| {
        outlier_among(workers.clone().map(|(index, record)| (index, record.last[last])).collect())
    };
    (0..LAST.len()).find_map(among)
}

/// The same by these answers.
fn outlier_among(workers: Vec<(u16, Answers)>) -> Option<(u16, Answers)> {
    let worst = *workers.iter().max_by_key(|(_, last)| last.errors)?;
    let others = workers.iter().filter(|(index, _)| *index != worst.0);
    let well: Vec<_> = others.filter(|(_, last)| last.is_well_beside(worst.1)).collect();
    let Answers { count, errors } = worst.1;
    let witnessed: u64 = well.iter().map(|(_, last)| last.count).sum();
    // One of them may be chance, and not all are there soon after a start.
    let signs = [errors >= MANY, errors * OFTEN >= count, witnessed * errors >= EXPECTED * count];
    let is_sure = signs.into_iter().filter(|sign| *sign).count() >= 2;
    let are_most_well = !well.is_empty() && well.len() * 2 >= workers.len() - 1;
    (errors >= SOME && is_sure && are_most_well).then_some(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(workers: &[(u64, u64)]) -> Option<u16> {
        let record = |&(errors, count)| {
            let mut record = Record::default();
            record.look(Answers { count, errors });
            record
        };
        let records: Vec<_> = workers.iter().map(record).collect();
        outlier((0..).zip(&records)).map(|(index, _)| index)
    }

    #[test]
    fn table() {
        let none: &[(u64, u64)] = &[];
        for (errors_of_answers, expected) in [
            (none, None),
            (&[(50, 50)], None),
            (&[(9, 9), (0, 9), (0, 9)], None),
            // All of its answers, every second, and one of fifty.
            (&[(0, 12), (10, 10), (0, 9)], Some(1)),
            (&[(0, 9), (10, 10), (0, 9)], None),
            (&[(0, 900), (10, 20), (1, 900)], Some(1)),
            (&[(0, 900), (20, 1000), (2, 900)], Some(1)),
            (&[(0, 90), (20, 1000), (0, 90)], None),
            // The others have not been asked yet.
            (&[(20, 20), (0, 0)], Some(0)),
            (&[(20, 1000), (0, 0), (0, 900)], None),
            (&[(20, 1000), (0, 0), (0, 1010)], Some(0)),
            // A page fails everywhere.
            (&[(20, 20), (20, 20), (20, 20)], None),
            (&[(40, 1000), (20, 1000), (15, 1000)], None),
            (&[(60, 1000), (20, 1000), (16, 1000)], None),
            // Its neighbour is broken as well, the others are not; most of them are broken.
            (&[(30, 60), (20, 60), (0, 60), (3, 60)], Some(0)),
            (&[(30, 60), (20, 60), (20, 60), (0, 60)], None),
            // Many answers at once.
            (&[(500_000, 1_000_000), (0, 900), (0, 900)], Some(0)),
            (&[(u64::MAX, u64::MAX), (0, u64::MAX)], Some(0)),
        ] {
            assert_eq!(found(errors_of_answers), expected, "{errors_of_answers:?}");
        }
    }

    #[test]
    fn old_answers_are_forgotten() {
        let mut record = Record::default();
        for (count, errors) in [(1_000_000, 0), (1_000_040, 20)] {
            record.look(Answers { count, errors });
        }
        assert_eq!(record.last[1].errors, 20, "{record:?}");
        assert!(record.last.iter().zip(LAST).all(|(last, most)| last.count < most), "{record:?}");
        for count in (0..20).map(|look| 1_000_040 + look * 1000) {
            record.look(Answers { count, errors: 20 });
        }
        assert_eq!(record.last.map(|last| last.errors), [0, 0], "{record:?}");
    }

    /// A pool in which requests go to any worker, and more to one that fails quickly.
    struct Simulated {
        records: Vec<Record>,
        answers: Vec<Answers>,
        random: u64,
    }

    impl Simulated {
        fn new(seed: u64, workers: usize) -> Simulated {
            Simulated {
                records: vec![Record::default(); workers],
                answers: vec![Answers::default(); workers],
                random: seed.wrapping_mul(2) | 1,
            }
        }

        /// A number below this one (xorshift64*).
        fn below(&mut self, end: u64) -> u64 {
            self.random ^= self.random >> 12;
            self.random ^= self.random << 25;
            self.random ^= self.random >> 27;
            self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) % end
        }

        /// The worker that is replaced, and after how many requests; `fails` in a thousand of them
        /// need what is broken in these workers.
        fn run(&mut self, broken: &[u64], fails: u64, requests: u64) -> Option<(u64, u64)> {
            let workers = self.records.len() as u64;
            for request in 0..requests {
                let mut index = self.below(workers);
                // Every other request finds the quick one free.
                if broken.len() == 1 && self.below(2) == 0 {
                    index = broken[0];
                }
                let is_error = broken.contains(&index) && self.below(1000) < fails;
                let answers = &mut self.answers[index as usize];
                answers.count += 1;
                answers.errors += u64::from(is_error);
                for (record, answers) in self.records.iter_mut().zip(&self.answers) {
                    record.look(*answers);
                }
                if let Some((index, _)) = outlier((0..).zip(&self.records)) {
                    return Some((index.into(), request));
                }
            }
            None
        }
    }

    #[test]
    fn simulated_pools() {
        for seed in 0..20 {
            for workers in [2, 4, 16] {
                let all: Vec<u64> = (0..workers).collect();
                for fails in [20, 100, 500, 1000] {
                    let mut pool = Simulated::new(seed, all.len());
                    assert_eq!(pool.run(&[], fails, 3000), None, "all are well");
                    let found = pool.run(&[1], fails, 40 * 1000 / fails * 4);
                    assert_eq!(found.map(|(index, _)| index), Some(1), "{workers} {fails} {seed}");
                    let mut pool = Simulated::new(seed, all.len());
                    let found = pool.run(&all, fails, 10_000);
                    assert_eq!(found, None, "a page fails everywhere: {workers} {fails} {seed}");
                }
            }
        }
    }
}
