use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe;

use super::Gate;

/// Joins the gates of one event loop to its sleep: a worker rings only while the loop sleeps.
#[derive(Clone)]
pub struct Notifier {
    gates: Arc<[Arc<Gate>]>,
}

impl Notifier {
    /// The bell of one event loop, for all of its gates.
    pub fn new(gates: Arc<[Arc<Gate>]>) -> Notifier {
        Notifier { gates }
    }

    /// Lets the runtime's poll return when one of `eventfds` is rung. Keep the result as long as
    /// the loop runs.
    ///
    /// The counters are never read: the poll is edge-triggered, and each ring is an edge. For the
    /// runtime any descriptor that becomes readable is a pipe's end.
    ///
    /// # Errors
    /// Those of `epoll_ctl`.
    pub fn listen(eventfds: Vec<OwnedFd>) -> io::Result<Vec<pipe::Receiver>> {
        eventfds.into_iter().map(pipe::Receiver::from_owned_fd_unchecked).collect()
    }

    /// For the runtime's `on_thread_park`: asks for bells from now on, then looks once more. What
    /// it finds wakes tasks, and the runtime does not sleep then.
    pub fn before_sleep(&self) {
        for gate in &*self.gates {
            gate.fall_asleep();
        }
    }

    /// For the runtime's `on_thread_unpark`: takes in what workers have rung for, so that its tasks
    /// run at once. Left to the next [`Notifier::before_sleep`], it would cost another look at all
    /// sockets.
    pub fn after_sleep(&self) {
        for gate in &*self.gates {
            gate.wake_up();
        }
    }
}
