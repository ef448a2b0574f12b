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
pub struct Admission {
    room: Connections,
    number: u64,
    changed: Arc<Notify>,
}

impl Connections {
    /// A place for a new connection; a stranger may lose its own.
    pub fn enter(&self) -> Admission {
        let mut guests = self.lock();
        if guests.count(false) >= STRANGERS {
            guests.dismiss(|guest| !guest.is_known);
        }
        guests.last += 1;
        let (number, changed) = (guests.last, Arc::new(Notify::new()));
        guests.list.push(Connection {
            number,
            is_known: false,
            is_asking: false,
            since: Instant::now(),
            changed: changed.clone(),
        });
        Admission { room: self.clone(), number, changed }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionList> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionList {
    fn count(&self, is_known: bool) -> usize {
        self.list.iter().filter(|guest| guest.is_known == is_known).count()
    }

    /// Ends the one that has been silent the longest of those that fit; whether there is one.
    fn dismiss(&mut self, fits: impl Fn(&Connection) -> bool) -> bool {
        let fitting = self.list.iter().enumerate().filter(|(_, guest)| fits(guest));
        let Some((at, _)) = fitting.min_by_key(|(_, guest)| guest.since) else { return false };
        self.list.remove(at).changed.notify_one();
        true
    }
}

impl Admission {
    /// Its client waits for an answer.
    pub fn asks(&self) {
        self.change(|guest| guest.is_asking = true);
    }

    /// Its client has shown a right. False if all who have one wait for answers.
    pub fn becomes_known(&self) -> bool {
        let mut guests = self.room.lock();
        let Some(at) = guests.list.iter().position(|guest| guest.number == self.number) else {
            return false;
        };
        if guests.list[at].is_known {
            return true;
        }
        let is_idle = |guest: &Connection| guest.is_known && !guest.is_asking;
        if guests.count(true) >= KNOWN && !guests.dismiss(is_idle) {
            return false;
        }
        let own = guests.list.iter_mut().filter(|guest| guest.number == self.number);
        own.for_each(|guest| guest.is_known = true);
        true
    }

    /// Its client is about to get an answer.
    pub fn is_answered(&self) {
        self.change(|guest| (guest.is_asking, guest.since) = (false, Instant::now()));
        self.changed.notify_one();
    }

    /// Returns when the connection is to be closed.
    pub async fn is_over(&self) {
        loop {
            let until = {
                let guests = self.room.lock();
                match guests.list.iter().find(|guest| guest.number == self.number) {
                    None => return,
                    Some(guest) if guest.is_asking => None,
                    Some(guest) if guest.since.elapsed() >= PATIENCE => return,
                    Some(guest) => Some(guest.since + PATIENCE),
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
        let mut guests = self.room.lock();
        if let Some(guest) = guests.list.iter_mut().find(|guest| guest.number == self.number) {
            change(guest);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.room.lock().list.retain(|guest| guest.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(room: &Connections, is_known: bool) -> Vec<u64> {
        let guests = room.lock();
        let fitting = guests.list.iter().filter(|guest| guest.is_known == is_known);
        fitting.map(|guest| guest.number).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_push_out_strangers_alone() {
        let room = Connections::default();
        let known = room.enter();
        assert!(known.becomes_known());
        tokio::time::advance(Duration::from_millis(1)).await;
        let strangers: Vec<Admission> = (0..STRANGERS + 3).map(|_| room.enter()).collect();
        assert_eq!(numbers(&room, true), [1]);
        assert_eq!(numbers(&room, false).len(), STRANGERS);
        assert_eq!(numbers(&room, false)[0], 5);
        strangers[2].is_over().await;
        drop(strangers);
        assert!(numbers(&room, false).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn those_with_a_right_push_out_idle_ones() {
        let room = Connections::default();
        let seats: Vec<Admission> = (0..KNOWN).map(|_| room.enter()).collect();
        for seat in &seats {
            assert!(seat.becomes_known());
            seat.asks();
        }
        let late = room.enter();
        assert!(!late.becomes_known(), "all wait for answers");
        seats[7].is_answered();
        assert!(late.becomes_known());
        seats[7].is_over().await;
        assert!(!numbers(&room, true).contains(&8));
        assert!(!seats[7].becomes_known(), "it has lost its place");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_has_one_limit() {
        let room = Connections::default();
        let (start, seat) = (Instant::now(), room.enter());
        seat.is_over().await;
        assert_eq!(start.elapsed(), PATIENCE);
        let (start, seat) = (Instant::now(), room.enter());
        seat.asks();
        let other = async {
            tokio::time::sleep(PATIENCE * 3).await;
            seat.is_answered();
        };
        tokio::join!(other, seat.is_over());
        assert_eq!(start.elapsed(), PATIENCE * 4);
    }
}
