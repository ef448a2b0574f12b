//! The shared connections to an address, if its application takes several requests on one.
//!
//! Whether it does it is asked once (FCGI_GET_VALUES, §4.1), on a connection of its own: before any
//! request, or beside them when the application has kept a connection. No answer in time, or
//! another than "yes", means no.
//!
//! A request that may not be repeated gets a connection of its own that is closed behind it, since
//! a shared one may be closed by the application at any moment. If there are as many as there may
//! be, it shares one on which the application has just shown that it reads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokamak_fastcgi::{Message, Messages, Values, ValuesQuery, encode};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::connection_set::{ASKING, ConnectionSet};
use super::connector::Connector;
use super::mux_connection::{EACH, MuxConnection};
use super::mux_stream::MuxStream;
use super::pool::{ExclusiveCount, Permit};
use super::request::Call;
use super::settings::{Bounds, Multiplex};

/// The shared connections to an address.
#[derive(Debug)]
pub(super) struct MuxConnections {
    connector: Connector,
    bounds: Bounds,
    set: ConnectionSet<MuxConnection>,
    /// What the application takes; nothing if one request a connection.
    capacity: OnceCell<Option<Capacity>>,
    /// Requests share connections.
    is_shared: AtomicBool,
    /// It is being asked beside requests, or need not be asked any more.
    is_asked: AtomicBool,
    /// The address is left, or none of its connections is kept any more.
    is_retired: AtomicBool,
}

/// What an application takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub requests: usize,
    pub connections: usize,
}

impl MuxConnections {
    pub fn new(connector: Connector, bounds: Bounds) -> MuxConnections {
        MuxConnections {
            connector,
            bounds,
            set: ConnectionSet::default(),
            capacity: OnceCell::new(),
            is_shared: AtomicBool::new(false),
            is_asked: AtomicBool::new(bounds.multiplex != Multiplex::WhenKept),
            is_retired: AtomicBool::new(false),
        }
    }

    /// The right to a connection for one request, if there may be one more, and another that is
    /// shared.
    pub fn place(&self) -> Option<ExclusiveCount> {
        self.set.place(self.most())
    }

    /// Whether requests share connections.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// They do from now on, or do not any more; whether that is news.
    pub fn set_shared(&self, is_shared: bool) -> bool {
        self.is_shared.swap(is_shared, Ordering::Relaxed) != is_shared
    }

    /// Whether the application is still to be asked beside requests.
    pub fn is_to_be_asked(&self) -> bool {
        !self.is_asked.load(Ordering::Relaxed)
    }

    /// Asks it beside requests, unless that is being done, and returns what it takes if it takes
    /// several.
    pub async fn ask_aside(&self) -> Option<Capacity> {
        if self.is_asked.swap(true, Ordering::Relaxed) {
            return None;
        }
        match self.capacity(|_| ()).await {
            Ok(capacity) => capacity.filter(|_| !self.is_retired.load(Ordering::Relaxed)),
            // It may be on its way to another process, and is asked again.
            Err(_) => {
                let is_retired = self.is_retired.load(Ordering::Relaxed);
                self.is_asked.store(is_retired, Ordering::Relaxed);
                None
            }
        }
    }

    /// Most connections.
    fn most(&self) -> usize {
        self.capacity.get().copied().flatten().map_or(1, |capacity| capacity.connections)
    }

    /// What the application takes. Calls `learned` the first time.
    ///
    /// # Errors
    /// Fails if the address cannot be reached.
    pub async fn capacity(
        &self,
        learned: impl FnOnce(Option<Capacity>),
    ) -> io::Result<Option<Capacity>> {
        let learn = || async {
            let values = ask(&self.connector).await?;
            let capacity = capacity(values, self.bounds);
            learned(capacity);
            Ok(capacity)
        };
        self.capacity.get_or_try_init(learn).await.copied()
    }

    /// Begins a request in the event loop of the permit, on a connection whose application has just
    /// shown that it reads if it is to be `proved`. `true`: the connection had a request before.
    ///
    /// # Errors
    /// Fails if the address cannot be reached.
    pub async fn begin(
        &self,
        mut permit: Permit,
        call: &Arc<Call>,
        proved: bool,
    ) -> io::Result<(MuxStream, bool)> {
        let (loop_index, most) = (permit.loop_index(), self.most());
        loop {
            let connection = match self.set.choose(loop_index, most) {
                Some(connection) if proved && !connection.prove().await => continue,
                Some(connection) => connection,
                None => {
                    let connect = async {
                        let stream = self.connector.connect().await?;
                        Ok(MuxConnection::start(stream, loop_index, self.bounds))
                    };
                    self.set.open_one(loop_index, most, connect).await?
                }
            };
            match connection.begin(call.clone(), permit) {
                Ok((id, was_used)) => {
                    return Ok((MuxStream::new(connection, id, self.bounds), was_used));
                }
                // It was closed this very moment.
                Err(unused) => permit = unused,
            }
        }
    }

    /// Looks after those of an event loop.
    pub fn tick(&self, loop_index: usize) {
        self.set.tick(loop_index);
    }

    /// They take no more requests, and the application is not asked any more.
    pub fn retire(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.is_retired.store(true, Ordering::Relaxed);
        self.set.retire();
    }
}

/// What the application says of itself; nothing if it says nothing of use.
async fn ask(connector: &Connector) -> io::Result<Values> {
    let mut stream = connector.connect().await?;
    let mut question = Vec::new();
    encode::probe_values(&mut question, ValuesQuery::ALL);
    let asking = async {
        let mut question = &question[..];
        while !question.is_empty() {
            let n = std::future::poll_fn(|context| stream.poll_write(context, question)).await?;
            question = &question[n..];
        }
        let mut messages = Messages::new();
        loop {
            let bytes = std::future::poll_fn(|context| stream.poll_read(context, false)).await?;
            match messages.next(&mut &bytes[..]) {
                Ok(Some(Message::Values(values))) => return Ok(values),
                Ok(None) if !bytes.is_empty() => {}
                _ => return Err(io::Error::from(io::ErrorKind::InvalidData)),
            }
        }
    };
    Ok(timeout(ASKING, asking).await.ok().and_then(Result::ok).unwrap_or_default())
}

fn capacity(values: Values, bounds: Bounds) -> Option<Capacity> {
    let said = |value: Option<u32>| value.map_or(usize::MAX, |value| value as usize);
    let connections = bounds.connections.min(said(values.max_conns)).max(1);
    let requests = said(values.max_reqs).min(connections * EACH);
    (values.mpxs_conns == Some(true) && requests > 1).then_some(Capacity { requests, connections })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_said_bounds_what_is_configured() {
        let second = Duration::from_secs(1);
        let bounds = Bounds {
            connections: 4,
            multiplex: Multiplex::First,
            http2: None,
            requests: 0,
            idle: second,
            reuse_for_all: false,
            queue: 1,
            queue_timeout: second,
            connect_timeout: second,
            send_timeout: second,
            first_byte_timeout: second,
            read_timeout: second,
        };
        let values = |max_conns, max_reqs, mpxs_conns| Values { max_conns, max_reqs, mpxs_conns };
        for (values, expected) in [
            (values(None, None, None), None),
            (values(Some(9), Some(9), Some(false)), None),
            (values(None, Some(1), Some(true)), None),
            (values(None, Some(0), Some(true)), None),
            (values(None, None, Some(true)), Some((4 * EACH, 4))),
            (values(Some(1), Some(9), Some(true)), Some((9, 1))),
            (values(Some(0), Some(1000), Some(true)), Some((EACH, 1))),
            (values(Some(99), Some(u32::MAX), Some(true)), Some((4 * EACH, 4))),
        ] {
            let expected =
                expected.map(|(requests, connections)| Capacity { requests, connections });
            assert_eq!(capacity(values, bounds), expected, "{values:?}");
        }
    }
}
