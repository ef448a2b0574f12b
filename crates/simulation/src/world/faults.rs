//! What goes wrong.

use std::fs::File;
use std::os::unix::fs::FileExt;

use tokamak_sys::control::Status;

use super::World;
use crate::plan::{FOR_EVER, Fault};
use crate::random::Random;
use crate::shape;
use crate::wire::ring;

impl World {
    pub(super) fn break_something(&mut self) {
        let now = self.clock.get();
        let Some((_, fault)) = self.next_fault.take() else { return };
        self.next_fault = self.plan.next();
        trace!(self, "FAULT {fault:?}");
        self.calm = self.calm.max(now);
        self.disturbed = now;
        match fault {
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
                let until = self.until(time);
                if let Some(at) = some(&mut self.random, 0..self.workers.len()) {
                    self.workers[at].stopped = until;
                }
            }
            Fault::StopZygote(time) => {
                let until = self.until(time);
                if let Some(at) = some(&mut self.random, 0..self.zygotes.len()) {
                    self.zygotes[at].stopped = until;
                }
            }
            Fault::StopFront(time) => {
                let until = self.until(time);
                if let Some(at) = some(&mut self.random, 0..self.fronts.len()) {
                    self.fronts[at].stopped = until;
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
                (self.disturbed, self.jumped) = (now + time, now + time);
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
