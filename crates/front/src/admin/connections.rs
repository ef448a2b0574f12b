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
pub struct Connections(Arc<Mutex<ConnectionList>>);

#[derive(Default)]
struct ConnectionList {
    last: u64,
    /// In the order in which they came.
    open: Vec<Connection>,
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
pub struct Admission {
    connections: Connections,
    number: u64,
    changed: Arc<Notify>,
}

impl Connections {
    /// A place for a new connection; a stranger may lose its own.
    pub fn enter(&self) -> Admission {
        let mut list = self.lock();
        if list.count(false) >= STRANGERS {
            list.dismiss(|connection| !connection.is_known);
        }
        list.last += 1;
        let (number, changed) = (list.last, Arc::new(Notify::new()));
        list.open.push(Connection {
            number,
            is_known: false,
            is_asking: false,
            since: Instant::now(),
            changed: changed.clone(),
        });
        Admission { connections: self.clone(), number, changed }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionList> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionList {
    fn count(&self, is_known: bool) -> usize {
        self.open.iter().filter(|connection| connection.is_known == is_known).count()
    }

    /// Ends the one that has been silent the longest of those that fit; whether there is one.
    fn dismiss(&mut self, fits: impl Fn(&Connection) -> bool) -> bool {
        let fitting = self.open.iter().enumerate().filter(|(_, connection)| fits(connection));
        let Some((at, _)) = fitting.min_by_key(|(_, connection)| connection.since) else {
            return false;
        };
        self.open.remove(at).changed.notify_one();
        true
    }
}

impl Admission {
    /// Its client waits for an answer.
    pub fn asks(&self) {
        self.change(|connection| connection.is_asking = true);
    }

    /// Its client has shown a right. False if all who have one wait for answers.
    pub fn becomes_known(&self) -> bool {
        let mut list = self.connections.lock();
        let Some(at) = list.open.iter().position(|connection| connection.number == self.number)
        else {
            return false;
        };
        if list.open[at].is_known {
            return true;
        }
        let is_idle = |connection: &Connection| connection.is_known && !connection.is_asking;
        if list.count(true) >= KNOWN && !list.dismiss(is_idle) {
            return false;
        }
        let own = list.open.iter_mut().filter(|connection| connection.number == self.number);
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
                let list = self.connections.lock();
                match list.open.iter().find(|connection| connection.number == self.number) {
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
        let mut list = self.connections.lock();
        if let Some(connection) =
            list.open.iter_mut().find(|connection| connection.number == self.number)
        {
            change(connection);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.connections.lock().open.retain(|connection| connection.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(connections: &Connections, is_known: bool) -> Vec<u64> {
        let list = connections.lock();
        let fitting = list.open.iter().filter(|connection| connection.is_known == is_known);
        fitting.map(|connection| connection.number).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_push_out_strangers_alone() {
        let connections = Connections::default();
        let known = connections.enter();
        assert!(known.becomes_known());
        tokio::time::advance(Duration::from_millis(1)).await;
        let strangers: Vec<Admission> = (0..STRANGERS + 3).map(|_| connections.enter()).collect();
        assert_eq!(numbers(&connections, true), [1]);
        assert_eq!(numbers(&connections, false).len(), STRANGERS);
        assert_eq!(numbers(&connections, false)[0], 5);
        strangers[2].is_over().await;
        drop(strangers);
        assert!(numbers(&connections, false).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn those_with_a_right_push_out_idle_ones() {
        let connections = Connections::default();
        let admissions: Vec<Admission> = (0..KNOWN).map(|_| connections.enter()).collect();
        for admission in &admissions {
            assert!(admission.becomes_known());
            admission.asks();
        }
        let late = connections.enter();
        assert!(!late.becomes_known(), "all wait for answers");
        admissions[7].is_answered();
        assert!(late.becomes_known());
        admissions[7].is_over().await;
        assert!(!numbers(&connections, true).contains(&8));
        assert!(!admissions[7].becomes_known(), "it has lost its place");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_has_one_limit() {
        let connections = Connections::default();
        let (start, admission) = (Instant::now(), connections.enter());
        admission.is_over().await;
        assert_eq!(start.elapsed(), PATIENCE);
        let (start, admission) = (Instant::now(), connections.enter());
        admission.asks();
        let other = async {
            tokio::time::sleep(PATIENCE * 3).await;
            admission.is_answered();
        };
        tokio::join!(other, admission.is_over());
        assert_eq!(start.elapsed(), PATIENCE * 4);
    }
}
