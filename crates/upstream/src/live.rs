//! A request body that the application gets while the client still sends it. It can be read once,
//! so the request cannot be asked again when some of it was sent, but for the beginning, which is
//! kept for an application that may refuse to look at the request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Pieces on their way to the application: one is written while the next one comes. More would be
/// memory for each upload.
const PIECES: usize = 2;

/// Most bytes that are kept to be read again. Messages of remote calls are mostly smaller; ten
/// times more would be memory for each upload, while it is not answered.
const KEPT: usize = 64 * 1024;

/// The end at which the application's connection reads.
#[derive(Debug)]
pub struct LiveBody {
    length: Option<u64>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    pieces: Receiver<Sent>,
    /// What has been read, as long as it can be read again.
    kept: Vec<Next>,
    /// Its bytes.
    size: usize,
    /// It cannot.
    is_lost: bool,
}

/// The end into which the client's bytes are put. Dropped before [`LiveSender::end`], it cuts the
/// body short.
#[derive(Debug)]
pub struct LiveSender(Sender<Sent>);

/// What is on its way.
#[derive(Debug)]
enum Sent {
    Piece(Bytes),
    /// All pieces were put; these fields follow them.
    End(Vec<u8>),
}

/// What comes next of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Piece(Bytes),
    /// The fields that follow the body: lines `name: value CR LF`.
    End(Vec<u8>),
    /// The client does not send the rest.
    Cut,
}

impl LiveBody {
    /// A body of so many bytes, if that is known.
    pub fn new(length: Option<u64>) -> (LiveSender, Arc<LiveBody>) {
        let (sender, pieces) = channel(PIECES);
        let inner = Inner { pieces, kept: Vec::new(), size: 0, is_lost: false };
        (LiveSender(sender), Arc::new(LiveBody { length, inner: Mutex::new(inner) }))
    }

    /// How long it is, if that is known.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// What comes next, which is not kept.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let inner = &mut *self.inner();
        inner.forget();
        inner.poll_next(context)
    }

    /// What comes behind the first `at` pieces, which counts them on. The beginning is kept.
    pub(crate) fn poll_at(&self, at: &mut usize, context: &mut Context<'_>) -> Poll<Next> {
        let inner = &mut *self.inner();
        let next = match inner.kept.get(*at) {
            Some(kept) => kept.clone(),
            None => {
                let next = ready!(inner.poll_next(context));
                inner.keep(&next);
                next
            }
        };
        *at += 1;
        Poll::Ready(next)
    }

    /// Whether it can still be read from its beginning.
    pub(crate) fn can_be_read_again(&self) -> bool {
        !self.inner().is_lost
    }

    /// It is not going to be read from its beginning again.
    pub(crate) fn forget(&self) {
        self.inner().forget();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere cannot leave it half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        self.pieces.poll_recv(context).map(|piece| match piece {
            Some(Sent::Piece(piece)) => Next::Piece(piece),
            Some(Sent::End(trailers)) => Next::End(trailers),
            None => Next::Cut,
        })
    }

    fn keep(&mut self, next: &Next) {
        let length = match next {
            Next::Piece(bytes) => bytes.len(),
            Next::End(trailers) => trailers.len(),
            Next::Cut => 0,
        };
        self.size += length;
        if self.size > KEPT {
            self.forget();
        }
        if !self.is_lost {
            self.kept.push(next.clone());
        }
    }

    fn forget(&mut self) {
        self.is_lost = true;
        self.kept = Vec::new();
    }
}

impl LiveSender {
    /// Puts the next piece, when there is room; false: nobody reads any more.
    pub async fn put(&self, piece: Bytes) -> bool {
        self.0.send(Sent::Piece(piece)).await.is_ok()
    }

    /// Returns when nobody reads any more.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// All pieces were put. These fields follow them: lines `name: value CR LF`.
    pub async fn end(self, trailers: Vec<u8>) {
        // Who does not read any more need not know.
        let _ = self.0.send(Sent::End(trailers)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    #[test]
    fn the_beginning_can_be_read_again() {
        let mut context = Context::from_waker(Waker::noop());
        let (sender, body) = LiveBody::new(None);
        let put = |piece: Vec<u8>| {
            let mut put = pin!(sender.put(piece.into()));
            assert!(put.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        };
        put(b"a".to_vec());
        let first = Poll::Ready(Next::Piece(Bytes::from_static(b"a")));
        for _ in 0..2 {
            let mut at = 0;
            assert_eq!(body.poll_at(&mut at, &mut context), first);
            assert_eq!(body.poll_at(&mut at, &mut context), Poll::Pending);
            assert_eq!(at, 1);
        }
        assert!(body.can_be_read_again());
        put(vec![b'b'; KEPT]);
        let mut at = 1;
        assert!(body.poll_at(&mut at, &mut context).is_ready());
        assert!(!body.can_be_read_again(), "no more is kept");
        put(b"c".to_vec());
        let last = Poll::Ready(Next::Piece(Bytes::from_static(b"c")));
        assert_eq!(body.poll_at(&mut at, &mut context), last);
    }

    #[test]
    fn pieces_come_in_order_and_the_end_is_no_cut() {
        let mut context = Context::from_waker(Waker::noop());
        for is_whole in [true, false] {
            let (sender, body) = LiveBody::new(None);
            assert_eq!(body.poll_next(&mut context), Poll::Pending);
            let put = |piece: &'static [u8]| {
                let mut put = pin!(sender.put(Bytes::from_static(piece)));
                put.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            };
            assert_eq!(
                [put(b"a"), put(b"b"), put(b"c")],
                [Poll::Ready(true), Poll::Ready(true), Poll::Pending]
            );
            for piece in ["a", "b"] {
                let expected = Next::Piece(Bytes::from_static(piece.as_bytes()));
                assert_eq!(body.poll_next(&mut context), Poll::Ready(expected));
            }
            if is_whole {
                assert!(pin!(sender.end(b"x: y\r\n".to_vec())).poll(&mut context).is_ready());
                let end = Next::End(b"x: y\r\n".to_vec());
                assert_eq!(body.poll_next(&mut context), Poll::Ready(end));
            } else {
                drop(sender);
                assert_eq!(body.poll_next(&mut context), Poll::Ready(Next::Cut));
            }
        }
        let (sender, body) = LiveBody::new(Some(3));
        assert_eq!(body.length(), Some(3));
        drop(body);
        let mut put = pin!(sender.put(Bytes::from_static(b"x")));
        assert_eq!(put.as_mut().poll(&mut context), Poll::Ready(false));
    }
}
