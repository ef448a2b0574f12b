//! The open connections of an event loop, for the timeouts.

use std::sync::Arc;

use tokio::task::AbortHandle;

use super::{EventLoop, Message};
use crate::client::activity::Activity;
use crate::http::h1;
use crate::http::multiplex::ConnState;

/// A connection whose timeouts are watched.
pub enum Watched {
    /// A client's, before its handshake is over.
    Handshake(Arc<Activity>),
    /// A client's, with HTTP/1.
    Http(Arc<h1::ConnState>),
    /// A client's, with HTTP/2 or HTTP/3.
    Multiplexed(Arc<ConnState>),
    /// Of a proxy, before its PROXY header.
    Proxied(Arc<Activity>),
    /// A web server's.
    Fastcgi(Arc<Activity>),
}

impl Watched {
    /// What the connection waits for.
    pub fn activity(&self) -> &Activity {
        match self {
            Watched::Http(state) => &state.activity,
            Watched::Multiplexed(state) => &state.activity,
            Watched::Proxied(activity)
            | Watched::Handshake(activity)
            | Watched::Fastcgi(activity) => activity,
        }
    }

    /// Has a connection that serves several requests at the same time ended by its own task, which
    /// tells the client first. Returns whether the task has to do that now.
    pub fn leave(&self, now: u64) -> bool {
        matches!(self, Watched::Multiplexed(state) if state.leave(now))
    }

    /// Whether its task is ending the connection.
    pub fn is_leaving(&self) -> bool {
        matches!(self, Watched::Multiplexed(state) if state.is_leaving())
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

    /// Watches the connection at a position in another way.
    pub fn replace(&mut self, position: usize, watched: Watched) {
        if let Some((_, place)) = &mut self.open[position] {
            *place = watched;
        }
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
