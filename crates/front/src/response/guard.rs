//! The guard that finishes a request when its response is complete, and the body that carries the
//! guard.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokamak_cost::{Ledger, Phase};

use super::edits::Edits;
use super::source::{Broken, Source};
use crate::client::Client;
use crate::counters::Counted;
use crate::export::PendingSpan;
use crate::log::{AccessLog, LogEntry};
use crate::scoreboard::ScoreboardEntry;
use crate::throttle::Slot;

/// Finishes a request. It is dropped when the response has been handed over or the client has gone;
/// then it closes the ledger, informs the connection, writes the line of the access log, counts the
/// request and hands its span over.
pub struct RequestGuard {
    /// Where the time went.
    pub ledger: Ledger,
    /// The line of the access log, and the log, if one is written.
    pub entry: Option<Box<(LogEntry, Arc<AccessLog>)>>,
    /// The request's place in the counters, if it is counted.
    pub counted: Option<Counted>,
    /// The span of the request, if it is exported.
    pub span: Option<PendingSpan>,
    /// What the server changes in the response.
    pub edits: Edits,
    /// Body bytes handed over.
    pub sent: u64,
    /// Its places among the requests of its client, where these are limited.
    pub slots: Vec<Slot>,
    /// Shows the request to scripts.
    pub scoreboard: Option<ScoreboardEntry>,
    /// The client that waits for the response; `None` for a subrequest.
    pub client: Option<Arc<dyn Client>>,
}

impl RequestGuard {
    /// The guard of a request that begins. It is boxed because it is passed on often.
    pub fn new(client: Option<Arc<dyn Client>>, ledger: Ledger) -> Box<RequestGuard> {
        Box::new(RequestGuard {
            ledger,
            entry: None,
            counted: None,
            span: None,
            edits: Edits::default(),
            sent: 0,
            slots: Vec::new(),
            scoreboard: None,
            client,
        })
    }

    /// Polled while the body waits for its next piece: pending, unless the client has gone.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(client) = &self.client else { return Poll::Pending };
        client.poll_gone(cx).map(|()| Some(Err(Broken("the client has gone"))))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let now = self.ledger.clock();
        self.ledger.stamp(Phase::Send, now);
        if let Some(client) = &self.client {
            client.served(now);
            if let Some(counted) = &self.counted {
                counted.count(client.take_received(), self.sent, &self.ledger);
            }
        }
        if let Some((entry, log)) = self.entry.as_deref() {
            log.write(entry, self.sent, &self.ledger);
        }
        if let Some(span) = self.span.take() {
            span.end(self.sent, &self.ledger);
        }
    }
}

/// The body of a response, with the guard of its request.
pub struct Reply {
    source: Source,
    guard: Box<RequestGuard>,
    /// Why the body ends early, until the client has got what came before.
    broken: Option<Broken>,
}

impl Reply {
    /// Whether it lasts for as long as its client stays.
    pub fn is_endless(&self) -> bool {
        matches!(self.source, Source::Events(_))
    }

    /// Joins a response's head and source with the guard of its request.
    pub fn respond(response: Response<Source>, guard: Box<RequestGuard>) -> Response<Reply> {
        response.map(|source| Reply { source, guard, broken: None })
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Reply { source, guard, broken } = self.get_mut();
        if let Some(broken) = broken.take() {
            return Poll::Ready(Some(Err(broken)));
        }
        let Poll::Ready(piece) = source.poll_piece(&mut guard.ledger, cx) else {
            return guard.poll_gone(cx);
        };
        match piece {
            Some(Ok(ref bytes)) => {
                guard.sent += bytes.len() as u64;
                if let Some(entry) = &guard.scoreboard {
                    entry.sent(guard.sent);
                }
            }
            // The HTTP library drops what it has not sent yet when a body fails, even the head. So
            // it gets a moment to send it.
            Some(Err(why)) => {
                guard.span.iter_mut().for_each(PendingSpan::broken_off);
                *broken = Some(why);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            None => return Poll::Ready(source.take_trailers().map(Frame::trailers).map(Ok)),
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Stored(stored) => stored.entry.body.is_empty(),
            Source::Files(_)
            | Source::Series(_)
            | Source::Worker(_)
            | Source::Application(..)
            | Source::Events(_)
            | Source::Measured(_)
            | Source::Tee(_)
            | Source::Compressed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.source.left().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
