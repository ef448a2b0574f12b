//! Async mode: what C calls while a worker has several requests under way. None of it waits.

use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;

use tokamak_sys::queue::{Next, WorkerState};

use crate::ffi;

use super::callbacks::bytes;
use super::{Worker, with};

impl Worker {
    /// Looks for the next request. `will_sleep`: see [`tokamak_sys::queue::Consumer::look`].
    fn look(&mut self, will_sleep: bool) -> Found {
        let Some(free) = self.places.iter().position(|place| !place.is_taken) else {
            return Found::Nothing;
        };
        let under_way = self.places.iter().filter(|place| place.is_taken).count() as u64;
        if self.max_requests > 0 && self.served + under_way >= self.max_requests {
            return Found::Leave;
        }
        self.search.stay_busy(under_way > 0);
        match self.consumer.look(&mut self.search, will_sleep) {
            Some(Next::Request(job)) => {
                self.places[free].since = tokamak_cost::now();
                let taken = self.take(job, free);
                self.show_oldest();
                taken.map_or(Found::Nothing, Found::Request)
            }
            Some(Next::Retire) => Found::Leave,
            None => Found::Nothing,
        }
    }

    /// The board shows the worker at work for as long as its oldest request is under way.
    fn show_oldest(&self) {
        let taken = self.places.iter().filter(|place| place.is_taken);
        if let Some(since) = taken.map(|place| place.since).min() {
            self.consumer.board().set_state_at(WorkerState::Busy, since);
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
        w.show_oldest();
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
