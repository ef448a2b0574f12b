//! Hands packets to the event loops that serve their connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokamak_sys::channel::Channel;
use tokio::sync::mpsc;

use crate::destination::destination;
use crate::id::{Route, Secret};
use crate::packet::Packet;

/// Packets that wait for an event loop; more are dropped, as a full socket drops them. Ten times
/// less would drop some of a burst that a loop takes in one turn; ten times more would keep packets
/// that have been sent again by then.
const WAITING: usize = 1024;

/// The packets of one socket that other event loops have read for this one.
pub type Inbox = mpsc::Receiver<Packet>;

/// Knows the event loops of a front, and the other fronts.
pub struct Exchange {
    secret: Arc<Secret>,
    front: u8,
    /// Of each event loop, for each socket.
    inboxes: Vec<Vec<(SocketAddr, mpsc::Sender<Packet>)>>,
    /// Fronts that drain, by their numbers.
    others: Vec<(u8, Channel)>,
    /// So many event loops, the first ones, take new connections.
    listening: AtomicUsize,
}

impl Exchange {
    /// That of the front with this number, which has so many event loops and these sockets. Returns
    /// the inboxes, too: of each event loop, for each socket.
    pub fn new(
        secret: Arc<Secret>,
        front: u8,
        loops: usize,
        sockets: &[SocketAddr],
        others: Vec<(u8, Channel)>,
    ) -> (Exchange, Vec<Vec<Inbox>>) {
        let pairs = (0..loops).map(|_| {
            let of_loop = sockets.iter().map(|socket| {
                let (sender, inbox) = mpsc::channel(WAITING);
                ((*socket, sender), inbox)
            });
            of_loop.unzip()
        });
        let (inboxes, receivers) = pairs.unzip();
        let listening = AtomicUsize::new(1);
        (Exchange { secret, front, inboxes, others, listening }, receivers)
    }

    /// What all fronts of the server know.
    pub fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }

    /// The number of this front.
    pub fn front(&self) -> u8 {
        self.front
    }

    /// So many event loops, the first ones, take new connections from now on.
    pub fn listen(&self, loops: usize) {
        self.listening.store(loops.max(1), Ordering::Relaxed);
    }

    /// Who is to get a datagram that was read here. A client's own connection id is for one of the
    /// loops that take new connections, always the same one.
    pub(crate) fn route(&self, datagram: &[u8]) -> Route {
        let id = destination(datagram);
        self.secret.route(id).unwrap_or_else(|| {
            let loops = self.listening.load(Ordering::Relaxed);
            // There are at most 256 loops: see `Exchange::knows`.
            let event_loop = if loops > 1 { self.secret.spread(id) % loops } else { 0 };
            Route { front: self.front, event_loop: event_loop as u8 }
        })
    }

    /// Whether a packet may be another's: if there is one event loop and no other front, all are
    /// its own.
    pub(crate) fn is_alone(&self) -> bool {
        self.inboxes.len() == 1 && self.others.is_empty()
    }

    /// Whether there is such an event loop. What comes for others is from before a restart: the
    /// loop that has read it says that the connection is gone.
    pub(crate) fn knows(&self, route: Route) -> bool {
        match route.front == self.front {
            true => usize::from(route.event_loop) < self.inboxes.len(),
            false => self.others.iter().any(|(front, _)| *front == route.front),
        }
    }

    /// Hands over a packet. One for which there is no room is dropped: its sender sends it again.
    /// Returns whether there is still somebody who gets such packets: of a front that has ended,
    /// nobody does.
    pub(crate) fn give(&self, route: Route, packet: Packet) -> bool {
        if route.front == self.front {
            self.put(route, packet);
            return true;
        }
        let mut others = self.others.iter().filter(|(front, _)| *front == route.front);
        let sent = others.next().map(|(_, line)| line.send(&packet.encode(), &[]));
        !matches!(sent, Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock)
    }

    /// Takes a packet that another front has handed over, in its form between two processes.
    pub fn receive(&self, message: &[u8]) {
        let Some(packet) = Packet::decode(message) else { return };
        let route = self.secret.route(destination(&packet.bytes));
        if let Some(route) = route.filter(|route| route.front == self.front) {
            self.put(route, packet);
        }
    }

    fn put(&self, route: Route, packet: Packet) {
        let inboxes = self.inboxes.get(usize::from(route.event_loop));
        let sockets = inboxes.into_iter().flatten();
        for (_, inbox) in sockets.filter(|(socket, _)| *socket == packet.socket).take(1) {
            let _ = inbox.try_send(packet.clone());
        }
    }
}
