//! The rest of a response on its way to a client that may be slow: read from the application as
//! fast as it comes, up to a bound in memory and then into a file, so that the connection is free
//! again when the application is done and not when the client is.
//!
//! ```text
//! exchange ── pump ──► memory ──────────► poll_piece ──► client
//!                └───► file, if the memory is full ──┘
//! ```
//!
//! While there is anything in the file, what follows goes there, too: so the memory is always
//! first.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::error::UpstreamError;
use super::event::Event;
use super::exchange::Exchange;
use crate::spool::{self, PATIENCE, RETRY, Spool, SpoolQuota};

/// What a piece is counted beside its bytes, for what it costs to keep: an application may send its
/// response byte by byte.
const PIECE: usize = 128;

/// How a response ends; with the fields behind its body.
type End = Result<Vec<u8>, UpstreamError>;

/// The reading end. Dropping it ends the exchange.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    /// The next bytes, on their way from the file.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    /// The fields behind the body, once it has ended.
    trailers: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    held: Mutex<Unread>,
    /// For the task that reads from the application: the client has taken something, or has gone.
    taken: Notify,
}

/// What the client has not got yet.
#[derive(Debug)]
struct Unread {
    memory: VecDeque<Bytes>,
    /// What the pieces in memory weigh, and may.
    weight: usize,
    most: usize,
    spool: Spool,
    /// A piece is on its way into the file.
    is_writing: bool,
    end: Option<End>,
    reader: Option<Waker>,
    is_unwanted: bool,
}

impl Relay {
    /// Goes on with `exchange` in a task of its own, behind `first`, which has been read already.
    /// At most `most` bytes are held for the client in memory, and further ones in a file as far as
    /// `quota` allows. What the application complains about goes to `complaints`.
    pub fn start(
        exchange: Exchange,
        first: Vec<Bytes>,
        most: usize,
        quota: Arc<SpoolQuota>,
        complaints: impl FnMut(&[u8]) + Send + 'static,
    ) -> Relay {
        let relay = Relay::of(Unread::new(most, quota));
        tokio::spawn(pump(exchange, first, Pump(relay.shared.clone()), complaints));
        relay
    }

    /// A response that is complete: its body, and the fields behind it.
    pub fn whole(body: Vec<Bytes>, trailers: Vec<u8>, quota: Arc<SpoolQuota>) -> Relay {
        let mut held = Unread::new(0, quota);
        held.weight = body.iter().map(weight).sum();
        held.memory = body.into();
        held.end = Some(Ok(trailers));
        Relay::of(held)
    }

    fn of(held: Unread) -> Relay {
        let shared = Arc::new(Shared { held: Mutex::new(held), taken: Notify::new() });
        Relay { shared, reading: None, trailers: Vec::new() }
    }

    /// Takes the fields behind the body, once it has ended: lines as in [`Event::End`].
    pub fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    /// The next piece; nothing at the end of the response.
    ///
    /// # Errors
    /// Fails if the rest of the response is lost.
    pub fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                let Ok(Ok(bytes)) = read else {
                    return Poll::Ready(Some(Err(UpstreamError::Spool)));
                };
                let held = &mut *self.shared.held();
                held.spool.took(bytes.len(), held.is_writing);
                self.shared.taken.notify_one();
                return Poll::Ready(Some(Ok(bytes)));
            }
            let held = &mut *self.shared.held();
            if let Some(bytes) = held.memory.pop_front() {
                held.weight -= weight(&bytes);
                self.shared.taken.notify_one();
                return Poll::Ready(Some(Ok(bytes)));
            }
            if let Some(read) = held.spool.read(spool::PIECE) {
                self.reading = Some(spawn_blocking(|| read.run()));
                continue;
            }
            match held.end.take() {
                Some(Ok(trailers)) => {
                    self.trailers = trailers;
                    return Poll::Ready(None);
                }
                Some(Err(fault)) => return Poll::Ready(Some(Err(fault))),
                None => {}
            }
            held.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.held().is_unwanted = true;
        self.shared.taken.notify_one();
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Unread> {
        // A panic under the lock has been reported; the bytes that are there can still be sent.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the receiver of the response is gone.
    async fn cancelled(&self) {
        while !self.held().is_unwanted {
            self.taken.notified().await;
        }
    }
}

impl Unread {
    fn new(most: usize, quota: Arc<SpoolQuota>) -> Unread {
        Unread {
            memory: VecDeque::new(),
            weight: 0,
            most,
            spool: Spool::new(quota),
            is_writing: false,
            end: None,
            reader: None,
            is_unwanted: false,
        }
    }

    /// Puts a piece into memory. `false`: it has no room, or the file is not empty.
    fn keep(&mut self, bytes: &Bytes) -> bool {
        let weight = weight(bytes);
        let has_room = self.weight == 0 || self.weight + weight <= self.most;
        if !has_room || !self.spool.is_empty() {
            return false;
        }
        self.memory.push_back(bytes.clone());
        self.weight += weight;
        self.wake();
        true
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// How much of the memory a piece takes.
fn weight(piece: &Bytes) -> usize {
    piece.len() + PIECE
}

/// The writing end.
struct Pump(Arc<Shared>);

impl Pump {
    /// Passes a piece on, when there is room for it. `false`: the receiver is gone.
    async fn put(&self, bytes: Bytes) -> bool {
        // Most clients take what is in memory soon: then no file is needed.
        let mut is_patient = true;
        loop {
            let write = {
                let held = &mut *self.0.held();
                if held.is_unwanted || held.keep(&bytes) {
                    return !held.is_unwanted;
                }
                let may_write = !is_patient || !held.spool.is_empty();
                let write = if may_write { held.spool.write(bytes.len()) } else { None };
                held.is_writing = write.is_some();
                write
            };
            let pause = if is_patient { PATIENCE } else { RETRY };
            if let Some(write) = write {
                let (outcome, _) = write.run_elsewhere(bytes.clone()).await;
                let held = &mut *self.0.held();
                held.is_writing = false;
                if held.spool.wrote(bytes.len(), outcome) {
                    held.wake();
                    return true;
                }
            }
            is_patient = timeout(pause, self.0.taken.notified()).await.is_ok();
        }
    }
}

/// Whatever ends the task, the client must not be left waiting.
impl Drop for Pump {
    fn drop(&mut self) {
        let held = &mut *self.0.held();
        held.end.get_or_insert(Err(UpstreamError::Closed { answered: true }));
        held.wake();
    }
}

async fn pump(
    mut exchange: Exchange,
    first: Vec<Bytes>,
    pump: Pump,
    mut complaints: impl FnMut(&[u8]),
) {
    let mut first = first.into_iter();
    let end = loop {
        let event = match first.next() {
            Some(bytes) => Ok(Event::Output(bytes)),
            None => tokio::select! {
                event = exchange.next() => event,
                () = pump.0.cancelled() => return,
            },
        };
        match event {
            Ok(Event::Output(bytes)) if bytes.is_empty() => {}
            Ok(Event::Output(bytes)) => {
                let put = pump.put(bytes);
                let is_wanted = match exchange.patience() {
                    None => put.await,
                    Some(limit) => match timeout(limit, put).await {
                        Ok(is_wanted) => is_wanted,
                        Err(_) => break Err(UpstreamError::Stalled),
                    },
                };
                if !is_wanted {
                    return;
                }
            }
            Ok(Event::Complaint(bytes)) => complaints(&bytes),
            // The decoder gives heads before the body.
            Ok(Event::Interim(_) | Event::Head(_)) => {}
            Ok(Event::End(trailers)) => break Ok(trailers),
            Err(fault) => break Err(fault),
        }
    };
    pump.0.held().end = Some(end);
}
