//! A zygote, as the supervisor sees it: it boots, forks on request, and reports ended workers.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokamak_config::Site;
use tokamak_sys::control::{EXIT_MISMATCH, FromZygote, Heard, Newer, Signal, Status, ToZygote};
use tokamak_sys::queue::Segment;

use crate::births::identity;
use crate::random::Random;
use crate::wire::{Alarm, Theirs};

/// What a zygote asks of the simulated kernel.
pub enum Query {
    Fork {
        index: u16,
        instance: u32,
    },
    Kill {
        index: u16,
        instance: u32,
    },
    /// It ends, and its workers before it if the flag is set.
    Exit(Status, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Booting(u64),
    Ready,
}

pub struct Zygote {
    pub pid: u32,
    pub line: Theirs,
    pub alarm: Alarm,
    pub stopped: u64,
    pub key: u64,
    pub place: String,
    pub version: u64,
    pub is_sealed: bool,
    pub segment: Option<Arc<Segment>>,
    pub bells: Vec<OwnedFd>,
    /// Workers that have ended, and are to be reported.
    pub ended: Vec<(u16, u32, Status)>,
    pub is_outdated: bool,
    phase: Phase,
}

/// The descriptors that a zygote gets from the supervisor when it starts.
pub struct Inherited {
    pub line: Theirs,
    pub alarm: Alarm,
    pub memory: OwnedFd,
    pub bells: Vec<OwnedFd>,
}

impl Zygote {
    pub fn new(
        pid: u32,
        inherited: Inherited,
        site: &Site,
        now: u64,
        random: &mut Random,
    ) -> Zygote {
        use std::os::fd::AsFd;
        let Inherited { line, alarm, memory, bells } = inherited;
        let key = identity(memory.as_fd());
        let boot = if random.chance(30) { 3_000_000_000 } else { 30_000_000 };
        let ready = now + random.between(100_000, boot);
        alarm.set(now);
        Zygote {
            pid,
            line,
            alarm,
            stopped: 0,
            key,
            place: site.name.clone(),
            version: version(site),
            is_sealed: site.mode == tokamak_config::Mode::Sealed,
            // The worker program does the same.
            segment: Segment::open(memory)
                .ok()
                .map(|segment| Arc::new(segment.with_doorbells(&bells).expect("descriptors"))),
            bells,
            ended: Vec::new(),
            is_outdated: false,
            phase: Phase::Booting(ready),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// One turn of its loop.
    pub fn turn(&mut self, now: u64, is_broken: bool) -> Vec<Query> {
        let mut actions = Vec::new();
        if self.segment.is_none() {
            return vec![Query::Exit(Status::Code(EXIT_MISMATCH), true)];
        }
        if let Phase::Booting(ready) = self.phase {
            if now < ready {
                self.alarm.set(ready);
                return actions;
            }
            if is_broken && self.is_sealed {
                self.line.send(&FromZygote::Failed { message: "no boot".into() });
                return vec![Query::Exit(Status::Code(1), true)];
            }
            self.phase = Phase::Ready;
            self.line.send(&FromZygote::Ready { version: "8".into(), exposes: false });
        }
        for (index, instance, status) in std::mem::take(&mut self.ended) {
            self.line.send(&FromZygote::Exited { index, instance, status });
        }
        if std::mem::take(&mut self.is_outdated) {
            self.line
                .send(&FromZygote::Outdated { reason: "a file".into(), newer: Newer::Application });
        }
        // One message a turn: it may be killed before the next.
        match self.line.receive::<ToZygote>() {
            Heard::Message(ToZygote::Spawn { index, instance }, _) => {
                actions.push(Query::Fork { index, instance });
            }
            Heard::Message(
                ToZygote::Kill { index, instance, signal: Signal::Kill | Signal::KillOutsideLocks },
                _,
            ) => {
                actions.push(Query::Kill { index, instance });
            }
            Heard::Message(ToZygote::Ask, _) => self.line.send(&FromZygote::Alive),
            Heard::Message(
                ToZygote::Kill { .. } | ToZygote::Settings(_) | ToZygote::Profile { .. },
                _,
            )
            | Heard::Nothing => {}
            Heard::Message(ToZygote::Quit, _) | Heard::Closed => {
                actions.push(Query::Exit(Status::Code(0), true));
            }
        }
        self.alarm.set(self.line.due());
        actions
    }
}

/// The version of the configuration of a site, which is a part of its root.
pub fn version(site: &Site) -> u64 {
    let name = site.root.file_name().and_then(|name| name.to_str()).unwrap_or("0");
    name.parse().unwrap_or(0)
}
