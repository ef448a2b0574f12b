//! The shared connections to an address, if its application takes several requests on one.
//!
//! Whether it does it is asked once (FCGI_GET_VALUES, §4.1), on the first connection and before any
//! request. No answer in time, or another than "yes", means no.
//!
//! A request that may not be repeated gets a connection of its own that is closed behind it, since
//! a shared one may be closed by the application at any moment. If there are as many as there may
//! be, it shares one on which the application has just shown that it reads.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokamak_fastcgi::{Message, Messages, Values, ValuesQuery, encode};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use super::connector::Connector;
use super::mux_connection::{ASKING, MuxConnection};
use super::mux_stream::MuxStream;
use super::pool::{ExclusiveCount, Permit};
use super::request::Call;
use super::settings::Bounds;

/// Requests that a connection has before another one is opened. With a tenth, sharing would hardly
/// save connections; with ten times more, one lost connection would lose hundreds of requests, and
/// a single process of the application would have to read them all.
const EACH: usize = 32;

/// The shared connections to an address.
#[derive(Debug)]
pub(super) struct MuxConnections {
    connector: Connector,
    bounds: Bounds,
    open: Mutex<Vec<Arc<MuxConnection>>>,
    /// Held while a connection is opened; when and why that failed the last time.
    opening: tokio::sync::Mutex<Option<(Instant, io::ErrorKind)>>,
    /// What the application takes; nothing if one request a connection.
    capacity: OnceCell<Option<Capacity>>,
    /// Connections that are not shared.
    apart: Arc<AtomicUsize>,
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
            open: Mutex::default(),
            opening: Default::default(),
            capacity: OnceCell::new(),
            apart: Arc::default(),
        }
    }

    /// The right to a connection for one request, if there may be one more, and another that is
    /// shared.
    pub fn place(&self) -> Option<ExclusiveCount> {
        let open = self.open();
        let shared = open.iter().filter(|connection| connection.load().is_some()).count();
        let taken = shared.max(1) + self.apart.load(Ordering::Relaxed);
        (taken < self.most()).then(|| ExclusiveCount::taken(&self.apart))
    }

    /// Whether the application has said that requests may share its connections.
    pub fn is_shared(&self) -> bool {
        self.capacity.get().is_some_and(Option::is_some)
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
        let loop_index = permit.loop_index();
        loop {
            let connection = match self.choose(loop_index) {
                Some(connection) if proved && !connection.prove().await => continue,
                Some(connection) => connection,
                None => self.open_one(loop_index).await?,
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

    /// Opens a connection, unless another request does so meanwhile.
    async fn open_one(&self, loop_index: usize) -> io::Result<Arc<MuxConnection>> {
        let waiting = Instant::now();
        let mut failed = self.opening.lock().await;
        if let Some(connection) = self.choose(loop_index) {
            return Ok(connection);
        }
        // The requests that waited share the result; they need not all try.
        if let Some((when, why)) = *failed
            && when >= waiting
        {
            return Err(why.into());
        }
        match self.connector.connect().await {
            Ok(stream) => {
                let connection = MuxConnection::start(stream, loop_index, self.bounds);
                self.open().push(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.kind()));
                Err(error)
            }
        }
    }

    /// The connection for the next request in the event loop of this index; none if a new one
    /// should be opened. Those that take no more requests are not counted.
    fn choose(&self, loop_index: usize) -> Option<Arc<MuxConnection>> {
        let most = self.most();
        let mut open = self.open();
        open.retain(|connection| connection.load().is_some());
        let count = open.len() + self.apart.load(Ordering::Relaxed);
        let least = |is_own: bool| {
            let those =
                open.iter().filter(|connection| !is_own || connection.loop_index == loop_index);
            those
                .filter_map(|connection| Some((connection.load()?, connection)))
                .min_by_key(|(load, _)| *load)
        };
        match least(true) {
            Some((load, connection)) if load < EACH || count >= most => Some(connection.clone()),
            _ if count < most => None,
            _ => least(false).map(|(_, connection)| connection.clone()),
        }
    }

    /// Looks after those of an event loop.
    pub fn tick(&self, loop_index: usize) {
        let mut open = self.open();
        open.iter()
            .filter(|connection| connection.loop_index == loop_index)
            .for_each(|connection| connection.tick());
        open.retain(|connection| connection.load().is_some());
    }

    /// They take no more requests.
    pub fn retire(&self) {
        self.open().drain(..).for_each(|connection| connection.retire());
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<MuxConnection>>> {
        // A panic elsewhere cannot leave it half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
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
            multiplex: true,
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
