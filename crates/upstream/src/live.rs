//! A request body that the application gets while the client still sends it. It can be read once,
//! so the request cannot be asked again when some of it was sent.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Pieces on their way to the application: one is written while the next one comes. More would be
/// memory for each upload.
const PIECES: usize = 2;

/// The end at which the application's connection reads.
#[derive(Debug)]
pub struct LiveBody {
    length: Option<u64>,
    pieces: Mutex<Receiver<Option<Bytes>>>,
}

/// The end into which the client's bytes are put. Dropped before [`LiveSender::end`], it cuts the
/// body short.
#[derive(Debug)]
pub struct LiveSender(Sender<Option<Bytes>>);

/// What comes next of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Piece(Bytes),
    End,
    /// The client does not send the rest.
    Cut,
}

impl LiveBody {
    /// A body of so many bytes, if that is known.
    pub fn new(length: Option<u64>) -> (LiveSender, Arc<LiveBody>) {
        let (sender, pieces) = channel(PIECES);
        (LiveSender(sender), Arc::new(LiveBody { length, pieces: Mutex::new(pieces) }))
    }

    /// How long it is, if that is known.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.poll_recv(context).map(|piece| match piece {
            Some(Some(piece)) => Next::Piece(piece),
            Some(None) => Next::End,
            None => Next::Cut,
        })
    }
}

impl LiveSender {
    /// Puts the next piece, when there is room; false: nobody reads any more.
    pub async fn put(&self, piece: Bytes) -> bool {
        self.0.send(Some(piece)).await.is_ok()
    }

    /// Returns when nobody reads any more.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// All pieces were put.
    pub async fn end(self) {
        // Who does not read any more need not know.
        let _ = self.0.send(None).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

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
                assert!(pin!(sender.end()).poll(&mut context).is_ready());
                assert_eq!(body.poll_next(&mut context), Poll::Ready(Next::End));
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
