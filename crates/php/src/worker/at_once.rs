//! Async mode: what C calls while a worker has several requests under way. None of it waits.

use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;

use tokamak_sys::queue::record::Field;
use tokamak_sys::queue::{Claim, Next, WorkerState};

use crate::engine;
use crate::ffi;

use super::callbacks::bytes;
use super::{Place, Worker, with};

impl Worker {
    /// Looks for the next request. `will_sleep`: see [`tokamak_sys::queue::Consumer::look`].
    fn look(&mut self, will_sleep: bool) -> Found {
        let Some(free) = self.places.iter().position(|place| !place.is_taken) else {
            return Found::Nothing;
        };
        let under_way = self.under_way().count() as u64;
        // Those that go on after their response are counted already.
        let answering = self.places.iter().filter(|place| place.job.is_some()).count() as u64;
        if self.max_requests > 0 && self.served + answering >= self.max_requests {
            self.consumer.leave(&mut self.search);
            return self.leave();
        }
        self.search.stay_busy(under_way > 0);
        // With others under way it is for them to find out that a connection is dead.
        let (looks, mut stale) = (self.keeps_connections && under_way == 0, false);
        let may_claim = |_slot| {
            stale = looks && engine::has_stale_sockets();
            if stale { Claim::Quit } else { Claim::Go }
        };
        match self.consumer.look(&mut self.search, will_sleep, may_claim) {
            Some(Next::Request(job)) => {
                self.places[free].since = tokamak_cost::now();
                let taken = self.take(job, free);
                self.show();
                taken.map_or(Found::Nothing, Found::Request)
            }
            Some(Next::Retire) => {
                if stale {
                    self.leave_stale();
                }
                self.leave()
            }
            None => Found::Nothing,
        }
    }

    fn leave(&mut self) -> Found {
        self.is_leaving = true;
        self.show();
        Found::Leave
    }

    fn under_way(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.is_taken)
    }

    /// The board shows the oldest request under way, for it is the one that may take too long. A
    /// worker that leaves is at work until it has finished what it has.
    fn show(&self) {
        let board = self.consumer.board();
        board.set_under_way(self.under_way().count() as u32);
        match self.under_way().min_by_key(|place| place.since) {
            Some(Place { request, since, .. }) => {
                board.set_request(request.field(Field::Method), request.field(Field::Uri));
                board.set_state_at(WorkerState::Busy, *since);
            }
            None if self.is_leaving => board.set_state(WorkerState::Leaving),
            // It says so itself when it sleeps.
            None => {}
        }
    }
}

enum Found {
    Nothing,
    Request(*const ffi::Request),
    Leave,
}

/// # Safety
/// `request` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_look(will_sleep: c_int, request: *mut *const ffi::Request) -> c_int {
    match with(Found::Leave, |w| w.look(will_sleep != 0)) {
        Found::Nothing => ffi::NO_REQUEST,
        Found::Leave => ffi::LEAVE,
        Found::Request(found) => {
            // SAFETY: the caller's promise.
            unsafe { request.write(found) };
            ffi::REQUEST
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rust_look_no_more() {
    with((), |w| w.consumer.leave(&mut w.search));
}

#[unsafe(no_mangle)]
extern "C" fn rust_serve(place: u32) {
    with((), |w| w.current = (place != ffi::NOBODY).then_some(place as usize));
}

#[unsafe(no_mangle)]
extern "C" fn rust_forget(place: u32) {
    with((), |w| {
        let place = &mut w.places[place as usize];
        // If PHP has not come to the end of its response, that is cut short.
        drop(place.job.take());
        place.is_taken = false;
        w.show();
    });
}

#[unsafe(no_mangle)]
extern "C" fn rust_doorbell() -> c_int {
    with(-1, |w| w.consumer.doorbell().map_or(-1, |bell| bell.as_raw_fd()))
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_write_now(at: *const c_char, len: usize) -> isize {
    // SAFETY: the caller's promise.
    let text = unsafe { bytes(at, len) };
    with(-1, |w| {
        w.job().and_then(|job| job.write_now(text).ok()).map_or(-1, |count| count as isize)
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
        // The rest will not come, and PHP takes a short read for the end of the body.
        Some(Err(_)) | None => 0,
    })
}
