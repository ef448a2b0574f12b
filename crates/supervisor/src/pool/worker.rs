//! The life of a worker: each step of it, and what follows.

use tokamak_sys::control::{
    EXIT_OUTDATED, EXIT_RETIRED, Newer, Signal, Status, ToFront, ToZygote, Why,
};
use tokamak_sys::queue::WorkerState;

use super::endings::Ending;
use super::in_flight::lost;
use super::{PROOF, Pool, RenewalReason, WorkerSlot, fpm};
use crate::failing;
use crate::log::Level;
use crate::machine::{Act, Event, Fate, Worker, step};
use crate::watch::{LastRequest, since};
use crate::words::{cause, signal_name};

impl Pool {
    /// The slot of this instance, unless the zygote names an unknown one.
    pub(super) fn place(&mut self, index: u16, instance: u32) -> Option<&mut WorkerSlot> {
        self.slots
            .get_mut(usize::from(index))
            .filter(|place| place.instance == instance && place.worker != Worker::Absent)
    }

    /// One step of a worker's life, and what follows from it.
    pub(super) fn act(&mut self, index: u16, event: Event, now: u64, deaths: &mut Vec<ToFront>) {
        let place = &mut self.slots[usize::from(index)];
        let before = place.worker;
        let (after, act) = step(before, event);
        place.worker = after;
        if after != before {
            place.changed = now;
        }
        match act {
            Act::Nothing => {}
            Act::Welcome => (self.has_booted, self.boot_hung) = (true, false),
            Act::Fork => {
                let instance = self.next_instance;
                // Neither 0 (no worker) nor the largest number, which the queue uses itself.
                self.next_instance = instance.wrapping_add(1).clamp(1, u32::MAX - 1);
                *place = WorkerSlot {
                    worker: after,
                    instance,
                    pid: None,
                    forked: now,
                    changed: now,
                    seen: LastRequest::default(),
                    demand: None,
                    record: failing::Record::default(),
                    is_failing: false,
                    is_forced: false,
                };
                self.send(Some(&ToZygote::Spawn { index, instance }), now);
            }
            Act::AskToLeave => self.segment.retire(index),
            Act::Kill => {
                let instance = place.instance;
                let signal = Signal::KillOutsideLocks;
                self.send(Some(&ToZygote::Kill { index, instance, signal }), now);
            }
            Act::Reap(why, fate) => self.reap(index, before, why, fate, now, deaths),
        }
    }

    fn reap(
        &mut self,
        index: u16,
        before: Worker,
        why: Why,
        fate: Fate,
        now: u64,
        deaths: &mut Vec<ToFront>,
    ) {
        let entry = self.entry(index);
        let WorkerSlot { instance, pid, forked: started, .. } = self.slots[usize::from(index)];
        let pid = pid.unwrap_or(0);
        let ending = match Ending::of(before, why, fate) {
            // The supervisor has ended the zygote itself, or a boot that is not needed any more.
            Ending::Orphaned | Ending::BootFailed if self.ending.is_some() => Ending::Requested,
            Ending::Requested if self.slots[usize::from(index)].is_failing => Ending::Failing,
            ending => ending,
        };
        self.book(index, ending);
        if self.slots[usize::from(index)].is_forced {
            self.renewal_reason.get_or_insert(RenewalReason::Locked);
        }
        let shown = self.segment.shown_request(index);
        // The front takes the slots back when it hears of the death.
        let held = self.in_flight_of(instance, now);
        deaths.push(ToFront::Death { pool: self.number, index, instance, why });
        if matches!(why, Why::Crash(number) if matches!(signal_name(number), Some("SIGSEGV" | "SIGBUS")))
        {
            self.faults.push(now);
        }
        self.segment.clear_place(index);
        if let Some(output) = self.outputs[usize::from(index)].take() {
            output.finish();
        }
        if self.ending.is_some() {
            return;
        }
        let busy = matches!(entry.state, WorkerState::Busy | WorkerState::Draining);
        let asked = before == Worker::Leaving;
        if self.site.fpm.is_some() {
            fpm::exited(&self.site.name, pid, why, since(started, now), asked);
            self.replacing += u32::from(!asked);
        }
        match fate {
            Fate::BootFailed => self.boot_failed(why, now),
            // Said already, in php-fpm's words.
            Fate::Lost if self.site.fpm.is_some() => {}
            Fate::Lost => {
                let request = if !held.is_empty() {
                    lost(&held)
                } else if busy {
                    let id = self.id_of_request(instance, now);
                    format!(" while serving method={} uri={}{id}", shown.method, shown.uri)
                } else {
                    String::new()
                };
                self.say(
                    Level::Error,
                    format_args!("a worker died: {}, pid={pid}{request}", cause(why)),
                );
            }
            // Wanted, but an operator will ask why workers change.
            // Its zygote mostly says more.
            Fate::Expected if why == Why::Exit(EXIT_OUTDATED) => {
                self.outdate("a worker has found it so", Newer::Application, now);
            }
            Fate::Expected if why != Why::Exit(EXIT_RETIRED) => {
                self.say(
                    Level::Info,
                    format_args!("a worker is replaced: {}, pid={pid}", cause(why)),
                );
            }
            Fate::Expected | Fate::TimedOut | Fate::Orphaned => {}
        }
        // A worker that leaves at once, unasked and without a single request, would be replaced in
        // a tight loop.
        let is_outdated = why == Why::Exit(EXIT_OUTDATED);
        let useless =
            entry.requests == 0 && !busy && !asked && !is_outdated && since(started, now) < PROOF;
        if useless
            && matches!(fate, Fate::Lost | Fate::Expected)
            && let Some(wait) = self.storm.failed(now)
        {
            let (cause, wait) = (cause(why), wait.as_secs_f64());
            self.say(
                Level::Warn,
                format_args!(
                    "a worker left before its first request: {cause}; next attempt in {wait:.1} s"
                ),
            );
        }
    }

    fn boot_failed(&mut self, why: Why, now: u64) {
        let script = match &self.site.worker {
            Some(script) => format!(" ({})", script.display()),
            None => String::new(),
        };
        self.failure = Some(format!(
            "the workers of site {} do not boot{script}: {}",
            self.site.name,
            cause(why)
        ));
        if let Some(wait) = self.storm.failed(now) {
            let count = self.storm.failures();
            self.say(
                Level::Error,
                format_args!(
                    "workers do not boot{script}: {}; the reason stands above. Failure {count} in \
                        a row, next attempt in {:.1} s",
                    cause(why),
                    wait.as_secs_f64()
                ),
            );
        }
    }

    /// An unknown child has ended: is it one of this pool's orphans?
    pub fn orphan_exited(
        &mut self,
        pid: u32,
        status: Status,
        now: u64,
        deaths: &mut Vec<ToFront>,
    ) -> bool {
        let mine = |place: &WorkerSlot| place.worker == Worker::Orphan && place.pid == Some(pid);
        let Some(index) = self.slots.iter().position(mine) else { return false };
        self.act(index as u16, Event::Exited(status), now, deaths);
        true
    }
}
