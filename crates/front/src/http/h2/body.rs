//! The body of a request that comes over HTTP/2.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::h2::RecvStream;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};

use super::stream::Stream;
use crate::client::Client;
use crate::request::body::Cut;

/// A body that has not been read.
pub struct StreamBody {
    stream: RecvStream,
    /// Its length, if the client says it.
    length: Option<u64>,
    /// The client, if it waits for `100 Continue` before it sends the body.
    waiting: Option<Arc<Stream>>,
}

impl StreamBody {
    /// The body of a request. `waiting`: its client, if it wants `100 Continue` first.
    pub fn new(
        stream: RecvStream,
        length: Option<u64>,
        waiting: Option<Arc<Stream>>,
    ) -> StreamBody {
        StreamBody { stream, length, waiting }
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if let Some(client) = self.waiting.take()
            && !self.stream.is_end_stream()
        {
            client.send_interim(StatusCode::CONTINUE, &HeaderMap::new());
        }
        let frame = match ready!(self.stream.poll_data(cx)) {
            // Trailers are left out, as those of HTTP/1 are: nothing behind this reads them.
            None => None,
            Some(Ok(data)) => {
                // What has been read is in memory or in a file, so the client may send as much
                // again.
                let released = self.stream.flow_control().release_capacity(data.len());
                Some(released.map(|()| Frame::data(data)).map_err(|_| Cut::Lost))
            }
            Some(Err(_)) => Some(Err(Cut::Lost)),
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.stream.is_end_stream() {
            return SizeHint::with_exact(0);
        }
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
