//! The spare of a sealed site's zygote: a process that has PHP, and not yet the application. It was
//! forked before the boot, and forks the workers that boot for themselves while the image is
//! outdated: for each request the application as it is then.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokamak_sys::channel::{Channel, Received, Watch, poll};
use tokamak_sys::control::{EXIT_MISMATCH, Signal};
use tokamak_sys::proc;
use tokamak_sys::process::{self, reap};
use tokamak_sys::queue::Consumer;
use tokamak_sys::signal::Signals;

use super::{HAND_OVER, Zygote, die_with, end};
use crate::engine;
use crate::output::Pipes;
use crate::settings::{Mode, Settings};
use crate::worker;

/// The spare, as its zygote sees it.
pub struct Spare {
    line: Channel,
}

/// A worker that the spare has forked.
pub struct Forked {
    /// Its process, a child of the zygote.
    pub pid: libc::pid_t,
    /// Its memory, if it could be had.
    pub memory: Option<OwnedFd>,
}

impl Spare {
    /// The descriptor of its line.
    pub fn fd(&self) -> RawFd {
        self.line.as_raw_fd()
    }

    /// Has a worker forked for this place; none if that fails. `looks`: it takes no request when
    /// something that it has booted from has changed since.
    pub fn fork(
        &self,
        index: u16,
        instance: u32,
        looks: bool,
        pipes: Option<&Pipes>,
    ) -> Option<Forked> {
        let (ours, theirs) = Channel::pair().ok()?;
        let mut fds = vec![theirs.as_fd()];
        let ends = pipes.map(Pipes::writing_ends);
        fds.extend(ends.iter().flatten());
        let order =
            [&index.to_le_bytes()[..], &instance.to_le_bytes(), &[u8::from(looks)]].concat();
        self.line.send(&order, &fds).ok()?;
        drop(theirs);
        let Ok(Received::Message(pid, fds)) = ours.receive_within(Some(HAND_OVER)) else {
            return None;
        };
        let pid = u32::from_le_bytes(pid.try_into().ok()?);
        Some(Forked { pid: pid.try_into().ok()?, memory: fds.into_iter().next() })
    }
}

/// What the zygote wants to have forked.
struct Order {
    index: u16,
    instance: u32,
    looks: bool,
    /// The line on which the worker says that it lives, and the ends of its pipes.
    fds: Vec<OwnedFd>,
}

fn order(message: Received) -> Option<Order> {
    let Received::Message(bytes, fds) = message else { return None };
    let (index, rest) = bytes.split_first_chunk()?;
    let (instance, rest) = rest.split_first_chunk()?;
    Some(Order {
        index: u16::from_le_bytes(*index),
        instance: u32::from_le_bytes(*instance),
        looks: rest.first() == Some(&1),
        fds,
    })
}

impl Zygote {
    /// Forks the spare. In the workers that come of it this never returns.
    ///
    /// # Errors
    /// The system has no room for it.
    pub fn keep_spare(&mut self) -> io::Result<()> {
        let (ours, theirs) = Channel::pair()?;
        let zygote = std::process::id();
        // SAFETY: the zygote has one thread, so the child is a complete copy.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                die_with(zygote);
                drop(ours);
                // SAFETY: the descriptor belongs to a value of the zygote that is not used again.
                unsafe { libc::close(self.channel.as_fd().as_raw_fd()) };
                self.be_spare(zygote, &theirs)
            }
            _ => self.spare = Some(Spare { line: ours }),
        }
        Ok(())
    }

    fn be_spare(&mut self, zygote: u32, line: &Channel) -> ! {
        let Ok(signals) = Signals::take() else { end(EXIT_MISMATCH) };
        loop {
            if poll(&mut [Watch::read(line.as_fd()), Watch::read(signals.as_fd())], None).is_err() {
                end(EXIT_MISMATCH);
            }
            while signals.next().is_some() {}
            while reap().is_some() {}
            match line.receive() {
                Ok(Received::Nothing) => {}
                Ok(Received::Closed) | Err(_) => end(0),
                Ok(message) => {
                    let Some(order) = order(message) else { continue };
                    self.fork_twice(zygote, order);
                }
            }
        }
    }

    /// The worker becomes a child of the zygote, which buries it: the process between the two ends
    /// at once, and the zygote adopts orphans.
    fn fork_twice(&mut self, zygote: u32, order: Order) {
        // SAFETY: this process has one thread, so the child is a complete copy.
        if unsafe { libc::fork() } != 0 {
            return;
        }
        // SAFETY: as before.
        if unsafe { libc::fork() } != 0 {
            end(0);
        }
        let until = Instant::now() + HAND_OVER;
        // SAFETY: no precondition.
        while unsafe { libc::getppid() }.unsigned_abs() != zygote && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        die_with(zygote);
        self.stand_in(order)
    }

    /// In the worker.
    fn stand_in(&mut self, Order { index, instance, looks, fds }: Order) -> ! {
        if index >= self.segment.geometry().workers {
            end(EXIT_MISMATCH);
        }
        let mut fds = fds.into_iter();
        let Some(line) = fds.next().and_then(|fd| Channel::from_fd(fd).ok()) else {
            end(EXIT_MISMATCH);
        };
        let memory = process::open_own(proc::OWN_MEMORY).ok();
        let memory: Vec<_> = memory.iter().map(AsFd::as_fd).collect();
        let is_sent = line.send(&std::process::id().to_le_bytes(), &memory).is_ok();
        drop(line);
        let is_free = self.settings.guard.is_none_or(|guard| guard.drop_for_good().is_ok());
        let has_output = self.output.take_ends(&fds.collect::<Vec<_>>()).is_ok();
        if !(is_sent && is_free && has_output) {
            end(EXIT_MISMATCH);
        }
        engine::begin_worker(Signal::Backtrace(None).number());
        engine::boot_afresh(self.settings.script.is_some());
        let settings = standing_in(&self.settings, looks);
        let bells = std::mem::take(&mut self.bells);
        let consumer = Consumer::new(self.segment.clone(), bells, index, instance);
        worker::init(&settings, Arc::clone(&self.segment), consumer, self.hub.take());
        end(worker::serve(&settings))
    }
}

/// The settings of a process that serves without the image, and keeps nothing for the next visitor.
fn standing_in(settings: &Settings, looks: bool) -> Settings {
    let mut settings = settings.clone();
    settings.mode = if settings.script.is_some() { Mode::Worker } else { Mode::Classic };
    if settings.script.is_some() {
        settings.max_requests = 1;
    }
    settings.stands_in = true;
    settings.looks_at_boot = looks && settings.script.is_some();
    settings.warm.clear();
    settings
}
