//! The zygote: starts PHP once, then forks a worker whenever the supervisor asks for one.
//!
//! Workers are copies of it, so they share its code, its data until they write to it, and opcache's
//! memory.

mod locks;
mod spare;

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokamak_sys::channel::{Channel, Received, Watch, poll};
use tokamak_sys::control::{
    self, EXIT_BOOT_FAILED, EXIT_MISMATCH, EXIT_NO_FORK, EXIT_OUTDATED, EXIT_RETIRED, FromZygote,
    Heard, Newer, Signal, Status, ToZygote, ZYGOTE_BELLS, ZYGOTE_CHANNEL, ZYGOTE_SEGMENT,
};
use tokamak_sys::proc;
use tokamak_sys::process::{self, reap};
use tokamak_sys::queue::{Consumer, Segment};
use tokamak_sys::signal::Signals;

use crate::engine;
use crate::log::{self, Level};
use crate::output::{Output, Pipes};
use crate::pool;
use crate::sampler::{self, Order, Target};
use crate::settings::{Mode, Settings};
use crate::watch::{Image, Shape};
use crate::worker;

use locks::DeadLocks;
use spare::Spare;

/// A worker process that runs.
struct LiveWorker {
    instance: u32,
    pid: libc::pid_t,
    /// Its memory (/proc/PID/mem), to read where it is; `None` if it could not be opened.
    memory: Option<OwnedFd>,
    /// It was forked by the spare, so it has no image.
    stands_in: bool,
}

impl LiveWorker {
    /// A descriptor of its memory, or -1.
    fn memory(&self) -> c_int {
        self.memory.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }
}

/// After so many workers whose boot was outdated before they had a request, the next workers do not
/// check: the boot itself may change what it depends on, and then no request would be served.
const MOST_RESTLESS: u32 = 8;

/// How long the zygote waits for the descriptor of a new worker, which takes microseconds. A
/// worker that a debugger has stopped would keep all others from starting for this time.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Signals a child.
fn kill(pid: libc::pid_t, number: c_int) {
    // SAFETY: a child that has not been reaped, so that no other process has its number.
    unsafe {
        libc::kill(pid, number);
    }
}

/// Receives the descriptor of a new worker's memory; `None` if it takes too long.
fn hand_over(line: &Channel) -> Option<OwnedFd> {
    match line.receive_within(Some(HAND_OVER)) {
        Ok(Received::Message(_, fds)) => fds.into_iter().next(),
        _ => None,
    }
}

/// The zygote, and what its workers need of it.
pub struct Zygote {
    channel: Channel,
    segment: Arc<Segment>,
    bells: Vec<OwnedFd>,
    /// The line to the site's hub, if it has one.
    hub: Option<Channel>,
    /// How the site is served.
    pub settings: Settings,
    output: Output,
    workers: BTreeMap<u16, LiveWorker>,
    spare: Option<Spare>,
    /// Another process has booted, and no image could be taken: its files are watched.
    has_boot_files: bool,
    /// Workers come from the spare: answers from the image would be wrong.
    stands_in: bool,
    /// Workers of the spare that have left one after the other, because what they had booted from
    /// had changed.
    restless: u32,
    /// The worker that was forked last.
    youngest: u32,
    /// Takes a profile of the workers; at its line it hears of new ones.
    sampler: Option<(libc::pid_t, Channel)>,
    dead_locks: DeadLocks,
}

/// A process that was just forked, and the scoreboard entry that it is to take.
pub struct Newborn {
    /// Board entry.
    pub index: u16,
    /// See [`ToZygote::Spawn`].
    pub instance: u32,
    /// The map of its memory's pages, in sealed mode; otherwise -1, or the number of an error below
    /// that.
    pub page_map: c_int,
}

/// Sends the reason to the supervisor, which logs it; if that is gone the message is lost.
fn fail(channel: &Channel, message: String) -> ExitCode {
    let _ = control::send(channel, &FromZygote::Failed { message }, &[]);
    ExitCode::FAILURE
}

/// The descriptors that the supervisor handed over.
fn inherited() -> Result<(Channel, Arc<Segment>, Vec<OwnedFd>), String> {
    let channel = Channel::from_fd(take_over(ZYGOTE_CHANNEL)?).map_err(|e| e.to_string())?;
    let segment = Segment::open(take_over(ZYGOTE_SEGMENT)?).map_err(|e| e.to_string())?;
    let count = segment.geometry().bells() as RawFd;
    let bells = (0..count).map(|n| take_over(ZYGOTE_BELLS + n)).collect::<Result<Vec<_>, _>>()?;
    let segment = segment.with_doorbells(&bells).map_err(|e| e.to_string())?;
    Ok((channel, Arc::new(segment), bells))
}

/// Ends a worker without running the zygote's exit handlers and destructors.
pub fn end(status: u8) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status.into()) }
}

/// In a child: ends when the zygote does.
fn die_with(zygote: u32) {
    // SAFETY: takes numbers. A zygote that died in between is noticed by the second call.
    let orphaned = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid().unsigned_abs() != zygote
    };
    if orphaned {
        end(EXIT_MISMATCH);
    }
}

/// Closed on exec from now on: programs that PHP starts must not hold the queue.
fn take_over(fd: RawFd) -> Result<OwnedFd, String> {
    // SAFETY: changes a flag of a descriptor, fails if there is none.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(format!("descriptor {fd} is missing: {}", io::Error::last_os_error()));
    }
    // SAFETY: it is open, and no other code in this process knows it: it came with exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The settings, the line to the hub, where output goes, and whether the supervisor has sent the
/// files of an earlier boot of which no image could be taken.
fn start(channel: &Channel) -> Result<(Settings, Option<Channel>, Output, bool), String> {
    let (pairs, boot_files) =
        match control::receive_within::<ToZygote>(channel, None).map_err(|e| e.to_string())? {
            Heard::Message(ToZygote::Settings(pairs), fds) => (pairs, fds.into_iter().next()),
            Heard::Closed => return Err("the supervisor went away".to_owned()),
            _ => return Err("the first message must be the settings".to_owned()),
        };
    let settings = Settings::read(&pairs)?;
    let hub = settings.hub.map(take_over).transpose()?.map(Channel::from_fd);
    let hub = hub.transpose().map_err(|e| e.to_string())?;
    let output = Output::of(&settings, channel).map_err(|e| format!("the workers' output: {e}"))?;
    engine::start(&settings)?;
    if let Some(fpm) = &settings.fpm {
        pool::enter(fpm, settings.guard)?;
    }
    // A change of user has decided about it anew, either way.
    if settings.dumpable {
        process::allow_tracing()
    } else {
        process::forbid_tracing()
    }
    if let Some(guard) = settings.guard {
        guard.keep_to_itself().map_err(|e| format!("capabilities: {e}"))?;
    }
    let has_boot_files = boot_files.map(engine::load_boot_files).is_some();
    Ok((settings, hub, output, has_boot_files))
}

/// A descriptor of the map of this process's pages for C, or the number of the error below 0.
pub fn page_map() -> c_int {
    match process::open_own(proc::OWN_PAGEMAP) {
        Ok(fd) => fd.into_raw_fd(),
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}

impl Zygote {
    /// Starts PHP with the settings that the supervisor sends. On failure somebody has been told
    /// why, and this is the process's status.
    pub fn start() -> Result<Zygote, ExitCode> {
        // Its environment may have passwords, and its memory will be that of the application.
        process::forbid_tracing();
        let (channel, segment, bells) = inherited().map_err(|why| {
            log::line(Level::Error, "php", format!("zygote: {why}").as_bytes(), &[]);
            ExitCode::from(EXIT_MISMATCH)
        })?;
        log::count_losses_in(segment.clone());
        match start(&channel) {
            Ok((settings, hub, output, has_boot_files)) => {
                let workers = BTreeMap::new();
                Ok(Zygote {
                    channel,
                    segment,
                    bells,
                    hub,
                    settings,
                    output,
                    workers,
                    spare: None,
                    has_boot_files,
                    stands_in: false,
                    restless: 0,
                    youngest: 0,
                    sampler: None,
                    dead_locks: DeadLocks::new(),
                })
            }
            Err(message) => Err(fail(&channel, message)),
        }
    }

    /// Serves the supervisor until it says otherwise or is gone.
    pub fn run(mut self) -> ExitCode {
        match self.fork_workers() {
            Ok(None) => ExitCode::SUCCESS,
            Ok(Some(Newborn { index, instance, .. })) => {
                engine::begin_worker(Signal::Backtrace(None).number());
                if matches!(self.settings.mode, Mode::Worker | Mode::Async) {
                    engine::look_at_each_file();
                }
                let consumer = Consumer::new(self.segment.clone(), self.bells, index, instance);
                worker::init(&self.settings, self.segment, consumer, self.hub);
                end(worker::serve(&self.settings))
            }
            Err(why) => self.end_by(&why),
        }
    }

    /// Says on the way out what went wrong.
    pub fn end_by(&self, why: &io::Error) -> ExitCode {
        log::line(Level::Error, &self.settings.site, format!("zygote: {why}").as_bytes(), &[]);
        ExitCode::FAILURE
    }

    /// Reports to the supervisor why there will be no workers.
    pub fn fail(&self, message: String) -> ExitCode {
        fail(&self.channel, message)
    }

    /// Reports to the supervisor that there is no image.
    pub fn refuse_image(&self, reason: String) {
        let files = engine::save_boot_files();
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let _ = self.send(&FromZygote::Unsealable { reason }, &files);
    }

    /// The line to the hub, for the worker that is to be.
    pub fn take_hub(&mut self) -> Option<Channel> {
        self.hub.take()
    }

    /// A worker's end of the queue, without an entry of the scoreboard yet.
    pub fn consumer(&mut self) -> (Arc<Segment>, Consumer) {
        let bells = std::mem::take(&mut self.bells);
        (self.segment.clone(), Consumer::without_entry(self.segment.clone(), bells))
    }

    /// Forks workers for the supervisor: `None` in the zygote, when it wants no more of
    /// them; the new worker in each child.
    pub fn fork_workers(&mut self) -> io::Result<Option<Newborn>> {
        let signals = Signals::take()?;
        let ready = FromZygote::Ready {
            version: engine::php_version().to_owned(),
            exposes: engine::exposes_php(),
        };
        self.send(&ready, &[])?;
        let mut shape = Shape::learn();
        let is_booted = self.settings.mode == Mode::Sealed || self.has_boot_files;
        let mut image = is_booted.then(Image::learn);
        loop {
            let looks = [image.as_ref().map(Image::patience), self.dead_locks.patience()];
            let patience = looks.into_iter().flatten().min();
            let line = image.as_ref().and_then(Image::line);
            let mut watches = vec![Watch::read(self.channel.as_fd()), Watch::read(signals.as_fd())];
            watches.extend(line.map(|line| Watch::read(line.as_fd())));
            poll(&mut watches, patience)?;
            let has_rung = watches.get(2).is_some_and(|watch| watch.readable);
            // First, so that no worker is forked of what was just found to be outdated.
            if let Some(image) = &mut image {
                if has_rung {
                    image.rung();
                }
                if let Some((reason, newer)) = image.look() {
                    self.outdate(reason, newer)?;
                }
            }
            // All but the death of a child is the supervisor's business.
            while signals.next().is_some() {}
            self.bury()?;
            let workers = self.workers.values().map(|worker| (worker.pid, worker.memory()));
            if self.dead_locks.look(workers) {
                self.send(&FromZygote::Locked, &[])?;
            }
            loop {
                match self.hear()? {
                    Heard::Message(ToZygote::Spawn { index, instance }, _) => {
                        self.look_at(&mut shape)?;
                        if let Some(newborn) = self.spawn(index, instance)? {
                            return Ok(Some(newborn));
                        }
                    }
                    Heard::Message(ToZygote::Kill { index, instance, signal }, _) => {
                        self.signal(index, instance, signal)?
                    }
                    Heard::Message(ToZygote::Profile { rate, milliseconds, prefix }, fds) => {
                        let period = Duration::from_secs(1) / u32::from(rate.max(1));
                        let length = Duration::from_millis(milliseconds.into());
                        self.profile(&Order { period, length, prefix }, fds)?;
                    }
                    Heard::Message(ToZygote::Ask, _) => {
                        self.send(&FromZygote::Alive, &[])?;
                        if shape.is_due() {
                            self.look_at(&mut shape)?;
                        }
                    }
                    Heard::Message(ToZygote::Settings(_), _) => {}
                    Heard::Message(ToZygote::Quit, _) | Heard::Closed => {
                        self.end_all();
                        return Ok(None);
                    }
                    Heard::Nothing => break,
                }
            }
        }
    }

    /// The application has changed. Without a spare the image serves until there is another one.
    fn outdate(&mut self, reason: String, newer: Newer) -> io::Result<()> {
        if newer == Newer::Application && self.spare.is_some() {
            self.segment.outdate(self.youngest);
            self.stands_in = true;
            process::adopt_orphans()?;
        }
        self.send(&FromZygote::Outdated { reason, newer }, &[])
    }

    /// The descriptor of the line to the spare; -1: there is none.
    pub fn spare_line(&self) -> c_int {
        self.spare.as_ref().map_or(-1, Spare::fd)
    }

    /// The next message. Only that of a profile brings a descriptor: without room for it there is
    /// no profile, and the workers go on.
    fn hear(&self) -> io::Result<Heard<ToZygote>> {
        loop {
            match control::receive(&self.channel) {
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                    let text = b"zygote: no profile: it may open no more files";
                    log::line(Level::Error, &self.settings.site, text, &[]);
                }
                // It went away before it had read all that was said to it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(Heard::Closed);
                }
                heard => return heard,
            }
        }
    }

    /// Sends the supervisor a message. One that has said `Quit` closes the line without waiting for
    /// answers to what it said before, such as `Ask`. That is no failure: its last words, or the
    /// end of the line, come next.
    fn send(&self, message: &FromZygote, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        match control::send(&self.channel, message, fds) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(())
            }
            sent => sent,
        }
    }

    /// Reports to the supervisor if it was changed from outside.
    fn look_at(&self, shape: &mut Shape) -> io::Result<()> {
        match shape.look() {
            Some(reason) => self.send(&FromZygote::Changed { reason }, &[]),
            None => Ok(()),
        }
    }

    fn spawn(&mut self, index: u16, instance: u32) -> io::Result<Option<Newborn>> {
        let zygote = std::process::id();
        // Without room for descriptors it is as without room for a process.
        let (Ok(pipes), Ok((ours, theirs))) = (self.output.pipes(), Channel::pair()) else {
            return self.say_no_fork(index, instance).map(|()| None);
        };
        self.youngest = instance;
        if let Some(spare) = self.spare.as_ref().filter(|_| self.stands_in) {
            let looks = self.restless < MOST_RESTLESS;
            match spare.fork(index, instance, looks, pipes.as_ref()) {
                Some(forked) => {
                    let (pid, memory) = (forked.pid, forked.memory);
                    self.register(
                        index,
                        LiveWorker { instance, pid, memory, stands_in: true },
                        pipes,
                    )?;
                }
                None => self.say_no_fork(index, instance)?,
            }
            return Ok(None);
        }
        // SAFETY: the zygote has one thread, so the child is a complete copy and may do whatever it
        // may.
        match unsafe { libc::fork() } {
            -1 => self.say_no_fork(index, instance)?,
            0 => {
                let newborn = self.be_born(zygote, index, instance, &theirs);
                return self.output.take(pipes.as_ref()).map(|()| Some(newborn));
            }
            pid => {
                drop(theirs);
                let memory = hand_over(&ours);
                self.register(
                    index,
                    LiveWorker { instance, pid, memory, stands_in: false },
                    pipes,
                )?;
            }
        }
        Ok(None)
    }

    /// A worker lives.
    fn register(&mut self, index: u16, worker: LiveWorker, pipes: Option<Pipes>) -> io::Result<()> {
        if let Some((_, line)) = &self.sampler {
            sampler::notify(line, worker.pid, worker.memory.as_ref());
        }
        let (instance, pid) = (worker.instance, worker.pid.unsigned_abs());
        self.workers.insert(index, worker);
        let ends = pipes.as_ref().map(Pipes::reading_ends);
        let ends = ends.as_ref().map_or(&[][..], |ends| ends);
        self.send(&FromZygote::Spawned { index, instance, pid }, ends)
    }

    fn say_no_fork(&self, index: u16, instance: u32) -> io::Result<()> {
        let status = Status::Code(EXIT_NO_FORK);
        self.send(&FromZygote::Exited { index, instance, status }, &[])
    }

    /// In the child.
    fn be_born(&mut self, zygote: u32, index: u16, instance: u32, line: &Channel) -> Newborn {
        die_with(zygote);
        if index >= self.segment.geometry().workers {
            end(EXIT_MISMATCH);
        }
        // SAFETY: the descriptor belongs to a value of the zygote, which this process never uses
        // again: it leaves by `_exit`.
        unsafe { libc::close(self.channel.as_fd().as_raw_fd()) };
        // The memory of the others.
        self.workers.clear();
        self.sampler = None;
        self.spare = None;
        if let Ok(memory) = process::open_own(proc::OWN_MEMORY) {
            // Without it the zygote asks by a signal.
            let _ = line.send(b"memory", &[memory.as_fd()]);
        }
        let page_map = if self.settings.mode == Mode::Sealed { page_map() } else { -1 };
        if self.settings.guard.is_some_and(|guard| guard.drop_for_good().is_err()) {
            end(EXIT_MISMATCH);
        }
        Newborn { index, instance, page_map }
    }

    fn signal(&self, index: u16, instance: u32, signal: Signal) -> io::Result<()> {
        let Some(worker) = self.workers.get(&index).filter(|worker| worker.instance == instance)
        else {
            return Ok(());
        };
        match signal {
            Signal::Backtrace(slot) => {
                let (pid, memory) = (worker.pid, worker.memory());
                let trace = match self.settings.fpm {
                    Some(_) => engine::trace(pid, memory),
                    None => engine::stack(pid, memory, slot),
                };
                if let Some(trace) = trace {
                    let slow = FromZygote::Slow { index, instance, trace };
                    return self.send(&slow, &[]);
                }
                engine::backtrace(pid, slot, signal.number());
            }
            Signal::Kill => kill(worker.pid, signal.number()),
            Signal::KillOutsideLocks => locks::kill_if(worker.pid, worker.memory(), false),
            Signal::KillInsideLocks => locks::kill_if(worker.pid, worker.memory(), true),
        }
        Ok(())
    }

    /// Lets a process of its own sample the workers for the client behind the descriptor. A client
    /// that has gone meanwhile needs no answer.
    fn profile(&mut self, order: &Order, fds: Vec<OwnedFd>) -> io::Result<()> {
        let Some(client) = fds.into_iter().next() else { return Ok(()) };
        // One that has taken its profile may still be writing it.
        self.sampler.take_if(|(_, line)| matches!(line.receive(), Ok(Received::Closed)));
        if self.sampler.is_some() {
            sampler::refuse(client, "a profile of this site is being taken already");
            return Ok(());
        }
        let zygote = std::process::id();
        let Ok((ours, theirs)) = Channel::pair() else {
            sampler::refuse(client, "the site's zygote has no descriptor left");
            return Ok(());
        };
        // SAFETY: as in `spawn`.
        match unsafe { libc::fork() } {
            -1 => sampler::refuse(client, "the system has no room for one more process"),
            0 => {
                die_with(zygote);
                let workers = std::mem::take(&mut self.workers).into_values();
                let targets =
                    workers.map(|worker| Target::new(worker.pid, worker.memory)).collect();
                // The line to the supervisor ends with the zygote.
                // SAFETY: as in `be_born`.
                unsafe { libc::close(self.channel.as_fd().as_raw_fd()) };
                drop(ours);
                let outcome = sampler::run(order, targets, theirs, client);
                end(u8::from(outcome.is_err()));
            }
            pid => self.sampler = Some((pid, ours)),
        }
        Ok(())
    }

    /// Reports the workers that have ended.
    fn bury(&mut self) -> io::Result<()> {
        while let Some((pid, status)) = reap() {
            self.sampler.take_if(|(sampler, _)| sampler.unsigned_abs() == pid);
            let dead = self.workers.iter().find(|(_, worker)| worker.pid.unsigned_abs() == pid);
            let Some(index) = dead.map(|(index, _)| *index) else { continue };
            let Some(worker) = self.workers.remove(&index) else { continue };
            let instance = worker.instance;
            if status != Status::Code(EXIT_RETIRED) {
                self.dead_locks.suspect();
            }
            let status = self.judge(&worker, status);
            self.send(&FromZygote::Exited { index, instance, status }, &[])?;
        }
        Ok(())
    }

    /// If the application that has changed does not boot, it is served as it was until it changes
    /// again: a deployment is under way, or the new code has a fault.
    fn judge(&mut self, worker: &LiveWorker, status: Status) -> Status {
        match status {
            Status::Code(EXIT_OUTDATED) if worker.stands_in => self.restless += 1,
            Status::Code(EXIT_RETIRED) if worker.stands_in => self.restless = 0,
            _ => {}
        }
        if !(worker.stands_in && status == Status::Code(EXIT_BOOT_FAILED)) {
            return status;
        }
        if std::mem::replace(&mut self.stands_in, false) {
            let message = b"the application that has changed does not boot; requests get it as it \
                was, until it changes again";
            log::line(Level::Error, &self.settings.site, message, &[]);
        }
        Status::Code(EXIT_OUTDATED)
    }

    fn end_all(&mut self) {
        let sampler = self.sampler.iter().map(|(pid, _)| *pid);
        let children: Vec<_> =
            self.workers.values().map(|worker| worker.pid).chain(sampler).collect();
        for pid in &children {
            // SAFETY: signals our child, which we have not reaped.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        for pid in children {
            let mut status = 0;
            // SAFETY: waits for our child, which was just killed.
            unsafe { libc::waitpid(pid, &mut status, 0) };
        }
    }
}
