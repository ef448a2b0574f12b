//! One connection of a web server: records in, records out, any number of requests at once.

mod receive;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task;
use std::task::{Poll, ready};
use std::time::Duration;

use tokamak_fastcgi::{Message, Messages, ProtocolStatus, Role, encode};
use tokamak_fpm::status::Page;
use tokamak_upstream::record::Writer;
use tokamak_upstream::shm::ResponseHead;
use tokamak_upstream::socket::Socket;
use tokio::time::timeout;

use super::answer::{self, Answer, End, MOST_WAITING};
use super::gather::Gathering;
use super::script::Script;
use crate::backend::BackendError;
use crate::client::activity::{Activity, Waiting};
use crate::context::Context;
use crate::failure::Failure;
use crate::fpm::{Overview, PoolLogEntry, parameter};
use crate::log;
use crate::site::Site;

/// Largest piece read at once; the size of the event loop's one read buffer.
const PIECE: usize = 64 * 1024;

/// Rounds of reading, answering and writing before other connections get their turn.
const TURNS: usize = 32;

/// How long a web server may take to read the end of an answer on a connection that is closed.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a draining front waits for an idle moment of a connection; then the connection ends
/// with its current requests. Ten times less could cut off a web server that has just sent its next
/// request; ten times more would let busy connections use up the time limit of the drain.
const DRAIN_BUSY: Duration = Duration::from_secs(5);

thread_local! {
    /// The buffer for reading records. It is never held across an `await`, so one buffer serves all
    /// connections of an event loop.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// Serves the requests of one connection until it ends.
pub async fn serve(context: Arc<Context>, stream: Socket, socket: usize, activity: Arc<Activity>) {
    let mut conversation = Conversation::new(context, stream, socket, activity);
    if let Ok(()) = poll_fn(|cx| conversation.poll(cx)).await {
        conversation.part().await;
    }
}

struct Conversation {
    context: Arc<Context>,
    site_index: usize,
    /// Whether the socket serves only the status page, which needs no worker.
    is_for_status: bool,
    /// The address of the web server, if it has one.
    peer: Option<String>,
    stream: Socket,
    activity: Arc<Activity>,
    messages: Messages,
    /// When the last incomplete record began, in nanoseconds.
    ahead: u64,
    requests: Vec<Request>,
    /// Records to write; those before `written` have been written.
    out: Vec<u8>,
    written: usize,
    /// Whether the connection is closed after the current requests.
    closing: bool,
    /// Whether the web server has ended its side of the connection.
    ended: bool,
    /// A request that waits for the end of the one before it, which has the same id.
    held: Option<QueuedBegin>,
    /// Requests that have not come whole: more bytes of them may come, even if they have been
    /// answered.
    incoming: usize,
    /// Whether there are new lines for the access log.
    has_lines: bool,
}

/// A request that has begun and not ended.
struct Request {
    id: u16,
    /// When it began, in nanoseconds.
    begun: u64,
    stage: Stage,
}

/// The begin of a request, and the bytes that were read behind it: at most [`PIECE`].
struct QueuedBegin {
    id: u16,
    role: Role,
    keep: bool,
    rest: Vec<u8>,
}

enum Stage {
    Coming(Box<Gathering>),
    /// With the request's record and the length of its body, for the log.
    Answered(Box<Answer>, Writer, u64),
    Scripted(Box<Script>),
}

/// The web server has gone, or the connection cannot be used any more.
struct Disconnected;

impl From<io::Error> for Disconnected {
    fn from(_: io::Error) -> Disconnected {
        // The reason does not matter: the web server does not want the answers any more.
        Disconnected
    }
}

impl Conversation {
    fn new(
        context: Arc<Context>,
        stream: Socket,
        socket: usize,
        activity: Arc<Activity>,
    ) -> Conversation {
        let socket = context.config.fpm.as_ref().map(|fpm| &fpm.sockets[socket]);
        let (site_index, is_for_status) =
            socket.map_or((0, false), |socket| (socket.site_index, socket.is_for_status));
        Conversation {
            context,
            site_index,
            is_for_status,
            peer: stream.peer().map(|peer| peer.to_string()),
            stream,
            activity,
            messages: Messages::new(),
            ahead: tokamak_cost::now(),
            requests: Vec::new(),
            out: Vec::new(),
            written: 0,
            closing: false,
            ended: false,
            held: None,
            incoming: 0,
            has_lines: false,
        }
    }

    fn site(&self) -> &Site {
        &self.context.sites[self.site_index]
    }

    /// Runs until the connection should be closed. Fails if the web server has gone, so that an
    /// orderly close is pointless.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Disconnected>> {
        let mut moved = false;
        for _ in 0..TURNS {
            let mut turn = self.read(cx)? | self.answer(cx)?;
            self.flush_access_log();
            turn |= self.write(cx)?;
            let is_done = self.requests.is_empty() && self.held.is_none() && self.out.is_empty();
            if self.closing && is_done {
                return Poll::Ready(Ok(()));
            }
            moved |= turn;
            if !turn {
                self.rest(moved);
                if self.is_deaf() || self.ended {
                    self.activity.listen(cx.waker());
                }
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Passes on the lines of the access log before their answers are sent. So a client that has
    /// its answer finds the line in the log, and the line of its next request comes after it,
    /// whichever event loop serves that.
    fn flush_access_log(&mut self) {
        if std::mem::take(&mut self.has_lines)
            && let Some(journal) = &self.site().journal
        {
            journal.flush();
        }
    }

    /// Tells the timeouts what the connection waits for.
    fn rest(&self, moved: bool) {
        let (waiting, since) = if !self.out.is_empty() {
            (Waiting::Sending, None)
        } else if let Some((waiting, since)) = self.awaited().min_by_key(|(_, since)| *since) {
            // The oldest wait counts: neither its own single bytes nor other requests renew it.
            (waiting, Some(since))
        } else if !self.messages.is_between_records() {
            (Waiting::Head, Some(self.ahead))
        } else if self.requests.is_empty() {
            (Waiting::Idle, None)
        } else {
            (Waiting::Serving, None)
        };
        if moved || !self.activity.is(waiting) {
            self.activity.set(waiting, since.unwrap_or_else(tokamak_cost::now));
        }
    }

    /// What the requests that are still coming wait for, and since when.
    fn awaited(&self) -> impl Iterator<Item = (Waiting, u64)> {
        let limit = self.context.config.timeouts.body;
        self.requests.iter().filter_map(move |request| match &request.stage {
            Stage::Coming(gathering) => Some(match gathering.pace() {
                Some(pace) => (Waiting::Body, pace.since(limit)),
                None => (Waiting::Head, request.begun),
            }),
            Stage::Answered(..) | Stage::Scripted(_) => None,
        })
    }

    fn read(&mut self, cx: &mut task::Context<'_>) -> Result<bool, Disconnected> {
        // Back pressure: a web server that does not read its answers is not read from.
        if self.out.len() >= MOST_WAITING || self.is_deaf() {
            return Ok(false);
        }
        if self.ended {
            return if self.stream.is_hung_up() { Err(Disconnected) } else { Ok(false) };
        }
        if let Some(QueuedBegin { id, role, keep, rest }) = self.held.take() {
            if self.find(id).is_some() {
                self.held = Some(QueuedBegin { id, role, keep, rest });
                return Ok(false);
            }
            self.begin(id, role, keep);
            self.digest(&rest)?;
            return Ok(true);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let count = match self.stream.poll_read(cx, scratch) {
                Poll::Pending => return Ok(false),
                Poll::Ready(count) => count?,
            };
            match &scratch[..count] {
                [] => self.end_input()?,
                input => self.digest(input)?,
            }
            Ok(true)
        })
    }

    /// Handles the messages in these bytes.
    fn digest(&mut self, mut input: &[u8]) -> Result<(), Disconnected> {
        let mut is_ahead = self.messages.is_between_records();
        loop {
            match self.messages.next(&mut input) {
                Ok(Some(Message::Begin { id, role, keep })) => {
                    if self.find(id).is_some() {
                        self.follow(id)?;
                        self.held = Some(QueuedBegin { id, role, keep, rest: input.to_vec() });
                        return Ok(());
                    }
                    self.begin(id, role, keep);
                    is_ahead = true;
                }
                Ok(Some(message)) => {
                    is_ahead |= !matches!(message, Message::Stream { .. });
                    self.receive(message)?;
                }
                Ok(None) => {
                    if is_ahead {
                        self.ahead = tokamak_cost::now();
                    }
                    self.submit_sufficient(false);
                    return Ok(());
                }
                Err(error) => return Err(self.garbled(&error.to_string())),
            }
        }
    }

    /// Called at the end of what the web server sends. It may have closed only its side, as php-fpm
    /// allows, so requests that have come whole are answered. If they take long, the timeouts wake
    /// the task to look whether the web server has gone. Over TCP that shows only when an answer is
    /// written, so there they are answered in any case, as by php-fpm.
    fn end_input(&mut self) -> Result<(), Disconnected> {
        self.submit_sufficient(true);
        self.requests.retain(|request| !matches!(request.stage, Stage::Coming(_)));
        let is_idle = self.requests.is_empty() && self.out.is_empty();
        if is_idle || self.stream.is_hung_up() || !self.messages.is_between_records() {
            return Err(Disconnected);
        }
        (self.ended, self.closing, self.incoming) = (true, true, 0);
        Ok(())
    }

    /// Whether nothing more can come except the end of the connection, because all current requests
    /// have come whole and are the last. Then reading is skipped, which saves system calls during
    /// short answers. During long answers the timeouts wake the task so that it looks.
    fn is_deaf(&self) -> bool {
        let is_whole = self.closing
            && self.incoming == 0
            && !self.requests.is_empty()
            && self.messages.is_between_records();
        (is_whole || self.ended) && !self.activity.was_called()
    }

    fn garbled(&self, reason: &str) -> Disconnected {
        let client = self.peer.as_deref().unwrap_or("unix:");
        log::garbled(&self.site().config.name, client, reason);
        Disconnected
    }

    /// Answers a request with a page of the pool's own.
    fn show(&mut self, at: usize, overview: &Overview, page: &Page) {
        let request = self.requests.swap_remove(at);
        self.log(&request, None);
        let is_head = parameter(request.stage.record(), b"REQUEST_METHOD") == Some(b"HEAD");
        let body: &[u8] = if is_head { b"" } else { &page.body };
        answer::page(&mut self.out, request.id, &overview.head(page), body);
        self.ended();
    }

    /// Answers a request with an error, and logs the reason.
    fn refuse(&mut self, id: u16, failure: Failure, reason: &str) {
        let Some(at) = self.find(id) else { return };
        self.log_failure(self.requests[at].stage.record(), failure, reason);
        self.dismiss(at, failure);
    }

    /// Answers a request with an error that has been logged already.
    fn dismiss(&mut self, at: usize, failure: Failure) {
        let request = self.requests.swap_remove(at);
        self.log(&request, Some(failure));
        answer::fail(&mut self.out, request.id, failure);
        self.ended();
    }

    /// Writes the request's line into the pool's access log.
    fn log(&mut self, request: &Request, failure: Option<Failure>) {
        let Some(journal) = &self.context.sites[self.site_index].journal else { return };
        self.has_lines = true;
        let (answer, body) = match &request.stage {
            Stage::Coming(gathering) => (None, gathering.body_len()),
            Stage::Answered(answer, _, body) => (Some(answer), *body),
            Stage::Scripted(script) => (None, script.body_len),
        };
        let head = answer.and_then(|answer| answer.head());
        let status =
            failure.map(|failure| failure.status().as_u16()).or(head.map(ResponseHead::status));
        journal.write(&PoolLogEntry {
            record: request.stage.record(),
            begun: request.begun,
            peer: self.peer.as_deref(),
            body,
            status: status.unwrap_or(200),
            head,
            usage: answer.and_then(|answer| answer.usage()),
            process: answer.and_then(|answer| answer.worker()),
        });
    }

    fn log_failure(&self, record: &Writer, failure: Failure, reason: &str) {
        let text = |name| String::from_utf8_lossy(parameter(record, name).unwrap_or_default());
        let about = log::About {
            site: &self.site().config.name,
            method: &text(b"REQUEST_METHOD"),
            target: &text(b"REQUEST_URI"),
            trace: None,
        };
        log::broken_off(&about, failure, reason);
    }

    /// Called when a request has ended. FastCGI has no way to announce the end of a connection, and
    /// the next request may be on its way. So a draining front waits for an idle moment, which the
    /// timeouts find, but at most for [`DRAIN_BUSY`].
    fn ended(&mut self) {
        let draining = self.context.draining_for(tokamak_cost::now());
        self.closing |= draining.is_some_and(|time| time > DRAIN_BUSY.as_nanos() as u64);
    }

    fn answer(&mut self, cx: &mut task::Context<'_>) -> Result<bool, Disconnected> {
        let mut moved = false;
        let mut at = 0;
        while at < self.requests.len() && self.out.len() < MOST_WAITING {
            let Request { id, stage, .. } = &mut self.requests[at];
            let (id, before) = (*id, self.out.len());
            let end = match stage {
                Stage::Coming(_) => Poll::Pending,
                Stage::Answered(answer, ..) => answer.poll(id, &mut self.out, cx),
                Stage::Scripted(script) => script.poll(id, &mut self.out, cx),
            };
            moved |= self.out.len() > before;
            let Poll::Ready(end) = end else {
                at += 1;
                continue;
            };
            moved = true;
            match end {
                End::Complete => {
                    let request = self.requests.swap_remove(at);
                    self.log(&request, None);
                    self.ended();
                }
                End::Failed(BackendError { failure, reason }) => self.refuse(id, failure, &reason),
                End::Refused(failure) => self.dismiss(at, failure),
                End::BrokenOff(reason) => {
                    let request = self.requests.swap_remove(at);
                    self.log_failure(request.stage.record(), Failure::WorkerGone, &reason);
                    self.log(&request, None);
                    // Close without END_REQUEST, so that the web server does not take the part for
                    // the whole response. If the connection has other requests, they must not
                    // suffer.
                    if self.requests.is_empty() {
                        return Err(Disconnected);
                    }
                    encode::end(&mut self.out, id, 1, ProtocolStatus::Complete);
                    self.ended();
                }
            }
        }
        // Requests that got no room this time come first next time.
        let count = self.requests.len();
        self.requests.rotate_left(at.min(count));
        Ok(moved)
    }

    fn write(&mut self, cx: &mut task::Context<'_>) -> Result<bool, Disconnected> {
        let mut moved = false;
        while self.written < self.out.len() {
            match self.stream.poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(count) => {
                    self.written += count?;
                    moved = true;
                }
                Poll::Pending => break,
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.out.shrink_to(PIECE);
            self.written = 0;
        } else if self.written >= self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        Ok(moved)
    }

    /// Closes the connection. Unread bytes would reset it and lose the end of the answer, so this
    /// first reads what may still come.
    async fn part(mut self) {
        if (self.incoming == 0 && self.messages.is_between_records())
            || self.stream.end_writing().is_err()
        {
            return;
        }
        let last_bytes = poll_fn(|cx| {
            SCRATCH.with_borrow_mut(|scratch| {
                while ready!(self.stream.poll_read(cx, scratch))? > 0 {}
                Poll::Ready(io::Result::Ok(()))
            })
        });
        let _ = timeout(LAST_WORDS, last_bytes).await;
    }
}

impl Stage {
    fn record(&self) -> &Writer {
        match self {
            Stage::Coming(gathering) => &gathering.record,
            Stage::Answered(_, record, _) => record,
            Stage::Scripted(script) => script.record(),
        }
    }
}
