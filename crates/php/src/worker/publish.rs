//! What scripts publish in the hub of their site.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use tokamak_sys::channel::Channel;
use tokamak_sys::hub;

use super::callbacks::bytes;
use super::{Worker, with};
use crate::ffi;

const NO_HUB: &str = "the site has no hub: it needs `enabled = true` in [site.mercure]";

impl Worker {
    /// The line to the hub, if it may be used now.
    fn hub(&mut self) -> Result<Arc<Channel>, String> {
        // What a boot publishes would be published by each process that boots again, and reach
        // nobody at the start of the server, when the front is not there yet.
        if self.job().is_none() && self.served == 0 {
            return Err("the application still boots; publish in a request".to_owned());
        }
        self.hub.clone().ok_or_else(|| NO_HUB.to_owned())
    }
}

/// # Safety
/// `at` points to `len` bytes, and `answer` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_publish(at: *const c_char, len: usize, answer: *mut ffi::Text) -> c_int {
    // SAFETY: the caller's promise.
    let update = unsafe { bytes(at, len) };
    let line = with(Err(NO_HUB.to_owned()), Worker::hub);
    // In async mode other requests take turns meanwhile, since waiting goes through `poll`.
    let published = line.and_then(|line| hub::publish(&line, update));
    let is_done = published.is_ok();
    let text = published.unwrap_or_else(String::into_bytes);
    with(0, |w| {
        w.answer = CString::new(text).unwrap_or_default();
        let text = ffi::Text { at: w.answer.as_ptr(), len: w.answer.as_bytes().len() };
        // SAFETY: the caller's promise. The text lives until the next call.
        unsafe { answer.write(text) };
        is_done.into()
    })
}
