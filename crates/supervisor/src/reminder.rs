//! Saying something once, and again now and then while it is still so.

use std::time::Duration;

use crate::watch::since;

/// Time between two reminders. With a tenth, they would fill the log of a server that nobody looks
/// at for a day; with ten times more, who looks at the log would take the trouble for over.
const EVERY: Duration = Duration::from_secs(60);

/// When something was last said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reminder(Option<u64>);

impl Reminder {
    /// Whether it is to be said now. If so, it counts as said.
    pub fn is_due(&mut self, now: u64) -> bool {
        let is_due = self.0.is_none_or(|said| since(said, now) >= EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_and_then_once_a_minute() {
        let mut reminder = Reminder::default();
        let quarters = (1..=4 * 150_u64).filter(|quarter| reminder.is_due(quarter * 250_000_000));
        assert_eq!(quarters.collect::<Vec<_>>(), [1, 241, 481]);
    }
}
