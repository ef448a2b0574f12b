//! The side of a client: requests to a server.

use std::ptr;

use crate::callbacks;
use crate::ffi;
use crate::session::{Broken, Field, Session, check, raw};
use crate::state::Limits;
use crate::stream::{End, Stream};

impl<T: Default> Session<T> {
    /// A connection with a server, which begins. It takes no pushed responses.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn client(limits: Limits) -> Result<Session<T>, Broken> {
        let mut session = Session::with(limits, true)?;
        let setting = |id, value| ffi::Setting { id, value };
        let settings = [
            setting(ffi::SETTINGS_ENABLE_PUSH, 0),
            setting(ffi::SETTINGS_INITIAL_WINDOW_SIZE, limits.window.min(i32::MAX as u32)),
            setting(ffi::SETTINGS_MAX_HEADER_LIST_SIZE, limits.head),
            setting(ffi::SETTINGS_NO_RFC7540_PRIORITIES, 1),
        ];
        // SAFETY: the session is alive, and copies the settings.
        let code = unsafe {
            ffi::nghttp2_submit_settings(
                session.raw.as_ptr(),
                ffi::FLAG_NONE,
                settings.as_ptr(),
                settings.len(),
            )
        };
        check(code)?;
        session.widen(limits)?;
        Ok(session)
    }

    /// Sends a request as soon as the server takes one more, and its end if nothing follows.
    /// Returns its stream. `None`: the connection takes no more requests.
    pub fn request(&mut self, fields: &[Field<'_>], is_end: bool) -> Option<u32> {
        let fields = raw(fields);
        let provider = ffi::DataProvider { source: ptr::null_mut(), read: callbacks::read::<T> };
        let provider = if is_end { ptr::null() } else { &raw const provider };
        // SAFETY: the session is alive, and copies the fields and the provider.
        let id = unsafe {
            ffi::nghttp2_submit_request(
                self.raw.as_ptr(),
                ptr::null(),
                fields.as_ptr(),
                fields.len(),
                provider,
                ptr::null_mut(),
            )
        };
        let id = u32::try_from(id).ok().filter(|id| *id > 0)?;
        let mut stream = Box::new(Stream::new());
        stream.is_released = false;
        if is_end {
            stream.end = End::Bytes;
        }
        let state = self.state();
        state.open += 1;
        state.streams.insert(id, stream);
        Some(id)
    }

    /// Requests that the server takes at the same time, as far as it has said so.
    pub fn most_requests(&self) -> u32 {
        let setting = ffi::SETTINGS_MAX_CONCURRENT_STREAMS;
        // SAFETY: the session is alive, and the setting is one that the library knows.
        unsafe { ffi::nghttp2_session_get_remote_settings(self.raw.as_ptr(), setting) }
    }

    /// Whether the head of a request is in a frame. One that is not has never reached the server.
    pub fn has_begun(&self, stream: u32) -> bool {
        self.shared().streams.get(&stream).is_some_and(|stream| stream.has_begun)
    }

    /// Whether the library has ended the stream because of what the server has sent on it.
    pub fn is_wrong(&self, stream: u32) -> bool {
        self.shared().streams.get(&stream).is_some_and(|stream| stream.is_wrong)
    }

    /// The requests that have been made and not been released.
    pub fn streams(&self) -> impl Iterator<Item = u32> {
        self.shared().streams.keys().copied()
    }

    /// Forgets how many frames of the server belonged to no response: called at an interval, so
    /// that only many in a short time are too many.
    pub fn forgive(&mut self) {
        self.state().control = 0;
    }
}
