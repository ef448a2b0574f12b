//! A reload under way: which clients wait for it, and when it is done.

use std::time::Duration;

use crate::asker::Asker;
use crate::generation::{Generation, Life};
use crate::watch::since;

/// Time that a new generation has for getting ready, beyond what its slowest pool may take.
const SLACK: Duration = Duration::from_secs(5);

/// Time that the old front has for not accepting any more. A front that does not say so in time is
/// stuck, and no reason to call a reload unfinished.
const OLD_LIMIT: Duration = Duration::from_secs(2);

/// A reload that waits for its generation.
#[derive(Debug)]
pub struct Reload {
    /// The new generation.
    pub number: u32,
    /// The clients that wait for its result.
    pub clients: Vec<Asker>,
    /// The clients that asked again meanwhile: files may have changed since this reload read them.
    next: Option<Vec<Asker>>,
    /// When the new generation was first seen to serve.
    served: Option<u64>,
}

/// How a reload stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not yet.
    Wait,
    /// The new generation serves.
    Done,
    /// It will not.
    Failed(String),
}

impl Reload {
    /// A reload that has just begun.
    pub fn new(number: u32, client: Option<Asker>) -> Reload {
        Reload { number, clients: client.into_iter().collect(), next: None, served: None }
    }

    /// A client asks for a reload while this one is under way: another one follows. However many
    /// ask, it is one more.
    pub fn again(&mut self, client: Option<Asker>) {
        self.next.get_or_insert_default().extend(client);
    }

    /// The clients that asked again.
    pub fn take_next(&mut self) -> Option<Vec<Asker>> {
        self.next.take()
    }

    /// Whether the old front has had enough time to stop accepting.
    pub fn is_overdue(&mut self, now: u64) -> bool {
        since(*self.served.get_or_insert(now), now) > OLD_LIMIT
    }

    /// A look at the new generation, if it is still there.
    pub fn look(&mut self, generation: Option<&Generation>, now: u64) -> Progress {
        let Some(generation) = generation else {
            return Progress::Failed("the new generation died".into());
        };
        let limit = generation.start_limit() + SLACK;
        progress(generation.life(), generation.failure(), since(generation.begun, now), limit)
    }
}

fn progress(life: Life, failure: Option<&str>, age: Duration, limit: Duration) -> Progress {
    match (life, failure) {
        (Life::Serving, _) => Progress::Done,
        (Life::Draining(_) | Life::Ending(_), why) => {
            Progress::Failed(why.unwrap_or("the new front died").to_owned())
        }
        (Life::Booting, Some(why)) => Progress::Failed(why.to_owned()),
        _ if age > limit => Progress::Failed(format!("not ready within {} s", limit.as_secs())),
        _ => Progress::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let (soon, limit) = (Duration::from_secs(1), Duration::from_secs(90));
        let failed = |why: &str| Progress::Failed(why.to_owned());
        for (life, failure, age, expected) in [
            (Life::Booting, None, soon, Progress::Wait),
            (Life::Booting, Some("no boot"), soon, failed("no boot")),
            (Life::Booting, None, limit * 2, failed("not ready within 90 s")),
            (Life::Fronted, None, soon, Progress::Wait),
            (Life::Fronted, None, limit * 2, failed("not ready within 90 s")),
            (Life::Serving, None, soon, Progress::Done),
            (Life::Serving, Some("a late worker"), soon, Progress::Done),
            (Life::Ending(0), None, soon, failed("the new front died")),
            (Life::Ending(0), Some("no boot"), soon, failed("no boot")),
        ] {
            assert_eq!(
                progress(life, failure, age, limit),
                expected,
                "{life:?} {failure:?} {age:?}"
            );
        }
    }

    #[test]
    fn the_old_front_has_two_seconds() {
        let mut reload = Reload::new(2, None);
        assert!(!reload.is_overdue(5_000_000_000));
        assert!(!reload.is_overdue(7_000_000_000));
        assert!(reload.is_overdue(7_000_000_001));
    }

    #[test]
    fn those_who_ask_meanwhile_get_one_more_reload() {
        let [first, second, third] = [1, 5, 6].map(Asker::Socket);
        let mut reload = Reload::new(2, Some(first));
        assert_eq!(reload.take_next(), None);
        reload.again(Some(second));
        reload.again(None);
        reload.again(Some(third));
        assert_eq!(reload.take_next(), Some(vec![second, third]));
        assert_eq!(reload.clients, [first]);
    }
}
