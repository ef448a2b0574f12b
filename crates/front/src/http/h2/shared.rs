//! The library's session of a connection, shared by the connection's task and its requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokamak_nghttp2::{Reason, Session};

use super::scheduler::Scheduler;
use crate::http::multiplex::Priority;

/// How far the response to a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Half {
    /// It has not begun.
    #[default]
    Waiting,
    /// Its head has been handed over.
    Sending,
    /// It is complete, or cannot be sent.
    Done,
}

/// What is kept with each stream.
#[derive(Debug, Default)]
pub struct StreamState {
    /// The number of the request on its connection.
    pub number: u32,
    /// How far its response is.
    pub half: Half,
    /// How urgent it is.
    pub priority: Priority,
    /// Whether that is what its response says, so that the client changes it no more.
    pub is_final: bool,
    /// Waits for bytes of the body.
    pub reader: Option<Waker>,
    /// Waits until the client takes bytes.
    pub writer: Option<Waker>,
    /// Waits for the end of the stream.
    pub watcher: Option<Waker>,
}

impl StreamState {
    fn wake_all(&mut self) {
        for waker in [&mut self.reader, &mut self.writer, &mut self.watcher] {
            wake(waker);
        }
    }
}

/// Wakes the task that waits, if one does.
pub fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// A session, and the order of its responses.
pub struct Shared {
    inner: Mutex<Inner>,
    /// Which of the responses may be sent next.
    pub scheduler: Arc<Scheduler>,
}

/// What the lock is for.
pub struct Inner {
    /// The library's session.
    pub session: Session<StreamState>,
    /// The connection's task, while it sleeps.
    task: Option<Waker>,
    /// Whether the connection has ended.
    pub is_over: bool,
}

impl Shared {
    /// Shares a new session.
    pub fn new(session: Session<StreamState>) -> Arc<Shared> {
        let inner = Mutex::new(Inner { session, task: None, is_over: false });
        Arc::new(Shared { inner, scheduler: Arc::default() })
    }

    /// The session. All tasks of a connection run in one event loop, so the lock is always free.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic under the lock is one of ours, between two calls of the library.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and has sent what is to be sent because of it.
    pub fn change<R>(&self, change: impl FnOnce(&mut Session<StreamState>) -> R) -> R {
        let inner = &mut *self.lock();
        let result = change(&mut inner.session);
        if inner.task.is_some() && inner.session.wants_send() {
            wake(&mut inner.task);
        }
        result
    }

    /// The connection's task runs, so it need not be woken.
    pub fn awake(&self) {
        self.lock().task = None;
    }

    /// The connection's task sleeps, and is woken when there is something to send.
    pub fn rest(&self, waker: &Waker) {
        self.lock().task = Some(waker.clone());
    }

    /// The connection has ended: no task waits any more.
    pub fn close(&self) {
        let inner = &mut *self.lock();
        inner.is_over = true;
        inner.session.all_data().for_each(StreamState::wake_all);
    }
}

impl Inner {
    /// The stream is closed: no task waits for it.
    pub fn closed(&mut self, stream: u32) {
        if let Some(kept) = self.session.data(stream) {
            kept.wake_all();
        }
    }

    /// The client is told to go, which WebSockets have to know.
    pub fn wake_watchers(&mut self) {
        self.session.all_data().for_each(|kept| wake(&mut kept.watcher));
    }

    /// More of the body has come.
    pub fn has_come(&mut self, stream: u32) {
        if let Some(kept) = self.session.data(stream) {
            wake(&mut kept.reader);
        }
    }

    /// More bytes may be sent, of this stream or (0) of all.
    pub fn has_room(&mut self, stream: u32) {
        if stream == 0 {
            self.session.all_data().for_each(|kept| wake(&mut kept.writer));
        } else if let Some(kept) = self.session.data(stream) {
            wake(&mut kept.writer);
        }
    }

    /// Why the stream has ended, once it has.
    pub fn end_of(&self, stream: u32) -> Option<Reason> {
        if self.is_over { Some(Reason::CANCEL) } else { self.session.closed(stream) }
    }
}
