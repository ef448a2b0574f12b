//! A connection that several requests share as streams.
//!
//! A task has the socket. It gives the session what comes, tells the requests what of it is
//! theirs, and writes what the session has to say. A request:
//!
//! ```text
//! begin ──► waits until the application takes one more ──► begun ──► ended or cancelled ──► gone
//!              └──► gone: the application has never heard of it
//! ```
//!
//! Each of them holds a permit until nobody waits for its response.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokamak_nghttp2::{Event, Field, Head, Limits, Reason, Session};
use tokio::time::Instant;

use crate::remote::connection_set::{Doubters, SharedConnection};
use crate::remote::error::UpstreamError;
use crate::remote::pool::Permit;
use crate::remote::request::Call;
use crate::remote::settings::{Bounds, Http2Bounds};
use crate::remote::stream::Stream;

/// Requests that a connection has before another one is opened, if the application takes so many:
/// the least that HTTP/2 recommends (RFC 9113 section 6.5.2). With a tenth, sharing would hardly
/// save connections; with ten times more, one lost connection would lose a thousand requests.
pub(in crate::remote) const EACH: usize = 100;

/// How much is written at once, if there is so much.
const PIECE: usize = 32 * 1024;

/// Bytes of a response that come before they are taken. With a tenth, an application at some
/// distance would wait for windows; ten times more would be a megabyte for each slow client.
const WINDOW: u32 = 128 * 1024;

/// The same on their way, for all responses of a connection: what has come counts for its own
/// response alone.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Bytes of the fields behind a response. gRPC allows half of that by default. A tenth could refuse
/// honest messages of errors; ten times more would only be memory for a hostile application.
const TRAILERS: u32 = 16 * 1024;

/// Frames that a head may be continued in, beside those that one of the largest size fills.
const SHORT_FRAMES: usize = 5;

/// Bytes of a head in one frame.
const FRAME: usize = 16 * 1024;

/// Responses of a connection that may be wrong. One in a thousand is a fault of one page; with ten
/// times more, an application that is broken is asked for longer.
const ERRORS: u32 = 100;

/// Frames of no request between two looks after the connection (a second), beside ten for each
/// frame of one. A keep-alive sends one in some seconds; ten times more would be work for nothing.
const CONTROL: u32 = 1000;

/// Interim heads of a response that are held for a client that does not take them; more are left
/// out, since they are only hints.
const INTERIMS: usize = 8;

/// Interim heads of one response. Applications send one or two; a tenth could refuse an honest one
/// that tells of its progress, and without a bound a request would last for ever.
const MOST_INTERIMS: u32 = 100;

/// After the application has been heard, its connection counts as open for so long. With a tenth,
/// most requests that may not be repeated would wait for the answer to a question first; ten times
/// more would lose more of them to connections that have just been closed.
const FRESH: Duration = Duration::from_secs(1);

/// A shared connection.
#[derive(Debug)]
pub(in crate::remote) struct Http2Connection {
    /// The event loop in which its task runs.
    loop_index: usize,
    bounds: Bounds,
    state: Mutex<State>,
}

/// What the task and the requests share.
pub(super) struct State {
    pub session: Session<Kept>,
    /// Why nothing more comes, once the connection is lost.
    pub death: Option<Death>,
    /// When something has come last.
    pub heard: Instant,
    /// Requests that it still takes.
    left: u64,
    /// Whether it had a request.
    was_used: bool,
    doubters: Doubters,
    /// Since when it has had no new request.
    idle_since: Instant,
    task: Option<Waker>,
}

/// What is kept with each request.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Heads that have come and were not taken.
    pub heads: VecDeque<Head>,
    /// Interim heads so far.
    interims: u32,
    /// The application takes no more requests, and this one it has not heard of.
    pub is_refused: bool,
    /// Something of the response has come.
    pub answered: bool,
    /// When something was last written or read.
    pub moved: Option<Instant>,
    /// There is more of the request's body than may be sent.
    pub wants_room: bool,
    /// Waits for more of the response, or for room for the request's body.
    pub reader: Option<Waker>,
    permit: Option<Permit>,
}

/// Why a connection is lost.
#[derive(Clone, Debug)]
pub(super) enum Death {
    /// The application has closed it, or nobody needs it any more.
    Closed,
    /// What it sent is no HTTP/2, for this reason.
    Wrong(Box<str>),
}

impl Death {
    pub fn fault(&self, answered: bool) -> UpstreamError {
        match self {
            Death::Closed => UpstreamError::Closed { answered },
            Death::Wrong(why) => UpstreamError::NotHttp2(why.clone()),
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Http2Connection {
    /// Starts the task of a connection.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn start(
        stream: Stream,
        loop_index: usize,
        bounds: Bounds,
        limits: Http2Bounds,
    ) -> io::Result<Arc<Http2Connection>> {
        let Http2Bounds { largest_head } = limits;
        let session = Session::client(Limits {
            streams: 0,
            window: WINDOW,
            connection_window: CONNECTION_WINDOW,
            head: u32::try_from(largest_head).unwrap_or(u32::MAX),
            trailers: TRAILERS,
            continuations: largest_head / FRAME + SHORT_FRAMES,
            errors: ERRORS,
            control: CONTROL,
        });
        let state = State {
            session: session.map_err(|error| io::Error::other(error.to_string()))?,
            death: None,
            heard: Instant::now(),
            left: if bounds.requests == 0 { u64::MAX } else { bounds.requests },
            was_used: false,
            doubters: Doubters::default(),
            idle_since: Instant::now(),
            task: None,
        };
        let connection = Arc::new(Http2Connection { loop_index, bounds, state: Mutex::new(state) });
        let mut driver =
            Driver { connection: connection.clone(), stream, out: Vec::new(), at: 0, writes: true };
        tokio::spawn(async move {
            let death = poll_fn(|context| driver.poll(context)).await;
            driver.connection.end_all(death);
        });
        Ok(connection)
    }

    /// Begins a request, which is its stream; not if the connection takes no more. `true`: it had
    /// one before.
    pub fn begin(&self, call: &Call, permit: Permit) -> Result<(u32, bool), Permit> {
        let mut state = self.state();
        if !state.is_open() {
            return Err(permit);
        }
        let field = |(name, value)| Field { name, value, is_secret: is_secret(name) };
        let fields: Vec<Field<'_>> = call.fields().map(field).collect();
        let is_end = call.whole_body().is_none() && !call.is_live();
        let Some(id) = state.session.request(&fields, is_end) else {
            state.left = 0;
            return Err(permit);
        };
        if let Some(kept) = state.session.data(id) {
            kept.permit = Some(permit);
            kept.moved = Some(Instant::now());
        }
        state.left -= 1;
        state.idle_since = Instant::now();
        let was_used = std::mem::replace(&mut state.was_used, true);
        state.wake_task();
        Ok((id, was_used))
    }

    /// Whether the application reads what is sent on it: it was heard a moment ago, or answers a
    /// PING that is sent now. If it does not in time, the connection takes no more requests.
    pub async fn prove(&self) -> bool {
        let proof = {
            let mut state = self.state();
            if !state.is_open() {
                return false;
            }
            if state.heard.elapsed() < FRESH {
                return true;
            }
            let proof = state.doubters.add();
            state.ask();
            state.wake_task();
            proof
        };
        let is_proved = proof.comes().await;
        if !is_proved {
            self.retire();
        }
        is_proved
    }

    /// A request has waited in vain for so long. If the application was not heard at all meanwhile,
    /// it may be gone, and the connection gets no more requests. What has come just behind the
    /// request may be an answer to that, so half of the time counts.
    pub fn doubt(&self, waited: Duration) {
        let since = self.state().heard.elapsed();
        if since > waited / 2 {
            self.retire();
        }
    }

    /// Nobody waits for the response to this request any more.
    pub fn drop_request(&self, id: u32) {
        let mut state = self.state();
        // Dropped after the lock is released: it wakes another request.
        let permit = state.session.data(id).and_then(|kept| kept.permit.take());
        state.session.release(id);
        state.idle_since = Instant::now();
        state.wake_task();
        drop(state);
        drop(permit);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what the connection still had.
    fn end_all(&self, death: Death) {
        let mut state = self.state();
        state.death.get_or_insert(death);
        state.doubters.clear();
        let permits: Vec<Permit> = state.session.all_data().filter_map(Kept::end).collect();
        drop(state);
        drop(permits);
    }
}

impl SharedConnection for Http2Connection {
    fn loop_index(&self) -> usize {
        self.loop_index
    }

    fn load(&self) -> Option<usize> {
        let state = self.state();
        state.is_open().then(|| state.session.open() as usize)
    }

    fn most(&self) -> usize {
        EACH.min(self.state().session.most_requests() as usize)
    }

    fn tick(&self) {
        let mut state = self.state();
        state.session.forgive();
        if state.session.open() == 0 && state.idle_since.elapsed() > self.bounds.idle {
            state.left = 0;
            state.wake_task();
        }
    }

    fn retire(&self) {
        let mut state = self.state();
        state.left = 0;
        state.wake_task();
    }
}

impl State {
    fn is_open(&self) -> bool {
        self.left > 0 && self.death.is_none()
    }

    /// Whether nothing is left to be done.
    fn is_done(&self) -> bool {
        self.left == 0 && self.session.open() == 0
    }

    pub fn wake_task(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    /// Sends a PING for those who doubt, unless one is under way that is not theirs.
    fn ask(&mut self) {
        if self.doubters.ask() {
            self.session.ping();
        }
    }

    /// Tells requests what has happened.
    fn dispatch(&mut self) {
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Response { stream, head } => self.head(stream, head),
                Event::Body(stream) => {
                    if let Some(kept) = self.session.data(stream) {
                        kept.heard();
                    }
                }
                Event::Window(0) => self.session.all_data().for_each(Kept::has_room),
                Event::Window(stream) | Event::Closed(stream) => {
                    if let Some(kept) = self.session.data(stream) {
                        kept.wake();
                    }
                }
                Event::Answered => {
                    self.doubters.answered();
                    self.ask();
                }
                Event::Leaving => self.leave(),
                // Only clients do these.
                Event::Request { .. } | Event::Refused | Event::Priority { .. } => {}
            }
        }
    }

    /// A head of a response has come.
    fn head(&mut self, stream: u32, head: Head) {
        let is_interim =
            head.fields().any(|(name, value)| name == b":status" && value.starts_with(b"1"));
        let Some(kept) = self.session.data(stream) else { return };
        kept.interims += u32::from(is_interim);
        if kept.interims > MOST_INTERIMS {
            self.session.reset(stream, Reason::ENHANCE_YOUR_CALM);
            return;
        }
        if !is_interim || kept.heads.len() < INTERIMS {
            kept.heads.push_back(head);
        }
        kept.heard();
    }

    /// The application takes no more requests. Those that it has are answered.
    fn leave(&mut self) {
        self.left = 0;
        let unheard = self.session.streams().filter(|id| !self.session.has_begun(*id));
        for id in unheard.collect::<Vec<u32>>() {
            if let Some(kept) = self.session.data(id) {
                kept.is_refused = true;
                kept.wake();
            }
        }
    }
}

impl Kept {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// More of the request's body may be sent, perhaps.
    fn has_room(&mut self) {
        if std::mem::take(&mut self.wants_room) {
            self.wake();
        }
    }

    /// Something of the response has come.
    fn heard(&mut self) {
        self.answered = true;
        self.moved = Some(Instant::now());
        self.wake();
    }

    /// The connection is lost. Gives the permit.
    fn end(&mut self) -> Option<Permit> {
        self.wake();
        self.permit.take()
    }
}

/// Fields that may not stand in a table that other requests use.
fn is_secret(name: &[u8]) -> bool {
    matches!(name, b"authorization" | b"cookie")
}

/// The task of a connection.
struct Driver {
    connection: Arc<Http2Connection>,
    stream: Stream,
    /// What is to be written, and how much of it is.
    out: Vec<u8>,
    at: usize,
    /// The application takes what is written; it may have something to say even if not.
    writes: bool,
}

impl Driver {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Death> {
        loop {
            {
                let mut state = self.connection.state();
                if !state.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                    state.task = Some(context.waker().clone());
                }
            }
            let is_written = self.poll_write(context);
            if let Some(death) = self.death(is_written) {
                return Poll::Ready(death);
            }
            match std::task::ready!(self.stream.poll_read(context, false)) {
                Ok(bytes) if !bytes.is_empty() => {
                    if let Err(death) = self.receive(&bytes) {
                        // It is told, if it takes that at once.
                        self.poll_write(context);
                        return Poll::Ready(death);
                    }
                }
                Ok(_) | Err(_) => return Poll::Ready(Death::Closed),
            }
        }
    }

    /// Why the connection is to be closed, if it is. `is_written`: all that it had to say.
    fn death(&self, is_written: bool) -> Option<Death> {
        let state = self.connection.state();
        if let Some((reason, text)) = state.session.ended() {
            let why = if text.is_empty() { "" } else { ": " };
            return Some(Death::Wrong(format!("{reason}{why}{text}").into()));
        }
        let is_done = is_written && (state.is_done() || state.session.is_over());
        is_done.then_some(Death::Closed)
    }

    /// Writes as much as the application takes. Returns whether that was all.
    fn poll_write(&mut self, context: &mut Context<'_>) -> bool {
        while self.writes {
            if self.at == self.out.len() {
                self.out.clear();
                self.at = 0;
                let state = &mut *self.connection.state();
                // It fails only without memory.
                let _ = state.session.send(&mut self.out, PIECE);
                state.dispatch();
                if self.out.is_empty() {
                    break;
                }
                // What is held of bodies has become less.
                state.session.all_data().for_each(Kept::has_room);
            }
            match self.stream.poll_write(context, &self.out[self.at..]) {
                Poll::Ready(Ok(n)) => self.at += n,
                Poll::Ready(Err(_)) => self.writes = false,
                Poll::Pending => return false,
            }
        }
        match self.stream.poll_flush(context) {
            Poll::Ready(flushed) => {
                self.writes &= flushed.is_ok();
                self.stream.stop_writing();
                true
            }
            Poll::Pending => false,
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Death> {
        let state = &mut *self.connection.state();
        state.heard = Instant::now();
        let received = state.session.receive(bytes);
        state.dispatch();
        received.map_err(|broken| {
            let reason = broken.reason().unwrap_or(Reason::PROTOCOL_ERROR);
            state.session.abort(reason);
            Death::Wrong(format!("{reason}: {broken}").into())
        })
    }
}
