//! PHP, seen from Rust: the calls into the shim, each a plain function.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::null;

use tokamak_sys::control::Newer;
use tokamak_sys::queue::Segment;

use crate::fastcgi::{Kind, Rules};
use crate::ffi;
use crate::settings::{Mode, Settings};

/// Module start-up. Once in the life of a process.
pub fn start(settings: &Settings) -> Result<(), String> {
    if settings.mode == Mode::Sealed {
        // SAFETY: changes parameters of libc's allocator, in a process with one thread.
        unsafe { ffi::image_prepare() };
    }
    let c = |text: &str| CString::new(text).map_err(|_| format!("{text:?} contains a NUL"));
    // PHP keeps these pointers until the process ends, so they are never freed.
    let leak = |text: &str| c(text).map(|text| text.into_raw().cast_const());
    let locked: Vec<*const c_char> =
        settings.ini.iter().filter(|s| s.2).map(|s| leak(&s.0)).collect::<Result<_, _>>()?;
    let locked = Vec::leak(locked);
    let config = Box::leak(Box::new(ffi::Config {
        version: ffi::VERSION,
        reset: settings.reset,
        software: leak(concat!("tokamak/", env!("CARGO_PKG_VERSION")))?,
        site: leak(&settings.site)?,
        ini: leak(&settings.ini_text())?,
        locked: locked.as_ptr(),
        locked_count: locked.len(),
        root: if settings.root.is_empty() { null() } else { leak(&settings.root)? },
        report: settings.report.as_deref().map_or(Ok(null()), leak)?,
        ini_file: settings.ini_file.as_deref().map_or(Ok(null()), leak)?,
        ini_of: settings.ini_of.as_deref().map_or(Ok(null()), leak)?,
        no_ini: settings.no_ini.into(),
        extended_info: settings.extended_info.into(),
        concurrency: settings.concurrency as u32,
        seed: settings.seed,
        count_calls: settings.count_calls.into(),
        padding: 0,
    }));
    // SAFETY: `config` and all it points to live for ever; PHP was not started before.
    match unsafe { ffi::shim_start(config) } {
        0 => {
            hide(&settings.hidden_env);
            Ok(())
        }
        _ => Err("PHP did not start; its reasons are in the error log".to_owned()),
    }
}

/// PHP has read them; scripts and the programs that they start do not see them.
fn hide(names: &[String]) {
    for name in names.iter().filter_map(|name| CString::new(name.as_str()).ok()) {
        // SAFETY: this process has one thread; PHP keeps no pointers into the environment.
        unsafe { libc::unsetenv(name.as_ptr()) };
    }
}

/// Prints what was started.
pub fn print_info() {
    // SAFETY: after `start`, outside a request.
    unsafe { ffi::shim_info() }
}

/// Prints what php-fpm does with `-v` (`version`), with `-m` (`modules`), or with `-i`; or, for
/// programs, all `settings`.
pub fn show(what: &str) {
    let what = match what {
        "version" => ffi::SHOW_VERSION,
        "modules" => ffi::SHOW_MODULES,
        "settings" => ffi::SHOW_SETTINGS,
        _ => ffi::SHOW_INFO,
    };
    // SAFETY: after `start`, outside a request.
    unsafe { ffi::shim_show(what) };
}

/// Whether responses show PHP's version (`expose_php`), as far as it is known after module
/// start-up.
pub fn exposes_php() -> bool {
    // SAFETY: reads a setting; called after `start`.
    unsafe { ffi::shim_exposes_php() != 0 }
}

/// `PHP_VERSION`.
pub fn php_version() -> &'static str {
    // SAFETY: returns a string constant.
    unsafe { CStr::from_ptr(ffi::shim_php_version()) }.to_str().unwrap_or("?")
}

/// A forked process is a worker from now on.
pub fn begin_worker(backtrace_signal: c_int) {
    // SAFETY: after `start`, in a process with one thread.
    unsafe { ffi::shim_worker_begins(backtrace_signal) }
}

/// What PHP's settings say about how a request over FastCGI finds its script.
pub fn gateway_rules(extensions: &[String]) -> Rules {
    let mut gateway = ffi::Gateway { fix_pathinfo: 0, discard_path: 0, doc_root: null() };
    // SAFETY: after `start`; the text lives until PHP's settings change, and is copied at once.
    let doc_root = unsafe {
        ffi::shim_gateway_settings(&mut gateway);
        gateway.doc_root.as_ref().map(|at| CStr::from_ptr(at).to_bytes().to_vec())
    };
    Rules {
        fix_pathinfo: gateway.fix_pathinfo != 0,
        discard_path: gateway.discard_path != 0,
        doc_root: doc_root.unwrap_or_default(),
        extensions: extensions.iter().map(|ending| ending.clone().into_bytes()).collect(),
    }
}

/// What stands at a path. A file that was run a moment ago is believed to be one still.
pub fn file_kind(path: &[u8]) -> Kind {
    // SAFETY: the path lives through the call, which reads `len` bytes of it.
    match unsafe { ffi::shim_file_kind(path.as_ptr().cast(), path.len()) } {
        ffi::IS_FILE => Kind::File,
        ffi::IS_OTHER => Kind::Other,
        _ => Kind::Nothing,
    }
}

/// Serves one request in classic mode; false: PHP could not begin it.
pub fn serve(request: *const ffi::Request) -> bool {
    // SAFETY: the request stays as it is until the worker claims the next one, which it does after
    // this call.
    unsafe { ffi::shim_serve(request) != ffi::NO_START }
}

/// How a worker script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptEnd {
    /// It was asked to stop.
    Left,
    /// It came to its end by itself.
    Ended,
    /// A fatal error ended it.
    Crashed,
    /// It never asked for a request.
    NeverLooped,
}

/// Runs the worker script until it ends.
pub fn run_script(script: &CStr) -> ScriptEnd {
    // SAFETY: the path lives through the call.
    script_end(unsafe { ffi::shim_run_script(script.as_ptr()) })
}

fn script_end(number: c_int) -> ScriptEnd {
    match number {
        ffi::LEFT => ScriptEnd::Left,
        ffi::ENDED => ScriptEnd::Ended,
        ffi::CRASHED => ScriptEnd::Crashed,
        _ => ScriptEnd::NeverLooped,
    }
}

/// Boots with this script and takes the image, in the zygote; forks workers through
/// `rust_fork_workers`. `is_boot`: the script only prepares and asks for no requests. `page_map`:
/// see [`crate::zygote::page_map`]. `line`: a descriptor of the zygote's own that stays open, or
/// -1. Returns when the boot failed, or in a worker without an image.
pub fn run_sealed(
    script: Option<&CStr>,
    is_boot: bool,
    backtrace_signal: c_int,
    page_map: c_int,
    line: c_int,
) -> ScriptEnd {
    // SAFETY: the path lives through the call.
    let end = unsafe {
        let script = script.map_or(null(), CStr::as_ptr);
        ffi::shim_run_sealed(script, c_int::from(is_boot), backtrace_signal, page_map, line)
    };
    script_end(end)
}

/// What has changed since the last look, so that the image is not what a boot would be, and what
/// that is to the image.
pub fn outdated() -> Option<(String, Newer)> {
    let mut newer = 0;
    // SAFETY: in the zygote, after `start`; returns a text that lives until the next call, or null.
    let reason = unsafe { text(ffi::shim_outdated(&mut newer)) };
    reason.zip(u8::try_from(newer).ok().and_then(Newer::from_number))
}

/// Whether anything has changed on which the boot of this process depends.
pub fn boot_has_changed() -> bool {
    // SAFETY: looks at files whose names the shim keeps.
    unsafe { ffi::shim_boot_changed() != 0 }
}

/// What is readable when some of that changes; none if the kernel has no room for it.
pub fn watch_boot() -> Option<OwnedFd> {
    // SAFETY: the result is a fresh descriptor that no other code knows, or below 0.
    unsafe {
        let fd = ffi::shim_watch_boot();
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

/// What the boot depends on, for another zygote; none if the kernel has no room for it.
pub fn save_boot_files() -> Option<OwnedFd> {
    // SAFETY: the result is a fresh descriptor that no other code knows, or below 0.
    unsafe {
        let fd = ffi::shim_save_boot_files();
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

/// Has [`outdated`] look at what a boot in another process depends on.
pub fn load_boot_files(saved: OwnedFd) {
    // SAFETY: after `start`, in a process that boots nothing; the descriptor goes to the shim.
    unsafe { ffi::shim_load_boot_files(saved.into_raw_fd()) }
}

/// A worker that boots once looks at each file that it loads: it would keep what opcache believes
/// of the files of a moment ago.
pub fn look_at_each_file() {
    // SAFETY: after `start`, in a process with one thread, outside a request.
    unsafe { ffi::shim_looks_at_each_file() }
}

/// This process stands in for an image, and takes the files as they are; perhaps it boots for one
/// request.
pub fn boot_afresh(for_one_request: bool) {
    // SAFETY: after `start`, in a process with one thread, outside a request.
    unsafe { ffi::shim_boots_afresh(c_int::from(for_one_request)) }
}

/// From here on each request of classic mode runs this script before its own, as the image of the
/// site would have.
pub fn boot_each_request(script: &str) {
    if let Ok(script) = CString::new(script) {
        // SAFETY: the text is never freed, and this process has one thread.
        unsafe { ffi::shim_boot_each_request(script.into_raw()) }
    }
}

/// The zygote is as its workers are to be: limits, priority, user and the like.
pub fn zygote_begins() {
    // SAFETY: no precondition; touches the shim's own state.
    unsafe { ffi::shim_zygote_begins() }
}

/// What was changed of that since.
pub fn zygote_changed() -> Option<String> {
    // SAFETY: returns a string constant or null.
    unsafe { text(ffi::shim_zygote_changed()) }
}

/// A copy of C's text; none for null.
///
/// # Safety
/// `at` is null or a C string.
unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// The worker is about to sleep.
pub fn idle() {
    // SAFETY: no precondition; touches the shim's own state.
    unsafe { ffi::shim_idle() }
}

/// The worker is about to use a slot of the queue. In sealed mode the first time would be a page
/// fault for each of its pages, and have the roll-back look for a page of the image.
pub fn populate_slot(slot: u32, segment: &Segment) {
    // SAFETY: touches the shim's own state.
    if unsafe { ffi::shim_is_new_slot(slot) } == 0 {
        return;
    }
    for (at, len) in segment.usual_pages(slot) {
        // SAFETY: only makes page table entries, of shared memory that is mapped as long as
        // `segment` is.
        unsafe { ffi::image_populate_shared(at.cast(), len) };
    }
}

/// Whether a peer has closed one of the connections that PHP has open.
pub fn has_stale_sockets() -> bool {
    // SAFETY: as above.
    unsafe { ffi::shim_stale_sockets() > 0 }
}

/// Bytes that PHP held for the last request.
pub fn memory() -> u64 {
    // SAFETY: as above.
    unsafe { ffi::shim_memory() as u64 }
}

/// A worker's PHP stack for the slow log of a pool of `tokamak fpm`, as
/// [`tokamak_sys::control::FromZygote::Slow`] has it; none if it cannot be read. `memory`: a
/// descriptor of its memory, or -1.
pub fn trace(pid: libc::pid_t, memory: c_int) -> Option<String> {
    // SAFETY: reads another process's memory by copying.
    text_of(|text| unsafe { ffi::shim_trace(pid, memory, text) })
}

/// The same for the error log. `slot`: see [`tokamak_sys::control::Signal::Backtrace`].
pub fn stack(pid: libc::pid_t, memory: c_int, slot: Option<u32>) -> Option<String> {
    // SAFETY: as in `trace`.
    text_of(|text| unsafe { ffi::shim_stack(pid, memory, slot.unwrap_or(ffi::NO_SLOT), text) })
}

/// Whether a worker, best a stopped one, is in memory that it shares with others. `memory`: as for
/// [`trace`].
pub fn is_in_locks(pid: libc::pid_t, memory: c_int) -> bool {
    // SAFETY: reads the memory of another process, and fails where there is none.
    unsafe { ffi::shim_is_in_locks(pid, memory) != 0 }
}

/// Whether what it does there is APCu's own work, and not that of a script's function which APCu
/// has called.
pub fn waits_in_apcu(pid: libc::pid_t, memory: c_int) -> bool {
    // SAFETY: as in `is_in_locks`.
    unsafe { ffi::shim_waits_in_apcu(pid, memory) != 0 }
}

/// What C says to the text of `backtrace.c`, and the length of which it answers; none if that is 0.
fn text_of(say: impl FnOnce(*mut *const c_char) -> usize) -> Option<String> {
    let mut text = null();
    let len = say(&mut text);
    if len == 0 {
        return None;
    }
    // SAFETY: the text has this length, lives until the next call, and is copied at once.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// The stacks of a worker now, as `shim_sample` has them; none if its memory cannot be read.
/// `memory`: as for [`trace`].
pub fn sample(pid: libc::pid_t, memory: c_int) -> Option<String> {
    let (mut text, mut len) = (null(), 0);
    // SAFETY: as in `trace`.
    let bytes = unsafe {
        if ffi::shim_sample(pid, memory, &mut text, &mut len) == 0 {
            return None;
        }
        std::slice::from_raw_parts(text.cast::<u8>(), len)
    };
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// Has a worker whose memory cannot be read write its PHP stack to its standard error. `slot`: see
/// [`Signal::Backtrace`].
///
/// [`Signal::Backtrace`]: tokamak_sys::control::Signal::Backtrace
pub fn backtrace(pid: libc::pid_t, slot: Option<u32>, signal: c_int) {
    // SAFETY: signals only `pid`, which the caller has forked and not reaped.
    unsafe { ffi::shim_backtrace(pid, slot.unwrap_or(ffi::NO_SLOT), signal) }
}
