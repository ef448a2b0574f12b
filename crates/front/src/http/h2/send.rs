//! Sends a response over HTTP/2, as fast as the client takes it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use tokamak_nghttp2::Reason;
use tokio::time::{Instant, Sleep, sleep};

use super::scheduler::SEND_BUFFER;
use super::stream::Stream;
use crate::client::activity::time_of;
use crate::http::multiplex::{Pace, complete};
use crate::response::Reply;

/// A response on its way to the client.
pub struct Sending {
    stream: Arc<Stream>,
    body: Reply,
    /// The piece that is being sent.
    piece: Bytes,
    pace: Pace,
    /// When the response ends because the client takes too little of it. Set once its flow control
    /// has made the server wait.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Since when the response waits for something else than the client, once there is a deadline.
    excused: Option<Instant>,
}

impl Sending {
    /// Begins a response: sends its head. `None`: that was all of it.
    pub fn begin(
        stream: Arc<Stream>,
        response: Response<Reply>,
        is_head: bool,
        pace: Pace,
    ) -> Option<Sending> {
        let (head, body, is_end) = complete(response, is_head);
        stream.set_response_priority(head.headers());
        let has_body = stream.respond(&head, is_end);
        has_body.then(|| Sending {
            stream,
            body,
            piece: Bytes::new(),
            pace,
            deadline: None,
            excused: None,
        })
    }

    /// Waits until the client takes some bytes. `None`: it has gone.
    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        // More would take the share of other requests, while it is held.
        let wanted = self.piece.len().min(SEND_BUFFER);
        if let (Some(deadline), Some(since)) = (&mut self.deadline, self.excused.take()) {
            let until = deadline.deadline() + since.elapsed();
            deadline.as_mut().reset(until);
        }
        if let Poll::Ready(capacity) = self.stream.poll_capacity(wanted, cx) {
            if let (Some(deadline), Some(bytes)) = (&mut self.deadline, capacity) {
                // Single bytes do not renew the deadline: they gain the time that they take at the
                // lowest rate. Requests that share the line share that, too.
                let rate = self.pace.rate.div_ceil(self.stream.neighbours().max(1).into());
                let most = Instant::now() + self.pace.patience;
                let gained = Duration::from_nanos(time_of(bytes as u64, rate));
                let until = deadline.deadline().checked_add(gained).map_or(most, |at| at.min(most));
                deadline.as_mut().reset(until);
            }
            return Poll::Ready(capacity);
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(self.pace.patience)));
        ready!(deadline.as_mut().poll(cx));
        self.stream.reset(Reason::CANCEL);
        Poll::Ready(None)
    }

    /// Waits for something else than the client: its time stands still.
    fn excuse(&mut self) -> Poll<()> {
        if self.deadline.is_some() && self.excused.is_none() {
            self.excused = Some(Instant::now());
        }
        Poll::Pending
    }
}

impl Future for Sending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sending = &mut *self;
        loop {
            if sending.piece.is_empty() {
                let Poll::Ready(frame) = Pin::new(&mut sending.body).poll_frame(cx) else {
                    return sending.excuse();
                };
                match frame {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(piece) => sending.piece = piece,
                        Err(frame) => {
                            let trailers = frame.into_trailers().unwrap_or_default();
                            sending.stream.send_trailers(trailers);
                            return Poll::Ready(());
                        }
                    },
                    Some(Err(_)) => {
                        sending.stream.reset(Reason::INTERNAL_ERROR);
                        return Poll::Ready(());
                    }
                    None => {
                        sending.stream.send(Bytes::new(), true);
                        return Poll::Ready(());
                    }
                }
                continue;
            }
            if sending.stream.poll_turn(cx).is_pending() {
                return sending.excuse();
            }
            let Some(capacity) = ready!(sending.poll_capacity(cx)) else { return Poll::Ready(()) };
            let part = sending.piece.split_to(capacity.min(sending.piece.len()));
            let is_end = sending.piece.is_empty() && sending.body.is_end_stream();
            if !sending.stream.send(part, is_end) {
                return Poll::Ready(());
            }
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.stream.leave();
    }
}
