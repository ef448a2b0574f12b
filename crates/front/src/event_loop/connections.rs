//! The open connections of an event loop, for the timeouts.

use std::sync::Arc;

use tokio::task::AbortHandle;

use super::{EventLoop, Message};
use crate::client::activity::Activity;
use crate::http::h1::ConnState;

/// A connection whose timeouts are watched.
pub enum Watched {
    Http(Arc<ConnState>),
    Fastcgi(Arc<Activity>),
}

impl Watched {
    /// What the connection waits for.
    pub fn activity(&self) -> &Activity {
        match self {
            Watched::Http(state) => &state.activity,
            Watched::Fastcgi(activity) => activity,
        }
    }
}

/// The open connections: for each the handle that ends it, and its watched state.
#[derive(Default)]
pub struct Connections {
    pub open: Vec<Option<(AbortHandle, Watched)>>,
    free: Vec<usize>,
}

impl Connections {
    /// Reserves a position for a new connection.
    pub fn reserve(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        })
    }

    /// Frees the position of a closed connection.
    pub fn release(&mut self, position: usize) {
        self.open[position] = None;
        self.free.push(position);
    }
}

/// Counts a connection as long as its task lives.
pub struct OpenConnection {
    /// The loop that serves it.
    pub event_loop: Arc<EventLoop>,
    /// Its position among the connections of the loop.
    pub position: usize,
    /// Whether it is a client's, not a web server's.
    pub is_client: bool,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let EventLoop { context, peers, .. } = &*self.event_loop;
        self.event_loop.connections().release(self.position);
        context.balancer.left(context.index, self.is_client);
        if context.is_draining() {
            let _ = peers[context.index].send(Message::Closed);
        }
    }
}
