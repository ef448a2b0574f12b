//! The UDP port as the QUIC library of one event loop sees it: what others read for it comes, too,
//! and what it reads for others goes there.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;
use tokio::time::{Sleep, sleep};

use crate::exchange::{Exchange, Inbox};
use crate::id::Route;
use crate::packet::Packet;

/// How long a connection waits when the system takes no packet: so long as a network of a gigabit
/// takes for what the system holds of a socket.
const PAUSE: Duration = Duration::from_millis(1);

/// The port in one event loop.
pub struct RoutedSocket {
    /// Not watched: else each packet would wake each event loop.
    writer: UdpSocket,
    /// Reads, while this event loop takes new connections.
    reader: Mutex<Option<tokio::net::UdpSocket>>,
    state: UdpSocketState,
    local: SocketAddr,
    own: Route,
    exchange: Arc<Exchange>,
    inbox: Mutex<Inbox>,
    /// The task of the library that reads.
    task: Mutex<Option<Waker>>,
}

impl RoutedSocket {
    /// The socket in the event loop with this index, which runs on this thread. It does not read
    /// yet.
    ///
    /// # Errors
    /// Fails if the event loop cannot watch it, or the system lacks what QUIC needs.
    pub fn new(
        socket: UdpSocket,
        event_loop: u8,
        exchange: Arc<Exchange>,
        inbox: Inbox,
    ) -> io::Result<Arc<RoutedSocket>> {
        socket.set_nonblocking(true)?;
        let own = Route { front: exchange.front(), event_loop };
        Ok(Arc::new(RoutedSocket {
            state: UdpSocketState::new((&socket).into())?,
            local: socket.local_addr()?,
            writer: socket,
            reader: Mutex::new(None),
            own,
            exchange,
            inbox: Mutex::new(inbox),
            task: Mutex::new(None),
        }))
    }

    /// Reads the port from now on, or does so no more. What others hand over comes in any case.
    ///
    /// # Errors
    /// Fails if the event loop cannot watch the socket.
    pub fn set_reading(&self, reads: bool) -> io::Result<()> {
        let mut reader = lock(&self.reader);
        if reads == reader.is_some() {
            return Ok(());
        }
        *reader = match reads {
            true => Some(tokio::net::UdpSocket::from_std(self.writer.try_clone()?)?),
            false => None,
        };
        if let Some(task) = lock(&self.task).take() {
            task.wake();
        }
        Ok(())
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// Which event loop this is, and who else there is.
    pub(crate) fn place(&self) -> (Route, &Arc<Exchange>) {
        (self.own, &self.exchange)
    }

    /// Hands over what is for others. What stays is moved together.
    fn sort(&self, buffer: &mut [u8], meta: &mut RecvMeta) {
        let stride = meta.stride.max(1);
        let mut kept = 0;
        let mut at = 0;
        while at < meta.len {
            let end = meta.len.min(at + stride);
            let route = self.exchange.route(&buffer[at..end]);
            let packet = || Packet::new(&buffer[at..end], meta, self.local);
            let is_given = route != self.own
                && self.exchange.knows(route)
                && self.exchange.give(route, packet());
            // What nobody else gets is answered here: the connection is gone.
            if !is_given {
                buffer.copy_within(at..end, kept);
                kept += end - at;
            }
            at = end;
        }
        meta.len = kept;
    }
}

impl fmt::Debug for RoutedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutedSocket").field("local", &self.local).finish_non_exhaustive()
    }
}

impl AsyncUdpSocket for RoutedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable::default())
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.state.send((&self.writer).into(), transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut inbox = lock(&self.inbox);
        let mut count = 0;
        while count < bufs.len().min(meta.len())
            && let Poll::Ready(Some(packet)) = inbox.poll_recv(cx)
        {
            // The library's buffers hold the longest datagrams; a longer one cannot have come.
            if let Some(room) = bufs[count].get_mut(..packet.bytes.len()) {
                room.copy_from_slice(&packet.bytes);
                meta[count] = packet.meta();
                count += 1;
            }
        }
        drop(inbox);
        if count > 0 {
            return Poll::Ready(Ok(count));
        }
        let reader = lock(&self.reader);
        let Some(reader) = &*reader else {
            *lock(&self.task) = Some(cx.waker().clone());
            return Poll::Pending;
        };
        loop {
            ready!(reader.poll_recv_ready(cx))?;
            let receive = || self.state.recv(reader.into(), &mut *bufs, &mut *meta);
            let count = match reader.try_io(Interest::READABLE, receive) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                received => received?,
            };
            if !self.exchange.is_alone() {
                for (buffer, meta) in bufs.iter_mut().zip(meta.iter_mut()).take(count) {
                    self.sort(buffer, meta);
                }
            }
            return Poll::Ready(Ok(count));
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// Waits until the port takes another packet.
#[derive(Debug, Default)]
struct Writable(Option<Pin<Box<Sleep>>>);

impl UdpPoller for Writable {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let pause = self.0.get_or_insert_with(|| Box::pin(sleep(PAUSE)));
        ready!(pause.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks cannot leave half a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
