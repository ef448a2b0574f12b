//! What C calls while PHP runs: `rust_*` of `shim.h`. Each returns a plain value, and none calls
//! PHP or jumps.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null;
use std::slice::from_raw_parts;

use tokamak_sys::control::{EXIT_RETIRED, EXIT_TAINTED};
use tokamak_sys::queue::{Outcome, PoolNumbers, WorkerState};
use tokamak_sys::unopened::Unopened;

use crate::ffi;
use crate::log::{self, Level};

use super::{Worker, take_entry, with};

/// The bytes that C names.
///
/// # Safety
/// `at` points to `len` bytes that stay as they are for as long as the slice is used, or `len`
/// is 0.
pub(super) unsafe fn bytes<'a>(at: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts(at.cast(), len) }
}

#[unsafe(no_mangle)]
extern "C" fn rust_next() -> *const ffi::Request {
    with(null(), Worker::claim)
}

/// The next request to warm up with.
#[unsafe(no_mangle)]
extern "C" fn rust_warm() -> *const ffi::Request {
    with(null(), |w| {
        w.warming = !w.warm.is_empty();
        while !w.warm.is_empty() {
            let record = w.warm.remove(0);
            let request = &mut w.slots[0].request;
            if request.take(&record, 0) {
                return request.shim();
            }
        }
        null()
    })
}

/// The roll-back has also undone that this worker had an entry of the scoreboard.
#[unsafe(no_mangle)]
extern "C" fn rust_resume(index: u32, instance: u32, served: u64, took_ns: u64, pages: u32) {
    take_entry(index as u16, instance, false);
    with((), |w| {
        w.served = served;
        w.consumer.board().set_roll_back(took_ns, pages);
    });
}

/// The worker ends.
///
/// # Safety
/// `taint` is null or a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_leave(taint: *const c_char) -> ! {
    let mut status = with(EXIT_RETIRED, |w| w.exit);
    if !taint.is_null() {
        // SAFETY: the caller's promise.
        let why = unsafe { CStr::from_ptr(taint) };
        let message =
            [b"worker replaced, because ", why.to_bytes(), b", which cannot be undone"].concat();
        with((), |w| w.say(Level::Info, &message));
        status = EXIT_TAINTED;
    }
    with((), |w| w.consumer.board().set_state(WorkerState::Leaving));
    // SAFETY: ends the process; PHP's memory is an image's, which is not shut down.
    unsafe { libc::_exit(status.into()) }
}

#[unsafe(no_mangle)]
extern "C" fn rust_finish(broken: c_int, status: c_int) {
    let outcome = if broken == 0 { Outcome::Complete } else { Outcome::Broken };
    with((), |w| w.finish(outcome, u16::try_from(status).unwrap_or(0)));
}

/// # Safety
/// `pairs` is an array of `count` pairs whose texts live through the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_head(
    status: c_int,
    pairs: *const ffi::Pair,
    count: usize,
    interim: c_int,
) -> c_int {
    let pairs = if count == 0 {
        &[][..]
    } else {
        // SAFETY: the caller's promise.
        unsafe { from_raw_parts(pairs, count) }
    };
    // SAFETY: the caller's promise, for each text.
    let text = |t: ffi::Text| unsafe { bytes(t.at, t.len) };
    let headers = pairs.iter().map(|pair| (text(pair.name), text(pair.value)));
    let status = u16::try_from(status).unwrap_or(500);
    with(1, |w| match w.job() {
        Some(job) if interim != 0 => c_int::from(job.send_interim(status, headers).is_err()),
        Some(job) => c_int::from(job.send_head(status, headers).is_err()),
        None => c_int::from(!w.look_at_warm_up(status, headers)),
    })
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_write(part: c_int, at: *const c_char, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    let text = unsafe { bytes(at, len) };
    with(1, |w| {
        let without_client = c_int::from(!w.warming);
        w.job().map_or(without_client, |job| {
            let written = match part {
                ffi::TRAILERS => job.write_trailers(text),
                _ => job.write(text),
            };
            c_int::from(written.is_err())
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rust_flush() -> c_int {
    with(1, |w| {
        let without_client = c_int::from(!w.warming);
        w.job().map_or(without_client, |job| c_int::from(job.flush().is_err()))
    })
}

/// # Safety
/// `at` points to `len` bytes that may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_read_body(at: *mut c_char, len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let buffer = unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), len) };
    with(0, |w| {
        let Some(job) = w.job() else { return 0 };
        let mut filled = 0;
        // PHP takes a short read for the end of the body.
        while filled < buffer.len() {
            match job.read_body(&mut buffer[filled..]) {
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count,
            }
        }
        filled
    })
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_complain(
    level: c_int,
    at: *const c_char,
    len: usize,
    to_sender: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let message = unsafe { bytes(at, len) };
    with(0, |w| {
        let slot = w.current.map(|slot| &mut w.slots[slot]);
        let to = slot.and_then(|slot| slot.job.as_mut()).filter(|_| to_sender != 0);
        c_int::from(!w.gateway.complain(self::level(level), message, to))
    })
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_user(at: *const c_char, len: usize) {
    // SAFETY: the caller's promise.
    let user = unsafe { bytes(at, len) };
    with((), |w| w.gateway.name_user(user, &w.slots[0].request, &w.consumer.board()));
}

fn level(number: c_int) -> Level {
    match number {
        ffi::ERROR => Level::Error,
        ffi::WARN => Level::Warn,
        ffi::DEBUG => Level::Debug,
        _ => Level::Info,
    }
}

/// See [`Unopened`].
#[unsafe(no_mangle)]
extern "C" fn rust_unopened_status(error: c_int) -> c_int {
    Unopened::of_number(error).status().into()
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_log(level: c_int, at: *const c_char, len: usize) {
    // SAFETY: the caller's promise.
    let message = unsafe { bytes(at, len) };
    let severity = self::level(level);
    let is_written = with(false, |w| {
        if level == ffi::OUTPUT {
            for line in message.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                w.say(Level::Info, &[b"output of the worker script: ", line].concat());
            }
        } else {
            w.say(severity, message.trim_ascii_end());
        }
        true
    });
    if !is_written {
        log::line(severity, "php", message.trim_ascii_end(), &[]);
    }
}

/// # Safety
/// `entry` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_scoreboard_entry(n: usize, entry: *mut ffi::ScoreboardEntry) -> c_int {
    with(0, |w| {
        let segment = &w.segment;
        let Some(index) = u16::try_from(n).ok().filter(|n| *n < segment.geometry().workers) else {
            return 0;
        };
        let now = segment.board(index);
        let request = segment.shown_request(index);
        w.shown = [request.method, request.uri, request.script, request.user]
            .map(|text| CString::new(text).unwrap_or_default());
        let text = |text: &CString| ffi::Text { at: text.as_ptr(), len: text.as_bytes().len() };
        let state = match now.state {
            WorkerState::Busy | WorkerState::Draining => c"Running",
            WorkerState::Starting => c"Getting request informations",
            WorkerState::Leaving => c"Ending",
            WorkerState::Finishing => c"Finishing",
            WorkerState::Idle | WorkerState::Empty => c"Idle",
        };
        let pid = if now.state == WorkerState::Empty { 0 } else { u64::from(now.pid) };
        // SAFETY: the caller's promise. The texts live until the next call.
        unsafe {
            entry.write(ffi::ScoreboardEntry {
                pid,
                requests: now.requests,
                memory: now.memory,
                since_ns: now.since,
                started_ns: now.started,
                body_len: request.body_len,
                last_cpu_us: request.last_cpu,
                last_took_ns: request.last_took,
                state: state.as_ptr(),
                method: text(&w.shown[0]),
                uri: text(&w.shown[1]),
                script: text(&w.shown[2]),
                user: text(&w.shown[3]),
            });
        }
        1
    })
}

/// # Safety
/// `pool` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_pool(pool: *mut ffi::Pool) {
    let numbers = with(PoolNumbers::default(), |w| w.segment.pool_numbers());
    // SAFETY: the caller's promise.
    unsafe {
        pool.write(ffi::Pool {
            manager: numbers.manager,
            started: numbers.started,
            accepted: numbers.accepted,
            listen_queue: numbers.listen_queue,
            max_listen_queue: numbers.max_listen_queue,
            listen_queue_len: numbers.listen_queue_len,
            max_active: numbers.max_active,
            max_children_reached: numbers.max_children_reached,
            slow_requests: numbers.slow_requests,
        });
    }
}
