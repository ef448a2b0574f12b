//! The body of a request that comes over HTTP/3.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use h3::server::RequestStream;
use http::StatusCode;
use http::header::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::gate::Gate;
use super::stream::Stream;
use super::transport::RecvStream;
use crate::client::Client;
use crate::request::body::Cut;

/// A body that has not been read.
pub struct StreamBody {
    stream: RequestStream<RecvStream, Bytes>,
    gate: Arc<Gate>,
    /// What had come with the head.
    first: Option<Bytes>,
    /// How much of it is missing, if the client says its length.
    missing: Option<u64>,
    position: Position,
    /// The client, if it waits for `100 Continue` before it sends the body.
    waiting: Option<Arc<Stream>>,
}

/// What comes next of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Data,
    Trailers,
    End,
}

impl StreamBody {
    /// The body of a request, of this length if the client says it. `waiting`: its client, if it
    /// wants `100 Continue` first.
    pub fn new(
        stream: RequestStream<RecvStream, Bytes>,
        client: &Arc<Stream>,
        length: Option<u64>,
        expects: bool,
    ) -> StreamBody {
        let mut body = StreamBody {
            stream,
            gate: client.gate.clone(),
            first: None,
            missing: length,
            position: Position::Data,
            waiting: None,
        };
        // Most requests have no body: their end has come with the head.
        let mut cx = Context::from_waker(Waker::noop());
        match body.poll_data(&mut cx) {
            Poll::Ready(Ok(Some(bytes))) => body.first = Some(bytes),
            Poll::Ready(Ok(None)) if body.missing.unwrap_or(0) == 0 => {
                if let Poll::Ready(Ok(None)) = body.poll_trailers(&mut cx) {
                    body.position = Position::End;
                }
            }
            // What is wrong shows again when the body is read.
            Poll::Ready(_) | Poll::Pending => {}
        }
        body.waiting = Some(client.clone()).filter(|_| expects);
        body
    }

    /// Polls the library so that it holds little: it reads on only when it has nothing.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        let StreamBody { stream, gate, .. } = self;
        let mut poll = |cx: &mut Context<'_>| {
            let data = ready!(stream.poll_recv_data(cx));
            Poll::Ready(data.map(|data| data.map(|mut data| data.copy_to_bytes(data.remaining()))))
        };
        gate.close();
        let mut polled = poll(cx);
        if polled.is_pending() {
            gate.open();
            polled = poll(cx);
        }
        if polled.is_ready() {
            gate.used();
        }
        polled
    }

    fn poll_trailers(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<HeaderMap>, StreamError>> {
        self.gate.open();
        self.stream.poll_recv_trailers(cx)
    }

    /// The next piece, and whether that is all of the data.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Cut>> {
        let piece = match self.first.take() {
            Some(first) => Some(first),
            None => ready!(self.poll_data(cx)).map_err(|error| cut(&error))?,
        };
        if let Some(missing) = &mut self.missing {
            // A length that is wrong makes the request malformed (RFC 9114 section 4.1.2).
            let rest = match &piece {
                Some(piece) => missing.checked_sub(piece.len() as u64),
                None => (*missing == 0).then_some(0),
            };
            let Some(rest) = rest else {
                self.stream.stop_sending(Code::H3_MESSAGE_ERROR);
                return Poll::Ready(Err(Cut::Lost));
            };
            *missing = rest;
        }
        Poll::Ready(Ok(piece))
    }
}

fn cut(error: &StreamError) -> Cut {
    match error {
        StreamError::HeaderTooBig { .. } => Cut::TooLarge,
        _ => Cut::Lost,
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = &mut *self;
        if this.position == Position::Data {
            let polled = this.poll_piece(cx);
            if let Some(client) = this.waiting.take()
                && polled.is_pending()
            {
                client.send_interim(StatusCode::CONTINUE, &HeaderMap::new());
            }
            match ready!(polled) {
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Ok(None) => this.position = Position::Trailers,
                Err(cut) => {
                    this.position = Position::End;
                    return Poll::Ready(Some(Err(cut)));
                }
            }
        }
        if this.position == Position::Trailers {
            let trailers = ready!(this.poll_trailers(cx));
            this.position = Position::End;
            let trailers = trailers.map_err(|error| cut(&error)).transpose();
            return Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.position == Position::End
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_end_stream() {
            return SizeHint::with_exact(0);
        }
        self.missing.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        if self.position != Position::End {
            self.stream.stop_sending(Code::H3_NO_ERROR);
        }
    }
}
