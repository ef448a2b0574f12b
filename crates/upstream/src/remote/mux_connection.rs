//! A connection that several requests share, by their ids (§3.3).
//!
//! A task has the socket. It writes what the requests have to say, a piece of each in turn, and
//! puts what the application says into the [`Backlog`] of the request that it is about. It never
//! waits for a request's client, so none holds up another.
//!
//! A request:
//!
//! ```text
//! begin ──► in line ──► begun ──────────────► ended ──► gone, its id is free
//!              │          │ it is abandoned     ▲  (when its MuxStream is dropped)
//!              │          └──► aborted ─────────┘
//!              └──► gone: the application has never heard of it
//! ```
//!
//! It holds its permit until the application has ended it, wanted or not: that is what
//! FCGI_MAX_REQS counts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokamak_fastcgi::{
    Error, Message, Messages, ProtocolStatus, Stream as Kind, ValuesQuery, encode,
};
use tokio::time::Instant;

use super::backlog::{Backlog, Said};
use super::connection_set::{Doubters, SharedConnection};
use super::error::UpstreamError;
use super::pool::Permit;
use super::request::{Call, Written};
use super::settings::{Bounds, Multiplex};
use super::stream::Stream;

/// Requests that a connection has before another one is opened. With a tenth, sharing would hardly
/// save connections; with ten times more, one lost connection would lose hundreds of requests, and
/// a single process of the application would have to read them all.
pub(super) const EACH: usize = 32;

/// How much is written at once, if there is so much.
const PIECE: usize = 32 * 1024;

/// How long an application may take to end a request that was aborted. After that the connection
/// takes no more requests, and is closed when the others have ended. Applications look for an abort
/// between two steps of their work: with a tenth, healthy connections would be closed; with ten
/// times more, abandoned requests would hold their permits for minutes.
const ABORTING: Duration = Duration::from_secs(10);

/// Most ids of aborted requests, which are not used again; then the connection takes no more
/// requests. With a tenth, clients that leave would cost connections; with ten times more, ids
/// would grow beyond what applications are used to.
const MOST_ABORTED: usize = 64;

/// What an application sends that mixes up requests.
pub(super) const STRANGE_REQUEST: &str = "a record of a request that it does not have";

/// A shared connection.
#[derive(Debug)]
pub(super) struct MuxConnection {
    /// The event loop in which its task runs.
    loop_index: usize,
    bounds: Bounds,
    state: Mutex<MuxState>,
}

#[derive(Debug)]
pub(super) struct MuxState {
    pub requests: BTreeMap<u16, Request>,
    /// Those that have something to be written, the next one first.
    line: VecDeque<u16>,
    /// Ids of requests whose abort has been written. The application may have ended them before it
    /// read that, and may end them again, so nothing that it says of them counts.
    aborted: BTreeSet<u16>,
    doubters: Doubters,
    /// Requests that it still takes.
    left: u64,
    /// Whether it had a request.
    was_used: bool,
    /// It is to be closed, or is.
    is_closing: bool,
    /// Since when it has had no request.
    idle_since: Instant,
    task: Option<Waker>,
}

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    call: Arc<Call>,
    written: Written,
    pub is_begun: bool,
    pub all_written: bool,
    pub answered: bool,
    stdout_ended: bool,
    pub backlog: Backlog,
    /// What becomes of the response; a fault may come before the application has ended the request.
    pub ended: Option<Result<(), Death>>,
    /// The application has ended it.
    is_over: bool,
    /// When something was last written or read.
    pub moved: Instant,
    pub reader: Option<Waker>,
    /// Since when its client is gone.
    unwanted: Option<Instant>,
    abort_written: bool,
    permit: Option<Permit>,
}

/// Why a request ended without a response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Death {
    Closed,
    Malformed(Error),
    Unexpected(&'static str),
    Refused(ProtocolStatus),
    Spool,
}

impl Death {
    pub fn fault(self, answered: bool) -> UpstreamError {
        match self {
            Death::Closed => UpstreamError::Closed { answered },
            Death::Malformed(error) => UpstreamError::Malformed(error),
            Death::Unexpected(what) => UpstreamError::Unexpected(what),
            Death::Refused(status) => UpstreamError::Refused(status),
            Death::Spool => UpstreamError::Spool,
        }
    }
}

impl MuxConnection {
    /// Starts the task of a connection.
    pub fn start(stream: Stream, loop_index: usize, bounds: Bounds) -> Arc<MuxConnection> {
        let state = MuxState {
            requests: BTreeMap::new(),
            line: VecDeque::new(),
            aborted: BTreeSet::new(),
            doubters: Doubters::default(),
            left: if bounds.requests == 0 { u64::MAX } else { bounds.requests },
            was_used: false,
            is_closing: false,
            idle_since: Instant::now(),
            task: None,
        };
        let connection = Arc::new(MuxConnection { loop_index, bounds, state: Mutex::new(state) });
        let mut driver = Driver {
            connection: connection.clone(),
            stream,
            messages: Messages::new(),
            out: Vec::new(),
            at: 0,
            writes: true,
        };
        tokio::spawn(async move {
            let death = poll_fn(|context| driver.poll(context)).await;
            driver.connection.end_all(death);
        });
        connection
    }

    /// Begins a request; not if the connection takes no more. `true`: it had one before.
    pub fn begin(&self, call: Arc<Call>, permit: Permit) -> Result<(u16, bool), Permit> {
        let mut state = self.state();
        let is_free = |id: &u16| !state.requests.contains_key(id) && !state.aborted.contains(id);
        let id = (1..=u16::MAX).find(is_free);
        let (Some(id), true) = (id, state.is_open()) else { return Err(permit) };
        let request = Request {
            backlog: Backlog::new(call.quota.clone()),
            call,
            written: Written::default(),
            is_begun: false,
            all_written: false,
            answered: false,
            stdout_ended: false,
            ended: None,
            is_over: false,
            moved: Instant::now(),
            reader: None,
            unwanted: None,
            abort_written: false,
            permit: Some(permit),
        };
        state.requests.insert(id, request);
        state.line.push_back(id);
        state.left -= 1;
        let was_used = std::mem::replace(&mut state.was_used, true);
        state.wake_task();
        Ok((id, was_used))
    }

    /// Whether the application reads what is sent on it, as an answer to a question shows that is
    /// sent now. If it does not answer in time, the connection takes no more requests.
    pub async fn prove(&self) -> bool {
        let proof = {
            let mut state = self.state();
            if !state.is_open() {
                return false;
            }
            state.wake_task();
            state.doubters.add()
        };
        let is_proved = proof.comes().await;
        if !is_proved {
            self.retire();
        }
        is_proved
    }

    /// The request's client is gone.
    pub fn drop_request(&self, id: u16) {
        let mut state = self.state();
        let Some(request) = state.requests.get_mut(&id) else { return };
        // Dropped after the lock is released: its permit wakes another request.
        let mut gone = None;
        if request.is_over || !request.is_begun {
            gone = state.remove(id);
        } else {
            request.unwanted = Some(Instant::now());
            request.backlog = Backlog::new(request.call.quota.clone());
            if !state.line.contains(&id) {
                state.line.push_back(id);
            }
        }
        state.wake_task();
        drop(state);
        drop(gone);
    }

    pub fn state(&self) -> MutexGuard<'_, MuxState> {
        // A panic elsewhere cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what the connection still had.
    fn end_all(&self, death: Death) {
        let mut state = self.state();
        state.is_closing = true;
        state.doubters.clear();
        let mut permits = Vec::new();
        for request in state.requests.values_mut() {
            permits.extend(request.over(Err(death)));
        }
        state.requests.retain(|_, request| request.unwanted.is_none());
        drop(state);
        drop(permits);
    }
}

impl SharedConnection for MuxConnection {
    fn loop_index(&self) -> usize {
        self.loop_index
    }

    /// If sharing was not configured, there may be several processes behind the address, so
    /// requests are spread over connections as long as there may be more.
    fn most(&self) -> usize {
        if self.bounds.multiplex == Multiplex::WhenKept { 1 } else { EACH }
    }

    /// Requests that it has, if it takes more.
    fn load(&self) -> Option<usize> {
        let state = self.state();
        state.is_open().then_some(state.requests.len())
    }

    /// Closes it if it is not needed any more, or if the application does not end what nobody
    /// wants.
    fn tick(&self) {
        let mut state = self.state();
        let late =
            |request: &Request| request.unwanted.is_some_and(|since| since.elapsed() > ABORTING);
        if state.requests.values().any(late) {
            state.left = 0;
        }
        let is_idle = state.requests.is_empty() && state.idle_since.elapsed() > self.bounds.idle;
        if is_idle {
            state.left = 0;
        }
        state.close_if_done();
    }

    /// No more requests; it is closed behind the last one.
    fn retire(&self) {
        let mut state = self.state();
        state.left = 0;
        state.close_if_done();
    }
}

impl MuxState {
    fn is_open(&self) -> bool {
        self.left > 0 && !self.is_closing
    }

    fn wake_task(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    fn remove(&mut self, id: u16) -> Option<Request> {
        self.line.retain(|other| *other != id);
        self.idle_since = Instant::now();
        let removed = self.requests.remove(&id);
        self.close_if_done();
        removed
    }

    /// Closes a connection that takes no more requests and has none whose client still waits.
    fn close_if_done(&mut self) {
        if self.left == 0 && self.requests.values().all(|request| request.unwanted.is_some()) {
            self.is_closing = true;
            self.wake_task();
        }
    }

    /// The next records to be written, a piece of each request in turn.
    fn records(&mut self, out: &mut Vec<u8>) {
        if self.doubters.ask() {
            encode::probe_values(out, ValuesQuery::ALL);
        }
        while out.len() < PIECE
            && let Some(id) = self.line.pop_front()
        {
            let Some(request) = self.requests.get_mut(&id) else { continue };
            if request.unwanted.is_some() && !request.is_over {
                if !std::mem::replace(&mut request.abort_written, true) {
                    encode::abort(out, id);
                    self.aborted.insert(id);
                    if self.aborted.len() >= MOST_ABORTED {
                        self.left = 0;
                    }
                }
                continue;
            }
            // It may be answered before it has been written to its end.
            if request.ended.is_some() {
                continue;
            }
            let Request { call, written, .. } = request;
            match call.rest(written) {
                Ok([]) => {
                    request.all_written = true;
                    // Another time limit holds from now on.
                    request.wake_reader();
                }
                Ok(records) => {
                    let (from, len) = (out.len(), records.len());
                    out.extend_from_slice(records);
                    encode::readdress(&mut out[from..], id);
                    written.advance(call, len);
                    request.is_begun = true;
                    request.moved = Instant::now();
                    self.line.push_back(id);
                }
                // The file with its body cannot be read.
                Err(_) => request.end(Err(Death::Spool)),
            }
        }
    }
}

impl Request {
    fn end(&mut self, how: Result<(), Death>) {
        self.ended.get_or_insert(how);
        self.wake_reader();
    }

    /// The application has ended it. Gives its permit.
    fn over(&mut self, how: Result<(), Death>) -> Option<Permit> {
        self.is_over = true;
        self.end(how);
        self.permit.take()
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// More of its streams.
    fn receive(&mut self, said: Said, bytes: &[u8]) {
        self.answered = true;
        self.moved = Instant::now();
        if self.unwanted.is_some() || self.ended.is_some() {
            return;
        }
        let problem = if said == Said::Stdout && self.stdout_ended {
            Some("more of its response after the end of it")
        } else {
            self.backlog.push(said, bytes).err().map(|_| "more than can be held for a slow client")
        };
        match problem {
            Some(problem) => self.end(Err(Death::Unexpected(problem))),
            None => self.wake_reader(),
        }
    }
}

/// The task of a shared connection.
struct Driver {
    connection: Arc<MuxConnection>,
    stream: Stream,
    messages: Messages,
    /// Whole records, and how much of them is written.
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
                if state.is_closing {
                    return Poll::Ready(Death::Closed);
                }
                if !state.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                    state.task = Some(context.waker().clone());
                }
            }
            self.poll_write(context);
            match std::task::ready!(self.stream.poll_read(context, false)) {
                Ok(bytes) if !bytes.is_empty() => {
                    if let Err(death) = self.receive(&bytes) {
                        return Poll::Ready(death);
                    }
                }
                Ok(_) | Err(_) => return Poll::Ready(Death::Closed),
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) {
        while self.writes {
            if self.at == self.out.len() {
                self.out.clear();
                self.at = 0;
                self.connection.state().records(&mut self.out);
                if self.out.is_empty() {
                    self.stream.stop_writing();
                    return;
                }
            }
            match self.stream.poll_write(context, &self.out[self.at..]) {
                Poll::Ready(Ok(n)) => self.at += n,
                Poll::Ready(Err(_)) => self.writes = false,
                Poll::Pending => return,
            }
        }
    }

    fn receive(&mut self, mut bytes: &[u8]) -> Result<(), Death> {
        let mut permits = Vec::new();
        let mut state = self.connection.state();
        while let Some(message) = self.messages.next(&mut bytes).map_err(Death::Malformed)? {
            let id = match message {
                Message::Stream { id, stream: Kind::Stdout | Kind::Stderr, .. }
                | Message::StreamEnd { id, stream: Kind::Stdout | Kind::Stderr }
                | Message::End { id, .. } => id,
                Message::Values(_) => {
                    if state.doubters.answered() {
                        state.wake_task();
                    }
                    continue;
                }
                _ => return Err(Death::Unexpected("a record that only a web server sends")),
            };
            let request =
                state.requests.get_mut(&id).filter(|request| request.is_begun && !request.is_over);
            let Some(request) = request else {
                if state.aborted.contains(&id) {
                    continue;
                }
                return Err(Death::Unexpected(STRANGE_REQUEST));
            };
            match message {
                Message::Stream { stream: Kind::Stdout, bytes, .. } => {
                    request.receive(Said::Stdout, bytes)
                }
                Message::Stream { bytes, .. } => request.receive(Said::Stderr, bytes),
                Message::StreamEnd { stream: Kind::Stdout, .. } => request.stdout_ended = true,
                Message::End { status, .. } => {
                    let how = match status {
                        ProtocolStatus::Complete => Ok(()),
                        status => Err(Death::Refused(status)),
                    };
                    permits.extend(request.over(how));
                    if request.unwanted.is_some() {
                        state.remove(id);
                    }
                }
                _ => {}
            }
        }
        drop(state);
        drop(permits);
        Ok(())
    }
}
