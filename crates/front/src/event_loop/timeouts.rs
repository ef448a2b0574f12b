//! The timeouts of connections. Every tick checks all connections.

use std::time::Duration;

use super::connections::Watched;
use super::{EventLoop, TICK};
use crate::client::activity::{DRAIN_IDLE, Waiting};

/// A connection that has been idle for this long gives its buffers back, which is most of its
/// memory. A tenth would have them made anew for each click of a visitor; ten times more would hold
/// them for most clients that do not come again.
const REST_AFTER: Duration = Duration::from_secs(1);

impl EventLoop {
    /// Ends the connections whose timeout has passed.
    pub(super) fn sweep(&self, now: u64) {
        let limits = &self.context.config.timeouts;
        let is_draining = self.context.is_draining();
        let idle = if is_draining { limits.idle.min(DRAIN_IDLE) } else { limits.idle };
        for (task, watched) in self.connections().open.iter().flatten() {
            if is_draining {
                watched.leave(now);
            }
            let (waiting, mut since) = watched.activity().get();
            if waiting == Waiting::Sending {
                since = watched.activity().behind(self.context.config.limits.send_rate, now);
            }
            let limit = match waiting {
                Waiting::Idle if watched.is_leaving() => DRAIN_IDLE,
                Waiting::Idle => idle,
                Waiting::Head => limits.head,
                Waiting::Body => limits.body,
                Waiting::Tunnel => {
                    if is_draining {
                        watched.activity().call();
                    }
                    limits.tunnel
                }
                Waiting::Sending => limits.send,
                // Its requests notice by themselves that their client has gone.
                Waiting::Serving
                    if matches!(watched, Watched::Http(_) | Watched::Multiplexed(_)) =>
                {
                    continue;
                }
                Waiting::Serving => {
                    if now.saturating_sub(since) > TICK.as_nanos() as u64 {
                        watched.activity().call();
                    }
                    continue;
                }
            };
            if waiting == Waiting::Idle
                && now.saturating_sub(since) > REST_AFTER.as_nanos() as u64
                && let Watched::Http(state) = watched
            {
                state.rest();
            }
            if now.saturating_sub(since) > limit.as_nanos() as u64
                && !(waiting == Waiting::Idle && watched.leave(now))
            {
                if matches!(waiting, Waiting::Idle | Waiting::Head)
                    && let Watched::Http(state) = watched
                {
                    state.send_close_notify();
                }
                task.abort();
            }
        }
    }
}
