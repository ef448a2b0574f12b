//! Connections that wait for their next request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::stream::Peer;

/// Connections that are kept for one peer, and for all. Above the calls that one event loop has
/// under way to one service; with a tenth, most calls of a busy site would connect anew. Ten times
/// more would come close to the usual limit of open files.
const MOST_OF_ONE: usize = 64;
const MOST: usize = 512;

/// How long a connection is kept. Usual servers close theirs after a minute or more.
const LONGEST: Duration = Duration::from_secs(30);

/// The connections of one event loop that are not in use.
#[derive(Default)]
pub struct Pool {
    /// The one that was used last at the end. There are few peers, so comparing costs less than
    /// hashing.
    idle: BTreeMap<Peer, Vec<(Instant, Connection)>>,
    count: usize,
}

impl Pool {
    /// A connection to that peer that it has not closed.
    pub fn take(&mut self, peer: &Peer) -> Option<Connection> {
        let kept = self.idle.get_mut(peer)?;
        while let Some((_, mut connection)) = kept.pop() {
            self.count -= 1;
            if connection.is_reusable() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection, if there is room.
    pub fn put(&mut self, peer: &Peer, connection: Connection) {
        if self.count >= MOST {
            return;
        }
        let now = Instant::now();
        match self.idle.get_mut(peer) {
            Some(kept) if kept.len() < MOST_OF_ONE => kept.push((now, connection)),
            Some(_) => return,
            None => drop(self.idle.insert(peer.clone(), vec![(now, connection)])),
        }
        self.count += 1;
    }

    /// Closes what has been kept for long enough, or has been closed by the peer.
    pub fn tidy(&mut self, now: Instant) {
        self.idle.retain(|_, kept| {
            kept.retain_mut(|(since, connection)| {
                now.saturating_duration_since(*since) < LONGEST && connection.is_reusable()
            });
            !kept.is_empty()
        });
        self.count = self.idle.values().map(Vec::len).sum();
    }
}
