//! The pool's zygote: its start, its messages, its end.

use std::os::fd::{AsFd, OwnedFd};

use tokamak_config::Mode;
use tokamak_sys::control::{EXIT_MISMATCH, FromZygote, Newer, Status, ToFront, ToZygote, key};
use tokamak_sys::process::{self, Memory};

use super::endings::Ending;
use super::look::is_ready;
use super::output::Output;
use super::{Pool, RenewalReason, fpm, slow};
use crate::log::Level;
use crate::machine::{Event, KillReason, Worker};
use crate::means::ZygoteStart;
use crate::renew::PendingChanges;
use crate::zygote::{self, Launch, Need};

/// Messages taken at one look, so that a zygote that never stops sending does not delay the other
/// pools. More than a zygote with all its workers can have to say.
const AT_ONCE: usize = 1024;

impl Pool {
    /// Reads the zygote's messages. Deaths that the front has to know are added to `deaths`.
    pub fn receive(&mut self, launch: Launch<'_>, now: u64, deaths: &mut Vec<ToFront>) {
        self.receive_all(now, deaths);
        self.resize(launch, now, deaths);
    }

    fn receive_all(&mut self, now: u64, deaths: &mut Vec<ToFront>) {
        for _ in 0..AT_ONCE {
            match self.zygote.receive(now) {
                Ok(Some((message, fds))) => self.handle(message, fds, now, deaths),
                Ok(None) => return,
                Err(error) => {
                    return self
                        .say(Level::Error, format_args!("the PHP zygote is killed: {error}"));
                }
            }
        }
    }

    fn handle(
        &mut self,
        message: FromZygote,
        fds: Vec<OwnedFd>,
        now: u64,
        deaths: &mut Vec<ToFront>,
    ) {
        match message {
            FromZygote::Ready { version, exposes } => {
                self.exposes_php = exposes;
                self.version =
                    Some(version.chars().filter(|c| c.is_ascii_graphic()).take(40).collect());
                // It has started, so the failure of an earlier zygote is over.
                self.failure = None;
                self.pending_changes = PendingChanges::default();
                // A spoiled queue stays spoiled, because this zygote uses the same queue.
                self.renewal_reason.take_if(|reason| !matches!(reason, RenewalReason::Spoiled(_)));
            }
            FromZygote::Spawned { index, instance, pid } => {
                let Some(place) = self.place(index, instance) else { return };
                place.pid = Some(pid);
                let output = match &self.site.fpm {
                    Some(pool) => Output::of_fpm(fds, pool, self.buffers_output, pid),
                    None => Output::of_site(fds, &self.site.name, format!("worker {pid}")),
                };
                self.outputs[usize::from(index)] = output;
                if self.site.fpm.is_some() {
                    fpm::started(&self.site.name, pid, self.replacing > 0);
                    self.replacing = self.replacing.saturating_sub(1);
                }
            }
            FromZygote::Exited { index, instance, status } => {
                if self.place(index, instance).is_some() {
                    self.end_slow_entries_of(Some(instance));
                    // A worker may have booted, served and left between two looks of the
                    // supervisor.
                    let entry = self.segment.board(index);
                    if entry.instance == instance && entry.requests > 0 {
                        self.act(index, Event::Booted, now, deaths);
                    }
                    self.act(index, Event::Exited(status), now, deaths);
                }
            }
            FromZygote::Failed { message } => {
                let what = if self.is_sealed() {
                    "the application cannot be sealed"
                } else {
                    "PHP cannot start"
                };
                self.fail(format!("{what}: {message}"));
            }
            FromZygote::Unsealable { reason } => {
                self.boot_files = fds.into_iter().next();
                self.go_without_image(&reason);
            }
            FromZygote::Outdated { reason, newer } => {
                // After the first message, workers have no image, or check for changes before each
                // request, so they need not leave.
                let is_first = self.renewal_reason.is_none();
                self.outdate(&reason, newer, now);
                if newer == Newer::Application && is_first {
                    self.retire_all(now, deaths);
                }
            }
            FromZygote::Changed { reason } => {
                self.renewal_reason.get_or_insert(RenewalReason::Changed(reason));
            }
            FromZygote::Output => {
                let output = Output::of_site(fds, &self.site.name, "the zygote".to_owned());
                if let (Some(last), true) = (self.outputs.last_mut(), self.site.fpm.is_none())
                    && let Some(before) = std::mem::replace(last, output)
                {
                    before.finish();
                }
            }
            FromZygote::Locked => self.renewal_reason = Some(RenewalReason::Locked),
            FromZygote::Alive => {} // each message is a sign of life
            FromZygote::Slow { index, instance, trace } => {
                let Some(pid) = self.place(index, instance).map(|place| place.pid) else { return };
                match (&self.site.fpm, pid) {
                    (Some(pool), Some(pid)) => slow::log_entry(pool, pid, &trace),
                    (Some(_), None) => {}
                    (None, _) => self.end_slow_entry(instance, &trace),
                }
            }
        }
    }

    /// Logs why no worker can be started, and keeps the reason for `tokamak status`.
    pub(super) fn fail(&mut self, failure: String) {
        self.say(Level::Error, format_args!("{failure}"));
        self.failure = Some(failure);
    }

    /// The next zygote boots nothing, and each of its workers by itself: the booted process may
    /// have lost threads, or hold what two workers must not share.
    fn go_without_image(&mut self, reason: &str) {
        let (mode, name, word) = match self.site.worker {
            Some(_) => (Mode::Worker, key::MODE_WORKER, "worker"),
            None => (Mode::Classic, key::MODE_CLASSIC, "classic"),
        };
        self.say(
            Level::Warn,
            format_args!("no image can be taken: {reason}; this site runs in {word} mode"),
        );
        self.site.mode = mode;
        // Requests of classic mode run the boot script before their own.
        self.settings.retain(|(key, _)| !key.starts_with(key::WARM));
        let of_mode = self.settings.iter_mut().filter(|(key, _)| key == key::MODE);
        of_mode.for_each(|(_, value)| *value = name.to_owned());
    }

    /// Notes that the application has changed and needs a new image, also if the last attempt to
    /// take one failed. Does nothing in modes without an image, where a renewal would only cost the
    /// other pools time.
    pub(super) fn outdate(&mut self, reason: &str, newer: Newer, now: u64) {
        let is_sealed = self.is_sealed();
        if !(is_sealed || self.boot_files.is_some()) || self.ending.is_some() {
            return;
        }
        self.pending_changes.note(newer, now);
        if is_sealed && self.pending_changes.is_endless(now) {
            self.say(
                Level::Warn,
                format_args!(
                    "the application keeps changing; until it is quiet for a second there is no \
                        new image, and each request boots it: {reason}"
                ),
            );
        }
        if self.renewal_reason.is_none() {
            self.renewal_reason = Some(RenewalReason::Outdated(reason.to_owned()));
            if is_sealed && newer == Newer::Application {
                self.say(
                    Level::Info,
                    format_args!(
                        "until there is a new image, requests boot for themselves: {reason}"
                    ),
                );
            }
        }
    }

    /// Lets the workers that were forked from the image take no more requests.
    fn retire_all(&mut self, now: u64, deaths: &mut Vec<ToFront>) {
        for index in 0..self.slots.len() as u16 {
            if self.is_sealed() && self.slots[usize::from(index)].worker == Worker::Serving {
                self.act(index, Event::Retire, now, deaths);
            }
        }
    }

    pub(super) fn send(&mut self, message: Option<&ToZygote>, now: u64) {
        self.send_with(message, Vec::new(), now);
    }

    fn send_with(&mut self, message: Option<&ToZygote>, fds: Vec<OwnedFd>, now: u64) {
        if self.zygote.send(message, fds, now).is_err() {
            self.say(Level::Error, format_args!("the PHP zygote does not answer and is killed"));
        }
    }

    /// Has a profile taken, which the client behind the descriptor gets.
    pub fn take_profile(&mut self, order: &ToZygote, client: OwnedFd, now: u64) {
        self.send_with(Some(order), vec![client], now);
    }

    /// Starts a zygote if one is due.
    pub(super) fn mind_zygote(&mut self, launch: Launch<'_>, now: u64) {
        let limit = if self.is_sealed() { self.start_limit() } else { zygote::LIMIT };
        match self.zygote.tick(limit, now) {
            Need::Nothing => {}
            Need::Slow => {
                let (after, most) = (zygote::SLOW.as_secs(), limit.as_secs());
                let what = self.starting();
                self.say(Level::Warn, format_args!("{what} after {after} s; it has {most} s"));
            }
            Need::Late => {
                let (what, seconds) = (self.starting(), limit.as_secs());
                self.boot_hung = true;
                self.fail(format!("{what} after {seconds} s and is killed"));
            }
            Need::Start => {
                // The last zygote's workers must have left their slots before the next one fills
                // them.
                if self.ending.is_some()
                    || self.slots.iter().any(|place| place.worker != Worker::Absent)
                {
                    return;
                }
                let Pool { zygote, site, segment, links, settings, boot_files, .. } = self;
                let identity = launch.identity;
                let boot_files = boot_files.as_ref().map(AsFd::as_fd);
                let start = ZygoteStart { identity, site, segment, links, settings, boot_files };
                if let Err(error) = zygote.start(launch.means, start, now) {
                    self.fail(error.to_string());
                }
            }
        }
    }

    /// What its zygote does before it is ready.
    fn starting(&self) -> String {
        let script = self.site.worker.as_ref().or(self.site.boot.as_ref());
        match script.filter(|_| self.is_sealed()) {
            Some(script) => format!("the application still boots ({})", script.display()),
            None if self.is_sealed() => "the application still boots".to_owned(),
            None => "PHP still starts".to_owned(),
        }
    }

    /// Why it has no workers, if it has none.
    pub fn obstacle(&self) -> String {
        match self.failure() {
            Some(failure) => failure.to_owned(),
            None if self.has_zygote() => "they still start".to_owned(),
            None => self.starting(),
        }
    }

    /// The memory of the zygote, once it can fork workers. In sealed mode that is their image.
    pub fn image(&self) -> Option<Memory> {
        self.zygote.pid().filter(|_| self.zygote.is_ready()).and_then(process::memory)
    }

    /// A child has ended: is it this pool's zygote?
    pub fn zygote_exited(
        &mut self,
        pid: u32,
        status: Status,
        now: u64,
        deaths: &mut Vec<ToFront>,
    ) -> bool {
        if !self.zygote.is(pid) {
            return false;
        }
        self.receive_all(now, deaths); // the messages it sent before its end
        self.end_slow_entries_of(None);
        let wait = self.zygote.exited(now).as_secs_f64();
        self.processor.end();
        if self.ending.is_some() && status == Status::Code(0) {
            // It has ended and reaped them before itself, without a word about each.
            for index in 0..self.slots.len() {
                let place = &mut self.slots[index];
                if std::mem::replace(&mut place.worker, Worker::Absent) != Worker::Absent {
                    self.book(index as u16, Ending::Requested);
                }
            }
            return true;
        }
        for index in 0..self.slots.len() as u16 {
            self.act(index, Event::ZygoteGone, now, deaths);
        }
        // An earlier zygote has understood the queue, so a worker has spoiled it since. No later
        // one will understand it either.
        if status == Status::Code(EXIT_MISMATCH) && self.version.is_some() {
            self.renewal_reason =
                Some(RenewalReason::Spoiled("its description is damaged".to_owned()));
        }
        if self.zygote.is_unsealable() {
            return true;
        }
        if self.ending.is_none() && self.zygote.has_failed() {
            self.say(Level::Info, format_args!("PHP is started again in {wait:.1} s"));
        } else if self.ending.is_none() {
            self.say(
                Level::Error,
                format_args!(
                    "the PHP zygote ended: {status}; its workers end with it, next attempt in \
                        {wait:.1} s"
                ),
            );
            self.failure.get_or_insert(format!("PHP ended: {status}"));
        }
        true
    }

    /// The front takes no more connections: workers may end requests which nothing else would end.
    pub fn drain(&self) {
        self.segment.set_draining();
    }

    /// Lets every worker leave after its request, and ends those that boot, which have none; ends
    /// the remaining ones at `deadline`.
    pub fn quit(&mut self, deadline: u64, now: u64) {
        self.ending = Some(deadline);
        for index in 0..self.slots.len() as u16 {
            let boots = !is_ready(self.entry(index).state);
            let event = if boots { Event::Kill(KillReason::Boot) } else { Event::Retire };
            // Their deaths need no report: without a front there are no requests.
            self.act(index, event, now, &mut Vec::new());
        }
        self.finish(now);
    }

    /// Lets the zygote go once its workers have left, or have had their time.
    pub(super) fn finish(&mut self, now: u64) {
        let alone = self.slots.iter().all(|place| place.worker == Worker::Absent);
        if self.ending.is_some_and(|deadline| alone || now > deadline) {
            self.measure();
            self.zygote.quit(now);
        }
    }

    /// Ends all processes at once.
    pub fn kill(&mut self, now: u64) {
        self.ending = Some(now);
        self.measure();
        self.zygote.kill(now);
    }
}
