//! What this crate uses of `nghttp2.h`, written by hand: the names and layouts are the header's, of
//! version 1.52 and later.

use std::ffi::{c_char, c_int, c_void};

/// `nghttp2_session`, which only the library looks into.
#[repr(C)]
pub struct Session {
    _private: [u8; 0],
}

/// `nghttp2_session_callbacks`.
#[repr(C)]
pub struct Callbacks {
    _private: [u8; 0],
}

/// `nghttp2_option`.
#[repr(C)]
pub struct Options {
    _private: [u8; 0],
}

/// `nghttp2_frame_hd`, with which every frame begins.
#[repr(C)]
pub struct FrameHead {
    pub length: usize,
    pub stream: i32,
    pub kind: u8,
    pub flags: u8,
    pub reserved: u8,
}

/// `nghttp2_rst_stream`.
#[repr(C)]
pub struct RstStream {
    pub head: FrameHead,
    pub code: u32,
}

/// `nghttp2_goaway`.
#[repr(C)]
pub struct Goaway {
    pub head: FrameHead,
    pub last_stream: i32,
    pub code: u32,
    pub text: *const u8,
    pub text_length: usize,
    pub reserved: u8,
}

/// `nghttp2_priority_spec`.
#[repr(C)]
pub struct PrioritySpec {
    pub stream: i32,
    pub weight: i32,
    pub exclusive: u8,
}

/// `nghttp2_headers`.
#[repr(C)]
pub struct Headers {
    pub head: FrameHead,
    pub padding: usize,
    pub priority: PrioritySpec,
    pub fields: *const Field,
    pub field_count: usize,
    pub category: c_int,
}

/// `nghttp2_nv`.
#[repr(C)]
pub struct Field {
    pub name: *const u8,
    pub value: *const u8,
    pub name_length: usize,
    pub value_length: usize,
    pub flags: u8,
}

/// `nghttp2_settings_entry`.
#[repr(C)]
pub struct Setting {
    pub id: i32,
    pub value: u32,
}

/// `nghttp2_data_provider`: its source, a union of a descriptor and a pointer, is not used.
#[repr(C)]
pub struct DataProvider {
    pub source: *mut c_void,
    pub read: ReadCallback,
}

pub type FrameCallback = unsafe extern "C" fn(*mut Session, *const FrameHead, *mut c_void) -> c_int;
pub type ExtensionCallback =
    unsafe extern "C" fn(*mut Session, *const FrameHead, *const u8, usize, *mut c_void) -> c_int;
pub type UnpackCallback =
    unsafe extern "C" fn(*mut Session, *mut *mut c_void, *const FrameHead, *mut c_void) -> c_int;
pub type HeaderCallback = unsafe extern "C" fn(
    *mut Session,
    *const FrameHead,
    *const u8,
    usize,
    *const u8,
    usize,
    u8,
    *mut c_void,
) -> c_int;
pub type ChunkCallback =
    unsafe extern "C" fn(*mut Session, u8, i32, *const u8, usize, *mut c_void) -> c_int;
pub type CloseCallback = unsafe extern "C" fn(*mut Session, i32, u32, *mut c_void) -> c_int;
pub type ReadCallback = unsafe extern "C" fn(
    *mut Session,
    i32,
    *mut u8,
    usize,
    *mut u32,
    *mut c_void,
    *mut c_void,
) -> isize;
pub type SendDataCallback = unsafe extern "C" fn(
    *mut Session,
    *const FrameHead,
    *const u8,
    usize,
    *mut c_void,
    *mut c_void,
) -> c_int;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
/// Of RFC 9218.
pub const PRIORITY_UPDATE: u8 = 16;

pub const FLAG_NONE: u8 = 0;
pub const FLAG_ACK: u8 = 1;
pub const FLAG_END_STREAM: u8 = 1;

/// The category of a HEADERS frame that opens a stream.
pub const CATEGORY_REQUEST: c_int = 0;

pub const SETTINGS_ENABLE_PUSH: i32 = 2;
pub const SETTINGS_MAX_CONCURRENT_STREAMS: i32 = 3;
pub const SETTINGS_INITIAL_WINDOW_SIZE: i32 = 4;
pub const SETTINGS_MAX_HEADER_LIST_SIZE: i32 = 6;
/// RFC 8441.
pub const SETTINGS_ENABLE_CONNECT_PROTOCOL: i32 = 8;
pub const SETTINGS_NO_RFC7540_PRIORITIES: i32 = 9;

pub const FIELD_NO_INDEX: u8 = 1;

pub const DATA_EOF: u32 = 1;
pub const DATA_NO_END_STREAM: u32 = 2;
pub const DATA_NO_COPY: u32 = 4;

pub const ERR_DEFERRED: c_int = -508;
pub const ERR_TEMPORAL_CALLBACK_FAILURE: c_int = -521;
pub const ERR_CANCEL: c_int = -535;
pub const ERR_NOMEM: c_int = -901;
pub const ERR_BAD_CLIENT_MAGIC: c_int = -903;
pub const ERR_FLOODED: c_int = -904;
pub const ERR_TOO_MANY_CONTINUATIONS: c_int = -905;

/// `nghttp2_extpri`.
#[repr(C)]
pub struct Priority {
    pub urgency: u32,
    pub is_incremental: c_int,
}

#[link(name = "nghttp2")]
unsafe extern "C" {
    pub fn nghttp2_session_callbacks_new(callbacks: *mut *mut Callbacks) -> c_int;
    pub fn nghttp2_session_callbacks_del(callbacks: *mut Callbacks);
    pub fn nghttp2_session_callbacks_set_on_begin_headers_callback(
        callbacks: *mut Callbacks,
        callback: FrameCallback,
    );
    pub fn nghttp2_session_callbacks_set_on_header_callback(
        callbacks: *mut Callbacks,
        callback: HeaderCallback,
    );
    pub fn nghttp2_session_callbacks_set_on_invalid_header_callback(
        callbacks: *mut Callbacks,
        callback: HeaderCallback,
    );
    pub fn nghttp2_session_callbacks_set_on_begin_frame_callback(
        callbacks: *mut Callbacks,
        callback: FrameCallback,
    );
    pub fn nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks: *mut Callbacks,
        callback: FrameCallback,
    );
    pub fn nghttp2_session_callbacks_set_on_frame_send_callback(
        callbacks: *mut Callbacks,
        callback: FrameCallback,
    );
    pub fn nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks: *mut Callbacks,
        callback: ChunkCallback,
    );
    pub fn nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks: *mut Callbacks,
        callback: CloseCallback,
    );
    pub fn nghttp2_session_callbacks_set_send_data_callback(
        callbacks: *mut Callbacks,
        callback: SendDataCallback,
    );
    pub fn nghttp2_session_callbacks_set_on_extension_chunk_recv_callback(
        callbacks: *mut Callbacks,
        callback: ExtensionCallback,
    );
    pub fn nghttp2_session_callbacks_set_unpack_extension_callback(
        callbacks: *mut Callbacks,
        callback: UnpackCallback,
    );

    pub fn nghttp2_option_new(options: *mut *mut Options) -> c_int;
    pub fn nghttp2_option_del(options: *mut Options);
    pub fn nghttp2_option_set_no_auto_window_update(options: *mut Options, value: c_int);
    pub fn nghttp2_option_set_no_closed_streams(options: *mut Options, value: c_int);
    pub fn nghttp2_option_set_user_recv_extension_type(options: *mut Options, kind: u8);
    pub fn nghttp2_option_set_server_fallback_rfc7540_priorities(
        options: *mut Options,
        value: c_int,
    );
    pub fn nghttp2_option_set_stream_reset_rate_limit(options: *mut Options, burst: u64, rate: u64);
    pub fn nghttp2_option_set_max_continuations(options: *mut Options, value: usize);
    pub fn nghttp2_option_set_max_send_header_block_length(options: *mut Options, value: usize);

    pub fn nghttp2_session_server_new2(
        session: *mut *mut Session,
        callbacks: *const Callbacks,
        user_data: *mut c_void,
        options: *const Options,
    ) -> c_int;
    pub fn nghttp2_session_client_new2(
        session: *mut *mut Session,
        callbacks: *const Callbacks,
        user_data: *mut c_void,
        options: *const Options,
    ) -> c_int;
    pub fn nghttp2_session_del(session: *mut Session);
    pub fn nghttp2_session_mem_recv(
        session: *mut Session,
        bytes: *const u8,
        length: usize,
    ) -> isize;
    pub fn nghttp2_session_mem_send(session: *mut Session, bytes: *mut *const u8) -> isize;
    pub fn nghttp2_session_want_read(session: *mut Session) -> c_int;
    pub fn nghttp2_session_want_write(session: *mut Session) -> c_int;
    pub fn nghttp2_session_resume_data(session: *mut Session, stream: i32) -> c_int;
    pub fn nghttp2_session_consume(session: *mut Session, stream: i32, size: usize) -> c_int;
    pub fn nghttp2_session_consume_stream(session: *mut Session, stream: i32, size: usize)
    -> c_int;
    pub fn nghttp2_session_consume_connection(session: *mut Session, size: usize) -> c_int;
    pub fn nghttp2_session_get_remote_settings(session: *mut Session, id: i32) -> u32;
    pub fn nghttp2_session_get_remote_window_size(session: *mut Session) -> i32;
    pub fn nghttp2_session_get_stream_remote_window_size(session: *mut Session, stream: i32)
    -> i32;
    pub fn nghttp2_session_change_extpri_stream_priority(
        session: *mut Session,
        stream: i32,
        priority: *const Priority,
        ignore_client: c_int,
    ) -> c_int;
    pub fn nghttp2_session_get_last_proc_stream_id(session: *mut Session) -> i32;
    pub fn nghttp2_session_terminate_session(session: *mut Session, code: u32) -> c_int;
    pub fn nghttp2_session_set_local_window_size(
        session: *mut Session,
        flags: u8,
        stream: i32,
        size: i32,
    ) -> c_int;

    pub fn nghttp2_submit_settings(
        session: *mut Session,
        flags: u8,
        settings: *const Setting,
        count: usize,
    ) -> c_int;
    pub fn nghttp2_submit_request(
        session: *mut Session,
        priority: *const PrioritySpec,
        fields: *const Field,
        count: usize,
        provider: *const DataProvider,
        stream_data: *mut c_void,
    ) -> i32;
    pub fn nghttp2_submit_response(
        session: *mut Session,
        stream: i32,
        fields: *const Field,
        count: usize,
        provider: *const DataProvider,
    ) -> c_int;
    pub fn nghttp2_submit_headers(
        session: *mut Session,
        flags: u8,
        stream: i32,
        priority: *const PrioritySpec,
        fields: *const Field,
        count: usize,
        user_data: *mut c_void,
    ) -> i32;
    pub fn nghttp2_submit_trailer(
        session: *mut Session,
        stream: i32,
        fields: *const Field,
        count: usize,
    ) -> c_int;
    pub fn nghttp2_submit_rst_stream(
        session: *mut Session,
        flags: u8,
        stream: i32,
        code: u32,
    ) -> c_int;
    pub fn nghttp2_submit_shutdown_notice(session: *mut Session) -> c_int;
    pub fn nghttp2_submit_ping(session: *mut Session, flags: u8, opaque: *const u8) -> c_int;
    pub fn nghttp2_submit_goaway(
        session: *mut Session,
        flags: u8,
        last_stream: i32,
        code: u32,
        text: *const u8,
        length: usize,
    ) -> c_int;
    pub fn nghttp2_strerror(code: c_int) -> *const c_char;
    pub fn nghttp2_http2_strerror(code: u32) -> *const c_char;
}
