//! The timers of one event loop's scripts, each used again and again: to put one off costs much
//! less than to make one, and those that bound the time of a script hardly ever go off.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokamak_lua::{Value, Waiting};
use tokio::time::{Instant, Sleep, sleep_until};

/// Most timers that are kept while nobody needs them. Chosen arbitrarily.
const MOST_IDLE: usize = 256;

type Timer = Pin<Box<Sleep>>;

/// The timers of one event loop.
#[derive(Default)]
pub struct Timers {
    idle: Arc<Mutex<Vec<Timer>>>,
}

impl Timers {
    /// Something that is done after a while.
    pub fn sleep(&self, time: Duration) -> Waiting {
        let until = Instant::now() + time;
        let kept = lock(&self.idle).pop();
        let timer = match kept {
            Some(mut timer) => {
                timer.as_mut().reset(until);
                timer
            }
            None => Box::pin(sleep_until(until)),
        };
        Box::pin(Nap { timer: Some(timer), idle: self.idle.clone() })
    }
}

/// A timer in use.
struct Nap {
    /// There until the end.
    timer: Option<Timer>,
    idle: Arc<Mutex<Vec<Timer>>>,
}

impl Future for Nap {
    type Output = Result<Value, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(timer) = &mut self.timer {
            ready!(timer.as_mut().poll(context));
        }
        Poll::Ready(Ok(Value::Nil))
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        // It may still go off, and wake whoever waited for it, who then finds nothing to do.
        let mut idle = lock(&self.idle);
        if idle.len() < MOST_IDLE {
            idle.extend(self.timer.take());
        }
    }
}

fn lock(idle: &Mutex<Vec<Timer>>) -> MutexGuard<'_, Vec<Timer>> {
    // One thread uses it; the lock makes it shareable.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
