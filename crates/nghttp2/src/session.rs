//! One connection.

use std::collections::VecDeque;
use std::ffi::{CStr, c_int};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use bytes::{Bytes, BytesMut};

use crate::callbacks;
use crate::event::{Event, Head, Reason};
use crate::ffi;
use crate::state::{Limits, State};
use crate::stream::End;

/// The window with which HTTP/2 begins.
const FIRST_WINDOW: u32 = 65_535;

/// A limit that is never reached. The library ends a connection, or answers with an error of its
/// own, where this crate refuses one request, or its user counts by itself.
const NO_LIMIT: u32 = i32::MAX as u32;

/// Where in the first frame the limit of streams stands: behind its head and the setting's number.
const STREAMS_AT: usize = 9 + 2;

/// Why a connection cannot go on; the library has sent no GOAWAY.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Broken(c_int);

impl Broken {
    /// The error code for the GOAWAY. `None`: the client does not speak HTTP/2, or the server has
    /// failed.
    pub fn reason(self) -> Option<Reason> {
        match self.0 {
            ffi::ERR_FLOODED | ffi::ERR_TOO_MANY_CONTINUATIONS => Some(Reason::ENHANCE_YOUR_CALM),
            _ => None,
        }
    }

    /// Whether the client has not begun with the preface.
    pub fn is_preface(self) -> bool {
        self.0 == ffi::ERR_BAD_CLIENT_MAGIC
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: it takes any number, and returns a text that is never freed.
        let text = unsafe { CStr::from_ptr(ffi::nghttp2_strerror(self.0)) };
        out.write_str(&text.to_string_lossy())
    }
}

impl fmt::Debug for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// One connection; `T` is kept with each stream.
pub struct Session<T: Default> {
    pub(crate) raw: NonNull<ffi::Session>,
    state: NonNull<State<T>>,
    owned: PhantomData<State<T>>,
}

// SAFETY: the library's session has no ties to a thread, and the state, which is owned, is `Send`.
unsafe impl<T: Default + Send> Send for Session<T> {}

impl<T: Default> Session<T> {
    /// A connection with a client, which begins.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn new(limits: Limits) -> Result<Session<T>, Broken> {
        let mut session = Session::with(limits, false)?;
        session.begin(limits)?;
        Ok(session)
    }

    /// A session of either side, which has said nothing.
    pub(crate) fn with(limits: Limits, is_client: bool) -> Result<Session<T>, Broken> {
        let state = NonNull::from(Box::leak(Box::new(State::new(limits, is_client))));
        // SAFETY: the state lives until `drop` of the session, which is made next or not at all.
        let raw = match unsafe { callbacks::session(state, limits, is_client) } {
            Ok(raw) => raw,
            Err(code) => {
                // SAFETY: it comes from a box, and there is no session that knows it.
                drop(unsafe { Box::from_raw(state.as_ptr()) });
                return Err(Broken(code));
            }
        };
        Ok(Session { raw, state, owned: PhantomData })
    }

    /// Writes the settings.
    fn begin(&mut self, limits: Limits) -> Result<(), Broken> {
        let setting = |id, value| ffi::Setting { id, value };
        let settings = [
            setting(ffi::SETTINGS_MAX_CONCURRENT_STREAMS, NO_LIMIT),
            setting(ffi::SETTINGS_INITIAL_WINDOW_SIZE, limits.window.min(NO_LIMIT)),
            setting(ffi::SETTINGS_MAX_HEADER_LIST_SIZE, limits.head),
            setting(ffi::SETTINGS_NO_RFC7540_PRIORITIES, 1),
            setting(ffi::SETTINGS_ENABLE_CONNECT_PROTOCOL, 1),
        ];
        // SAFETY: the session is alive, and copies the settings.
        let code = unsafe {
            ffi::nghttp2_submit_settings(
                self.raw.as_ptr(),
                ffi::FLAG_NONE,
                settings.as_ptr(),
                settings.len(),
            )
        };
        check(code)?;
        let mut output = Vec::new();
        self.send(&mut output, usize::MAX)?;
        // The library would end the connection with the first request above the limit that a client
        // is told (RFC 9113 section 5.1.2 has an error of the stream for that). So it does not know
        // the limit; the client does.
        if let Some(value) = output.get_mut(STREAMS_AT..STREAMS_AT + 4) {
            value.copy_from_slice(&limits.streams.to_be_bytes());
        }
        self.state().output = output;
        self.widen(limits)
    }

    /// Lets the peer send more on the whole connection than HTTP/2 begins with.
    pub(crate) fn widen(&mut self, limits: Limits) -> Result<(), Broken> {
        // Little more than HTTP/2 begins with is not worth a frame.
        if limits.connection_window > FIRST_WINDOW + FIRST_WINDOW / 2 {
            let size = limits.connection_window.min(NO_LIMIT) as i32;
            // SAFETY: the session is alive.
            let code = unsafe {
                ffi::nghttp2_session_set_local_window_size(
                    self.raw.as_ptr(),
                    ffi::FLAG_NONE,
                    0,
                    size,
                )
            };
            check(code)?;
        }
        Ok(())
    }

    /// What the callbacks see. There is no other reference: see the invariants of the crate.
    pub(crate) fn state(&mut self) -> &mut State<T> {
        // SAFETY: it lives as long as the session, and `&mut self` is the only way to it but for
        // the callbacks, which run only while a function of the library does.
        unsafe { self.state.as_mut() }
    }

    pub(crate) fn shared(&self) -> &State<T> {
        // SAFETY: as above; nothing changes it while `self` is borrowed.
        unsafe { self.state.as_ref() }
    }

    /// Takes bytes of the peer. [`Session::next_event`] returns what they mean.
    ///
    /// # Errors
    /// Fails if the connection cannot go on.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        // SAFETY: the session is alive, and no reference to the state is held.
        let count = unsafe {
            ffi::nghttp2_session_mem_recv(self.raw.as_ptr(), bytes.as_ptr(), bytes.len())
        };
        // No callback pauses, so it takes all bytes or fails.
        check(count.min(0) as c_int)
    }

    /// The next thing that the peer has done.
    pub fn next_event(&mut self) -> Option<Event> {
        let events = &mut self.state().events;
        let event = events.pop_front();
        if event.is_none() && events.capacity() > 0 {
            *events = VecDeque::new();
        }
        event
    }

    /// Whether [`Session::next_event`] has something.
    pub fn has_events(&self) -> bool {
        !self.shared().events.is_empty()
    }

    /// Writes what is to be sent behind what is in `output`, until that has `limit` bytes or more.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn send(&mut self, output: &mut Vec<u8>, limit: usize) -> Result<(), Broken> {
        let state = self.state();
        output.append(&mut state.output);
        state.output = std::mem::take(output);
        let mut verdict = Ok(());
        while self.shared().output.len() < limit {
            let mut bytes = ptr::null();
            // SAFETY: the session is alive, and no reference to the state is held.
            let count = unsafe { ffi::nghttp2_session_mem_send(self.raw.as_ptr(), &mut bytes) };
            if count <= 0 {
                verdict = check(count as c_int);
                break;
            }
            // SAFETY: the library has so many bytes there until its next function is called.
            let bytes = unsafe { std::slice::from_raw_parts(bytes, count as usize) };
            self.state().output.extend_from_slice(bytes);
        }
        *output = std::mem::take(&mut self.state().output);
        verdict
    }

    /// Whether there may be something to send.
    pub fn wants_send(&self) -> bool {
        // SAFETY: the session is alive.
        !self.shared().output.is_empty()
            || unsafe { ffi::nghttp2_session_want_write(self.raw.as_ptr()) != 0 }
    }

    /// Whether the connection has nothing more to do: it has been told to end, by either side, and
    /// all its streams have ended.
    pub fn is_over(&self) -> bool {
        // SAFETY: the session is alive.
        !self.wants_send() && unsafe { ffi::nghttp2_session_want_read(self.raw.as_ptr()) == 0 }
    }

    /// The reason and the debug data of the GOAWAY that the library has sent.
    pub fn ended(&self) -> Option<&(Reason, String)> {
        self.shared().ended.as_ref()
    }

    /// Requests whose stream is open, or is going to be.
    pub fn open(&self) -> u32 {
        self.shared().open
    }

    /// What is kept with a stream, until it is released.
    pub fn data(&mut self, stream: u32) -> Option<&mut T> {
        self.state().streams.get_mut(&stream).map(|stream| &mut stream.data)
    }

    /// What is kept with all streams.
    pub fn all_data(&mut self) -> impl Iterator<Item = &mut T> {
        self.state().streams.values_mut().map(|stream| &mut stream.data)
    }

    /// Why the stream is closed, once it is.
    pub fn closed(&self, stream: u32) -> Option<Reason> {
        match self.shared().streams.get(&stream) {
            Some(stream) => stream.closed,
            None => Some(Reason::CANCEL),
        }
    }

    /// Sends the head of a response, and its end if nothing follows. Returns whether it could.
    pub fn respond(&mut self, stream: u32, fields: &[Field<'_>], is_end: bool) -> bool {
        let fields = raw(fields);
        let provider = ffi::DataProvider { source: ptr::null_mut(), read: callbacks::read::<T> };
        let provider = if is_end { ptr::null() } else { &raw const provider };
        if is_end && let Some(stream) = self.state().streams.get_mut(&stream) {
            stream.end = End::Bytes;
        }
        // SAFETY: the session is alive, and copies the fields and the provider.
        let code = unsafe {
            ffi::nghttp2_submit_response(
                self.raw.as_ptr(),
                stream as i32,
                fields.as_ptr(),
                fields.len(),
                provider,
            )
        };
        code == 0
    }

    /// Sends a response that is not the final one (1xx).
    pub fn respond_interim(&mut self, stream: u32, fields: &[Field<'_>]) {
        let fields = raw(fields);
        // It fails if the stream has gone, which its owner learns by an event.
        // SAFETY: the session is alive, and copies the fields.
        unsafe {
            ffi::nghttp2_submit_headers(
                self.raw.as_ptr(),
                ffi::FLAG_NONE,
                stream as i32,
                ptr::null(),
                fields.as_ptr(),
                fields.len(),
                ptr::null_mut(),
            )
        };
    }

    /// How many bytes of our body the peer and the session take now; at most `most` are held of one
    /// stream.
    pub fn capacity(&self, stream: u32, most: usize) -> usize {
        let state = self.shared();
        let Some(known) = state.streams.get(&stream) else { return 0 };
        let (held, held_of_all) = (known.queued, state.queued);
        let raw = self.raw.as_ptr();
        // SAFETY: the session is alive, and no reference to the state is held.
        let (of_all, of_stream) = unsafe {
            (
                ffi::nghttp2_session_get_remote_window_size(raw),
                ffi::nghttp2_session_get_stream_remote_window_size(raw, stream as i32),
            )
        };
        // Windows may be negative (RFC 9113 section 6.9.2), and are of a stream that has gone.
        let of_all = usize::try_from(of_all).unwrap_or(0).saturating_sub(held_of_all);
        let of_stream = usize::try_from(of_stream).unwrap_or(0).saturating_sub(held);
        of_all.min(of_stream).min(most.saturating_sub(held))
    }

    /// Sends bytes of our body, and its end if nothing follows. Returns whether it could.
    pub fn send_data(&mut self, stream: u32, bytes: Bytes, is_end: bool) -> bool {
        let end = if is_end { End::Bytes } else { End::Open };
        self.push(stream, bytes, end)
    }

    /// Ends our body with fields, names and values.
    pub fn send_trailers(&mut self, stream: u32, fields: Vec<(Bytes, Bytes)>) -> bool {
        self.push(stream, Bytes::new(), End::Trailers(fields))
    }

    fn push(&mut self, id: u32, bytes: Bytes, end: End) -> bool {
        let state = self.state();
        let Some(stream) = state.streams.get_mut(&id) else { return false };
        if stream.closed.is_some() || stream.end != End::Open {
            return false;
        }
        stream.end = end;
        if !bytes.is_empty() {
            stream.queued += bytes.len();
            state.queued += bytes.len();
            stream.outgoing.push_back(bytes);
        }
        let is_needed = !stream.outgoing.is_empty() || stream.end != End::Open;
        if is_needed && std::mem::take(&mut stream.is_deferred) {
            // It fails if the stream has gone, which its owner learns by an event.
            // SAFETY: the session is alive.
            unsafe { ffi::nghttp2_session_resume_data(self.raw.as_ptr(), id as i32) };
        }
        true
    }

    /// Ends a stream at once. What it has not sent is not sent.
    pub fn reset(&mut self, stream: u32, reason: Reason) {
        let state = self.state();
        if let Some(known) = state.streams.get_mut(&stream) {
            known.end = End::Bytes;
            known.outgoing.clear();
            state.queued -= std::mem::take(&mut known.queued);
        }
        // It fails only without memory.
        // SAFETY: the session is alive.
        unsafe {
            ffi::nghttp2_submit_rst_stream(
                self.raw.as_ptr(),
                ffi::FLAG_NONE,
                stream as i32,
                reason.0,
            )
        };
    }

    /// Ends a stream whose client sends a wrong frame on it, before the library sees that: it would
    /// end the connection. What comes on the stream from now on is ignored. Returns whether the
    /// stream was open.
    pub fn close(&mut self, stream: u32, reason: Reason) -> bool {
        if self.closed(stream).is_some() {
            return false;
        }
        self.reset(stream, reason);
        // The library knows the stream until its RST_STREAM is written, which comes before what is
        // left of responses.
        let mut output = Vec::new();
        while self.closed(stream).is_none() {
            let before = output.len();
            if self.send(&mut output, before + 1).is_err() || output.len() == before {
                break;
            }
        }
        self.state().output = output;
        true
    }

    /// Takes the bytes of a body that have come; the client may send as many again.
    pub fn take_body(&mut self, id: u32) -> Bytes {
        let state = self.state();
        let is_client = state.is_client;
        let Some(stream) = state.streams.get_mut(&id) else { return Bytes::new() };
        let bytes = std::mem::take(&mut stream.incoming);
        if !bytes.is_empty() {
            let (raw, id) = (self.raw.as_ptr(), id as i32);
            // They fail if the stream has gone, and then there is nothing to send.
            // SAFETY: the session is alive.
            unsafe {
                // Bytes of a server have been counted for the connection when they came.
                if is_client {
                    ffi::nghttp2_session_consume_stream(raw, id, bytes.len());
                } else {
                    ffi::nghttp2_session_consume(raw, id, bytes.len());
                }
            }
        }
        bytes.freeze()
    }

    /// Whether there are fields behind a body that were not taken.
    pub fn has_trailers(&self, stream: u32) -> bool {
        self.shared().streams.get(&stream).is_some_and(|stream| stream.trailers.is_some())
    }

    /// Takes the fields behind a body, if there are any.
    pub fn take_trailers(&mut self, stream: u32) -> Option<Head> {
        self.state().streams.get_mut(&stream)?.trailers.take()
    }

    /// Whether the whole body has been taken.
    pub fn is_body_taken(&self, stream: u32) -> bool {
        let stream = self.shared().streams.get(&stream);
        stream.is_some_and(|stream| stream.has_come && stream.incoming.is_empty())
    }

    /// Whether no more of the body comes.
    pub fn has_body_come(&self, stream: u32) -> bool {
        self.shared().streams.get(&stream).is_some_and(|stream| stream.has_come)
    }

    /// The body of a request is not wanted any more.
    pub fn drop_body(&mut self, id: u32) {
        let Some(stream) = self.state().streams.get_mut(&id) else { return };
        stream.is_read = false;
        let left = std::mem::replace(&mut stream.incoming, BytesMut::new()).len();
        let is_answered = stream.has_ended && !stream.has_come && stream.closed.is_none();
        if left > 0 {
            // SAFETY: the session is alive.
            unsafe { ffi::nghttp2_session_consume_connection(self.raw.as_ptr(), left) };
        }
        if is_answered {
            self.reset(id, Reason::NO_ERROR);
        }
    }

    /// The stream is not looked at any more. A response that is not complete is cancelled, ours or
    /// the server's.
    pub fn release(&mut self, id: u32) {
        let state = self.state();
        let is_client = state.is_client;
        let Some(stream) = state.streams.get_mut(&id) else { return };
        stream.is_released = true;
        let is_unended = (is_client || stream.end == End::Open) && stream.closed.is_none();
        if stream.closed.is_some() {
            state.streams.remove(&id);
        }
        if is_unended {
            self.reset(id, Reason::CANCEL);
        }
    }

    /// Tells the client to open no more streams, without saying yet which were the last.
    pub fn announce_end(&mut self) {
        // It fails only without memory, or if the connection ends already.
        // SAFETY: the session is alive.
        unsafe { ffi::nghttp2_submit_shutdown_notice(self.raw.as_ptr()) };
    }

    /// Sends a PING; its answer is [`Event::Answered`].
    pub fn ping(&mut self) {
        // It fails only without memory.
        // SAFETY: the session is alive; no payload is given.
        unsafe { ffi::nghttp2_submit_ping(self.raw.as_ptr(), ffi::FLAG_NONE, ptr::null()) };
    }

    /// Tells the client which stream was the last, and takes no more. The connection goes on until
    /// those that are there have ended.
    pub fn end(&mut self) {
        let raw = self.raw.as_ptr();
        // It fails only without memory.
        // SAFETY: the session is alive; no text is given.
        unsafe {
            let last = ffi::nghttp2_session_get_last_proc_stream_id(raw);
            let code = Reason::NO_ERROR.0;
            ffi::nghttp2_submit_goaway(raw, ffi::FLAG_NONE, last, code, ptr::null(), 0);
        }
    }

    /// Ends the connection at once, for this reason.
    pub fn abort(&mut self, reason: Reason) {
        // It fails only without memory.
        // SAFETY: the session is alive.
        unsafe { ffi::nghttp2_session_terminate_session(self.raw.as_ptr(), reason.0) };
    }
}

impl<T: Default> Drop for Session<T> {
    fn drop(&mut self) {
        // The session first, since it may call back.
        // SAFETY: both were made in `new`, and they are not used after this.
        unsafe {
            ffi::nghttp2_session_del(self.raw.as_ptr());
            drop(Box::from_raw(self.state.as_ptr()));
        }
    }
}

/// A field of a head.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Its name in lower case.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Whether no peer on the way may keep it in a table (HPACK, never indexed).
    pub is_secret: bool,
}

/// The same for the library. The fields must live as long as it.
pub(crate) fn raw(fields: &[Field<'_>]) -> Vec<ffi::Field> {
    let raw = |field: &Field<'_>| ffi::Field {
        name: field.name.as_ptr(),
        value: field.value.as_ptr(),
        name_length: field.name.len(),
        value_length: field.value.len(),
        flags: if field.is_secret { ffi::FIELD_NO_INDEX } else { 0 },
    };
    fields.iter().map(raw).collect()
}

pub(crate) fn check(code: c_int) -> Result<(), Broken> {
    if code < 0 { Err(Broken(code)) } else { Ok(()) }
}
