//! Where the bytes of a response come from, piece by piece.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use tokamak_cost::Ledger;
use tokamak_upstream::remote::Relay;
use tokamak_upstream::shm::{Event, QueuedRequest, WorkerError};

use super::compression::{Compressed, Stored};
use super::files::{self, FileSlices};
use super::length::Measured;
use super::series::Series;
use super::tee::TeeReader;
use super::trailers;
use crate::failure::Failure;
use crate::log::LogContext;
use crate::push::Events;

/// Largest piece of a file that is read at once. Reading blocks the event loop, and each response
/// holds one piece, so ten times more would cost both latency and memory; a tenth would take ten
/// times as many system calls.
const FILE_PIECE: usize = 64 * 1024;

/// Where the bytes of a response come from.
pub enum Source {
    /// No bytes, or no more bytes.
    Empty,
    /// The whole body, in memory.
    Whole(Bytes),
    /// The whole body of a response in the content cache, which also keeps compressed ones.
    Stored(Box<Stored>),
    /// Parts of files, read as the client takes them.
    Files(FileSlices),
    /// A worker's response, as it comes.
    Worker(Box<QueuedRequest>),
    /// Pieces that a script put together.
    Series(Series),
    /// A FastCGI application's response, as it comes, and the request for the log if it ends early.
    Application(Relay, Box<LogContext>),
    /// Updates of the site's hub.
    Events(Box<Events>),
    /// A body that is checked against the length that its head announces.
    Measured(Box<Measured>),
    /// A body that is also being read into the content cache.
    Tee(TeeReader),
    /// A body that is compressed while it is sent.
    Compressed(Box<Compressed>),
}

impl Source {
    /// Polls for the next bytes.
    pub fn poll_piece(
        &mut self,
        ledger: &mut Ledger,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        let read = |piece: io::Result<Bytes>| match piece {
            Ok(bytes) if bytes.is_empty() => None,
            Ok(bytes) => Some(Ok(bytes)),
            Err(_) => Some(Err(Broken("the file changed while it was sent"))),
        };
        Poll::Ready(match self {
            Source::Empty => None,
            Source::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Source::Empty;
                Some(Ok(bytes))
            }
            Source::Stored(stored) => {
                let bytes = stored.entry.body.clone();
                *self = Source::Empty;
                read(Ok(bytes))
            }
            Source::Files(files) => read(files.read(FILE_PIECE)),
            Source::Series(series) => read(series.next(FILE_PIECE)),
            Source::Worker(exchange) => ready!(poll_worker(exchange, ledger, cx)),
            Source::Application(relay, log) => ready!(relay.poll_piece(cx)).map(|piece| {
                piece.map_err(|fault| {
                    log.broken_off(Failure::from(&fault), &fault.to_string());
                    Broken("the application broke the response off")
                })
            }),
            Source::Events(events) => ready!(events.poll_piece(cx)).map(Ok),
            Source::Measured(measured) => ready!(measured.poll_piece(ledger, cx)),
            Source::Tee(tee) => ready!(tee.poll_piece(ledger, cx)),
            Source::Compressed(compressed) => ready!(compressed.poll_piece(ledger, cx)),
        })
    }

    /// Takes the fields that follow the body, once its end has come; `None`: there are none.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        match self {
            Source::Worker(exchange) => {
                let lines = exchange.take_trailers();
                (!lines.is_empty()).then(|| trailers::parse(&lines))
            }
            Source::Application(relay, _) => {
                let lines = relay.take_trailers();
                if lines.is_empty() { None } else { trailers::of_application(&lines) }
            }
            Source::Measured(measured) => measured.take_trailers(),
            Source::Tee(tee) => tee.take_trailers(),
            Source::Compressed(compressed) => compressed.take_trailers(),
            Source::Empty
            | Source::Whole(_)
            | Source::Stored(_)
            | Source::Files(_)
            | Source::Series(_)
            | Source::Events(_) => None,
        }
    }

    /// Bytes that are still to come; `None`: that is not known.
    pub fn left(&self) -> Option<u64> {
        match self {
            Source::Empty => Some(0),
            Source::Whole(bytes) => Some(bytes.len() as u64),
            Source::Stored(stored) => Some(stored.entry.body.len() as u64),
            Source::Files(files) => Some(files.left()),
            Source::Series(series) => Some(series.left()),
            Source::Measured(measured) => Some(measured.left()),
            Source::Worker(_)
            | Source::Application(..)
            | Source::Events(_)
            | Source::Tee(_)
            | Source::Compressed(_) => None,
        }
    }

    /// The whole body, if it is in memory.
    pub fn whole(&self) -> Option<Bytes> {
        match self {
            Source::Empty => Some(Bytes::new()),
            Source::Whole(bytes) => Some(bytes.clone()),
            Source::Stored(stored) => Some(stored.entry.body.clone()),
            _ => None,
        }
    }
}

impl From<files::Body> for Source {
    fn from(body: files::Body) -> Source {
        match body {
            files::Body::Empty => Source::Empty,
            files::Body::Bytes(bytes) => Source::Whole(bytes),
            files::Body::Files(slices) => Source::Files(slices),
        }
    }
}

fn poll_worker(
    exchange: &mut QueuedRequest,
    ledger: &mut Ledger,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, Broken>>> {
    loop {
        match ready!(exchange.poll_event(cx)) {
            Ok(Event::Body(bytes)) if bytes.is_empty() => {}
            Ok(Event::Body(bytes)) => return Poll::Ready(Some(Ok(bytes))),
            // Too late to use any of these: the head has been sent.
            Ok(Event::Interim(_) | Event::Head(_) | Event::Stderr(_) | Event::Usage(_)) => {}
            Ok(Event::End(tokamak_upstream::shm::Outcome::Complete)) => {
                exchange.stamp(ledger);
                return Poll::Ready(None);
            }
            Ok(Event::End(tokamak_upstream::shm::Outcome::Broken)) => {
                Failure::WorkerBroken.note();
                return Poll::Ready(Some(Err(Broken("the worker broke the response off"))));
            }
            Err(fault) => {
                ledger.mark(fault.phase());
                Failure::from(&fault).note();
                let is_dead = matches!(fault, WorkerError::Died { .. });
                let reason =
                    if is_dead { "the worker died" } else { "the worker's response is damaged" };
                return Poll::Ready(Some(Err(Broken(reason))));
            }
        }
    }
}

/// The response broke off. The connection is closed, so that the client does not take the part for
/// the whole.
#[derive(Debug)]
pub struct Broken(pub &'static str);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}
