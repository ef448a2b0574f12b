//! Which rate is tried next. It knows neither clock nor server: a rate goes out, and whether the
//! bound held comes in.

/// Where a search starts, and when it is content.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The first rate.
    pub start: f64,
    /// The highest rate.
    pub most: f64,
    /// The lowest rate: below it nothing is looked for.
    pub least: f64,
    /// The search ends when the rates at which the bound holds and does not are so near, as a part
    /// of the lower one.
    pub precision: f64,
    /// Trials in all.
    pub trials: usize,
}

/// Doubles the rate until the bound breaks, then halves the distance, then tries the two rates
/// beside the knee again. Of trials at the same rate the majority counts.
#[derive(Debug)]
pub struct Search {
    limits: Limits,
    tried: Vec<Tried>,
    trials: usize,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    rate: f64,
    held: usize,
    broke: usize,
}

/// Trials that must agree at the two rates beside the knee. With one, a pause of the machine would
/// decide; three of them take half as long again.
const AGREE: usize = 2;

impl Search {
    /// A search that has tried nothing.
    pub fn new(limits: Limits) -> Search {
        Search { limits, tried: Vec::new(), trials: 0 }
    }

    /// The rate to try; [`None`]: the search is over.
    pub fn next(&self) -> Option<f64> {
        if self.trials >= self.limits.trials {
            return None;
        }
        if let Some(undecided) = self.tried.iter().find(|tried| tried.held == tried.broke) {
            return Some(undecided.rate);
        }
        match (self.holds(), self.breaks()) {
            (None, None) => Some(self.limits.start.clamp(self.limits.least, self.limits.most)),
            (Some(low), None) if low >= self.limits.most => None,
            (Some(low), None) => Some((low * 2.0).min(self.limits.most)),
            (None, Some(high)) if high > self.limits.least => {
                Some((high / 2.0).max(self.limits.least))
            }
            (None, Some(high)) => self.again(high),
            (Some(low), Some(high)) if high > low * (1.0 + self.limits.precision) => {
                Some((low * high).sqrt())
            }
            (Some(low), Some(high)) => self.again(high).or_else(|| self.again(low)),
        }
    }

    /// Notes how a trial ended.
    pub fn record(&mut self, rate: f64, held: bool) {
        self.trials += 1;
        let known = self.tried.iter_mut().find(|tried| tried.rate == rate);
        let tried = match known {
            Some(tried) => tried,
            None => {
                let place = self.tried.partition_point(|tried| tried.rate < rate);
                self.tried.insert(place, Tried { rate, held: 0, broke: 0 });
                &mut self.tried[place]
            }
        };
        if held {
            tried.held += 1;
        } else {
            tried.broke += 1;
        }
    }

    /// The highest rate at which the bound holds, below all at which it does not.
    pub fn holds(&self) -> Option<f64> {
        let below = self.breaks().unwrap_or(f64::INFINITY);
        self.tried
            .iter()
            .rev()
            .find(|tried| tried.held > tried.broke && tried.rate < below)
            .map(|tried| tried.rate)
    }

    /// The lowest rate at which it does not.
    pub fn breaks(&self) -> Option<f64> {
        self.tried.iter().find(|tried| tried.broke > tried.held).map(|tried| tried.rate)
    }

    /// Whether trials at both rates beside the knee agree, and these are as near as wanted.
    pub fn is_sure(&self) -> bool {
        let near = match (self.holds(), self.breaks()) {
            (Some(low), Some(high)) => high <= low * (1.0 + self.limits.precision),
            (Some(low), None) => low >= self.limits.most,
            (None, Some(high)) => high <= self.limits.least,
            (None, None) => false,
        };
        let ends = [self.holds(), self.breaks()];
        let sure = |rate| self.again(rate).is_none();
        near && (self.breaks().is_none() || ends.into_iter().flatten().all(sure))
    }

    fn again(&self, rate: f64) -> Option<f64> {
        let tried = self.tried.iter().find(|tried| tried.rate == rate)?;
        (tried.held.abs_diff(tried.broke) < AGREE && tried.held + tried.broke <= AGREE)
            .then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(start: f64) -> Limits {
        Limits { start, most: 100_000.0, least: 0.5, precision: 0.05, trials: 60 }
    }

    fn run(limits: Limits, mut holds: impl FnMut(f64) -> bool) -> Search {
        let mut search = Search::new(limits);
        while let Some(rate) = search.next() {
            assert!((limits.least..=limits.most).contains(&rate), "{rate}");
            search.record(rate, holds(rate));
        }
        search
    }

    proptest! {
        #[test]
        fn a_sharp_knee_is_found_within_the_precision(
            knee in 1.0..90_000.0f64, start in 0.5..50_000.0f64
        ) {
            let search = run(limits(start), |rate| rate <= knee);
            let (low, high) = (search.holds().unwrap(), search.breaks().unwrap());
            prop_assert!(low <= knee && knee < high, "{low} {knee} {high}");
            prop_assert!(high <= low * 1.0501);
            prop_assert!(search.is_sure());
            prop_assert!(search.trials < 40, "{}", search.trials);
        }

        #[test]
        fn one_wrong_answer_anywhere_changes_nothing(
            knee in 10.0..5000.0f64, wrong in 0..20usize
        ) {
            let mut nth = 0;
            let search = run(limits(10.0), |rate| {
                nth += 1;
                (rate <= knee) != (nth == wrong + 1)
            });
            let (low, high) = (search.holds().unwrap(), search.breaks().unwrap());
            // A pause of the machine can break a bound. Nothing lets a bound hold beyond the knee
            // but a trial far too short, and then the rate doubles once more and breaks.
            prop_assert!(low <= knee * 1.06 && low >= knee / 1.12, "{low} {knee} {high}");
        }

        #[test]
        fn any_answers_end_it(answers in prop::collection::vec(any::<bool>(), 100)) {
            let mut answers = answers.into_iter().cycle();
            let search = run(limits(10.0), |_| answers.next().unwrap());
            if let (Some(low), Some(high)) = (search.holds(), search.breaks()) {
                prop_assert!(low < high);
            }
            prop_assert!(search.trials <= 60);
        }
    }

    #[test]
    fn a_server_that_bears_all_is_tried_at_the_highest_rate_and_no_more() {
        let search = run(limits(10.0), |_| true);
        assert_eq!((search.holds(), search.breaks()), (Some(100_000.0), None));
        assert!(search.is_sure());
    }

    #[test]
    fn a_server_that_bears_nothing_is_tried_down_to_the_lowest_rate() {
        let search = run(limits(10.0), |_| false);
        assert_eq!((search.holds(), search.breaks()), (None, Some(0.5)));
    }
}
