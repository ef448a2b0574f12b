//! A request that is being answered, on a connection of its own or on one that it shares.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::alone::Alone;
use super::fault::Fault;
use super::strand::Strand;

/// Something that the application said.
#[derive(Debug)]
pub enum Event {
    /// Some of the response: headers, then body; cut anywhere.
    Stdout(Bytes),
    /// Some of its complaints; cut anywhere.
    Stderr(Bytes),
    /// The response is complete.
    End,
}

/// A request that is being answered. Dropping it tells the application that nobody wants the answer
/// any more.
#[derive(Debug)]
pub struct Exchange(Way);

#[derive(Debug)]
enum Way {
    Alone(Box<Alone>),
    Shared(Strand),
}

impl Exchange {
    pub(super) fn alone(alone: Alone) -> Exchange {
        Exchange(Way::Alone(Box::new(alone)))
    }

    pub(super) fn shared(strand: Strand) -> Exchange {
        Exchange(Way::Shared(strand))
    }

    /// The next thing that the application says.
    ///
    /// # Errors
    /// [`Fault`]; nothing follows it.
    pub async fn next(&mut self) -> Result<Event, Fault> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next thing that it has said already, without waiting.
    ///
    /// # Errors
    /// As [`Exchange::next`].
    pub fn next_now(&mut self) -> Result<Option<Event>, Fault> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => event.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Whether any of the request may have reached the application.
    pub fn has_written(&self) -> bool {
        match &self.0 {
            Way::Alone(alone) => alone.has_written(),
            Way::Shared(strand) => strand.has_written(),
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, Fault>> {
        match &mut self.0 {
            Way::Alone(alone) => alone.poll_next(context),
            Way::Shared(strand) => strand.poll_next(context),
        }
    }
}
