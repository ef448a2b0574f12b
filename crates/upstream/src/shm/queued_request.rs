use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokamak_cost::Ledger;
use tokamak_sys::queue::{Frame, HeadFrame, Outcome, Usage, split_frame, split_headers};
use tokio::task::{JoinHandle, spawn_blocking};

use super::error::WorkerError;
use super::queue_client::QueueClient;
use super::requests::Ended;

/// Most bytes of trailer fields that a worker may send. The worker's side keeps to the same limit,
/// so only one that is spoiled exceeds it.
pub const TRAILERS_MOST: usize = 8192;

/// Longest body of a HEAD that workers pass on as a whole, for the fields that depend on it. They
/// pass on one more byte of longer ones, whose length stays unknown. Ten times more would not fit
/// the ring for the response, which would begin before its end is known; with a tenth, ordinary
/// pages would not get a length.
pub const HEAD_BODY_MOST: usize = 64 * 1024;

/// A request that has been queued, and its response. Dropping it withdraws the request, or tells
/// the worker that the rest of the response is not wanted.
pub struct QueuedRequest {
    client: Arc<QueueClient>,
    key: usize,
    /// Whole frames that were taken out of the queue client and not looked at yet.
    frames: Bytes,
    /// The lines of trailer fields that have come so far.
    trailers: Vec<u8>,
    ended: Option<Ended>,
    /// Whether the request's body is in a file.
    has_file: bool,
    /// The next bytes of that body, on their way from the file.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    /// The next frames of the response, on their way from its file.
    fetching: Option<JoinHandle<io::Result<Bytes>>>,
}

/// A piece of a response.
#[derive(Debug)]
pub enum Event {
    /// An interim response (103).
    Interim(ResponseHead),
    /// Status and headers; at most one is sound.
    Head(ResponseHead),
    /// A part of the body.
    Body(Bytes),
    /// Bytes for the error log of the web server that sent the request. Only over FastCGI.
    Stderr(Bytes),
    /// What the request was and what it cost. Only over FastCGI, at most one is sound.
    Usage(UsageFrame),
    /// The end.
    End(Outcome),
}

/// Status and headers of a response, as the worker wrote them.
#[derive(Debug)]
pub struct ResponseHead {
    status: u16,
    headers: Bytes,
}

impl ResponseHead {
    /// A head in a part of these frames.
    fn of(head: HeadFrame<'_>, frames: &Bytes) -> ResponseHead {
        ResponseHead { status: head.status, headers: frames.slice_ref(head.bytes) }
    }

    /// The status; any number.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Names and values in order. Their bytes are unchecked.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        split_headers(&self.headers)
    }
}

/// What a worker says about its request, as it wrote it.
#[derive(Debug)]
pub struct UsageFrame {
    frame: Bytes,
}

impl UsageFrame {
    /// What it says. Its numbers and bytes are unchecked.
    pub fn usage(&self) -> Usage<'_> {
        match split_frame(&self.frame) {
            Ok((Frame::Usage(usage), _)) => usage,
            _ => unreachable!("the frame was a usage record when it was kept"),
        }
    }
}

impl QueuedRequest {
    pub(super) fn new(client: Arc<QueueClient>, key: usize, has_file: bool) -> QueuedRequest {
        QueuedRequest {
            client,
            key,
            frames: Bytes::new(),
            trailers: Vec::new(),
            ended: None,
            has_file,
            reading: None,
            fetching: None,
        }
    }

    /// The next piece of the response.
    ///
    /// # Errors
    /// [`WorkerError`]; nothing follows it.
    pub fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, WorkerError>> {
        loop {
            if self.frames.is_empty() {
                if let Some(ended) = self.ended {
                    return Poll::Ready(Ok(Event::End(ended.outcome)));
                }
                // It brings frames or the end.
                ready!(self.poll_frames(context))?;
                continue;
            }
            let frames = &self.frames;
            let (frame, rest) = split_frame(frames).map_err(|_| WorkerError::Malformed)?;
            let len = frames.len() - rest.len();
            let event = match frame {
                Frame::Body(bytes) => Some(Event::Body(frames.slice_ref(bytes))),
                Frame::Head(head) => Some(Event::Head(ResponseHead::of(head, frames))),
                Frame::Interim(head) => Some(Event::Interim(ResponseHead::of(head, frames))),
                Frame::Stderr(bytes) => Some(Event::Stderr(frames.slice_ref(bytes))),
                Frame::Usage(_) => Some(Event::Usage(UsageFrame { frame: frames.slice(..len) })),
                Frame::Trailers(lines) if self.trailers.len() + lines.len() > TRAILERS_MOST => {
                    return Poll::Ready(Err(WorkerError::Malformed));
                }
                Frame::Trailers(lines) => {
                    self.trailers.extend_from_slice(lines);
                    None
                }
            };
            self.frames.advance(len);
            if let Some(event) = event {
                return Poll::Ready(Ok(event));
            }
        }
    }

    /// Takes the fields that follow the body, as lines `name: value CR LF` whose bytes are
    /// unchecked. All are there when the end has come.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    /// If the worker has ended the response, and nothing follows its body: all that is left of the
    /// body, in one piece, and how it ended. `None` also if the frames are damaged: the caller then
    /// polls for the next event, and gets the error from there.
    pub fn whole(&self) -> Option<(Bytes, Outcome)> {
        let outcome = self.ended?.outcome;
        if !self.trailers.is_empty() {
            return None;
        }
        let (mut one, mut many): (&[u8], _) = (b"", Vec::new());
        let mut rest = &self.frames[..];
        while !rest.is_empty() {
            let (frame, tail) = split_frame(rest).ok()?;
            match frame {
                Frame::Body(bytes) if one.is_empty() => one = bytes,
                Frame::Body(bytes) => {
                    if many.is_empty() {
                        many.reserve(self.frames.len());
                        many.extend_from_slice(one);
                    }
                    many.extend_from_slice(bytes);
                }
                Frame::Trailers(_) => return None,
                _ => {}
            }
            rest = tail;
        }
        let body = if many.is_empty() { self.frames.slice_ref(one) } else { many.into() };
        Some((body, outcome))
    }

    /// The process id of the worker that took the request, as it says itself; nothing if it is
    /// unknown.
    pub fn worker(&self) -> Option<u32> {
        self.client.lock().worker(self.key)
    }

    /// Books the worker's phases, once the end has been seen.
    pub fn stamp(&self, ledger: &mut Ledger) {
        if let Some(ended) = &self.ended {
            ended.stamp(ledger);
        }
    }

    /// Gives the worker what it has room for of a body that is in a file. A thread for such work
    /// reads the file, since the disk may be slow.
    fn feed(&mut self, context: &mut Context<'_>) {
        loop {
            let reading = match &mut self.reading {
                Some(reading) => reading,
                None => {
                    let mut requests = self.client.lock();
                    let state = requests.state(self.key);
                    let Some(read) = state.wants_body.then(|| state.body.read()).flatten() else {
                        return;
                    };
                    self.reading.insert(spawn_blocking(read))
                }
            };
            let Poll::Ready(read) = Pin::new(reading).poll(context) else { return };
            self.reading = None;
            let mut requests = self.client.lock();
            match read {
                Ok(Ok(bytes)) => requests.feed(self.key, &bytes),
                Ok(Err(_)) | Err(_) => requests.lose_body(self.key),
            }
        }
    }

    /// Waits for frames that are read from the file of the response.
    fn poll_fetched(&mut self, context: &mut Context<'_>) -> Poll<Result<(), WorkerError>> {
        let Some(fetching) = &mut self.fetching else { return Poll::Pending };
        let fetched = ready!(Pin::new(fetching).poll(context));
        self.fetching = None;
        let Ok(Ok(frames)) = fetched else { return Poll::Ready(Err(WorkerError::Spool)) };
        self.frames = frames;
        let mut requests = self.client.lock();
        if let Some(spooled) = &mut requests.state(self.key).spooled {
            spooled.took();
        }
        requests.forget_empty_file(self.key);
        Poll::Ready(Ok(()))
    }

    fn poll_frames(&mut self, context: &mut Context<'_>) -> Poll<Result<(), WorkerError>> {
        if self.has_file {
            self.feed(context);
        }
        if self.fetching.is_some() {
            return self.poll_fetched(context);
        }
        let mut requests = self.client.lock();
        let state = requests.state(self.key);
        if let Some(spooled) = &state.spooled {
            if let Some(read) = spooled.read() {
                self.fetching = Some(spawn_blocking(|| read.run()));
                drop(requests);
                return self.poll_fetched(context);
            }
            // The first frames are just being written.
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        if !state.inbox.is_empty() {
            self.frames = std::mem::take(&mut state.inbox).into();
            self.ended = state.ended;
            state.taken = state.taken.wrapping_add(1);
            requests.resume(self.key);
            self.client.watch(&mut requests);
            return Poll::Ready(Ok(()));
        }
        if let Some(fault) = state.fault {
            return Poll::Ready(Err(fault));
        }
        if let Some(ended) = state.ended {
            self.ended = Some(ended);
            return Poll::Ready(Ok(()));
        }
        match &state.waker {
            Some(waker) if waker.will_wake(context.waker()) => {}
            _ => state.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        self.client.lock().abandon(self.key);
    }
}
