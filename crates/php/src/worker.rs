//! One worker: takes requests from the queue, and is what C calls back while PHP runs.
//!
//! A worker is a process with one thread, so its state is one value that C's callbacks find without
//! being handed it. None of them calls PHP, so none is entered twice.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::slice::from_raw_parts;
use std::sync::Arc;

use tokamak_sys::control::{EXIT_BOOT_FAILED, EXIT_DOUBT, EXIT_RETIRED, EXIT_STALE, FLUSH};
use tokamak_sys::queue::record::Field;
use tokamak_sys::queue::{
    Claim, Consumer, DECLINED, Job, Next, Outcome, PoolNumbers, Segment, Usage, WorkerState,
};

use crate::engine::{self, ScriptEnd};
use crate::ffi;
use crate::log::{self, Level};
use crate::request::Request;
use crate::settings::{Mode, Settings};

/// What a worker is made of.
struct Worker {
    site: String,
    segment: Arc<Segment>,
    consumer: Consumer,
    request: Request,
    job: Option<Job>,
    in_request: bool,
    keeps_connections: bool,
    /// Requests to warm up with before the image is taken; while one runs, what it answers is
    /// dropped.
    warm: Vec<Vec<u8>>,
    warming: bool,
    /// What a warm-up request leaves in memory is in the image.
    warm_up_stays: bool,
    max_requests: u64,
    served: u64,
    exit: u8,
    /// Of the current request over FastCGI.
    gateway: Gateway,
    /// Texts that `fpm_get_status` is being shown.
    shown: [CString; 4],
}

/// What is remembered of a request over FastCGI beside the request itself.
#[derive(Default)]
struct Gateway {
    /// Least level of what goes to standard error.
    log_level: Level,
    /// Standard error is read by somebody.
    is_caught: bool,
    claimed_at: u64,
    /// User and system time of the process at the claim.
    cpu: [u64; 2],
    /// The user of its authentication.
    user: Vec<u8>,
    has_complained: bool,
    /// The URI as the board shows it.
    uri: Vec<u8>,
}

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// Makes this process's worker, which then [`serve`]s. In sealed mode it is made before it has a
/// place.
pub fn settle(settings: &Settings, segment: Arc<Segment>, consumer: Consumer) {
    let worker = Worker {
        site: settings.site.clone(),
        segment,
        consumer,
        request: Request::new(engine::gateway_rules(
            settings.fpm.as_ref().map_or(&[], |fpm| &fpm.limit_extensions),
        )),
        job: None,
        in_request: false,
        keeps_connections: match settings.mode {
            Mode::Classic => false,
            Mode::Worker => settings.script.is_some(),
            Mode::Sealed => true,
        },
        warm: Vec::new(),
        warming: false,
        warm_up_stays: settings.script.is_some(),
        max_requests: settings.max_requests,
        served: 0,
        exit: EXIT_RETIRED,
        gateway: Gateway {
            log_level: settings.fpm.as_ref().map_or(Level::default(), |fpm| fpm.log_level),
            is_caught: settings.fpm.is_some() && settings.catch_output,
            ..Gateway::default()
        },
        shown: Default::default(),
    };
    WORKER.set(Some(worker));
    // The clock finds its function in the vDSO once: that has to be part of the image.
    tokamak_cost::now();
}

/// Serves requests until the worker is to leave; returns the process's exit status. `begun`: how
/// the worker script ended that runs already.
pub fn serve(settings: &Settings, begun: Option<ScriptEnd>) -> u8 {
    match settings.script.as_deref().map(CString::new) {
        None => serve_classic(),
        Some(Ok(script)) => serve_script(&script, begun),
        Some(Err(_)) => return EXIT_BOOT_FAILED,
    }
    with(EXIT_RETIRED, |worker| worker.exit)
}

/// Takes a place on the board; `is_new`: for the first time in this worker's life.
pub fn take_place(index: u16, instance: u32, is_new: bool) {
    with((), |w| {
        w.consumer.take_place(index, instance);
        if is_new {
            w.consumer.board().enter(instance);
        }
    });
}

/// Requests, as records, to run before the image is taken.
pub fn warm_up_with(records: Vec<Vec<u8>>) {
    with((), |w| w.warm = records);
}

/// A line in the error log.
pub fn say(level: Level, message: &[u8]) {
    with((), |w| w.say(level, message));
}

fn serve_classic() {
    loop {
        let request = with(null(), Worker::claim);
        if request.is_null() {
            return;
        }
        if !engine::serve(request) {
            with((), |w| w.say(Level::Error, b"PHP could not begin the request"));
        }
    }
}

fn serve_script(script: &CStr, mut begun: Option<ScriptEnd>) {
    loop {
        let served = with(0, |w| {
            w.consumer.board().set_state(WorkerState::Starting);
            w.served
        });
        let end = begun.take().unwrap_or_else(|| engine::run_script(script));
        let again = with(false, |w| {
            let served = w.served - served;
            match end {
                ScriptEnd::Left => false,
                ScriptEnd::Ended | ScriptEnd::Crashed => {
                    let how =
                        if end == ScriptEnd::Ended { "ended" } else { "was ended by an error" };
                    let message =
                        format!("worker script {how} after {served} requests, starting it again");
                    let level = if end == ScriptEnd::Ended { Level::Info } else { Level::Warn };
                    w.say_with(level, message.as_bytes(), &[("script", script.to_bytes())]);
                    true
                }
                ScriptEnd::NeverLooped => {
                    let message = "worker script ended before its first tokamak_handle_request()";
                    w.say_with(Level::Error, message.as_bytes(), &[("script", script.to_bytes())]);
                    w.exit = EXIT_BOOT_FAILED;
                    false
                }
            }
        });
        if !again {
            return;
        }
    }
}

impl Worker {
    /// Waits for the next request; null: leave.
    fn claim(&mut self) -> *const ffi::Request {
        loop {
            if self.max_requests > 0 && self.served >= self.max_requests {
                self.consumer.board().set_state(WorkerState::Leaving);
                return null();
            }
            let (looks, mut stale) = (self.keeps_connections, false);
            let may_claim = || {
                stale = looks && engine::has_stale_sockets();
                if stale { Claim::Quit } else { Claim::Go }
            };
            let job = match self.consumer.next(may_claim, engine::idle) {
                Next::Request(job) => job,
                Next::Retire => {
                    if stale {
                        self.exit = EXIT_STALE;
                        self.say(
                            Level::Warn,
                            b"a connection of the application was closed by its peer; worker \
                                replaced",
                        );
                    }
                    return null();
                }
            };
            if !self.request.take(job.record(), job.body_len()) {
                self.say(Level::Error, b"a request was not understood");
                continue;
            }
            if self.request.is_fastcgi() {
                self.begin_gateway();
            } else {
                let (method, uri) =
                    (self.request.field(Field::Method), self.request.field(Field::Uri));
                self.consumer.board().set_request(method, uri);
            }
            self.job = Some(job);
            self.in_request = true;
            return self.request.shim();
        }
    }

    /// A request over FastCGI begins: the board shows of it what php-fpm's status does.
    fn begin_gateway(&mut self) {
        let (gateway, request) = (&mut self.gateway, &self.request);
        gateway.claimed_at = tokamak_cost::now();
        gateway.cpu = cpu_time();
        gateway.user.clear();
        gateway.has_complained = false;
        gateway.uri.clear();
        gateway.uri.extend_from_slice(request.field(Field::ScriptName));
        let query = request.field(Field::Query);
        if !query.is_empty() {
            gateway.uri.push(b'?');
            gateway.uri.extend_from_slice(query);
        }
        let board = self.consumer.board();
        board.set_request(request.field(Field::Method), &gateway.uri);
        board.set_details(request.field(Field::ScriptFilename), b"", request.body_len());
    }

    /// It ends: says what it cost, to the front and on the board.
    fn end_gateway(&mut self, job: &mut Job, status: u16) {
        let now = cpu_time();
        let [user_cpu, system_cpu] = [0, 1].map(|n| now[n].saturating_sub(self.gateway.cpu[n]));
        let took = tokamak_cost::now().saturating_sub(self.gateway.claimed_at);
        self.consumer.board().set_cost(user_cpu + system_cpu, took);
        let usage = Usage {
            user_cpu,
            system_cpu,
            memory: engine::memory(),
            status,
            script: self.request.field(Field::ScriptFilename),
            uri: self.request.field(Field::ScriptName),
            user: &self.gateway.user,
        };
        // Nobody who reads: nobody who wants to know.
        let _ = job.usage(&usage);
    }

    /// Says something to the sender of the request, if `to_sender`, and to standard error. False:
    /// nobody reads any more.
    fn complain(&mut self, level: Level, message: &[u8], to_sender: bool) -> bool {
        let mut heard = true;
        if let Some(job) = self.job.as_mut().filter(|_| to_sender && !message.is_empty()) {
            let between: &[u8] = if self.gateway.has_complained { b"; " } else { b"" };
            self.gateway.has_complained = true;
            heard = job.write_stderr(between).and_then(|()| job.write_stderr(message)).is_ok();
        }
        if self.gateway.is_caught && level >= self.gateway.log_level {
            write_error(&[level.name_of_fpm().as_bytes(), b": ", message, b"\n"].concat());
        }
        heard
    }

    fn finish(&mut self, outcome: Outcome, status: u16) {
        self.in_request = false;
        if let Some(mut job) = self.job.take() {
            self.served += 1;
            if self.request.is_fastcgi() {
                self.end_gateway(&mut job, status);
            }
            let board = self.consumer.board();
            // The supervisor wakes up for it, so only if something was written.
            if self.gateway.is_caught && (has_unread_output() || board.has_unfinished_line()) {
                write_error(FLUSH);
            }
            board.count_request(engine::memory());
            if self.request.is_fastcgi() {
                board.set_finishing();
            }
            job.finish(outcome);
        }
    }

    fn warn_of_warm_up(&self, status: u16) {
        let target = String::from_utf8_lossy(self.request.field(Field::Uri));
        let answer = match status {
            DECLINED => "was declined, so nothing of it is in the image".to_owned(),
            _ => format!("was answered with {status}"),
        };
        self.say(Level::Warn, format!("warm-up request {target} {answer}").as_bytes());
    }

    /// A page that sets a cookie has begun to know its visitor, who is nobody here.
    fn warn_of_cookie(&self, cookie: &[u8]) {
        let name = cookie.split(|byte| *byte == b'=').next().unwrap_or_default();
        let target = String::from_utf8_lossy(self.request.field(Field::Uri));
        let message = format!(
            "warm-up request {target} sets the cookie {}: what its page keeps in memory (a \
                session, a CSRF token) \
             is in the image, the same for every visitor; take a page for `warm` that opens no \
             session, and see \
             what is frozen with `tokamak seal-report`",
            String::from_utf8_lossy(name)
        );
        self.say(Level::Warn, message.as_bytes());
    }

    fn say(&self, level: Level, message: &[u8]) {
        self.say_with(level, message, &[]);
    }

    /// Adds what is being served to the line.
    fn say_with(&self, level: Level, message: &[u8], pairs: &[(&str, &[u8])]) {
        if !self.in_request {
            return log::line(level, &self.site, message, pairs);
        }
        let request =
            [self.request.field(Field::Method), b" ", self.request.field(Field::Uri)].concat();
        let script = self.request.field(Field::ScriptFilename);
        let mut all = vec![("request", &request[..]), ("script", script)];
        all.extend_from_slice(pairs);
        log::line(level, &self.site, message, &all);
    }
}

fn write_error(text: &[u8]) {
    // Nobody who reads: nobody to tell.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text);
}

/// Whether the pipes behind standard output and error may hold something. The board is asked after
/// that: what is not in them any more, the supervisor had noted there before it read it.
fn has_unread_output() -> bool {
    [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().any(|fd| {
        let mut count: c_int = 0;
        // SAFETY: the call fills the number, or fails for something that is no pipe any more.
        unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) != 0 || count != 0 }
    })
}

/// User and system time of this process, in microseconds.
fn cpu_time() -> [u64; 2] {
    // SAFETY: `rusage` is plain data, filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .map(|time| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64)
}

/// Runs `f` on the worker; without one (in the zygote, in `--info`) the answer is `fallback`.
///
/// A panic must not reach C, which would be left in the middle of PHP; and nobody vouches for the
/// worker's state after it. So the process ends, the front sees a dead worker, and the request is
/// answered with 502.
fn with<T>(fallback: T, f: impl FnOnce(&mut Worker) -> T) -> T {
    let run = || WORKER.with_borrow_mut(|worker| worker.as_mut().map(f));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(answer) => answer.unwrap_or(fallback),
        Err(_) => std::process::abort(),
    }
}

/// The bytes that C names.
///
/// # Safety
/// `at` points to `len` bytes that stay as they are for as long as the slice is used, or `len`
/// is 0.
unsafe fn bytes<'a>(at: *const c_char, len: usize) -> &'a [u8] {
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
            if w.request.take(&record, 0) {
                return w.request.shim();
            }
        }
        null()
    })
}

/// Memory went back to before this worker had a place.
#[unsafe(no_mangle)]
extern "C" fn rust_resume(index: u32, instance: u32, served: u64, took_ns: u64, pages: u32) {
    take_place(index as u16, instance, false);
    with((), |w| {
        w.served = served;
        w.consumer.board().set_roll_back(took_ns, pages);
    });
}

/// The worker ends.
///
/// # Safety
/// `doubt` is null or a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_leave(doubt: *const c_char) -> ! {
    let mut status = with(EXIT_RETIRED, |w| w.exit);
    if !doubt.is_null() {
        // SAFETY: the caller's promise.
        let why = unsafe { CStr::from_ptr(doubt) };
        let message =
            [b"worker replaced, because ", why.to_bytes(), b", which cannot be undone"].concat();
        with((), |w| w.say(Level::Info, &message));
        status = EXIT_DOUBT;
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
    with(1, |w| match &mut w.job {
        None if w.warming => {
            if status >= 400 || status == DECLINED {
                w.warn_of_warm_up(status);
            }
            if w.warm_up_stays {
                let cookies = headers.filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"));
                cookies.for_each(|(_, cookie)| w.warn_of_cookie(cookie));
            }
            0
        }
        Some(job) if interim != 0 => c_int::from(job.send_interim(status, headers).is_err()),
        Some(job) => c_int::from(job.send_head(status, headers).is_err()),
        None => 1,
    })
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_write(at: *const c_char, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    let text = unsafe { bytes(at, len) };
    with(1, |w| {
        w.job.as_mut().map_or(c_int::from(!w.warming), |job| c_int::from(job.write(text).is_err()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rust_flush() -> c_int {
    with(1, |w| {
        w.job.as_mut().map_or(c_int::from(!w.warming), |job| c_int::from(job.flush().is_err()))
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
        let Some(job) = &mut w.job else { return 0 };
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
    with(0, |w| c_int::from(!w.complain(self::level(level), message, to_sender != 0)))
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_user(at: *const c_char, len: usize) {
    // SAFETY: the caller's promise.
    let user = unsafe { bytes(at, len) };
    with((), |w| {
        w.gateway.user.extend_from_slice(user);
        w.consumer.board().set_details(
            w.request.field(Field::ScriptFilename),
            user,
            w.request.body_len(),
        );
    });
}

fn level(number: c_int) -> Level {
    match number {
        ffi::ERROR => Level::Error,
        ffi::WARN => Level::Warn,
        ffi::DEBUG => Level::Debug,
        _ => Level::Info,
    }
}

/// # Safety
/// `at` points to `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_log(level: c_int, at: *const c_char, len: usize) {
    // SAFETY: the caller's promise.
    let message = unsafe { bytes(at, len) };
    let severity = self::level(level);
    let told = with(false, |w| {
        if level == ffi::OUTPUT {
            for line in message.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                w.say(Level::Info, &[b"output of the worker script: ", line].concat());
            }
        } else {
            w.say(severity, message.trim_ascii_end());
        }
        true
    });
    if !told {
        log::line(severity, "php", message.trim_ascii_end(), &[]);
    }
}

/// # Safety
/// `place` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_place(n: usize, place: *mut ffi::Place) -> c_int {
    with(0, |w| {
        let segment = &w.segment;
        let Some(index) = u16::try_from(n).ok().filter(|n| *n < segment.geometry().workers) else {
            return 0;
        };
        let now = segment.board(index);
        w.shown = [now.method, now.uri, now.fastcgi.script, now.fastcgi.user]
            .map(|text| CString::new(text).unwrap_or_default());
        let text = |text: &CString| ffi::Text { at: text.as_ptr(), len: text.as_bytes().len() };
        let state = match now.state {
            WorkerState::Busy => c"Running",
            WorkerState::Starting => c"Getting request informations",
            WorkerState::Leaving => c"Ending",
            WorkerState::Finishing => c"Finishing",
            WorkerState::Idle | WorkerState::Empty => c"Idle",
        };
        let pid = if now.state == WorkerState::Empty { 0 } else { u64::from(now.pid) };
        // SAFETY: the caller's promise. The texts live until the next call.
        unsafe {
            place.write(ffi::Place {
                pid,
                requests: now.requests,
                memory: now.memory,
                since_ns: now.since,
                started_ns: now.started,
                body_len: now.fastcgi.body_len,
                last_cpu_us: now.fastcgi.last_cpu,
                last_took_ns: now.fastcgi.last_took,
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
