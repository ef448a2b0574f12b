//! One worker: takes requests from the queue, and is what C calls back while PHP runs.
//!
//! A worker is a process with one thread, so its state is one value that C's callbacks find without
//! being handed it. None of them calls PHP, so none is entered twice.

mod at_once;
mod callbacks;
mod gateway;
mod publish;

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::Arc;

use tokamak_sys::channel::Channel;
use tokamak_sys::control::{EXIT_BOOT_FAILED, EXIT_OUTDATED, EXIT_RETIRED, EXIT_STALE};
use tokamak_sys::queue::record::Field;
use tokamak_sys::queue::{
    Claim, Consumer, DECLINED, Job, Next, Outcome, Search, Segment, WorkerState,
};

use crate::engine::{self, ScriptEnd};
use crate::ffi;
use crate::log::{self, Level};
use crate::request::Request;
use crate::settings::{Mode, Settings};

use gateway::Gateway;

/// What a worker is made of.
struct Worker {
    site: String,
    segment: Arc<Segment>,
    consumer: Consumer,
    /// One slot, or as many as `concurrency` in async mode. C holds pointers into them, so they are
    /// never moved.
    slots: Vec<RequestSlot>,
    /// Indices of the slots in use, the oldest request first. Async mode only.
    under_way: Vec<usize>,
    /// Indices of the free slots. Async mode only.
    free: Vec<usize>,
    /// The slot of the request that runs.
    current: Option<usize>,
    is_async: bool,
    /// It takes no more requests, and ends what is under way. Async mode only.
    is_leaving: bool,
    /// How far it is in looking for the next one. Async mode only.
    search: Search,
    keeps_connections: bool,
    /// It takes no request if something has changed that it has booted from.
    looks_at_boot: bool,
    /// It serves a sealed site without its image.
    stands_in: bool,
    counts_calls: bool,
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
    /// The line to the site's hub, if it has one.
    hub: Option<Arc<Channel>>,
    /// What the hub has last answered.
    answer: CString,
}

/// The buffers of one request, which requests use in turn.
struct RequestSlot {
    request: Request,
    /// The client's end of it, until the response is complete.
    job: Option<Job>,
    /// Whether a request uses it. In modes other than async it is free as soon as the response is
    /// complete.
    is_taken: bool,
    /// Its client has left, and C knows. Async mode only.
    is_notified: bool,
}

thread_local! {
    /// On the heap, beside its request's buffers: in sealed mode each page that is written to is
    /// copied back.
    static WORKER: RefCell<Option<Box<Worker>>> = const { RefCell::new(None) };
}

/// Makes this process's worker, which then [`serve`]s. In sealed mode it is made before it has an
/// entry of the scoreboard.
pub fn init(settings: &Settings, segment: Arc<Segment>, consumer: Consumer, hub: Option<Channel>) {
    let rules =
        engine::gateway_rules(settings.fpm.as_ref().map_or(&[], |fpm| &fpm.limit_extensions));
    let is_async = settings.mode == Mode::Async;
    let indices = 0..settings.concurrency.max(1) as u32;
    let slot = |n| RequestSlot {
        request: Request::new(rules.clone(), n),
        job: None,
        is_taken: false,
        is_notified: false,
    };
    let worker = Worker {
        site: settings.site.clone(),
        segment,
        consumer,
        under_way: Vec::new(),
        // The last one is taken first: the memory of the first ones is warm.
        free: if is_async { (0..indices.len()).rev().collect() } else { Vec::new() },
        slots: indices.map(slot).collect(),
        current: (!is_async).then_some(0),
        is_async,
        is_leaving: false,
        search: Search::default(),
        keeps_connections: match settings.mode {
            Mode::Classic => false,
            Mode::Worker | Mode::Async => settings.script.is_some(),
            Mode::Sealed => true,
        },
        looks_at_boot: settings.looks_at_boot,
        stands_in: settings.stands_in,
        counts_calls: settings.count_calls,
        warm: Vec::new(),
        warming: false,
        warm_up_stays: settings.script.is_some(),
        max_requests: settings.max_requests,
        served: 0,
        exit: EXIT_RETIRED,
        gateway: Gateway::of(settings),
        shown: Default::default(),
        hub: hub.map(Arc::new),
        answer: CString::default(),
    };
    WORKER.set(Some(Box::new(worker)));
    // The clock finds its function in the vDSO once: that has to be part of the image.
    tokamak_cost::now();
}

/// Serves requests until the worker is to leave; returns the process's exit status.
pub fn serve(settings: &Settings) -> u8 {
    if let Some(boot) = settings.boot.as_deref().filter(|_| settings.mode == Mode::Classic) {
        engine::boot_each_request(boot);
    }
    match settings.script.as_deref().map(CString::new) {
        None => serve_classic(),
        Some(Ok(script)) => serve_script(&script),
        Some(Err(_)) => return EXIT_BOOT_FAILED,
    }
    with(EXIT_RETIRED, |worker| worker.exit)
}

/// Takes an entry of the scoreboard; `is_new`: for the first time in the life of this worker.
pub fn take_entry(index: u16, instance: u32, is_new: bool) {
    with((), |w| {
        w.consumer.take_entry(index, instance);
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

/// A worker script that has ended so often after a single request has no loop.
const TOLD_AFTER: u32 = 2;

fn serve_script(script: &CStr) {
    let mut once = 0;
    loop {
        let served = with(0, |w| {
            w.consumer.board().set_state(WorkerState::Starting);
            w.served
        });
        let end = engine::run_script(script);
        let again = with(false, |w| {
            let served = w.served - served;
            match end {
                ScriptEnd::Left => false,
                ScriptEnd::Ended if served == 1 && !w.is_async && w.max_requests != 1 => {
                    once += 1;
                    if once == TOLD_AFTER && w.consumer.instance() <= 1 {
                        let message = b"the worker script asks for one request and ends, so it \
                            boots for each: call tokamak_handle_request() in a loop";
                        w.say_with(Level::Warn, message, &[("script", script.to_bytes())]);
                    }
                    true
                }
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
            let (looks, mut stale, mut outdated) = (self.keeps_connections, false, false);
            let (segment, instance) = (&self.segment, self.consumer.instance());
            let (stands_in, looks_at_boot) = (self.stands_in, self.looks_at_boot);
            let may_claim = |slot| {
                engine::populate_slot(slot, segment);
                // What the zygote finds changed may be what a boot without the image has written.
                outdated = if stands_in {
                    looks_at_boot && engine::boot_has_changed()
                } else {
                    segment.is_outdated(instance)
                };
                stale = !outdated && looks && engine::has_stale_sockets();
                if stale || outdated { Claim::Quit } else { Claim::Go }
            };
            let job = match self.consumer.next(may_claim, engine::idle) {
                Next::Request(job) => job,
                Next::Retire => {
                    if stale {
                        self.leave_stale();
                    } else if outdated {
                        self.exit = EXIT_OUTDATED;
                    }
                    return null();
                }
            };
            if let Some(request) = self.take(job, 0) {
                return request;
            }
        }
    }

    fn leave_stale(&mut self) {
        self.exit = EXIT_STALE;
        self.say(
            Level::Warn,
            b"a connection of the application was closed by its peer; worker replaced",
        );
    }

    /// Moves a claimed request into a slot; `None`: its record is not valid.
    fn take(&mut self, job: Job, index: usize) -> Option<*const ffi::Request> {
        let RequestSlot { request, .. } = &mut self.slots[index];
        if !request.take(job.record(), job.body_len()) {
            self.say(Level::Error, b"a request was not understood");
            return None;
        }
        let id = job.id();
        request.begin(id, self.segment.due(id.taken_at()));
        if self.counts_calls {
            request.count_calls(&job);
        }
        let board = self.consumer.board();
        if request.is_fastcgi() {
            self.gateway.begin(request, &board);
        } else if !self.is_async {
            board.set_request(request.field(Field::Method), request.field(Field::Uri));
        }
        let shim = request.shim();
        (self.slots[index].job, self.slots[index].is_taken) = (Some(job), true);
        Some(shim)
    }

    /// The slot of the request that runs.
    fn serving(&mut self) -> Option<&mut RequestSlot> {
        self.current.map(|index| &mut self.slots[index])
    }

    /// Its response, until that is complete.
    fn job(&mut self) -> Option<&mut Job> {
        self.serving().and_then(|slot| slot.job.as_mut())
    }

    fn finish(&mut self, outcome: Outcome, status: u16) {
        let Some(index) = self.current else { return };
        let RequestSlot { request, job, is_taken, .. } = &mut self.slots[index];
        let Some(mut job) = job.take() else { return };
        request.hide();
        *is_taken = self.is_async;
        self.served += 1;
        let board = self.consumer.board();
        if request.is_fastcgi() {
            self.gateway.end(request, &board, &mut job, status);
        }
        self.gateway.flush_output(&board);
        board.count_request(engine::memory(), status);
        if request.is_fastcgi() {
            board.set_finishing();
        }
        job.finish(outcome);
    }

    /// The head of a response that is thrown away; false: there is no such response.
    fn look_at_warm_up<'a>(
        &self,
        status: u16,
        headers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> bool {
        if self.warming && (status >= 400 || status == DECLINED) {
            self.warn_of_warm_up(status);
        }
        if self.warming && self.warm_up_stays {
            let cookies = headers.filter(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"));
            cookies.for_each(|(_, cookie)| self.warn_of_cookie(cookie));
        }
        self.warming
    }

    fn warn_of_warm_up(&self, status: u16) {
        let target = String::from_utf8_lossy(self.slots[0].request.field(Field::Uri));
        let answer = match status {
            DECLINED => "was declined, so nothing of it is in the image".to_owned(),
            _ => format!("was answered with {status}"),
        };
        self.say(Level::Warn, format!("warm-up request {target} {answer}").as_bytes());
    }

    /// A page that sets a cookie has begun to know its visitor, and a warm-up has none.
    fn warn_of_cookie(&self, cookie: &[u8]) {
        let name = cookie.split(|byte| *byte == b'=').next().unwrap_or_default();
        let target = String::from_utf8_lossy(self.slots[0].request.field(Field::Uri));
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
        let taken = self.current.map(|index| &self.slots[index]).filter(|slot| slot.is_taken);
        let Some(RequestSlot { request, .. }) = taken else {
            return log::line(level, &self.site, message, pairs);
        };
        let script = request.field(Field::ScriptFilename);
        let (id, trace) = (request.id().to_string(), request.trace());
        let request = [request.field(Field::Method), b" ", request.field(Field::Uri)].concat();
        let mut all = vec![("request", &request[..]), ("script", script)];
        all.extend_from_slice(pairs);
        all.push(("id", id.as_bytes()));
        all.extend(trace.map(|trace| ("trace", trace)));
        log::line(level, &self.site, message, &all);
    }
}

/// Runs `f` on the worker; without one (in the zygote, in `--info`) the answer is `fallback`.
///
/// A panic must not reach C, which would be left in the middle of PHP; and nothing vouches for the
/// worker's state after it. So the process ends, the front sees a dead worker, and the request is
/// answered with 502.
fn with<T>(fallback: T, f: impl FnOnce(&mut Worker) -> T) -> T {
    let run = || WORKER.with_borrow_mut(|worker| worker.as_deref_mut().map(f));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(answer) => answer.unwrap_or(fallback),
        Err(_) => std::process::abort(),
    }
}
