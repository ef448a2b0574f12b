//! Reads a response's body into the cache while a client gets it. The client never waits for the
//! cache, nor the cache for the client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokamak_cost::Ledger;

use super::{Broken, Source};

/// Bytes that all bodies on their way into the cache may take together. It is counted apart from
/// the cache's own memory, because the bytes that a slow client has not taken yet stay in memory
/// after the cache has its copy.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: u64) -> Budget {
        Budget { left: AtomicU64::new(bytes) }
    }

    /// Takes this many bytes. `false`: fewer are left, and nothing is taken.
    fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The state that the reader (which sends) and the writer (which stores) share.
struct TeeState {
    budget: Arc<Budget>,
    /// The bytes that this body has taken from the budget.
    held: u64,
    pieces: Vec<Bytes>,
    end: Option<End>,
    /// The waker of the reader that waits for more.
    reader: Option<Waker>,
}

impl Drop for TeeState {
    fn drop(&mut self) {
        self.budget.give_back(self.held);
    }
}

enum End {
    Complete,
    Broken(Broken),
    /// The body is too large for the cache or for the rest of the budget: the client reads the rest
    /// alone.
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

/// Makes both sides for a body that has not begun.
pub fn tee(budget: Arc<Budget>) -> (TeeWriter, TeeReader) {
    let state = TeeState { budget, held: 0, pieces: Vec::new(), end: None, reader: None };
    let state = Arc::new(Mutex::new(state));
    (TeeWriter(state.clone()), TeeReader { state, sent: 0, rest: None })
}

fn lock(state: &Mutex<TeeState>) -> MutexGuard<'_, TeeState> {
    // If a panic has poisoned the lock, it has been reported. The bytes that have come are still
    // usable.
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl TeeReader {
    /// The fields that follow the body, as [`Source::take_trailers`]. Of what the cache has read
    /// there are none: it keeps nothing that announces them.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.rest.as_mut()?.take_trailers()
    }

    /// Polls for the next piece.
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
    /// Reads `source` to its end. `None`: it is longer than `most`, exceeds the budget, or broke
    /// off.
    pub async fn fill(self, mut source: Source, most: u64, ledger: &mut Ledger) -> Option<Bytes> {
        let mut length = 0;
        loop {
            match std::future::poll_fn(|cx| source.poll_piece(ledger, cx)).await {
                Some(Ok(bytes)) => {
                    length += bytes.len() as u64;
                    let is_too_long = length > most || !self.hold(bytes.len() as u64);
                    let end = is_too_long.then(|| {
                        End::Rest(Box::new(std::mem::replace(&mut source, Source::Empty)))
                    });
                    self.push(Some(bytes), end);
                    if is_too_long {
                        return None;
                    }
                }
                Some(Err(broken)) => {
                    self.push(None, Some(End::Broken(broken)));
                    return None;
                }
                None => {
                    self.push(None, Some(End::Complete));
                    let state = lock(&self.0);
                    let mut all = BytesMut::with_capacity(length as usize);
                    state.pieces.iter().for_each(|piece| all.extend_from_slice(piece));
                    return Some(all.freeze());
                }
            }
        }
    }

    /// Takes this many more bytes from the budget, if they are left.
    fn hold(&self, bytes: u64) -> bool {
        let mut state = lock(&self.0);
        let has_room = state.budget.take(bytes);
        state.held += if has_room { bytes } else { 0 };
        has_room
    }

    fn push(&self, piece: Option<Bytes>, end: Option<End>) {
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

/// If the writer stops for any reason, the client must not be left waiting.
impl Drop for TeeWriter {
    fn drop(&mut self) {
        let is_open = lock(&self.0).end.is_none();
        // The client's side may have seen the end already. Then it waits for nothing.
        if is_open && Arc::strong_count(&self.0) > 1 {
            self.push(None, Some(End::Broken(Broken("the server stopped reading the response"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// The bytes of a reader up to its end.
    async fn read(mut reader: TeeReader) -> Vec<u8> {
        let mut all = Vec::new();
        let mut ledger = Ledger::unread(0);
        while let Some(Ok(bytes)) = poll_fn(|cx| reader.poll_piece(&mut ledger, cx)).await {
            all.extend_from_slice(&bytes);
        }
        all
    }

    async fn fill(writer: TeeWriter, bytes: usize) -> Option<Bytes> {
        let source = Source::Whole(vec![b'a'; bytes].into());
        writer.fill(source, 1 << 20, &mut Ledger::unread(0)).await
    }

    #[tokio::test]
    async fn bodies_share_a_budget_until_their_clients_have_them() {
        let budget = Arc::new(Budget::new(1000));
        let (writer, slow) = tee(budget.clone());
        assert_eq!(fill(writer, 600).await.map(|body| body.len()), Some(600));
        let (writer, second) = tee(budget.clone());
        assert_eq!(fill(writer, 600).await, None, "the slow client still holds its bytes");
        assert_eq!(read(second).await.len(), 600, "its client has all of it");
        assert_eq!(read(slow).await.len(), 600);
        let (writer, third) = tee(budget.clone());
        assert_eq!(fill(writer, 600).await.map(|body| body.len()), Some(600));
        drop(third);
        assert!(budget.take(1000) && !budget.take(1), "all of it has come back");
    }
}
