//! Async mode: what C calls while a worker has several requests under way. None of it waits.

use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;
use std::ptr::null;

use tokamak_sys::queue::record::Field;
use tokamak_sys::queue::{Claim, Job, Next, WorkerState};

use crate::engine;
use crate::ffi;

use super::callbacks::bytes;
use super::{RequestSlot, Worker, with};

impl Worker {
    /// Looks for the next request. `will_sleep`: see [`tokamak_sys::queue::Consumer::look`].
    fn look(&mut self, will_sleep: bool) -> NextRequest {
        let Some(&free) = self.free.last() else { return NextRequest::None };
        if self.max_requests > 0 && self.served + self.answering() >= self.max_requests {
            self.consumer.leave(&mut self.search);
            return self.leave();
        }
        let is_alone = self.under_way.is_empty();
        self.search.stay_busy(!is_alone);
        // With others under way it is for them to find out that a connection is dead.
        let (looks, mut stale) = (self.keeps_connections && is_alone, false);
        let mut may_claim = |_slot| {
            stale = looks && engine::has_stale_sockets();
            if stale { Claim::Quit } else { Claim::Go }
        };
        loop {
            match self.consumer.look(&mut self.search, will_sleep, &mut may_claim) {
                Some(Next::Request(job)) => {
                    job.watch_client();
                    // Its client has left while it was queued. The next one may be there: a
                    // worker that sleeps now would not be woken for it.
                    if job.is_aborted() {
                        continue;
                    }
                    self.slots[free].is_notified = false;
                    self.slots[free].request.show(&job);
                    let Some(request) = self.take(job, free) else { continue };
                    self.free.pop();
                    self.under_way.push(free);
                    self.show(is_alone);
                    return NextRequest::Request(request);
                }
                Some(Next::Retire) => {
                    if stale {
                        self.leave_stale();
                    }
                    return self.leave();
                }
                None => return NextRequest::None,
            }
        }
    }

    fn leave(&mut self) -> NextRequest {
        self.is_leaving = true;
        self.show(false);
        NextRequest::Leave
    }

    /// Without those that go on after their response: they are counted as served.
    fn answering(&self) -> u64 {
        self.under_way.iter().filter(|slot| self.slots[**slot].job.is_some()).count() as u64
    }

    fn forget(&mut self, slot: usize) {
        let Some(age) = self.under_way.iter().position(|other| *other == slot) else { return };
        self.under_way.remove(age);
        self.free.push(slot);
        // If PHP has not come to the end of its response, that is cut short.
        self.slots[slot].request.hide();
        drop(self.slots[slot].job.take());
        self.slots[slot].is_taken = false;
        self.show(age == 0);
    }

    /// The board shows the oldest request under way, for it is the one that may take too long.
    fn show(&self, is_oldest_new: bool) {
        let board = self.consumer.board();
        // SAFETY: reads a number.
        board.set_under_way(self.under_way.len() as u32, unsafe { ffi::shim_held() });
        match self.under_way.first().map(|slot| &self.slots[*slot]) {
            Some(RequestSlot { request, .. }) => {
                if is_oldest_new {
                    board.set_request(request.field(Field::Method), request.field(Field::Uri));
                }
                // To claim a request says that the worker is busy since then.
                let state = if self.is_leaving { WorkerState::Draining } else { WorkerState::Busy };
                board.set_state_at(state, request.id().taken_at());
            }
            None if self.is_leaving => board.set_state(WorkerState::Leaving),
            // It says so itself when it sleeps.
            None => {}
        }
    }
}

/// What [`Worker::look`] has for C.
enum NextRequest {
    /// No request is queued.
    None,
    Request(*const ffi::Request),
    /// The worker takes no more requests.
    Leave,
}

/// # Safety
/// `request` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_look(will_sleep: c_int, request: *mut *const ffi::Request) -> c_int {
    match with(NextRequest::Leave, |w| w.look(will_sleep != 0)) {
        NextRequest::None => ffi::NO_REQUEST,
        NextRequest::Leave => ffi::LEAVE,
        NextRequest::Request(next) => {
            // SAFETY: the caller's promise.
            unsafe { request.write(next) };
            ffi::REQUEST
        }
    }
}

/// `will_leave`: the worker ends with the requests that are under way, so that another one may
/// start beside it; else it looks for requests again after them.
#[unsafe(no_mangle)]
extern "C" fn rust_look_no_more(will_leave: c_int) {
    with((), |w| {
        w.consumer.leave(&mut w.search);
        if will_leave != 0 {
            w.leave();
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn rust_is_draining() -> c_int {
    with(0, |w| w.segment.is_draining().into())
}

#[unsafe(no_mangle)]
extern "C" fn rust_serve(index: u32) {
    with((), |w| w.current = (index != ffi::NO_SLOT).then_some(index as usize));
}

#[unsafe(no_mangle)]
extern "C" fn rust_forget(index: u32) {
    with((), |w| w.forget(index as usize));
}

/// A request whose client has left since the last time; each is reported once.
#[unsafe(no_mangle)]
extern "C" fn rust_left() -> u32 {
    with(ffi::NO_SLOT, |w| {
        let has_left = |slot: &&usize| {
            let RequestSlot { job, is_notified, .. } = &w.slots[**slot];
            !is_notified && job.as_ref().is_some_and(Job::is_aborted)
        };
        let Some(left) = w.under_way.iter().find(has_left).copied() else { return ffi::NO_SLOT };
        w.slots[left].is_notified = true;
        left as u32
    })
}

/// # Safety
/// `peers` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_peers(peers: *mut ffi::Peers) {
    let found = with(ffi::Peers { table: null(), owner: 0 }, |w| ffi::Peers {
        table: w.consumer.peers().map_or(null(), <[_]>::as_ptr),
        owner: w.consumer.instance(),
    });
    // SAFETY: the caller's promise.
    unsafe { peers.write(found) };
}

#[unsafe(no_mangle)]
extern "C" fn rust_client_left() -> c_int {
    with(0, |w| w.job().is_some_and(|job| job.is_aborted()).into())
}

#[unsafe(no_mangle)]
extern "C" fn rust_doorbell() -> c_int {
    with(-1, |w| w.consumer.doorbell().map_or(-1, |bell| bell.as_raw_fd()))
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_write_now(part: c_int, at: *const c_char, len: usize) -> isize {
    // SAFETY: the caller's promise.
    let text = unsafe { bytes(at, len) };
    with(-1, |w| {
        let Some(job) = w.job() else { return -1 };
        let written = match part {
            ffi::TRAILERS => job.write_trailers_now(text),
            _ => job.write_now(text),
        };
        written.map_or(-1, |count| count as isize)
    })
}

/// # Safety
/// `at` points to `len` bytes that may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_read_body_now(at: *mut c_char, len: usize) -> isize {
    if len == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let buffer = unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), len) };
    with(0, |w| match w.job().map(|job| job.read_body_now(buffer)) {
        Some(Ok(None)) => -1,
        Some(Ok(Some(count))) => count as isize,
        Some(Err(_)) => -2,
        None => 0,
    })
}
