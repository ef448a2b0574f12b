//! The rate of a client as a leaky bucket, by the moment when it will be empty (GCRA): each request
//! moves that moment on by one interval, and is refused if the moment is too far away already.

use std::time::Duration;

/// How fast a bucket leaks, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds in which one request leaks.
    interval: u64,
    /// Nanoseconds until the bucket is empty at most, before the next request.
    most: u64,
}

impl Pace {
    /// So many requests in this time, and `burst` more at once.
    pub fn new(requests: u32, per: Duration, burst: u32) -> Pace {
        let interval = (per.as_nanos() as u64 / u64::from(requests.max(1))).max(1);
        Pace { interval, most: interval.saturating_mul(burst.into()) }
    }

    /// Takes one more request into a bucket that is empty at the moment `empty_at`, and returns the
    /// moment when it will be empty then. Both are nanoseconds of the same clock as `now`.
    ///
    /// # Errors
    /// The bucket is full; returns the nanoseconds after which there is room.
    pub fn admit(&self, empty_at: u64, now: u64) -> Result<u64, u64> {
        let left = empty_at.saturating_sub(now);
        if left > self.most {
            return Err(left - self.most);
        }
        Ok(now.saturating_add(left).saturating_add(self.interval))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same as a bucket that is looked at in every moment: its level in requests, as a fraction
    /// with the interval as its denominator.
    #[derive(Default)]
    struct Model {
        level: u64,
        at: u64,
    }

    impl Model {
        fn admit(&mut self, (interval, burst): (u64, u64), now: u64) -> bool {
            self.level = self.level.saturating_sub(now - self.at);
            self.at = now;
            let has_room = self.level <= burst * interval;
            self.level += if has_room { interval } else { 0 };
            has_room
        }
    }

    proptest! {
        #[test]
        fn it_admits_what_a_leaky_bucket_does(
            requests in 1_u32..1000,
            burst in 0_u32..20,
            pauses in prop::collection::vec(0_u64..40_000_000, 1..200),
        ) {
            let pace = Pace::new(requests, Duration::from_secs(1), burst);
            let interval = 1_000_000_000 / u64::from(requests);
            let (mut model, mut empty_at, mut now) = (Model::default(), 0, 0);
            for pause in pauses {
                now += pause;
                let expected = model.admit((interval, burst.into()), now);
                match pace.admit(empty_at, now) {
                    Ok(next) => {
                        prop_assert!(expected);
                        empty_at = next;
                    }
                    Err(wait) => {
                        prop_assert!(!expected);
                        prop_assert!(pace.admit(empty_at, now + wait).is_ok());
                        prop_assert!(pace.admit(empty_at, now + wait - 1).is_err());
                    }
                }
            }
        }

        #[test]
        fn no_moment_overflows(empty_at: u64, now: u64, requests: u32, burst: u32) {
            let pace = Pace::new(requests, Duration::from_secs(3600), burst);
            let _ = pace.admit(empty_at, now);
        }
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let pace = Pace::new(10, Duration::from_secs(1), 2);
        let (mut empty_at, now) = (0, 5_000_000_000);
        for _ in 0..3 {
            empty_at = pace.admit(empty_at, now).unwrap();
        }
        assert_eq!(pace.admit(empty_at, now), Err(100_000_000));
        empty_at = pace.admit(empty_at, now + 100_000_000).unwrap();
        assert!(pace.admit(empty_at, now + 100_000_000).is_err());
    }
}
