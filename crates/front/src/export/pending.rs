//! The span of a request that is still being answered.

use std::sync::Arc;

use tokamak_cost::Ledger;
use tokamak_trace::otlp::RequestSpan;

use super::SpanQueue;

/// The span of a request that is still being answered, and where it goes when that is over.
pub struct PendingSpan {
    span: Box<RequestSpan>,
    queue: Arc<SpanQueue>,
}

impl PendingSpan {
    /// Of a request to which there is no response yet.
    pub fn new(span: RequestSpan, queue: &Arc<SpanQueue>) -> PendingSpan {
        let span = RequestSpan { status: 0, error: Some("client_gone"), ..span };
        PendingSpan { span: Box::new(span), queue: queue.clone() }
    }

    /// There is a response, with this status.
    pub fn answered(&mut self, status: u16) {
        self.span.status = status;
        self.span.error = None;
    }

    /// The response broke off.
    pub fn broken_off(&mut self) {
        self.span.error = Some("broken_off");
    }

    /// The request is over; `sent` bytes of its body went out.
    pub fn end(mut self, sent: u64, ledger: &Ledger) {
        let (steps, left_out) = ledger.steps();
        self.span.sent = sent;
        self.span.request = ledger.request();
        self.span.calls = ledger.calls().copied();
        self.span.begin = ledger.start();
        self.span.end = ledger.start() + ledger.total();
        self.span.steps = steps.to_vec();
        self.span.steps_left_out = left_out;
        self.queue.put(self.span);
    }
}
