//! The Rust view of `c/shim/shim.h`, and nothing else. Layouts are pinned on both sides.

use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;

// For the linker: C calls the image manager.
use tokamak_image as _;
use tokamak_sys::queue::record::Field;
use tokamak_sys::queue::{CallWords, Doing, Peer};

/// `SHIM_VERSION`.
pub const VERSION: u32 = 11;

/// `shim_text`: bytes followed by a NUL that `len` does not count.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Text {
    pub at: *const c_char,
    pub len: usize,
}

/// `shim_pair`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Pair {
    pub name: Text,
    pub value: Text,
}

/// `shim_request`.
#[repr(C)]
pub struct Request {
    pub fields: [Text; Field::ALL.len()],
    pub headers: *const Pair,
    pub header_count: usize,
    pub parameters: *const Pair,
    pub parameter_count: usize,
    pub body_len: u64,
    pub begun: u64,
    pub due: u64,
    pub doing: *const Doing,
    pub calls: *const CallWords,
    pub is_fastcgi: u32,
    pub verdict: u32,
    pub index: u32,
    pub ticket: u32,
    pub slot: u32,
    pub padding: u32,
}

/// `shim_peers`.
#[repr(C)]
pub struct Peers {
    pub table: *const Peer,
    pub owner: u32,
}

/// `shim_gateway`.
#[repr(C)]
pub struct Gateway {
    pub fix_pathinfo: u32,
    pub discard_path: u32,
    pub doc_root: *const c_char,
}

/// `shim_config`.
#[repr(C)]
pub struct Config {
    pub version: u32,
    pub reset: u32,
    pub software: *const c_char,
    pub site: *const c_char,
    pub ini: *const c_char,
    pub locked: *const *const c_char,
    pub locked_count: usize,
    pub root: *const c_char,
    pub report: *const c_char,
    pub ini_file: *const c_char,
    pub ini_of: *const c_char,
    pub no_ini: u32,
    pub extended_info: u32,
    pub concurrency: u32,
    pub seed: u32,
    pub count_calls: u32,
    pub padding: u32,
}

/// `shim_scoreboard_entry`.
#[repr(C)]
pub struct ScoreboardEntry {
    pub pid: u64,
    pub requests: u64,
    pub memory: u64,
    pub since_ns: u64,
    pub started_ns: u64,
    pub body_len: u64,
    pub last_cpu_us: u64,
    pub last_took_ns: u64,
    pub state: *const c_char,
    pub method: Text,
    pub uri: Text,
    pub script: Text,
    pub user: Text,
}

/// `shim_worker_id`.
#[repr(C)]
pub struct WorkerId {
    pub index: u32,
    pub instance: u32,
    pub page_map: c_int,
}

/// `shim_pool`.
#[repr(C)]
pub struct Pool {
    pub manager: u64,
    pub started: u64,
    pub accepted: u64,
    pub listen_queue: u64,
    pub max_listen_queue: u64,
    pub listen_queue_len: u64,
    pub max_active: u64,
    pub max_children_reached: u64,
    pub slow_requests: u64,
}

const _: () = assert!(size_of::<Text>() == 16 && size_of::<Pair>() == 32);
const _: () = assert!(size_of::<Request>() == 16 * Field::ALL.len() + 96);
const _: () = assert!(
    size_of::<Config>() == 104 && size_of::<ScoreboardEntry>() == 136 && size_of::<Gateway>() == 16
);
const _: () = assert!(size_of::<WorkerId>() == 12);
// The names and their order are written twice, here and in SHIM_FIELDS; the last one gives a slip
// away.
const _: () = assert!(
    Field::ALL.len() == 17 && Field::ContentLength as usize == 16 && Field::Scheme as usize == 14
);

/// What `rust_look` finds.
pub const NO_REQUEST: c_int = 0;
pub const REQUEST: c_int = 1;
pub const LEAVE: c_int = 2;

/// `SHIM_NO_SLOT`.
pub const NO_SLOT: u32 = u32::MAX;

/// `SHIM_TRAILERS` of `shim_part`.
pub const TRAILERS: c_int = 1;

/// `shim_outcome`.
pub const NO_START: c_int = 2;

/// `shim_exit`.
pub const LEFT: c_int = 0;
pub const ENDED: c_int = 1;
pub const CRASHED: c_int = 2;

/// `shim_level`.
pub const WARN: c_int = 1;
pub const ERROR: c_int = 2;
pub const OUTPUT: c_int = 3;
pub const DEBUG: c_int = 4;

/// `shim_show`.
pub const SHOW_VERSION: c_int = 0;
pub const SHOW_MODULES: c_int = 1;
pub const SHOW_INFO: c_int = 2;
/// `SHIM_SHOW_SETTINGS`.
pub const SHOW_SETTINGS: c_int = 3;

/// `shim_file_kind`.
pub const IS_FILE: c_int = 1;
pub const IS_OTHER: c_int = 2;

unsafe extern "C" {
    pub fn shim_start(config: *const Config) -> c_int;
    pub fn shim_info();
    pub fn shim_show(what: c_int);
    pub fn shim_php_version() -> *const c_char;
    pub fn shim_exposes_php() -> c_int;
    pub fn shim_worker_begins(backtrace_signal: c_int);
    pub fn shim_gateway_settings(gateway: *mut Gateway);
    pub fn shim_file_kind(path: *const c_char, len: usize) -> c_int;
    pub fn shim_serve(request: *const Request) -> c_int;
    pub fn shim_run_script(script: *const c_char) -> c_int;
    pub fn shim_run_sealed(
        script: *const c_char,
        is_boot: c_int,
        backtrace_signal: c_int,
        page_map: c_int,
        line: c_int,
    ) -> c_int;
    pub fn shim_outdated(newer: *mut c_int) -> *const c_char;
    pub fn shim_boot_changed() -> c_int;
    pub fn shim_watch_boot() -> c_int;
    pub fn shim_save_boot_files() -> c_int;
    pub fn shim_load_boot_files(fd: c_int);
    pub fn shim_looks_at_each_file();
    pub fn shim_boots_afresh(for_one_request: c_int);
    pub fn shim_boot_each_request(script: *const c_char);
    pub fn shim_zygote_begins();
    pub fn shim_zygote_changed() -> *const c_char;
    pub fn image_prepare();
    pub fn image_populate_shared(at: *const c_void, len: usize);
    pub fn shim_is_new_slot(slot: u32) -> c_int;
    pub fn shim_idle();
    pub fn shim_stale_sockets() -> c_int;
    pub fn shim_memory() -> usize;
    pub fn shim_held() -> u32;
    pub fn shim_is_in_locks(pid: c_int, memory: c_int) -> c_int;
    pub fn shim_waits_in_apcu(pid: c_int, memory: c_int) -> c_int;
    pub fn shim_stack(pid: c_int, memory: c_int, slot: u32, text: *mut *const c_char) -> usize;
    pub fn shim_trace(pid: c_int, memory: c_int, text: *mut *const c_char) -> usize;
    pub fn shim_sample(
        pid: c_int,
        memory: c_int,
        text: *mut *const c_char,
        len: *mut usize,
    ) -> c_int;
    pub fn shim_backtrace(pid: c_int, slot: u32, signal_number: c_int);
}
