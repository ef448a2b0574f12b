//! What the task of a connection and those of its requests share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use h3::error::{Code, ConnectionError};
use quinn::VarInt;
use tokamak_metrics::Counter;

use super::control::{Control, ControlFrame};
use super::gate::Gate;
use super::stream::Stream;
use crate::context::Context;
use crate::counters::{MultiplexCounters, ProtocolFault};
use crate::http::multiplex::{Budget, ConnState, Priority};
use crate::log;

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
    /// Of a connection that begins.
    pub fn new(
        context: Arc<Context>,
        quic: quinn::Connection,
        state: Arc<ConnState>,
    ) -> Arc<Shared> {
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

    /// The gate of the stream that has come last.
    pub fn take_accepted(&self) -> Option<Arc<Gate>> {
        self.lock().accepted.take()
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

/// A number as the QUIC library has it. Codes and numbers of streams come from the libraries
/// themselves, within their bounds.
pub fn number(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}
