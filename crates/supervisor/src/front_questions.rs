//! What fronts pass on from clients of the admin listener. A front faces the network: should it be
//! taken over, it may ask as much as it likes, and the supervisor neither grows nor stalls.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::asker::Asker;
use crate::reminder::Reminder;

/// Questions of one front that are not answered yet; more are not heard. A sound front has half as
/// many. With a tenth, operators would wait for each other; ten times more status pages at once
/// would be some MiB.
const OPEN: usize = 32;
/// Questions taken in a second, of all fronts; others wait. A status page of 256 processes takes
/// a millisecond or two: with ten times more, the supervisor would have time for nothing else.
const PER_SECOND: u64 = 100;
/// Questions taken without a pause before that.
const BURST: u64 = 20;
/// Time between two of them.
const EVERY: u64 = 1_000_000_000 / PER_SECOND;

/// The questions of all fronts.
#[derive(Debug, Default)]
pub struct FrontQuestions {
    /// Those that are not answered yet, by generation and number.
    open: BTreeSet<(u32, u32)>,
    /// Those of them whose time has not come, as lines.
    waiting: VecDeque<(u32, u32, String)>,
    /// When the next one may be taken, if no pause has saved up a burst.
    next: u64,
    complaint: Reminder,
}

impl FrontQuestions {
    /// A front asks.
    ///
    /// # Errors
    /// Fails if the front asks too much; now and then with what is to be logged about it.
    pub fn add(
        &mut self,
        generation: u32,
        question: u32,
        line: String,
        now: u64,
    ) -> Result<(), Option<String>> {
        let own = self.open.range((generation, 0)..=(generation, u32::MAX)).count();
        if own < OPEN && self.open.insert((generation, question)) {
            self.waiting.push_back((generation, question, line));
            return Ok(());
        }
        Err(self.complaint.is_due(now).then(|| {
            format!(
                "the front of generation {generation} asks more than the admin listener lets \
                    clients ask: it is not heard until it has its answers; it may have been taken \
                    over, `tokamak reload` starts another one"
            )
        }))
    }

    /// The next question whose time has come.
    pub fn take(&mut self, now: u64) -> Option<(Asker, String)> {
        let earliest = now.saturating_sub(BURST * EVERY);
        let next = self.next.max(earliest);
        if next > now {
            return None;
        }
        let (generation, question, line) = self.waiting.pop_front()?;
        self.next = next + EVERY;
        Some((Asker::Admin { generation, question }, line))
    }

    /// Time until the next one may be taken, if there is one.
    pub fn pause(&self, now: u64) -> Option<Duration> {
        let until = Duration::from_nanos(self.next.saturating_sub(now));
        (!self.waiting.is_empty()).then_some(until)
    }

    /// A question is answered.
    pub fn is_answered(&mut self, generation: u32, question: u32) {
        self.open.remove(&(generation, question));
    }

    /// Whether a generation's front waits for an answer.
    pub fn owes(&self, generation: u32) -> bool {
        self.open.range((generation, 0)..=(generation, u32::MAX)).next().is_some()
    }

    /// Forgets the questions of generations that are gone.
    pub fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.open.retain(|(generation, _)| is_there(*generation));
        self.waiting.retain(|(generation, ..)| is_there(*generation));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_front_that_asks_without_end_is_bounded() {
        let mut asked = FrontQuestions::default();
        let add = |asked: &mut FrontQuestions, generation, question| {
            asked.add(generation, question, "status json".into(), SECOND)
        };
        let refused: Vec<_> =
            (0..100_000).filter_map(|question| add(&mut asked, 1, question).err()).collect();
        assert_eq!((refused.len(), refused.iter().flatten().count()), (100_000 - OPEN, 1));
        assert_eq!((asked.open.len(), asked.waiting.len()), (OPEN, OPEN));
        assert_eq!(add(&mut asked, 2, 0), Ok(()), "another front is heard");
        assert!(asked.owes(1) && asked.owes(2) && !asked.owes(3));
        asked.keep(|generation| generation == 2);
        assert!(!asked.owes(1) && asked.waiting.len() == 1);
    }

    #[test]
    fn one_number_is_one_question() {
        let mut asked = FrontQuestions::default();
        assert_eq!(asked.add(1, 7, "ready".into(), 0), Ok(()));
        assert!(asked.add(1, 7, "ready".into(), 0).is_err());
        asked.is_answered(1, 7);
        assert_eq!(asked.add(1, 7, "ready".into(), 0), Ok(()));
    }

    #[test]
    fn so_many_a_second_are_taken() {
        let mut asked = FrontQuestions::default();
        let mut taken = 0;
        for now in (10 * SECOND..20 * SECOND).step_by(1_000_000) {
            // One that answers at once, and is asked again at once.
            for question in 0..OPEN as u32 {
                let _ = asked.add(1, question, "ready".into(), now);
            }
            while let Some((Asker::Admin { generation, question }, _)) = asked.take(now) {
                asked.is_answered(generation, question);
                taken += 1;
            }
            assert!(asked.pause(now).is_some_and(|pause| pause <= Duration::from_millis(10)));
        }
        let expected = BURST + 10 * PER_SECOND;
        assert!((expected - 2..=expected + 2).contains(&taken), "{taken}");
    }
}
