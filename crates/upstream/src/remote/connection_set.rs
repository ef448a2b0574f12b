//! The shared connections to an address, whatever several requests share them by: which one is for
//! the next request, and when another one is opened.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::pool::ExclusiveCount;

/// A connection that several requests share.
pub(super) trait SharedConnection {
    /// The event loop in which its task runs.
    fn loop_index(&self) -> usize;

    /// Requests that it has, if it takes more.
    fn load(&self) -> Option<usize>;

    /// Requests that it has before another one is opened.
    fn most(&self) -> usize;

    /// Looks after it at an interval.
    fn tick(&self);

    /// No more requests; it is closed behind the last one.
    fn retire(&self);
}

/// How long an application may take to say what it can, or that it is there. One that knows the
/// question answers within milliseconds. One that does not may stay silent, and the first request
/// waits for this long: ten times more would be felt.
pub(super) const ASKING: Duration = Duration::from_secs(1);

/// Who wants to know whether the application reads what is sent on a connection.
#[derive(Debug, Default)]
pub(super) struct Doubters {
    /// Before the next question.
    waiting: Vec<oneshot::Sender<()>>,
    /// Since the last one, which is not answered yet.
    asking: Vec<oneshot::Sender<()>>,
}

/// The answer for one of them.
#[derive(Debug)]
pub(super) struct Proof(oneshot::Receiver<()>);

impl Doubters {
    /// One more.
    pub fn add(&mut self) -> Proof {
        let (sender, answered) = oneshot::channel();
        self.waiting.push(sender);
        Proof(answered)
    }

    /// Whether a question is to be sent now; not while one is under way.
    pub fn ask(&mut self) -> bool {
        let asks = self.asking.is_empty() && !self.waiting.is_empty();
        if asks {
            self.asking = std::mem::take(&mut self.waiting);
        }
        asks
    }

    /// The application has answered. Returns whether others wait for the next question.
    pub fn answered(&mut self) -> bool {
        for doubter in self.asking.drain(..) {
            // One that has gone meanwhile does not matter.
            let _ = doubter.send(());
        }
        !self.waiting.is_empty()
    }

    /// The connection is lost.
    pub fn clear(&mut self) {
        *self = Doubters::default();
    }
}

impl Proof {
    /// Whether it comes in time.
    pub async fn comes(self) -> bool {
        matches!(timeout(ASKING, self.0).await, Ok(Ok(())))
    }
}

/// Those to one address.
#[derive(Debug)]
pub(super) struct ConnectionSet<C> {
    open: Mutex<Vec<Arc<C>>>,
    /// Held while a connection is opened; when and why that failed the last time.
    opening: tokio::sync::Mutex<Option<(Instant, io::ErrorKind)>>,
    /// Connections that are not shared.
    apart: Arc<AtomicUsize>,
}

impl<C> Default for ConnectionSet<C> {
    fn default() -> ConnectionSet<C> {
        ConnectionSet { open: Mutex::default(), opening: Default::default(), apart: Arc::default() }
    }
}

impl<C: SharedConnection> ConnectionSet<C> {
    /// The right to a connection for one request, if there may be so many, and another that is
    /// shared.
    pub fn place(&self, most: usize) -> Option<ExclusiveCount> {
        let open = self.open();
        let shared = open.iter().filter(|connection| connection.load().is_some()).count();
        let taken = shared.max(1) + self.apart.load(Ordering::Relaxed);
        (taken < most).then(|| ExclusiveCount::taken(&self.apart))
    }

    /// The connection for the next request in the event loop of this index; none if a new one
    /// should be opened, of which there may be so many. Those that take no more requests are not
    /// counted.
    pub fn choose(&self, loop_index: usize, most: usize) -> Option<Arc<C>> {
        let mut open = self.open();
        open.retain(|connection| connection.load().is_some());
        let count = open.len() + self.apart.load(Ordering::Relaxed);
        let least = |is_own: bool| {
            let those =
                open.iter().filter(|connection| !is_own || connection.loop_index() == loop_index);
            those
                .filter_map(|connection| Some((connection.load()?, connection)))
                .min_by_key(|(load, _)| *load)
        };
        match least(true) {
            Some((load, connection)) if load < connection.most() || count >= most => {
                Some(connection.clone())
            }
            _ if count < most => None,
            _ => least(false).map(|(_, connection)| connection.clone()),
        }
    }

    /// Opens a connection, unless another request does so meanwhile.
    ///
    /// # Errors
    /// Fails if `connect` does.
    pub async fn open_one(
        &self,
        loop_index: usize,
        most: usize,
        connect: impl Future<Output = io::Result<Arc<C>>>,
    ) -> io::Result<Arc<C>> {
        let waiting = Instant::now();
        let mut failed = self.opening.lock().await;
        if let Some(connection) = self.choose(loop_index, most) {
            return Ok(connection);
        }
        // The requests that waited share the result; they need not all try.
        if let Some((when, why)) = *failed
            && when >= waiting
        {
            return Err(why.into());
        }
        match connect.await {
            Ok(connection) => {
                self.open().push(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.kind()));
                Err(error)
            }
        }
    }

    /// Looks after those of an event loop.
    pub fn tick(&self, loop_index: usize) {
        let mut open = self.open();
        open.iter()
            .filter(|connection| connection.loop_index() == loop_index)
            .for_each(|connection| connection.tick());
        open.retain(|connection| connection.load().is_some());
    }

    /// They take no more requests.
    pub fn retire(&self) {
        self.open().drain(..).for_each(|connection| connection.retire());
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<C>>> {
        // A panic elsewhere cannot leave it half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
