//! A request on its way: over a kept connection if there is one, else, or if the peer had closed
//! that, over a new one.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Method;

use super::connection::{Connection, RoundTrip};
use super::error::HttpError;
use super::request::Request;
use super::response::{Decoder, Response};
use super::stream::{self, Peer, Stream};
use super::{Client, Limits};
use crate::deadline::Deadline;

/// A request on its way, and all of its response. If it is dropped before, its connection is
/// closed.
pub struct Sending {
    client: Arc<Client>,
    method: Method,
    message: Vec<u8>,
    limits: Limits,
    state: SendState,
}

enum SendState {
    /// There will be a connection, unless that takes too long.
    Opening {
        peer: Arc<Peer>,
        stream: Opening,
        deadline: Deadline,
    },
    Talking {
        connection: Connection,
        round_trip: RoundTrip,
        is_kept: bool,
    },
    Done,
}

/// What has come.
enum Event {
    Open(Stream),
    Response(Response),
}

type Opening = Pin<Box<dyn Future<Output = Result<Stream, HttpError>> + Send>>;

impl Sending {
    /// Begins with a request.
    pub(super) fn new(client: Arc<Client>, mut request: Request<'_>, limits: Limits) -> Sending {
        let kept = client.pool().take(&request.address);
        let message = request.message();
        let Request { address, method, .. } = request;
        let mut sending = Sending { client, method, message, limits, state: SendState::Done };
        sending.state = match kept {
            Some(mut connection) => {
                connection.deadline.set(limits.time);
                sending.talk(connection, true)
            }
            None => sending.open(Arc::new(Peer::new(&address)), Deadline::new(limits.time)),
        };
        sending
    }

    fn open(&self, peer: Arc<Peer>, deadline: Deadline) -> SendState {
        let (names, whom) = (self.client.names.clone(), peer.clone());
        let stream = Box::pin(async move { stream::connect(&names, &whom).await });
        SendState::Opening { peer, stream, deadline }
    }

    fn talk(&self, connection: Connection, is_kept: bool) -> SendState {
        let decoder = Decoder::new(self.method == Method::HEAD, self.limits.body);
        SendState::Talking { connection, round_trip: RoundTrip::new(decoder), is_kept }
    }
}

impl Future for Sending {
    type Output = Result<Response, HttpError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let sending = self.get_mut();
        loop {
            let (outcome, deadline) = match &mut sending.state {
                SendState::Opening { stream, deadline, .. } => {
                    (stream.as_mut().poll(context).map(|stream| stream.map(Event::Open)), deadline)
                }
                SendState::Talking { connection, round_trip, .. } => {
                    let received = round_trip.poll(connection, &sending.message, context);
                    (
                        received.map(|response| response.map(Event::Response)),
                        &mut connection.deadline,
                    )
                }
                SendState::Done => unreachable!("a request was polled after its end"),
            };
            let outcome = match outcome {
                Poll::Ready(outcome) => outcome,
                Poll::Pending if deadline.poll(context).is_ready() => {
                    Err(HttpError::Time(sending.limits.time))
                }
                Poll::Pending => return Poll::Pending,
            };
            let state = mem::replace(&mut sending.state, SendState::Done);
            match (outcome, state) {
                (Ok(Event::Open(stream)), SendState::Opening { peer, deadline, .. }) => {
                    sending.state = sending.talk(Connection::new(peer, stream, deadline), false);
                }
                (Ok(Event::Response(response)), SendState::Talking { connection, .. }) => {
                    if connection.is_clean() {
                        sending.client.pool().put(connection);
                    }
                    return Poll::Ready(Ok(response));
                }
                // A peer may close a connection while a request is on its way to it. A second time
                // would be no accident.
                (Err(fault), SendState::Talking { connection, is_kept: true, .. })
                    if fault.may_repeat(&sending.method) =>
                {
                    sending.state = sending.open(connection.peer().clone(), connection.deadline);
                }
                (Err(fault), _) => return Poll::Ready(Err(fault)),
                (Ok(_), _) => unreachable!("nothing else can come of that"),
            }
        }
    }
}
