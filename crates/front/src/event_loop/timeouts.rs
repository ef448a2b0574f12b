//! The timeouts of connections. Every tick checks all connections.

use std::time::Duration;

use super::{EventLoop, TICK};
use crate::client::activity::Waiting;

/// An idle connection of a draining front is closed after this long: a client that has just been
/// answered may be about to send its next request, which is still served.
const DRAIN_IDLE: Duration = Duration::from_secs(1);

impl EventLoop {
    /// Ends the connections whose timeout has passed.
    pub(super) fn sweep(&self, now: u64) {
        let limits = &self.context.config.timeouts;
        let is_draining = self.context.is_draining();
        let idle = if is_draining { limits.idle.min(DRAIN_IDLE) } else { limits.idle };
        for (task, watched) in self.connections().open.iter().flatten() {
            let (waiting, since) = watched.activity().get();
            let limit = match waiting {
                Waiting::Idle => idle,
                Waiting::Head => limits.head,
                Waiting::Body => limits.body,
                Waiting::Sending => limits.send,
                Waiting::Serving => {
                    if now.saturating_sub(since) > TICK.as_nanos() as u64 {
                        watched.activity().call();
                    }
                    continue;
                }
            };
            if now.saturating_sub(since) > limit.as_nanos() as u64 {
                task.abort();
            }
        }
    }
}
