//! A response's body that is read into the cache while a client is sent it: the client never waits
//! for the cache, nor the cache for the client.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use tokamak_cost::Ledger;

use super::{Broken, Source};

/// What has come so far, for the one who stores it and the one who sends it.
#[derive(Default)]
struct TeeState {
    pieces: Vec<Bytes>,
    end: Option<End>,
    /// Who waits for more.
    reader: Option<Waker>,
}

enum End {
    Complete,
    Broken(Broken),
    /// It is too large for the cache: the rest is the client's alone.
    Rest(Box<Source>),
}

/// The client's side.
pub struct TeeReader {
    state: Arc<Mutex<TeeState>>,
    /// Pieces that have been sent.
    sent: usize,
    rest: Option<Box<Source>>,
}

/// The cache's side.
pub struct TeeWriter(Arc<Mutex<TeeState>>);

/// A body that has not begun.
pub fn tee() -> (TeeWriter, TeeReader) {
    let state = Arc::new(Mutex::default());
    (TeeWriter(state.clone()), TeeReader { state, sent: 0, rest: None })
}

fn lock(state: &Mutex<TeeState>) -> MutexGuard<'_, TeeState> {
    // Poisoned by a panic that has been reported; what has come, has come.
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl TeeReader {
    /// The next piece.
    pub fn poll_piece(
        &mut self,
        ledger: &mut Ledger,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        if let Some(rest) = &mut self.rest {
            return rest.poll_piece(ledger, cx);
        }
        let mut state = lock(&self.state);
        if let Some(piece) = state.pieces.get(self.sent) {
            self.sent += 1;
            return Poll::Ready(Some(Ok(piece.clone())));
        }
        match state.end.take() {
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(End::Complete) => {
                state.end = Some(End::Complete);
                Poll::Ready(None)
            }
            Some(End::Broken(broken)) => Poll::Ready(Some(Err(broken))),
            Some(End::Rest(source)) => {
                drop(state);
                self.rest.insert(source).poll_piece(ledger, cx)
            }
        }
    }
}

impl TeeWriter {
    /// Reads all of `source`. `None`: it is longer than `most`, or broken.
    pub async fn fill(self, mut source: Source, most: u64, ledger: &mut Ledger) -> Option<Bytes> {
        let mut length = 0;
        loop {
            match std::future::poll_fn(|cx| source.poll_piece(ledger, cx)).await {
                Some(Ok(bytes)) => {
                    length += bytes.len() as u64;
                    let is_too_long = length > most;
                    let end = is_too_long.then(|| {
                        End::Rest(Box::new(std::mem::replace(&mut source, Source::Empty)))
                    });
                    self.tell(Some(bytes), end);
                    if is_too_long {
                        return None;
                    }
                }
                Some(Err(broken)) => {
                    self.tell(None, Some(End::Broken(broken)));
                    return None;
                }
                None => {
                    self.tell(None, Some(End::Complete));
                    let state = lock(&self.0);
                    let mut all = BytesMut::with_capacity(length as usize);
                    state.pieces.iter().for_each(|piece| all.extend_from_slice(piece));
                    return Some(all.freeze());
                }
            }
        }
    }

    fn tell(&self, piece: Option<Bytes>, end: Option<End>) {
        let mut state = lock(&self.0);
        state.pieces.extend(piece);
        state.end = end;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// One who stops reading for whatever reason must not leave the client waiting.
impl Drop for TeeWriter {
    fn drop(&mut self) {
        let is_open = lock(&self.0).end.is_none();
        // The client's side may have taken the end already; it waits for nothing then.
        if is_open && Arc::strong_count(&self.0) > 1 {
            self.tell(None, Some(End::Broken(Broken("the server stopped reading the response"))));
        }
    }
}
