//! Connections that wait for their next request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::stream::{Address, Peer};

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
    /// There are few peers, so to compare them costs less than to hash.
    shelves: Vec<Shelf>,
    count: usize,
}

/// The connections to one peer.
struct Shelf {
    peer: Arc<Peer>,
    /// Since when each is idle; the one that was used last at the end.
    idle: Vec<(Instant, Connection)>,
}

impl Pool {
    /// A connection to the peer at that address, which has not closed it.
    pub fn take(&mut self, address: &Address<'_>) -> Option<Connection> {
        let shelf = self.shelves.iter_mut().find(|shelf| shelf.peer.is_at(address))?;
        while let Some((_, mut connection)) = shelf.idle.pop() {
            self.count -= 1;
            if connection.is_reusable() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection, if there is room.
    pub fn put(&mut self, connection: Connection) {
        if self.count >= MOST {
            return;
        }
        let (now, has_room) = (Instant::now(), self.shelves.len() < MOST);
        match self.shelves.iter_mut().find(|shelf| shelf.peer == *connection.peer()) {
            Some(shelf) if shelf.idle.len() < MOST_OF_ONE => shelf.idle.push((now, connection)),
            // An empty shelf stays until it is tidied.
            None if has_room => {
                let peer = connection.peer().clone();
                self.shelves.push(Shelf { peer, idle: vec![(now, connection)] });
            }
            _ => return,
        }
        self.count += 1;
    }

    /// Closes what has been kept for long enough, or has been closed by the peer.
    pub fn tidy(&mut self, now: Instant) {
        self.shelves.retain_mut(|shelf| {
            shelf.idle.retain_mut(|(since, connection)| {
                now.saturating_duration_since(*since) < LONGEST && connection.is_reusable()
            });
            !shelf.idle.is_empty()
        });
        self.count = self.shelves.iter().map(|shelf| shelf.idle.len()).sum();
    }
}
