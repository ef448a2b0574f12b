//! Reads a request's body: the whole of it before an application gets the request, so that a slow
//! client does not occupy a worker, or piece by piece for an application that wants it so.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Empty};
use tokamak_config as config;
use tokamak_upstream::body::Body;
use tokamak_upstream::live::LiveSender;
use tokamak_upstream::unopened::{Explained, Unopened};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::backend;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::log;

/// Bytes a second that a client has to reach on average while it sends a body, as Apache's
/// `MinRate`. Ten times more would end uploads over the slowest networks; ten times less lets a
/// client hold a body open ten times as long for the same traffic.
const LEAST_RATE: u64 = 500;

/// A body may come at any pace for this many times its timeout.
const GRACE: u32 = 10;

/// The pace at which a body comes. Single bytes renew its timeout, but not for ever.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    began: u64,
    last: u64,
    received: u64,
}

impl Pace {
    /// The pace of a body that begins now. `now` is in nanoseconds.
    pub fn new(now: u64) -> Pace {
        Pace { began: now, last: now, received: 0 }
    }

    /// Records that this many bytes have come.
    pub fn received(&mut self, bytes: usize, now: u64) {
        self.received += bytes as u64;
        self.last = now;
    }

    /// Records that the client was not asked for bytes for so many nanoseconds.
    pub fn paused(&mut self, nanoseconds: u64) {
        self.began += nanoseconds;
        self.last += nanoseconds;
    }

    /// The moment from which the timeout counts: when the last bytes came, or when they should have
    /// come.
    pub fn since(&self, limit: Duration) -> u64 {
        let grace = limit.saturating_mul(GRACE).as_nanos() as u64;
        let due = self.received.saturating_mul(1_000_000_000 / LEAST_RATE);
        self.last.min(self.began.saturating_add(grace).saturating_add(due))
    }
}

/// A body of any protocol that has not been read.
pub type Incoming = dyn http_body::Body<Data = Bytes, Error = Cut> + Send + Unpin;

/// No body, or one that has been taken. It needs no memory.
pub fn no_body() -> Box<Incoming> {
    Box::new(Empty::new().map_err(|never: Infallible| -> Cut { match never {} }))
}

/// Why the rest of a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The client has gone, or has broken a rule.
    Lost,
    /// It is longer than a body may be.
    TooLarge,
}

/// A body of which at most so many bytes are read.
pub struct Bounded<B> {
    body: B,
    left: u64,
}

impl<B> Bounded<B> {
    /// At most `most` bytes of this body.
    pub fn new(body: B, most: u64) -> Bounded<B> {
        Bounded { body, left: most }
    }
}

impl<B> http_body::Body for Bounded<B>
where
    B: http_body::Body<Data = Bytes, Error = Cut> + Unpin,
{
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            ended => return Poll::Ready(ended),
        };
        let length = frame.data_ref().map_or(0, Bytes::len) as u64;
        match self.left.checked_sub(length) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Some(Err(Cut::TooLarge))),
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads the whole body: into memory up to the configured limit, then into an unlinked file.
///
/// # Errors
/// Fails with the rule that the client has broken, if any, or else with the problem of the body.
pub async fn gather(
    config: &config::Server,
    caller: &Caller,
    body: &mut Incoming,
) -> Result<Body, Failure> {
    let all = read(config.limits.buffer, config.timeouts.body, body).await;
    all.map_err(|failure| caller.violation().unwrap_or(failure))
}

/// As [`gather`], of a body of at most so many bytes, which stay in memory.
///
/// # Errors
/// As [`gather`]; also if there are more bytes.
pub async fn gather_within(
    config: &config::Server,
    caller: &Caller,
    body: &mut Incoming,
    most: usize,
) -> Result<Body, Failure> {
    let mut body = Bounded::new(body, most as u64);
    let all = read(most, config.timeouts.body, &mut body).await;
    all.map_err(|failure| caller.violation().unwrap_or(failure))
}

async fn read<B>(buffer: usize, limit: Duration, body: &mut B) -> Result<Body, Failure>
where
    B: http_body::Body<Data = Bytes, Error = Cut> + Send + Unpin + ?Sized,
{
    let mut spool = Spool::new(buffer, body.size_hint().exact().unwrap_or(0));
    let mut pieces = Pieces::new(body, limit);
    while let Some(piece) = pieces.next().await? {
        spool.put(&piece)?;
    }
    Ok(spool.finish())
}

/// Sends a body on while it comes. Returns when all of it has come, or nobody reads it any more.
/// When the answer has begun (`answered`) the two talk: then the client may pause for as long as on
/// a WebSocket.
///
/// # Errors
/// As [`gather`].
pub async fn send_on(
    config: Arc<config::Server>,
    caller: Caller,
    mut body: Box<Incoming>,
    to: LiveSender,
    mut answered: oneshot::Receiver<()>,
) -> Result<(), Failure> {
    let sent = async {
        let mut pieces = Pieces::new(&mut *body, config.timeouts.body);
        let mut is_answered = false;
        loop {
            let piece = tokio::select! {
                piece = pieces.next() => piece?,
                () = to.closed() => return Ok(()),
                told = &mut answered, if !is_answered => {
                    is_answered = true;
                    if told.is_ok() {
                        pieces.limit = config.timeouts.tunnel;
                        pieces.is_paced = false;
                    }
                    continue;
                }
            };
            let Some(piece) = piece else { break };
            let since = tokamak_cost::now();
            if !to.put(piece).await {
                return Ok(());
            }
            pieces.pace.paused(tokamak_cost::now().saturating_sub(since));
        }
        to.end(backend::request_trailers(&pieces.trailers)).await;
        Ok(())
    };
    sent.await.map_err(|failure| caller.violation().unwrap_or(failure))
}

/// The pieces of a body, which has to come at a certain pace.
struct Pieces<'a, B: ?Sized> {
    body: &'a mut B,
    limit: Duration,
    pace: Pace,
    /// Whether single bytes renew its timeout for a while only.
    is_paced: bool,
    /// The fields that follow the body, once it has ended.
    trailers: HeaderMap,
}

impl<'a, B> Pieces<'a, B>
where
    B: http_body::Body<Data = Bytes, Error = Cut> + Send + Unpin + ?Sized,
{
    fn new(body: &'a mut B, limit: Duration) -> Pieces<'a, B> {
        let pace = Pace::new(tokamak_cost::now());
        Pieces { body, limit, pace, is_paced: true, trailers: HeaderMap::new() }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let Pieces { body, limit, pace, is_paced, trailers } = self;
        loop {
            let since = if *is_paced { pace.since(*limit) } else { pace.last };
            let passed = tokamak_cost::now().saturating_sub(since);
            let left = limit.saturating_sub(Duration::from_nanos(passed));
            let frame = match timeout(left, body.frame()).await {
                Err(_) => return Err(Failure::BodySlow),
                Ok(None) => return Ok(None),
                Ok(Some(Err(Cut::TooLarge))) => return Err(Failure::BodyTooLarge),
                Ok(Some(Err(Cut::Lost))) => return Err(Failure::BadRequest),
                Ok(Some(Ok(frame))) => frame,
            };
            let now = tokamak_cost::now();
            match frame.into_data() {
                Ok(data) => {
                    pace.received(data.len(), now);
                    return Ok(Some(data));
                }
                Err(frame) => *trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
    }
}

/// The failure of a request whose body cannot go to a file. Its reason goes into the log.
fn unspooled(error: &io::Error) -> Failure {
    let folder = tempfile::env::temp_dir();
    let reason = Explained(error);
    log::server(&format!("a request's body cannot be written in {}: {reason}", folder.display()));
    match Unopened::of(error) {
        Unopened::Exhausted => Failure::FileUnavailable,
        Unopened::Missing | Unopened::Denied | Unopened::Broken => Failure::Internal,
    }
}

/// A body that is coming: in memory up to a limit, then in an unlinked file.
pub struct Spool {
    buffer: usize,
    memory: BytesMut,
    file: Option<File>,
    len: u64,
}

impl Spool {
    /// Makes a spool with at most `buffer` bytes in memory, for a body of probably `expected`
    /// bytes.
    pub fn new(buffer: usize, expected: u64) -> Spool {
        let memory = BytesMut::with_capacity(expected.min(buffer as u64) as usize);
        Spool { buffer, memory, file: None, len: 0 }
    }

    /// Length of the body so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// Fails if the file cannot be created or written.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.len += bytes.len() as u64;
        if self.file.is_none() && self.memory.len() + bytes.len() > self.buffer {
            let mut file = tempfile::tempfile().map_err(|error| unspooled(&error))?;
            file.write_all(&self.memory).map_err(|error| unspooled(&error))?;
            self.memory = BytesMut::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|error| unspooled(&error))?,
            None => self.memory.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// The whole body.
    pub fn finish(self) -> Body {
        match self.file {
            Some(file) => Body::spooled(file, self.len),
            None if self.memory.is_empty() => Body::Empty,
            None => Body::Memory(self.memory.freeze()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_body_has_to_come_at_a_certain_pace() {
        let since = |pace: &Pace| pace.since(Duration::from_secs(1));
        let mut pace = Pace::new(100 * SECOND);
        assert_eq!(since(&pace), 100 * SECOND);
        for second in 101..200 {
            pace.received(1, second * SECOND);
            if second <= 110 {
                assert_eq!(since(&pace), second * SECOND, "at first each byte renews it");
            }
        }
        assert!(since(&pace) < 111 * SECOND, "not without end");
        pace.received(1 << 20, 200 * SECOND);
        assert_eq!(since(&pace), 200 * SECOND, "what comes quickly does");
        pace.received(usize::MAX >> 1, 201 * SECOND);
        assert_eq!(since(&pace), 201 * SECOND);
        pace.paused(7 * SECOND);
        assert_eq!(since(&pace), 208 * SECOND, "the time of others is not the client's");
    }
}
