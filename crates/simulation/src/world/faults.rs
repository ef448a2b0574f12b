//! What goes wrong.

use std::fs::File;
use std::os::unix::fs::FileExt;

use tokamak_sys::control::Status;

use super::World;
use crate::faults::{FOR_EVER, Fault};
use crate::random::Random;
use crate::shape;
use crate::wire::ring;

/// Steps of workers within which something happens to one that makes them: as many as two requests
/// take.
const STEPS: u64 = 20;

impl World {
    pub(super) fn break_something(&mut self) {
        let now = self.clock.get();
        let Some((_, fault)) = self.next_fault.take() else { return };
        self.next_fault = self.faults.next();
        trace!(self, "FAULT {fault:?}");
        self.calm = self.calm.max(now);
        match fault {
            // Workers sleep most of the time, so a fault at a random time would nearly always hit
            // an idle one. Half of these faults wait for a worker that is in the middle of a step.
            Fault::KillWorker | Fault::StopWorker(_) if self.random.chance(500) => {
                self.ambush = Some((self.random.below(STEPS), fault));
            }
            Fault::StopZygote(_) | Fault::StopFront(_) if self.random.chance(250) => {
                self.at_birth = Some(fault);
            }
            Fault::KillWorker => {
                if let Some(pid) =
                    some(&mut self.random, self.workers.iter().map(|worker| worker.pid))
                {
                    self.die(pid, Status::Signal(9));
                }
            }
            Fault::KillZygote => {
                if let Some(pid) =
                    some(&mut self.random, self.zygotes.iter().map(|zygote| zygote.pid))
                {
                    self.die(pid, Status::Signal(9));
                }
            }
            Fault::KillFront => {
                if let Some(pid) = some(&mut self.random, self.fronts.iter().map(|front| front.pid))
                {
                    self.die(pid, Status::Signal(9));
                }
            }
            Fault::StopWorker(time) => {
                if let Some(at) = some(&mut self.random, 0..self.workers.len()) {
                    self.stop_worker(at, time);
                }
            }
            Fault::StopZygote(time) => {
                if let Some(at) = some(&mut self.random, 0..self.zygotes.len()) {
                    self.stop_zygote(at, time);
                }
            }
            Fault::StopFront(time) => {
                if let Some(at) = some(&mut self.random, 0..self.fronts.len()) {
                    self.fronts[at].stopped = self.until(time);
                }
            }
            Fault::StopSupervisor(time) => self.supervisor_stopped = self.until(time),
            Fault::SpinLoop(time) => {
                let until = self.until(time);
                if let Some(at) = some(&mut self.random, 0..self.fronts.len()) {
                    let number = self.random.below(self.loop_count as u64) as usize;
                    self.fronts[at].loops[number].spins = until;
                }
            }
            Fault::Jump(time) => {
                self.clock.set(now + time);
                self.calm = self.calm.max(now + time);
                self.jumped = now + time;
            }
            Fault::Reload => {
                self.version += 1;
                shape::set_version(&mut self.around.next, self.version);
                self.fleet.reload(&mut self.around, None, now);
                ring(&self.supervisor, now + 1_000);
            }
            Fault::Garbage => self.write_garbage(),
            Fault::Broken(time) => self.broken = self.until(time),
            Fault::Crashes(time) => self.crashes = self.until(time),
            Fault::Hangs(time) => self.hangs = self.until(time),
            Fault::Deaf(time) => self.deaf = self.until(time),
            Fault::Barren(time) => {
                let until = self.until(time);
                self.births.barren.set(until);
            }
            Fault::Outdated => {
                if let Some(at) = some(&mut self.random, 0..self.zygotes.len())
                    && self.zygotes[at].is_ready()
                {
                    self.zygotes[at].is_outdated = true;
                    ring(&self.zygotes[at].alarm, now);
                }
            }
            Fault::Burst => {
                self.burst = 25;
                self.next_client = now;
            }
        }
    }

    fn stop_worker(&mut self, index: usize, time: u64) {
        self.workers[index].stopped = self.until(time);
    }

    fn stop_zygote(&mut self, index: usize, time: u64) {
        self.zygotes[index].stopped = self.until(time);
        self.silent.push(self.zygotes[index].key);
    }

    /// A zygote has begun, the last one: whether it gets no further.
    pub(super) fn spring_at_zygote(&mut self) {
        if let Some(Fault::StopZygote(time)) = self.at_birth {
            self.begin_fault();
            self.stop_zygote(self.zygotes.len() - 1, time);
        }
    }

    /// The same for a front.
    pub(super) fn spring_at_front(&mut self) {
        if let Some(Fault::StopFront(time)) = self.at_birth {
            self.begin_fault();
            let until = self.until(time);
            self.fronts.last_mut().into_iter().for_each(|front| front.stopped = until);
        }
    }

    /// What had waited for its moment happens.
    fn begin_fault(&mut self) {
        (self.ambush, self.at_birth) = (None, None);
        (self.calm, self.well) = (self.calm.max(self.clock.get()), u64::MAX);
    }

    /// A worker has made a step: whether something happens to it now.
    pub(super) fn spring(&mut self, pid: u32) {
        let Some((left, fault)) = self.ambush.take() else { return };
        let Some(index) = self.workers.iter().position(|worker| worker.pid == pid) else { return };
        if left > 0 {
            self.ambush = Some((left - 1, fault));
            return;
        }
        self.begin_fault();
        match fault {
            Fault::StopWorker(time) => self.stop_worker(index, time),
            _ => self.die(pid, Status::Signal(9)),
        }
    }

    /// The end of a fault that lasts so long. What lasts for ever is no reason to wait.
    fn until(&mut self, time: u64) -> u64 {
        let until = self.clock.get() + time;
        if time < FOR_EVER {
            self.calm = self.calm.max(until);
        }
        until
    }

    /// A worker writes what it likes where it likes.
    fn write_garbage(&mut self) {
        let Some(at) = some(&mut self.random, 0..self.workers.len()) else { return };
        let worker = &self.workers[at];
        let (segment, key) = (worker.segment.clone(), worker.key);
        let memory = segment.fd().try_clone_to_owned().expect("a descriptor");
        let file = File::from(memory);
        let len = file.metadata().expect("a file").len();
        for _ in 0..self.random.between(1, 6) {
            // Most of what decides is at the beginning.
            let end = if self.random.chance(850) { len.min(8192) } else { len };
            let place = self.random.below(end - 8) & !7;
            let word = match self.random.below(4) {
                0 => 0,
                1 => u64::MAX,
                2 => self.random.below(64),
                _ => self.random.next(),
            };
            file.write_all_at(&word.to_le_bytes(), place).expect("memory");
        }
        if !self.spoiled.contains(&key) {
            self.spoiled.push(key);
        }
    }
}

/// Any of these, if there are some.
fn some<T: Copy>(random: &mut Random, of: impl Iterator<Item = T>) -> Option<T> {
    let all: Vec<T> = of.collect();
    (!all.is_empty()).then(|| random.pick(&all))
}
