//! The task of a connection.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

use bytes::Bytes;
use h3::error::{Code, ConnectionError};
use h3::server::{Connection, RequestResolver};
use tokamak_config as config;
use tokamak_metrics::Counter;
use tokio::time::{Sleep, sleep};

use super::control::{Control, ControlFrame};
use super::gate::Gate;
use super::send;
use super::stream::Stream;
use super::transport::{Transport, number};
use crate::client::activity::DRAIN_IDLE;
use crate::context::Context;
use crate::counters::{MultiplexCounters, ProtocolFault};
use crate::http::multiplex::{Budget, ConnState, Priority};
use crate::log;

/// Requests that a connection begins before other tasks of the event loop get their turn, as over
/// HTTP/2.
const AT_ONCE: u32 = 16;

/// Bytes of a request that the library holds beside a head of the largest size: frames that mean
/// nothing, and a packet of what follows.
const BESIDE_HEAD: usize = 64 * 1024;

/// Priorities that are kept of requests which have not come, as over HTTP/2.
const KEPT_PRIORITIES: usize = 32;

/// What the tasks of a connection share.
pub struct Shared {
    /// The data that the requests of the event loop share.
    pub context: Arc<Context>,
    /// What the connection waits for.
    pub state: Arc<ConnState>,
    quic: quinn::Connection,
    /// Whether a proxy has opened it: its requests are of many clients, whose priorities say
    /// nothing of each other's.
    is_from_proxy: bool,
    inner: Mutex<Inner>,
}

/// What the lock is for.
struct Inner {
    resets: Budget,
    control_frames: Budget,
    /// Of the stream that has come last.
    accepted: Option<Arc<Gate>>,
    /// The requests that are not answered, by their streams, with their numbers.
    requests: HashMap<u64, (u32, Weak<Gate>)>,
    /// Priorities of requests that have not come, by their streams.
    pending_priorities: VecDeque<(u64, Priority)>,
    has_fault: bool,
}

impl Shared {
    fn new(context: Arc<Context>, quic: quinn::Connection, state: Arc<ConnState>) -> Arc<Shared> {
        let (http3, now) = (&context.config.http3, tokamak_cost::coarse());
        let inner = Mutex::new(Inner {
            resets: Budget::new(http3.resets, now),
            control_frames: Budget::new(http3.control_frames, now),
            accepted: None,
            requests: HashMap::new(),
            pending_priorities: VecDeque::new(),
            has_fault: false,
        });
        let is_from_proxy = context.config.proxies.trusts(state.addresses.peer.ip());
        Arc::new(Shared { context, state, quic, is_from_proxy, inner })
    }

    /// All tasks of a connection run in one event loop, so the lock is always free.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic under the lock is one of ours, between two complete changes.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate of a stream that has come.
    pub fn accept(&self, sending: &quinn::SendStream) -> Arc<Gate> {
        let most = 2 * self.context.config.limits.head + BESIDE_HEAD;
        let gate = Gate::new(self.state.clone(), sending, most);
        self.lock().accepted = Some(gate.clone());
        gate
    }

    /// Takes bytes of a stream of one direction. Returns whether the client may go on.
    pub fn control(&self, control: &mut Control, bytes: &[u8]) -> bool {
        let mut frames = Vec::new();
        if control.take(bytes, |frame| frames.push(frame)).is_err() {
            self.fault(ProtocolFault::Protocol, "a frame on the control stream is too long");
            return false;
        }
        let now = tokamak_cost::coarse();
        for frame in frames {
            if !self.lock().control_frames.spend(now) {
                let reason = "too many frames of no request (http3.control_frames)";
                self.fault(ProtocolFault::ControlFrames, reason);
                return false;
            }
            if let ControlFrame::Priority(stream, value) = frame
                && !self.is_from_proxy
            {
                self.prioritise(stream, Priority::of_update(&value));
            }
        }
        true
    }

    /// A request has another priority from now on, or from its beginning.
    fn prioritise(&self, stream: u64, priority: Priority) {
        let inner = &mut *self.lock();
        if let Some((number, gate)) = inner.requests.get(&stream) {
            if let Some(gate) = gate.upgrade() {
                gate.set_priority(*number, priority);
            }
            return;
        }
        inner.pending_priorities.retain(|(other, _)| *other != stream);
        inner.pending_priorities.push_back((stream, priority));
        if inner.pending_priorities.len() > KEPT_PRIORITIES {
            inner.pending_priorities.pop_front();
        }
    }

    /// A request begins. `said` is the priority that its head says.
    pub fn begin(&self, id: u64, stream: &Stream, said: Priority) {
        let inner = &mut *self.lock();
        inner.requests.insert(id, (stream.number, Arc::downgrade(&stream.gate)));
        let pending = inner.pending_priorities.iter().position(|(other, _)| *other == id);
        let pending = pending.and_then(|at| inner.pending_priorities.remove(at));
        let priority = pending.map_or(said, |(_, priority)| priority);
        let priority = if self.is_from_proxy { Priority::UNKNOWN } else { priority };
        stream.gate.set_priority(stream.number, priority);
    }

    /// The response says how urgent it is.
    pub fn set_response_priority(
        &self,
        stream: &Stream,
        headers: &http::HeaderMap,
        said: Priority,
    ) {
        if !self.is_from_proxy
            && let Some(priority) = said.with_response(headers)
        {
            stream.gate.set_priority(stream.number, priority);
        }
    }

    /// A request is over.
    pub fn end(&self, id: u64) {
        self.lock().requests.remove(&id);
    }

    /// The client has cancelled a request.
    pub fn cancelled(&self) {
        let has_ended = self.quic.close_reason().is_some();
        if !has_ended && !self.lock().resets.spend(tokamak_cost::coarse()) {
            let reason = "too many cancelled requests (http3.resets)";
            self.fault(ProtocolFault::Resets, reason);
        }
    }

    /// Closes the connection because of its client, and logs that.
    fn fault(&self, fault: ProtocolFault, reason: &str) {
        self.quic.close(number(Code::H3_EXCESSIVE_LOAD.value()), reason.as_bytes());
        self.report(fault, reason);
    }

    /// Logs once why the connection ends, if the client is to blame.
    fn report(&self, fault: ProtocolFault, reason: &str) {
        if !std::mem::replace(&mut self.lock().has_fault, true) {
            count(&self.context, |http3| &http3.closed[fault as usize]);
            log::closed(&self.state.addresses.peer, "HTTP/3", reason);
        }
    }

    /// Logs what rule the client has broken, if the library has closed the connection for it.
    pub fn ended(&self, error: &ConnectionError) {
        if let ConnectionError::Local { error, .. } = error
            && let h3::error::LocalError::Application { code, reason, .. } = error
            && *code != Code::H3_NO_ERROR
        {
            self.report(ProtocolFault::Protocol, &format!("{code} ({reason})"));
        }
    }
}

/// Counts one, if anybody can see the number.
pub fn count(context: &Context, of: impl Fn(&MultiplexCounters) -> &Counter) {
    if let Some(counters) = &context.counters {
        of(&counters.http3).add(1);
    }
}

/// How far the end of a connection is.
enum Leaving {
    /// The client was told to open no more requests here; those that are on their way are served
    /// until then.
    Announced(Pin<Box<Sleep>>),
    /// Which of its requests is the last one.
    Final,
}

/// What happens on a connection.
enum Happening {
    /// A stream for a request has come, or the connection has ended.
    Stream(Result<Option<RequestResolver<Transport, Bytes>>, ConnectionError>),
    /// The client is to be told to go, or what its last request is.
    Leave,
    /// All is answered, and nothing more comes.
    Over,
}

/// Closes the connection in any case: requests that are under way learn by that that their client
/// has gone.
struct Closing(quinn::Connection);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(number(Code::H3_NO_ERROR.value()), b"");
    }
}

/// Serves the requests of one connection until it ends.
pub async fn serve_connection(
    context: Arc<Context>,
    quic: quinn::Connection,
    state: Arc<ConnState>,
) {
    let config::Server { limits, http3, .. } = &*context.config;
    let _closing = Closing(quic.clone());
    let shared = Shared::new(context.clone(), quic.clone(), state.clone());
    count(&context, |http3| &http3.connections);
    let mut builder = h3::server::builder();
    // Twice the limit, so that a head that is somewhat too large gets the right page.
    builder.max_field_section_size(2 * limits.head as u64).send_grease(false);
    let built = builder.build(Transport::new(quic, shared.clone())).await;
    let mut http: Connection<Transport, Bytes> = match built {
        Ok(http) => http,
        Err(error) => return shared.ended(&error),
    };
    let mut leaving = None;
    let mut begun = 0;
    loop {
        let happening = poll_fn(|cx| {
            state.activity.listen(cx.waker());
            if let Poll::Ready(stream) = pin!(http.accept()).poll(cx) {
                return Poll::Ready(Happening::Stream(stream));
            }
            match &mut leaving {
                None if state.is_leaving() => Poll::Ready(Happening::Leave),
                Some(Leaving::Announced(deadline)) => {
                    deadline.as_mut().poll(cx).map(|()| Happening::Leave)
                }
                Some(Leaving::Final) if state.open() == 0 => Poll::Ready(Happening::Over),
                _ => Poll::Pending,
            }
        });
        match happening.await {
            Happening::Stream(Ok(Some(resolver))) => {
                begun += 1;
                let Some(gate) = shared.lock().accepted.take() else { continue };
                let request = Box::pin(send::answer(shared.clone(), resolver, gate));
                run(request).await;
                if state.requests() as usize >= http3.requests {
                    state.leave(tokamak_cost::coarse());
                }
                if begun % AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Happening::Stream(Ok(None)) | Happening::Over => return,
            Happening::Stream(Err(error)) => return shared.ended(&error),
            Happening::Leave if leaving.is_none() => {
                let is_full = state.requests() as usize >= http3.requests;
                if !context.is_draining() && !is_full && state.open() > 0 {
                    // It was idle for too long, but has a request now.
                    state.stay();
                    continue;
                }
                // Requests that are on their way are served, as over HTTP/2.
                let patience = if state.open() > 0 { DRAIN_IDLE } else { DRAIN_IDLE / 2 };
                leaving = Some(Leaving::Announced(Box::pin(sleep(patience))));
                if let Err(error) = http.shutdown(http3.streams).await {
                    return shared.ended(&error);
                }
            }
            Happening::Leave => {
                leaving = Some(Leaving::Final);
                if let Err(error) = http.shutdown(0).await {
                    return shared.ended(&error);
                }
            }
        }
    }
}

/// Runs a request: in this task as far as it goes without waiting, then in one of its own.
async fn run(mut request: Pin<Box<impl Future<Output = ()> + Send + 'static>>) {
    if poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await.is_pending() {
        tokio::spawn(request);
    }
}
