//! HTTP/3 in an event loop: its endpoints on the UDP ports, and the connections that come there.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quinn::{Endpoint, Incoming, VarInt};
use tokamak_quic::{Exchange, Inbox, RoutedSocket, endpoint};
use tokamak_sys::channel::{Channel, Received};
use tokamak_upstream::socket::registered;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::connections::Watched;
use super::{EventLoop, OPEN_CONNECTIONS, TICK};
use crate::client::Addresses;
use crate::client::activity::{Activity, Waiting};
use crate::http::h3;
use crate::http::multiplex::ConnState;
use crate::log;

/// Handshakes of an event loop that are under way: with more, a client has to prove its address
/// before the server does the arithmetic of another one (Retry). Ten times less would cost each
/// visitor of a busy moment a round trip; ten times more would let forged addresses take a second
/// of the processor.
const HANDSHAKES: usize = 64;

/// How long an event loop that ends waits until its clients have been told.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// `H3_NO_ERROR` (RFC 9114 section 8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// What an event loop needs for HTTP/3.
pub struct QuicSockets {
    /// Hands over the packets of other event loops.
    pub exchange: Arc<Exchange>,
    /// Each UDP socket, as a listening socket of [`Addresses::listener`], and what others have read
    /// for this event loop on it.
    pub sockets: Vec<(usize, UdpSocket, Inbox)>,
    /// On it comes what other fronts have read for this one. One event loop has it.
    pub line: Option<Channel>,
}

/// The endpoints of an event loop.
pub struct Quic {
    endpoints: Vec<(Endpoint, Arc<RoutedSocket>)>,
    tasks: Vec<JoinHandle<()>>,
}

impl Quic {
    /// Opens the endpoints in the event loop that runs on this thread, and accepts on them.
    ///
    /// # Errors
    /// Fails if the event loop cannot watch a socket.
    pub fn open(this: &Arc<EventLoop>, start: QuicSockets) -> io::Result<Quic> {
        let mut quic = Quic { endpoints: Vec::new(), tasks: Vec::new() };
        let Some(tls) = this.context.tls.as_ref().and_then(|tls| tls.quic.as_ref()) else {
            return Ok(quic);
        };
        let QuicSockets { exchange, sockets, line } = start;
        for (listener, socket, inbox) in sockets {
            let index = u8::try_from(this.context.index).map_err(io::Error::other)?;
            let socket = RoutedSocket::new(socket, index, exchange.clone(), inbox)?;
            let endpoint = endpoint(socket.clone(), (*tls.config()).clone())?;
            quic.endpoints.push((endpoint.clone(), socket.clone()));
            let accepting = accept(this.clone(), endpoint, socket, exchange.clone(), listener);
            quic.tasks.push(tokio::spawn(accepting));
        }
        if let Some(line) = line {
            tokio::spawn(receive(registered(line, Interest::READABLE)?, exchange));
        }
        Ok(quic)
    }

    /// Takes no more connections, and leaves the sockets to another front. What that one hands over
    /// still comes.
    pub fn drain(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
        for (_, socket) in &self.endpoints {
            let _ = socket.set_reading(false);
        }
    }

    /// Closes what is still open, and tells the clients.
    pub async fn close(self) {
        for (endpoint, _) in self.endpoints {
            endpoint.close(NO_ERROR, b"");
            let _ = timeout(LAST_WORDS, endpoint.wait_idle()).await;
        }
    }
}

/// Takes what other fronts hand over, until there is none that could.
async fn receive(line: AsyncFd<Channel>, exchange: Arc<Exchange>) {
    while let Ok(mut guard) = line.readable().await {
        loop {
            match guard.get_inner().receive() {
                Ok(Received::Message(packet, _)) => exchange.receive(&packet),
                Ok(Received::Nothing) => break,
                Ok(Received::Closed) | Err(_) => return,
            }
        }
        guard.clear_ready();
    }
}

/// Accepts connections, and reads the port as long as the balancer wants this event loop to.
async fn accept(
    this: Arc<EventLoop>,
    endpoint: Endpoint,
    socket: Arc<RoutedSocket>,
    exchange: Arc<Exchange>,
    listener: usize,
) {
    let EventLoop { context, .. } = &*this;
    let mut duty = context.balancer.duty();
    let handshakes = Arc::new(AtomicUsize::new(0));
    loop {
        let now = *duty.borrow_and_update();
        exchange.listen(now.serving);
        if let Err(error) = socket.set_reading(context.index < now.listening) {
            log::unaccepted(&error);
            sleep(TICK).await;
            continue;
        }
        tokio::select! {
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => this.place_quic(incoming, &socket, listener, &handshakes),
                None => return,
            },
            changed = duty.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// A handshake that is under way, while it is.
struct Handshake(Arc<AtomicUsize>);

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl EventLoop {
    /// Serves a connection that comes, refuses it, or has its client prove its address.
    fn place_quic(
        self: &Arc<Self>,
        incoming: Incoming,
        socket: &RoutedSocket,
        listener: usize,
        handshakes: &Arc<AtomicUsize>,
    ) {
        let counters = self.context.counters.as_deref();
        let peer = incoming.remote_address();
        if self.context.connections() >= self.context.config.limits.connections {
            counters.iter().for_each(|counters| {
                counters.refused.add(1);
                counters.accepted.add(1);
            });
            log::too_many_connections(&peer, OPEN_CONNECTIONS);
            return incoming.refuse();
        }
        if handshakes.load(Ordering::Relaxed) >= HANDSHAKES && incoming.may_retry() {
            // It fails only for one that has proved its address.
            let _ = incoming.retry();
            return;
        }
        handshakes.fetch_add(1, Ordering::Relaxed);
        let handshake = Handshake(handshakes.clone());
        let socket_address = socket.address();
        let ip = incoming.local_ip().unwrap_or(socket_address.ip());
        let local = SocketAddr::new(ip, socket_address.port());
        let addresses = Arc::new(Addresses::new(peer, local, listener));
        let activity = Arc::new(Activity::new());
        // A client begins at once, so its handshake has the time of a head from now on.
        activity.set(Waiting::Head, tokamak_cost::coarse());
        let this = self.clone();
        self.watch(Watched::Handshake(activity), |open| async move {
            let Some(tls) = &this.context.tls else { return };
            let Some(quic) = &tls.quic else { return };
            // Boxed, because what follows needs less, and may take much longer.
            let made = Box::pin(quic.handshake(incoming, &tls.counters)).await;
            drop(handshake);
            let (connection, session) = match made {
                Ok(made) => made,
                Err(error) => {
                    if let Some(error) = error {
                        log::no_handshake(&addresses.peer, &error.to_string());
                    }
                    return;
                }
            };
            let state = Arc::new(ConnState::new(Arc::new(addresses.secured(session))));
            this.connections().replace(open.position, Watched::Multiplexed(state.clone()));
            h3::serve_connection(this.context.clone(), connection, state).await;
            drop(open);
        });
        counters.iter().for_each(|counters| counters.accepted.add(1));
    }
}
