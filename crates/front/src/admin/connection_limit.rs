//! The connections to the admin listener: how many there may be, whose, and for how long. Clients
//! that have shown no right to more than probes take no place from those that have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Connections of strangers: those that have shown no right yet. One more takes the place of the
/// one that has been there the longest, so that a new one can always ask. With a tenth, a few
/// balancers that keep their connections would push each other out; each costs some KiB.
pub const STRANGERS: usize = 64;
/// Connections of those that have shown a right to look or to change something. One more takes the
/// place of the one that has been idle the longest.
pub const KNOWN: usize = 16;
/// Time after which a connection is closed that has sent no whole request, or has not taken an
/// answer: as the timeout for the head of a request of other clients.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// All connections.
#[derive(Clone, Default)]
pub struct ConnectionLimit(Arc<Mutex<Connections>>);

#[derive(Default)]
struct Connections {
    last: u64,
    /// In the order in which they came.
    list: Vec<Connection>,
}

struct Connection {
    number: u64,
    is_known: bool,
    /// It waits for an answer.
    is_asking: bool,
    /// When it came, or got its last answer.
    since: Instant,
    changed: Arc<Notify>,
}

/// The place of one connection.
pub struct Registration {
    limit: ConnectionLimit,
    number: u64,
    changed: Arc<Notify>,
}

impl ConnectionLimit {
    /// A place for a new connection; a stranger may lose its own.
    pub fn enter(&self) -> Registration {
        let mut connections = self.connections();
        if connections.count(false) >= STRANGERS {
            connections.dismiss(|connection| !connection.is_known);
        }
        connections.last += 1;
        let (number, changed) = (connections.last, Arc::new(Notify::new()));
        connections.list.push(Connection {
            number,
            is_known: false,
            is_asking: false,
            since: Instant::now(),
            changed: changed.clone(),
        });
        Registration { limit: self.clone(), number, changed }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn count(&self, is_known: bool) -> usize {
        self.list.iter().filter(|connection| connection.is_known == is_known).count()
    }

    /// Ends the one that has been silent the longest of those that fit; whether there is one.
    fn dismiss(&mut self, fits: impl Fn(&Connection) -> bool) -> bool {
        let fitting = self.list.iter().enumerate().filter(|(_, connection)| fits(connection));
        let Some((at, _)) = fitting.min_by_key(|(_, connection)| connection.since) else {
            return false;
        };
        self.list.remove(at).changed.notify_one();
        true
    }
}

impl Registration {
    /// Its client waits for an answer.
    pub fn asks(&self) {
        self.change(|connection| connection.is_asking = true);
    }

    /// Its client has shown a right. False if all who have one wait for answers.
    pub fn becomes_known(&self) -> bool {
        let mut connections = self.limit.connections();
        let Some(at) =
            connections.list.iter().position(|connection| connection.number == self.number)
        else {
            return false;
        };
        if connections.list[at].is_known {
            return true;
        }
        let is_idle = |connection: &Connection| connection.is_known && !connection.is_asking;
        if connections.count(true) >= KNOWN && !connections.dismiss(is_idle) {
            return false;
        }
        let own = connections.list.iter_mut().filter(|connection| connection.number == self.number);
        own.for_each(|connection| connection.is_known = true);
        true
    }

    /// Its client is about to get an answer.
    pub fn is_answered(&self) {
        self.change(|connection| {
            (connection.is_asking, connection.since) = (false, Instant::now())
        });
        self.changed.notify_one();
    }

    /// Returns when the connection is to be closed.
    pub async fn is_over(&self) {
        loop {
            let until = {
                let connections = self.limit.connections();
                match connections.list.iter().find(|connection| connection.number == self.number) {
                    None => return,
                    Some(connection) if connection.is_asking => None,
                    Some(connection) if connection.since.elapsed() >= PATIENCE => return,
                    Some(connection) => Some(connection.since + PATIENCE),
                }
            };
            match until {
                // What answers has a limit of its own.
                None => self.changed.notified().await,
                Some(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.changed.notified() => {}
                },
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Connection)) {
        let mut connections = self.limit.connections();
        if let Some(connection) =
            connections.list.iter_mut().find(|connection| connection.number == self.number)
        {
            change(connection);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.limit.connections().list.retain(|connection| connection.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(limit: &ConnectionLimit, is_known: bool) -> Vec<u64> {
        let connections = limit.connections();
        let fitting = connections.list.iter().filter(|connection| connection.is_known == is_known);
        fitting.map(|connection| connection.number).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_push_out_strangers_alone() {
        let limit = ConnectionLimit::default();
        let known = limit.enter();
        assert!(known.becomes_known());
        tokio::time::advance(Duration::from_millis(1)).await;
        let strangers: Vec<Registration> = (0..STRANGERS + 3).map(|_| limit.enter()).collect();
        assert_eq!(numbers(&limit, true), [1]);
        assert_eq!(numbers(&limit, false).len(), STRANGERS);
        assert_eq!(numbers(&limit, false)[0], 5);
        strangers[2].is_over().await;
        drop(strangers);
        assert!(numbers(&limit, false).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn those_with_a_right_push_out_idle_ones() {
        let limit = ConnectionLimit::default();
        let seats: Vec<Registration> = (0..KNOWN).map(|_| limit.enter()).collect();
        for registration in &seats {
            assert!(registration.becomes_known());
            registration.asks();
        }
        let late = limit.enter();
        assert!(!late.becomes_known(), "all wait for answers");
        seats[7].is_answered();
        assert!(late.becomes_known());
        seats[7].is_over().await;
        assert!(!numbers(&limit, true).contains(&8));
        assert!(!seats[7].becomes_known(), "it has lost its place");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_has_one_limit() {
        let limit = ConnectionLimit::default();
        let (start, registration) = (Instant::now(), limit.enter());
        registration.is_over().await;
        assert_eq!(start.elapsed(), PATIENCE);
        let (start, registration) = (Instant::now(), limit.enter());
        registration.asks();
        let other = async {
            tokio::time::sleep(PATIENCE * 3).await;
            registration.is_answered();
        };
        tokio::join!(other, registration.is_over());
        assert_eq!(start.elapsed(), PATIENCE * 4);
    }
}
