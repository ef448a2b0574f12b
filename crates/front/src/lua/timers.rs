//! The timers of one event loop's scripts. They are reused: to put one off costs much less than to
//! make one, and the timers that limit the time of scripts hardly ever fire.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokamak_lua::{Value, Waiting};
use tokamak_outbound::Deadline;

/// Most idle timers that are kept. Ten times more would hold memory after a burst for good; a tenth
/// would make new timers whenever more than some dozens of scripts run at once.
const MOST_IDLE: usize = 256;

/// The timers of one event loop.
#[derive(Default)]
pub struct Timers {
    idle: Arc<Mutex<Vec<Deadline>>>,
}

impl Timers {
    /// A future that is ready after this time.
    pub fn sleep(&self, time: Duration) -> Waiting {
        let kept = lock(&self.idle).pop();
        let timer = match kept {
            Some(mut timer) => {
                timer.set(time);
                timer
            }
            None => Deadline::new(time),
        };
        Box::pin(TimerWait { timer: Some(timer), idle: self.idle.clone() })
    }
}

/// A timer in use.
struct TimerWait {
    /// The timer, until it is given back.
    timer: Option<Deadline>,
    idle: Arc<Mutex<Vec<Deadline>>>,
}

impl Future for TimerWait {
    type Output = Result<Value, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(timer) = &mut self.timer {
            ready!(timer.poll(context));
        }
        Poll::Ready(Ok(Value::Nil))
    }
}

impl Drop for TimerWait {
    fn drop(&mut self) {
        // The timer may still fire and wake the old task, which then has nothing to do. That is
        // harmless.
        let mut idle = lock(&self.idle);
        if idle.len() < MOST_IDLE {
            idle.extend(self.timer.take());
        }
    }
}

fn lock(idle: &Mutex<Vec<Deadline>>) -> MutexGuard<'_, Vec<Deadline>> {
    // Only one thread uses it. The lock is there because the type must be `Sync`.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
