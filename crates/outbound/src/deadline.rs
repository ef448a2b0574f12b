//! Deadlines that are put off by each call, and hardly ever pass.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline.
///
/// Putting it off does not touch its timer: the timer fires too early and is then set again. So
/// however often a deadline is put off, its timer is set only once within the time given.
pub struct Deadline {
    at: Instant,
    /// Never later than `at`.
    timer: Pin<Box<Sleep>>,
}

impl Deadline {
    /// A deadline after this time.
    pub fn new(time: Duration) -> Deadline {
        let at = Instant::now() + time;
        Deadline { at, timer: Box::pin(sleep_until(at)) }
    }

    /// Moves the deadline to this time from now.
    pub fn set(&mut self, time: Duration) {
        self.at = Instant::now() + time;
        if self.at < self.timer.deadline() {
            self.timer.as_mut().reset(self.at);
        }
    }

    /// Ready when the deadline has passed; otherwise the task is woken when it does.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            if self.timer.deadline() == self.at {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Waits for the deadline; how long that took.
    async fn wait(deadline: &mut Deadline) -> Duration {
        let start = Instant::now();
        poll_fn(|context| deadline.poll(context)).await;
        start.elapsed()
    }

    #[tokio::test]
    async fn it_comes_when_it_was_last_set_to() {
        let (short, long) = (Duration::from_millis(30), Duration::from_secs(600));
        let mut deadline = Deadline::new(Duration::from_millis(1));
        for _ in 0..2 {
            deadline.set(short);
            assert!(wait(&mut deadline).await >= short, "put off");
            deadline.set(long);
            deadline.set(short);
            assert!(wait(&mut deadline).await < long, "brought forward");
            let again = poll_fn(|context| Poll::Ready(deadline.poll(context))).await;
            assert!(again.is_ready(), "it has come already");
        }
    }
}
