//! An alarm that rings within microseconds. Tokio's own timers are exact to a millisecond, which
//! would be in every response time.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A timer of the kernel in the event loop.
pub struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// An alarm of this thread's event loop.
    ///
    /// # Errors
    /// Fails without a free descriptor.
    // It is deprecated because a type may name a descriptor that it does not own. This one owns it.
    #[expect(deprecated, reason = "its successor is `unsafe`, which this crate forbids")]
    pub fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Alarm(AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?))
    }

    /// Waits until this moment. If it is past, other tasks of the thread still get their turn.
    ///
    /// # Errors
    /// None is known; the system calls that it makes can fail in principle.
    pub async fn until(&self, when: Instant) -> io::Result<()> {
        let rest = when.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        // Fits: no timeout is as long as the age of the universe.
        let it_value =
            Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        let once = Itimerspec { it_interval: NEVER, it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.0.readable().await?;
            let mut count = [0; 8];
            match ready.try_io(|fd| Ok(rustix::io::read(fd, &mut count)?)) {
                Ok(rung) => return rung.map(drop),
                // It was not this alarm; the guard has noted that.
                Err(_would_block) => {}
            }
        }
    }
}
