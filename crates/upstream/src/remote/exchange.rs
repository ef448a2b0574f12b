//! A request that is being answered, on a connection of its own or on one that it shares.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::error::UpstreamError;
use super::event::Event;
use super::exclusive::ExclusiveStream;
use super::http2::Http2Stream;
use super::mux_stream::MuxStream;
use super::tunnel::Tunnel;

/// A request that is being answered. Dropping it aborts the request.
#[derive(Debug)]
pub struct Exchange(Kind);

#[derive(Debug)]
enum Kind {
    Exclusive(Box<ExclusiveStream>),
    Shared(MuxStream),
    Http2(Box<Http2Stream>),
}

impl Exchange {
    pub(super) fn exclusive(exclusive: ExclusiveStream) -> Exchange {
        Exchange(Kind::Exclusive(Box::new(exclusive)))
    }

    pub(super) fn shared(stream: MuxStream) -> Exchange {
        Exchange(Kind::Shared(stream))
    }

    /// Whether it shares its connection with others of FastCGI.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.0, Kind::Shared(_))
    }

    pub(super) fn http2(stream: Http2Stream) -> Exchange {
        Exchange(Kind::Http2(Box::new(stream)))
    }

    /// The next thing that the application says.
    ///
    /// # Errors
    /// [`UpstreamError`]; nothing follows it.
    pub async fn next(&mut self) -> Result<Event, UpstreamError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next thing that it has said already, without waiting.
    ///
    /// # Errors
    /// As [`Exchange::next`].
    pub fn next_now(&mut self) -> Result<Option<Event>, UpstreamError> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => event.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Whether any of the request may have reached the application.
    pub fn has_written(&self) -> bool {
        match &self.0 {
            Kind::Exclusive(exclusive) => exclusive.has_written(),
            Kind::Shared(stream) => stream.has_written(),
            Kind::Http2(stream) => stream.has_written(),
        }
    }

    /// While the client still sends the body: how long the response may wait for room.
    pub(super) fn patience(&self) -> Option<Duration> {
        match &self.0 {
            Kind::Exclusive(exclusive) => exclusive.patience(),
            Kind::Http2(stream) => stream.patience(),
            Kind::Shared(_) => None,
        }
    }

    /// The connection of a request that was answered with status 101.
    pub fn into_tunnel(self) -> Option<Tunnel> {
        match self.0 {
            Kind::Exclusive(exclusive) => exclusive.into_tunnel(),
            Kind::Shared(_) | Kind::Http2(_) => None,
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, UpstreamError>> {
        match &mut self.0 {
            Kind::Exclusive(exclusive) => exclusive.poll_next(context),
            Kind::Shared(stream) => stream.poll_next(context),
            Kind::Http2(stream) => stream.poll_next(context),
        }
    }
}
