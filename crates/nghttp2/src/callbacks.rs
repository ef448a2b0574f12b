//! What the library calls. Each function is given the state of its session as its last argument.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use bytes::Bytes;

use crate::event::{Event, Reason};
use crate::ffi;
use crate::state::{Building, Limits, State};
use crate::stream::{End, Stream};

/// What HTTP/2 counts for a field beside its bytes (RFC 9113 section 10.5.1).
const FIELD_COST: u64 = 32;

/// A head may be so many times as large as the setting that clients get; beyond that, the
/// connection ends.
const CUT_TIMES: u64 = 4;

/// Bytes of a PRIORITY_UPDATE frame that are looked at. Its value is a few bytes long; what is
/// longer is ignored.
const LONGEST_PRIORITY: usize = 256;

/// The bytes of the number of a stream, with which a PRIORITY_UPDATE frame begins.
const STREAM_BYTES: usize = 4;

/// Bytes of a frame's head.
const FRAME_HEAD: usize = 9;

/// Frames that belong to no request which a server may send for each one that does: an answer to a
/// PING, a new window. With a tenth, windows alone would be too many; ten times more would be work
/// for nothing.
const FOR_EACH_FRAME: u32 = 10;

/// The largest part of a GOAWAY's debug data that is of use in a log.
const LONGEST_TEXT: usize = 200;

/// Makes the library's session, which will give this state to the functions of this module.
///
/// # Safety
/// The state must live for longer than the session.
pub unsafe fn session<T: Default>(
    state: NonNull<State<T>>,
    limits: Limits,
    is_client: bool,
) -> Result<NonNull<ffi::Session>, c_int> {
    let (mut session, mut callbacks, mut options) =
        (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: each pointer is used only after the function that sets it has succeeded, and is freed
    // once; the library keeps neither the callbacks nor the options, but copies what they say. The
    // types of the functions are those of the header.
    let code = unsafe {
        let mut code = ffi::nghttp2_session_callbacks_new(&mut callbacks);
        if code == 0 {
            code = ffi::nghttp2_option_new(&mut options);
        }
        if code == 0 {
            set_callbacks::<T>(callbacks);
            set_options(options, limits);
            let state = state.as_ptr().cast();
            code = if is_client {
                ffi::nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, begun::<T>);
                ffi::nghttp2_session_client_new2(&mut session, callbacks, state, options)
            } else {
                ffi::nghttp2_option_set_user_recv_extension_type(options, ffi::PRIORITY_UPDATE);
                ffi::nghttp2_session_server_new2(&mut session, callbacks, state, options)
            };
        }
        // Both take null.
        ffi::nghttp2_option_del(options);
        ffi::nghttp2_session_callbacks_del(callbacks);
        code
    };
    match NonNull::new(session) {
        Some(session) if code == 0 => Ok(session),
        _ => Err(if code < 0 { code } else { ffi::ERR_NOMEM }),
    }
}

/// # Safety
/// The pointer is one to callbacks.
unsafe fn set_callbacks<T: Default>(callbacks: *mut ffi::Callbacks) {
    // SAFETY: as the caller says.
    unsafe {
        ffi::nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_head::<T>);
        ffi::nghttp2_session_callbacks_set_on_header_callback(callbacks, field::<T>);
        ffi::nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, wrong_field);
        ffi::nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, received::<T>);
        ffi::nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, sent::<T>);
        ffi::nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, chunk::<T>);
        ffi::nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, closed::<T>);
        ffi::nghttp2_session_callbacks_set_send_data_callback(callbacks, write::<T>);
        ffi::nghttp2_session_callbacks_set_on_extension_chunk_recv_callback(
            callbacks,
            extension::<T>,
        );
        ffi::nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, unpack::<T>);
    }
}

/// # Safety
/// The pointer is one to options.
unsafe fn set_options(options: *mut ffi::Options, limits: Limits) {
    // SAFETY: as the caller says.
    unsafe {
        // The client may send more when the bytes have been taken, not when they have come.
        ffi::nghttp2_option_set_no_auto_window_update(options, 1);
        // They are kept for the tree of priorities, which is out of use.
        ffi::nghttp2_option_set_no_closed_streams(options, 1);
        // The rules for PRIORITY frames hold for clients that may send them.
        ffi::nghttp2_option_set_server_fallback_rfc7540_priorities(options, 1);
        // They are counted before they come here.
        ffi::nghttp2_option_set_stream_reset_rate_limit(options, u64::MAX / 2, u64::MAX / 2);
        ffi::nghttp2_option_set_max_continuations(options, limits.continuations);
        // The largest response heads are limited by the applications' side.
        ffi::nghttp2_option_set_max_send_header_block_length(options, usize::MAX / 2);
    }
}

/// The state of a session.
///
/// # Safety
/// The pointer is the one that the session was made with, and the reference is given up before the
/// callback returns or calls the library.
unsafe fn state<'a, T>(user_data: *mut c_void) -> &'a mut State<T> {
    // SAFETY: by the crate's invariants 1 and 2 it is alive and no other reference to it exists.
    unsafe { &mut *user_data.cast() }
}

/// # Safety
/// The library gives a pointer to bytes that are there until the callback returns.
unsafe fn bytes<'a>(pointer: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(pointer, length) }
}

/// The head of any frame of a server has come.
unsafe extern "C" fn begun<T: Default>(
    session: *mut ffi::Session,
    frame: *const ffi::FrameHead,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives the head of a frame, and our state.
    let (frame, state) = unsafe { (&*frame, state::<T>(user_data)) };
    let is_response = frame.kind == ffi::HEADERS || frame.kind == ffi::DATA && frame.length > 0;
    state.control = match is_response {
        true => state.control.saturating_sub(FOR_EACH_FRAME),
        false => state.control.saturating_add(1),
    };
    let fault = if frame.kind == ffi::PUSH_PROMISE {
        // The library refuses it only behind the answer to our settings.
        Some(Reason::PROTOCOL_ERROR)
    } else if state.control > state.limits.control {
        Some(Reason::ENHANCE_YOUR_CALM)
    } else {
        None
    };
    if let Some(fault) = fault {
        // SAFETY: the state is not used after this.
        unsafe { ffi::nghttp2_session_terminate_session(session, fault.0) };
    }
    0
}

/// A head begins: of a request, of a response, or of trailers.
unsafe extern "C" fn begin_head<T: Default>(
    session: *mut ffi::Session,
    frame: *const ffi::FrameHead,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives a frame, and our state.
    let (frame_head, state) = unsafe { (&*frame, state::<T>(user_data)) };
    state.head = None;
    if frame_head.kind != ffi::HEADERS {
        return 0;
    }
    // SAFETY: the kind says which frame it is.
    let frame = unsafe { &*frame.cast::<ffi::Headers>() };
    let stream = frame.head.stream as u32;
    if state.is_client || frame.category != ffi::CATEGORY_REQUEST {
        // Those of refused requests are left out, and those of requests that are given up.
        if state.streams.get(&stream).is_some_and(|stream| stream.closed.is_none()) {
            state.head = Some(Building::new(stream, true));
        }
        return 0;
    }
    if state.open >= state.limits.streams {
        state.open += 1;
        state.events.push_back(Event::Refused);
        // SAFETY: the state is not used after this.
        unsafe {
            let (code, none) = (Reason::REFUSED_STREAM.0, ffi::FLAG_NONE);
            ffi::nghttp2_submit_rst_stream(session, none, frame.head.stream, code);
        }
        return 0;
    }
    state.open += 1;
    state.streams.insert(stream, Box::new(Stream::new()));
    state.head = Some(Building::new(stream, false));
    // Frames of all responses take turns here: which one comes first its user decides, before the
    // bytes come to the library.
    let same = ffi::Priority { urgency: 3, is_incremental: 1 };
    // It fails only if the stream has gone.
    // SAFETY: the state is not used after this, and the library copies the priority.
    unsafe {
        ffi::nghttp2_session_change_extpri_stream_priority(session, frame.head.stream, &same, 1);
    }
    0
}

/// A field of a head.
unsafe extern "C" fn field<T: Default>(
    session: *mut ffi::Session,
    _: *const ffi::FrameHead,
    name: *const u8,
    name_length: usize,
    value: *const u8,
    value_length: usize,
    _: u8,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives names and values, and our state.
    let (name, value, state) =
        unsafe { (bytes(name, name_length), bytes(value, value_length), state::<T>(user_data)) };
    let (largest, trailers) = (u64::from(state.limits.head), u64::from(state.limits.trailers));
    // Fields of refused requests are dropped.
    let Some(head) = &mut state.head else { return 0 };
    // Behind a body there is no status: the library has refused that.
    head.is_trailers &= name != b":status";
    let limit = if head.is_trailers { trailers } else { largest };
    head.size += name.len() as u64 + value.len() as u64 + FIELD_COST;
    if head.size > CUT_TIMES * largest {
        // SAFETY: the state is not used after this.
        unsafe {
            ffi::nghttp2_session_terminate_session(session, Reason::ENHANCE_YOUR_CALM.0);
        }
        return 0;
    }
    if head.size > limit && !name.starts_with(b":") {
        head.is_cut = true;
        return 0;
    }
    head.text.extend_from_slice(name);
    head.text.extend_from_slice(value);
    head.lengths.push((name.len() as u32, value.len() as u32));
    0
}

/// A field that the library would only leave out: one with a byte that may not stand in it. RFC
/// 9113 section 8.2.1 makes the request malformed.
unsafe extern "C" fn wrong_field(
    _: *mut ffi::Session,
    _: *const ffi::FrameHead,
    _: *const u8,
    _: usize,
    _: *const u8,
    _: usize,
    _: u8,
    _: *mut c_void,
) -> c_int {
    ffi::ERR_TEMPORAL_CALLBACK_FAILURE
}

/// A frame has come, and is right.
unsafe extern "C" fn received<T: Default>(
    _: *mut ffi::Session,
    frame: *const ffi::FrameHead,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives a frame, and our state.
    let (frame, state) = unsafe { (&*frame, state::<T>(user_data)) };
    let id = frame.stream as u32;
    let is_end =
        matches!(frame.kind, ffi::DATA | ffi::HEADERS) && frame.flags & ffi::FLAG_END_STREAM != 0;
    if is_end && let Some(stream) = state.streams.get_mut(&id) {
        stream.has_come = true;
    }
    match frame.kind {
        ffi::HEADERS if state.head.is_some() => {
            if let Some(head) = state.head.take()
                && let Some(known) = state.streams.get_mut(&head.stream)
            {
                let stream = head.stream;
                if head.is_trailers {
                    known.trailers = Some(head.finish());
                    state.events.push_back(Event::Body(stream));
                } else if state.is_client {
                    state.events.push_back(Event::Response { stream, head: head.finish() });
                } else {
                    known.is_released = false;
                    state.events.push_back(Event::Request { stream, head: head.finish() });
                }
            }
        }
        ffi::DATA | ffi::HEADERS if is_end => state.events.push_back(Event::Body(id)),
        ffi::WINDOW_UPDATE => state.events.push_back(Event::Window(id)),
        // It may have changed the windows.
        ffi::SETTINGS if frame.flags & ffi::FLAG_ACK == 0 => {
            state.events.push_back(Event::Window(0));
        }
        ffi::PING if frame.flags & ffi::FLAG_ACK != 0 => state.events.push_back(Event::Answered),
        ffi::GOAWAY if state.is_client => state.events.push_back(Event::Leaving),
        _ => {}
    }
    0
}

/// A frame has been written.
unsafe extern "C" fn sent<T: Default>(
    session: *mut ffi::Session,
    frame: *const ffi::FrameHead,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives a frame, and our state.
    let (head, state) = unsafe { (&*frame, state::<T>(user_data)) };
    if state.is_client {
        sent_by_client(head, state);
    }
    match head.kind {
        ffi::DATA | ffi::HEADERS if head.flags & ffi::FLAG_END_STREAM != 0 => {
            let Some(stream) = state.streams.get_mut(&(head.stream as u32)) else { return 0 };
            stream.has_ended = true;
            if !stream.has_come && !stream.is_read {
                // The client need not send the rest (RFC 9113 section 8.1).
                // SAFETY: the state is not used after this.
                unsafe {
                    let (code, none) = (Reason::NO_ERROR.0, ffi::FLAG_NONE);
                    ffi::nghttp2_submit_rst_stream(session, none, head.stream, code);
                }
            }
        }
        ffi::RST_STREAM => {
            // SAFETY: the kind says which frame it is.
            let code = Reason(unsafe { (*frame.cast::<ffi::RstStream>()).code });
            let is_ours =
                [Reason::NO_ERROR, Reason::INTERNAL_ERROR, Reason::REFUSED_STREAM, Reason::CANCEL];
            if !is_ours.contains(&code) {
                if let Some(stream) = state.streams.get_mut(&(head.stream as u32)) {
                    stream.is_wrong = true;
                }
                state.errors += 1;
                if state.errors > state.limits.errors {
                    // SAFETY: the state is not used after this.
                    unsafe {
                        let code = Reason::ENHANCE_YOUR_CALM.0;
                        ffi::nghttp2_session_terminate_session(session, code);
                    }
                }
            }
        }
        ffi::GOAWAY => {
            // SAFETY: the kind says which frame it is, and its text is there.
            let (code, text) = unsafe {
                let frame = &*frame.cast::<ffi::Goaway>();
                (Reason(frame.code), bytes(frame.text, frame.text_length.min(LONGEST_TEXT)))
            };
            if code != Reason::NO_ERROR && state.ended.is_none() {
                state.ended = Some((code, String::from_utf8_lossy(text).into_owned()));
            }
        }
        _ => {}
    }
    0
}

/// A frame for a server has been written.
fn sent_by_client<T>(frame: &ffi::FrameHead, state: &mut State<T>) {
    let id = frame.stream as u32;
    match frame.kind {
        ffi::DATA => state.control = state.control.saturating_sub(FOR_EACH_FRAME),
        ffi::HEADERS => {
            if let Some(stream) = state.streams.get_mut(&id)
                && !std::mem::replace(&mut stream.has_begun, true)
            {
                // Before that it has no window.
                state.events.push_back(Event::Window(id));
            }
        }
        _ => {}
    }
}

/// Bytes of a body have come.
unsafe extern "C" fn chunk<T: Default>(
    session: *mut ffi::Session,
    _: u8,
    stream: i32,
    data: *const u8,
    length: usize,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives bytes, and our state.
    let (data, state) = unsafe { (bytes(data, length), state::<T>(user_data)) };
    let id = stream as u32;
    match state.streams.get_mut(&id) {
        Some(stream) if stream.is_read => {
            // One event is enough for all bytes that have not been read.
            if stream.incoming.is_empty() {
                state.events.push_back(Event::Body(id));
            }
            stream.incoming.extend_from_slice(data);
            // What is held of a response bounds its own window. It does not hold up others.
            if state.is_client {
                // SAFETY: the state is not used after this.
                unsafe {
                    ffi::nghttp2_session_consume_connection(session, length);
                }
            }
        }
        // The body is not read; other bodies get its share of the connection's window.
        // SAFETY: the state is not used after this.
        _ => unsafe {
            ffi::nghttp2_session_consume_connection(session, length);
        },
    }
    0
}

/// A stream is closed.
unsafe extern "C" fn closed<T: Default>(
    _: *mut ffi::Session,
    stream: i32,
    code: u32,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives our state.
    let state = unsafe { state::<T>(user_data) };
    let id = stream as u32;
    state.open = state.open.saturating_sub(1);
    let Some(stream) = state.streams.get_mut(&id) else { return 0 };
    stream.closed = Some(Reason(code));
    stream.outgoing.clear();
    state.queued -= std::mem::take(&mut stream.queued);
    if stream.is_released {
        state.streams.remove(&id);
    } else {
        state.events.push_back(Event::Closed(id));
    }
    0
}

/// How many bytes of our body go into the next frame, and whether it is the last one.
pub unsafe extern "C" fn read<T: Default>(
    session: *mut ffi::Session,
    stream: i32,
    _: *mut u8,
    length: usize,
    flags: *mut u32,
    _: *mut c_void,
    user_data: *mut c_void,
) -> isize {
    // SAFETY: the library gives our state.
    let state = unsafe { state::<T>(user_data) };
    let Some(known) = state.streams.get_mut(&(stream as u32)) else {
        return ffi::ERR_TEMPORAL_CALLBACK_FAILURE as isize;
    };
    let count = known.queued.min(length);
    let is_last = count == known.queued;
    if count == 0 && known.end == End::Open {
        known.is_deferred = true;
        return ffi::ERR_DEFERRED as isize;
    }
    let mut said = ffi::DATA_NO_COPY;
    let mut trailers = None;
    if is_last {
        match std::mem::replace(&mut known.end, End::Bytes) {
            End::Open => known.end = End::Open,
            End::Bytes => said |= ffi::DATA_EOF,
            End::Trailers(fields) => {
                said |= ffi::DATA_EOF | ffi::DATA_NO_END_STREAM;
                trailers = Some(fields);
            }
        }
    }
    if let Some(fields) = trailers {
        let raw = |(name, value): &(Bytes, Bytes)| ffi::Field {
            name: name.as_ptr(),
            value: value.as_ptr(),
            name_length: name.len(),
            value_length: value.len(),
            flags: 0,
        };
        let raw: Vec<ffi::Field> = fields.iter().map(raw).collect();
        // SAFETY: the state is not used after this, and the library copies the fields.
        unsafe { ffi::nghttp2_submit_trailer(session, stream, raw.as_ptr(), raw.len()) };
    }
    // SAFETY: the library gives room for the flags.
    unsafe { *flags |= said };
    count as isize
}

/// Writes a DATA frame, whose head the library gives.
unsafe extern "C" fn write<T: Default>(
    _: *mut ffi::Session,
    frame: *const ffi::FrameHead,
    head: *const u8,
    length: usize,
    _: *mut c_void,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives a frame, the bytes of its head, and our state.
    let (frame, head, state) = unsafe { (&*frame, bytes(head, FRAME_HEAD), state::<T>(user_data)) };
    state.output.extend_from_slice(head);
    if let Some(stream) = state.streams.get_mut(&(frame.stream as u32)) {
        stream.write(length, &mut state.output);
        state.queued -= length;
    }
    0
}

/// Some of an extension's payload has come.
unsafe extern "C" fn extension<T: Default>(
    _: *mut ffi::Session,
    _: *const ffi::FrameHead,
    data: *const u8,
    length: usize,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives bytes, and our state.
    let (data, state) = unsafe { (bytes(data, length), state::<T>(user_data)) };
    if state.extension.len() <= LONGEST_PRIORITY {
        state.extension.extend_from_slice(data);
    }
    0
}

/// A PRIORITY_UPDATE frame has come (RFC 9218 section 7.1).
unsafe extern "C" fn unpack<T: Default>(
    session: *mut ffi::Session,
    _: *mut *mut c_void,
    frame: *const ffi::FrameHead,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the library gives a frame, and our state.
    let (frame, state) = unsafe { (&*frame, state::<T>(user_data)) };
    let payload = std::mem::take(&mut state.extension);
    let stream = match payload.first_chunk::<STREAM_BYTES>() {
        Some(number) => u32::from_be_bytes(*number) & i32::MAX as u32,
        None => 0,
    };
    let fault = if frame.length < STREAM_BYTES {
        Some(Reason::FRAME_SIZE_ERROR)
    } else if frame.stream != 0 || stream == 0 {
        Some(Reason::PROTOCOL_ERROR)
    } else {
        None
    };
    if let Some(fault) = fault {
        // SAFETY: the state is not used after this.
        unsafe { ffi::nghttp2_session_terminate_session(session, fault.0) };
    } else if payload.len() <= LONGEST_PRIORITY {
        let value = Bytes::from(payload).slice(STREAM_BYTES..);
        state.events.push_back(Event::Priority { stream, value });
    }
    // The library has nothing to do with it.
    ffi::ERR_CANCEL
}
