//! A body that is compressed while it is sent.
//!
//! What the source has at hand is compressed together; when the source has to wait, the encoder is
//! flushed, so that the client can read all that has come. Thus a `flush()` of PHP reaches it.
//!
//! ```text
//! Here ── piece, small burst ──► Here
//!  │  ▲
//!  │  └───── the thread is done ───── Away      the encoder compresses on another thread
//!  ├──────── piece, large burst ────► Away
//!  └──────── end of the source ─────► Done
//! ```

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use tokamak_config::Coding;
use tokamak_cost::Ledger;
use tokio::sync::Semaphore;

use super::AT_ONCE;
use super::encoder::{Encoder, Then};
use super::stored::Stored;
use crate::response::{Broken, Source};

/// Most encoders of bodies that are being sent. One of zstd takes 1.2 MiB, of br 2.0, of gzip 0.4
/// (measured), and a client that reads slowly keeps its encoder for long: with ten times more, such
/// clients could take gigabytes; with a tenth, some downloads would keep pages from being
/// compressed. One more response is sent as it is.
const MOST_ENCODERS: usize = 128;

/// Bytes that another thread compresses before the client gets any of them. With ten times more, a
/// body would wait in memory; with a tenth, the way to the thread would cost more than the work.
const STEP: usize = 128 * 1024;

/// Encoders in use.
static ENCODERS: AtomicUsize = AtomicUsize::new(0);

/// Threads that may compress at a time: one for each core, beside the event loops, which then have
/// to share the cores with them as with other processes.
static THREADS: LazyLock<Semaphore> = LazyLock::new(|| {
    Semaphore::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
});

/// A place among [`MOST_ENCODERS`].
struct EncoderPermit;

impl EncoderPermit {
    fn take() -> Option<EncoderPermit> {
        let one_more = |used| (used < MOST_ENCODERS).then_some(used + 1);
        let taken = ENCODERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| EncoderPermit)
    }
}

impl Drop for EncoderPermit {
    fn drop(&mut self) {
        ENCODERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An encoder with its place.
type Placed = (Encoder, EncoderPermit);

type Work = Pin<Box<dyn Future<Output = io::Result<(Placed, Bytes)>> + Send>>;

enum State {
    Here(Placed),
    Away(Work),
    Done,
}

/// A body that is compressed while it is sent.
pub struct Compressed {
    source: Source,
    state: State,
    /// What has come and is not compressed yet.
    piece: Bytes,
    /// Bytes that were compressed since the source last had to wait.
    burst: usize,
    /// Whether the encoder may hold bytes back that the client could have.
    holds_back: bool,
    coding: Coding,
    /// The stored response that the body is of, and the output so far.
    stored: Option<(Box<Stored>, Vec<Bytes>)>,
}

impl Compressed {
    /// Begins to compress a body, and keeps the outcome if it is that of a stored response.
    /// `false`: it has to be sent as it is, because too many are being compressed, or memory is
    /// short.
    pub fn begin(source: Source, coding: Coding, stored: Option<Box<Stored>>) -> (Source, bool) {
        let encoder =
            EncoderPermit::take().and_then(|place| Some((Encoder::new(coding).ok()?, place)));
        let Some(encoder) = encoder else { return (source, false) };
        let compressed = Compressed {
            source,
            state: State::Here(encoder),
            piece: Bytes::new(),
            burst: 0,
            holds_back: false,
            coding,
            stored: stored.map(|stored| (stored, Vec::new())),
        };
        (Source::Compressed(Box::new(compressed)), true)
    }

    /// The fields that follow the body, as [`Source::take_trailers`].
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.source.take_trailers()
    }

    /// Polls for the next bytes.
    pub fn poll_piece(
        &mut self,
        ledger: &mut Ledger,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            let output = match &mut self.state {
                State::Done => return Poll::Ready(None),
                State::Away(work) => {
                    let done = ready!(work.as_mut().poll(cx));
                    self.state = State::Done;
                    done.map(|(encoder, output)| {
                        self.state = State::Here(encoder);
                        output
                    })
                }
                State::Here((encoder, _)) if self.piece.is_empty() => {
                    match self.source.poll_piece(ledger, cx) {
                        Poll::Ready(Some(Ok(piece))) => {
                            self.piece = piece;
                            continue;
                        }
                        Poll::Ready(Some(Err(broken))) => {
                            self.state = State::Done;
                            return Poll::Ready(Some(Err(broken)));
                        }
                        Poll::Ready(None) => {
                            let output = encoder.push(&[], Then::Finish);
                            self.state = State::Done;
                            output
                        }
                        Poll::Pending if self.holds_back => {
                            self.holds_back = false;
                            encoder.push(&[], Then::Flush)
                        }
                        Poll::Pending => {
                            self.burst = 0;
                            return Poll::Pending;
                        }
                    }
                }
                State::Here(_) => self.compress(),
            };
            match output {
                Ok(output) => {
                    self.keep(&output);
                    if !output.is_empty() {
                        return Poll::Ready(Some(Ok(output)));
                    }
                }
                Err(_) => {
                    self.state = State::Done;
                    return Poll::Ready(Some(Err(Broken("the response cannot be compressed"))));
                }
            }
        }
    }

    /// Compresses the next part of the piece, here or on another thread.
    fn compress(&mut self) -> io::Result<Bytes> {
        let part = self.piece.split_to(self.piece.len().min(STEP));
        self.holds_back = true;
        self.burst += part.len();
        let State::Here(mut encoder) = std::mem::replace(&mut self.state, State::Done) else {
            unreachable!("a part is compressed only when the encoder is here")
        };
        if self.burst > AT_ONCE {
            self.state = State::Away(Box::pin(away(encoder, part)));
            return Ok(Bytes::new());
        }
        let output = encoder.0.push(&part, Then::GoOn);
        self.state = State::Here(encoder);
        output
    }

    /// Notes the output for the content cache, and passes it on when it is complete.
    fn keep(&mut self, output: &Bytes) {
        let Some((_, outputs)) = &mut self.stored else { return };
        if !output.is_empty() {
            outputs.push(output.clone());
        }
        if matches!(self.state, State::Done)
            && let Some((stored, outputs)) = self.stored.take()
        {
            stored.keep(self.coding, outputs.concat().into());
        }
    }
}

/// Compresses a part on another thread, when one may.
async fn away((mut encoder, place): Placed, part: Bytes) -> io::Result<(Placed, Bytes)> {
    let permit = THREADS.acquire().await.map_err(io::Error::other)?;
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let output = encoder.push(&part, Then::GoOn)?;
        Ok(((encoder, place), output))
    });
    work.await.map_err(io::Error::other)?
}
