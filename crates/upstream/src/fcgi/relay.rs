//! The rest of a response on its way to a client that may be slow: read from the application as
//! fast as it comes, up to a bound, so that the connection is free again when the application is
//! done and not when the client is.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::error::UpstreamError;
use super::exchange::{Event, Exchange};

/// What a piece is counted beside its bytes, for what it costs to keep: an application may send its
/// response byte by byte.
const PIECE: usize = 128;

/// The reading end. Dropping it ends the exchange.
#[derive(Debug)]
pub struct Relay {
    pieces: UnboundedReceiver<Result<Bytes, UpstreamError>>,
    /// Bytes that may be held beside those that are.
    room: Arc<Semaphore>,
    most: usize,
}

impl Relay {
    /// Goes on with `exchange` in a task of its own, behind `first`, which has been read already.
    /// At most `most` bytes are held for the client. What the application complains about goes to
    /// `complaints`.
    pub fn start(
        exchange: Exchange,
        first: Vec<Bytes>,
        most: usize,
        complaints: impl FnMut(&[u8]) + Send + 'static,
    ) -> Relay {
        let (sender, pieces) = unbounded_channel();
        let most = most.clamp(1, u32::MAX as usize);
        let room = Arc::new(Semaphore::new(most));
        tokio::spawn(pump(exchange, first, sender, room.clone(), most, complaints));
        Relay { pieces, room, most }
    }

    /// The next piece; nothing at the end of the response.
    ///
    /// # Errors
    /// Fails if the rest of the response is lost.
    pub fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        let piece = ready!(self.pieces.poll_recv(context));
        if let Some(Ok(bytes)) = &piece {
            self.room.add_permits(weight(bytes, self.most) as usize);
        }
        // Its last word is an empty piece; without one the task did not come to its end.
        Poll::Ready(match piece {
            Some(Ok(bytes)) if bytes.is_empty() => None,
            Some(piece) => Some(piece),
            None => Some(Err(UpstreamError::Closed { answered: true })),
        })
    }
}

/// How much of the room, which is `most`, a piece takes.
fn weight(piece: &Bytes, most: usize) -> u32 {
    (piece.len() + PIECE).min(most) as u32
}

async fn pump(
    mut exchange: Exchange,
    first: Vec<Bytes>,
    sender: UnboundedSender<Result<Bytes, UpstreamError>>,
    room: Arc<Semaphore>,
    most: usize,
    mut complaints: impl FnMut(&[u8]),
) {
    let mut first = first.into_iter();
    loop {
        let event = match first.next() {
            Some(bytes) => Ok(Event::Stdout(bytes)),
            None => tokio::select! {
                event = exchange.next() => event,
                () = sender.closed() => return,
            },
        };
        let last = match event {
            Ok(Event::Stdout(bytes)) => {
                tokio::select! {
                    permit = room.acquire_many(weight(&bytes, most)) => match permit {
                        Ok(permit) => permit.forget(),
                        Err(_) => return,
                    },
                    () = sender.closed() => return,
                }
                if sender.send(Ok(bytes)).is_err() {
                    return;
                }
                continue;
            }
            Ok(Event::Stderr(bytes)) => {
                complaints(&bytes);
                continue;
            }
            Ok(Event::End) => Ok(Bytes::new()),
            Err(fault) => Err(fault),
        };
        let _ = sender.send(last);
        return;
    }
}
