//! The body of a response on its way to the client, and what is booked when it has gone.

pub mod length;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokamak_cost::{Ledger, Phase};
use tokamak_upstream::fcgi::Relay;
use tokamak_upstream::shm::{Event, Exchange, Fault};

use crate::access::{Entry, LogContext};
use crate::cache::Growing;
use crate::caller::Caller;
use crate::fastcgi;
use crate::files::{self, FileSlices};
use crate::lua::{Attendance, Series};
use crate::server::Loop;

/// Largest piece of a file that is read at once. Chosen arbitrarily.
const FILE_PIECE: usize = 64 * 1024;

/// Where the bytes of a response come from.
pub enum Source {
    /// Nothing more.
    Empty,
    /// All of it is here.
    Whole(Bytes),
    /// Read from files as the client takes it.
    Files(FileSlices),
    /// As a worker produces it.
    Worker(Box<Exchange>),
    /// Pieces that a script put together.
    Series(Series),
    /// As a FastCGI application produces it, and the request that the log names if that ends early.
    Application(Relay, Box<LogContext>),
    /// Held to the length that its head announces.
    Measured(Box<length::Measured>),
    /// As it is read into the content cache.
    Growing(Growing),
}

impl Source {
    /// The next bytes.
    pub fn poll_piece(
        &mut self,
        home: &Loop,
        ledger: &mut Ledger,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        let read = |piece: io::Result<Bytes>| match piece {
            Ok(bytes) if bytes.is_empty() => None,
            Ok(bytes) => {
                home.attend(tokamak_cost::now());
                Some(Ok(bytes))
            }
            Err(_) => Some(Err(Broken("the file changed while it was sent"))),
        };
        Poll::Ready(match self {
            Source::Empty => None,
            Source::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Source::Empty;
                Some(Ok(bytes))
            }
            Source::Files(files) => read(files.read(FILE_PIECE)),
            Source::Series(series) => read(series.next(FILE_PIECE)),
            Source::Worker(exchange) => ready!(poll_worker(exchange, ledger, context)),
            Source::Application(relay, log) => ready!(relay.poll_piece(context)).map(|piece| {
                piece.map_err(|fault| {
                    log.broken_off(fastcgi::failure(&fault), &fault.to_string());
                    Broken("the application broke the response off")
                })
            }),
            Source::Measured(measured) => ready!(measured.poll_piece(home, ledger, context)),
            Source::Growing(growing) => ready!(growing.poll_piece(home, ledger, context)),
        })
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

/// A response body with its bookkeeping.
pub struct Reply {
    source: Source,
    receipt: Box<Receipt>,
}

/// Books a request when its response has been handed over, or its client has gone: dropping it is
/// the booking.
pub struct Receipt {
    /// Where the time went.
    pub ledger: Ledger,
    /// The line of the access log, if one is wanted.
    pub entry: Option<Box<Entry>>,
    /// Body bytes handed over.
    pub sent: u64,
    /// Shows the request to scripts.
    pub attendance: Option<Attendance>,
    /// The event loop.
    pub home: Arc<Loop>,
    /// Who asked.
    pub caller: Caller,
}

impl Receipt {
    /// Begins the booking of a request. It is passed on often, so it stays where it is.
    pub fn new(home: Arc<Loop>, caller: Caller, ledger: Ledger) -> Box<Receipt> {
        Box::new(Receipt { ledger, entry: None, sent: 0, attendance: None, home, caller })
    }

    /// What a body becomes that has to wait for its next piece: it waits on, unless the client has
    /// gone.
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.caller.poll_gone(context).map(|()| Some(Err(Broken("the client has gone"))))
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let now = self.ledger.clock();
        self.ledger.stamp(Phase::Send, now);
        if let Some(link) = self.caller.link() {
            link.served(now);
        }
        if let Some(entry) = &self.entry {
            self.home.log(entry, self.sent, &self.ledger);
        }
    }
}

impl Reply {
    /// Joins a response's head and source with its receipt.
    pub fn respond(response: Response<Source>, receipt: Box<Receipt>) -> Response<Reply> {
        response.map(|source| Reply { source, receipt })
    }
}

fn poll_worker(
    exchange: &mut Exchange,
    ledger: &mut Ledger,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, Broken>>> {
    loop {
        match ready!(exchange.poll_event(context)) {
            Ok(Event::Body(bytes)) if bytes.is_empty() => {}
            Ok(Event::Body(bytes)) => return Poll::Ready(Some(Ok(bytes))),
            // Too late for either: the head has gone out.
            Ok(Event::Interim(_) | Event::Head(_) | Event::Complaint(_) | Event::Account(_)) => {}
            Ok(Event::End(tokamak_upstream::shm::Outcome::Complete)) => {
                exchange.stamp(ledger);
                return Poll::Ready(None);
            }
            Ok(Event::End(tokamak_upstream::shm::Outcome::Broken)) => {
                return Poll::Ready(Some(Err(Broken("the worker broke the response off"))));
            }
            Err(Fault::Died { .. }) => return Poll::Ready(Some(Err(Broken("the worker died")))),
            Err(_) => return Poll::Ready(Some(Err(Broken("the worker's response is damaged")))),
        }
    }
}

/// The rest of a response cannot be had: the connection is closed, so that the client does not take
/// the part for the whole.
#[derive(Debug)]
pub struct Broken(pub &'static str);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}

impl Body for Reply {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let reply = self.get_mut();
        let next = reply.source.poll_piece(&reply.receipt.home, &mut reply.receipt.ledger, context);
        let Poll::Ready(piece) = next else { return reply.receipt.poll_gone(context) };
        if let Some(Ok(bytes)) = &piece {
            reply.receipt.sent += bytes.len() as u64;
            if let Some(attendance) = &reply.receipt.attendance {
                attendance.sent(reply.receipt.sent);
            }
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Files(_)
            | Source::Series(_)
            | Source::Worker(_)
            | Source::Application(..)
            | Source::Measured(_)
            | Source::Growing(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Files(files) => SizeHint::with_exact(files.left()),
            Source::Series(series) => SizeHint::with_exact(series.left()),
            Source::Measured(measured) => SizeHint::with_exact(measured.left()),
            Source::Worker(_) | Source::Application(..) | Source::Growing(_) => SizeHint::default(),
        }
    }
}
