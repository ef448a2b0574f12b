//! The body of a request that comes over HTTP/2.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};

use tokamak_nghttp2::Head;

use super::shared::Shared;
use super::stream::Stream;
use crate::client::Client;
use crate::request::body::Cut;

/// A body that has not been read.
pub struct StreamBody {
    session: Arc<Shared>,
    /// The number of its stream.
    id: u32,
    /// Its length, if the client says it.
    length: Option<u64>,
    /// Whether all of it has been read.
    is_read: bool,
    /// The client, if it waits for `100 Continue` before it sends the body.
    waiting: Option<Arc<Stream>>,
}

impl StreamBody {
    /// The body of a request. `waiting`: its client, if it wants `100 Continue` first.
    pub fn new(
        session: Arc<Shared>,
        id: u32,
        length: Option<u64>,
        waiting: Option<Arc<Stream>>,
    ) -> StreamBody {
        let is_read = session.lock().session.is_body_taken(id);
        StreamBody { session, id, length, is_read, waiting }
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
        if this.is_read {
            return Poll::Ready(None);
        }
        let id = this.id;
        // What is taken is in memory or in a file, so the client may send as much again.
        let bytes = this.session.change(|session| session.take_body(id));
        let mut inner = this.session.lock();
        let is_read = inner.session.is_body_taken(id)
            && (bytes.is_empty() || !inner.session.has_trailers(id));
        let polled = if !bytes.is_empty() {
            Poll::Ready(Some(Ok(Frame::data(bytes))))
        } else if is_read {
            Poll::Ready(inner.session.take_trailers(id).map(trailers))
        } else if inner.end_of(id).is_some() {
            Poll::Ready(Some(Err(Cut::Lost)))
        } else {
            if let Some(kept) = inner.session.data(id) {
                kept.reader = Some(cx.waker().clone());
            }
            Poll::Pending
        };
        drop(inner);
        this.is_read = is_read;
        if let Some(client) = this.waiting.take()
            && polled.is_pending()
        {
            client.send_interim(StatusCode::CONTINUE, &HeaderMap::new());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.is_read
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_read {
            return SizeHint::with_exact(0);
        }
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The fields behind a body, as a frame of it.
fn trailers(head: Head) -> Result<Frame<Bytes>, Cut> {
    if head.is_cut {
        return Err(Cut::TooLarge);
    }
    let mut fields = HeaderMap::with_capacity(head.len());
    for (name, value) in head.fields() {
        // The library has refused what cannot be a field.
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_maybe_shared(value))
        {
            fields.append(name, value);
        }
    }
    Ok(Frame::trailers(fields))
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let id = self.id;
        if !self.is_read {
            self.session.change(|session| session.drop_body(id));
        }
    }
}
