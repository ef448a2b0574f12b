//! One process of an application, or the place for one.
//!
//! ```text
//!          start           quit                stop_timeout       a second
//!   Down ────────► Running ─────► stop_signal ─────────► SIGTERM ──────────► SIGKILL
//!    ▲ exited         │                │                    │ (skipped if that was it)
//!    └────────────────┴────────────────┴────────────────────┴─────────────────┘
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tokamak_config::{Spawn, StopSignal};
use tokamak_sys::process::{Asking, Child, Identity, Program};

use super::output::Output;
use crate::settings;
use crate::watch::since;

/// Time between `SIGTERM` as the second attempt and `SIGKILL`.
const LAST: Duration = Duration::from_secs(1);

/// What a process does, for `tokamak status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// No process runs.
    Down,
    /// It runs.
    Running,
    /// It was told to end.
    Stopping,
}

impl ProcessState {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            ProcessState::Down => "down",
            ProcessState::Running => "running",
            ProcessState::Stopping => "stopping",
        }
    }
}

/// One process, or the place for one.
#[derive(Debug, Default)]
pub struct Process {
    running: Option<Running>,
    /// Whether there has been one.
    is_used: bool,
}

#[derive(Debug)]
struct Running {
    child: Child,
    output: Output,
    started: u64,
    stop: Option<Stop>,
}

/// Which signal it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stop {
    step: Step,
    since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Signalled,
    Terminated,
    Killed,
}

/// What to do with a process that was told to end some time ago.
fn next(step: Step, waited: Duration, signal: StopSignal, limit: Duration) -> Option<Step> {
    match step {
        Step::Signalled if waited > limit && signal == StopSignal::Terminate => Some(Step::Killed),
        Step::Signalled if waited > limit => Some(Step::Terminated),
        Step::Terminated if waited > LAST => Some(Step::Killed),
        _ => None,
    }
}

fn asking(signal: StopSignal) -> Asking {
    match signal {
        StopSignal::Terminate => Asking::Terminate,
        StopSignal::User1 => Asking::User1,
        StopSignal::Interrupt => Asking::Interrupt,
        StopSignal::Quit => Asking::Quit,
    }
}

impl Process {
    /// Starts it; it must be down. Answers whether it takes the place of another.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn start(
        &mut self,
        spawn: &Spawn,
        socket: BorrowedFd<'_>,
        identity: Option<&Identity>,
        now: u64,
    ) -> io::Result<bool> {
        let (ours, theirs) = io::pipe()?;
        let arguments: Vec<&str> = spawn.arguments.iter().map(String::as_str).collect();
        let program = Program {
            arguments: &arguments,
            environment: &settings::environment(
                &spawn.env,
                spawn.inherit_env,
                identity.and_then(Identity::account),
                std::env::vars_os(),
            ),
            input: Some(socket),
            output: Some(theirs.as_fd()),
            identity,
            directory: Some(&spawn.directory),
            ..Program::new(&spawn.program)
        };
        let child = program.spawn()?;
        self.running = Some(Running { child, output: Output::new(ours), started: now, stop: None });
        Ok(std::mem::replace(&mut self.is_used, true))
    }

    /// Whether no process runs.
    pub fn is_down(&self) -> bool {
        self.running.is_none()
    }

    /// Whether this process is it.
    pub fn is(&self, pid: u32) -> bool {
        self.pid() == Some(pid)
    }

    /// Its process id, for people.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// What it does.
    pub fn state(&self) -> ProcessState {
        match &self.running {
            None => ProcessState::Down,
            Some(Running { stop: None, .. }) => ProcessState::Running,
            Some(_) => ProcessState::Stopping,
        }
    }

    /// When it was started.
    pub fn started(&self) -> Option<u64> {
        self.running.as_ref().map(|running| running.started)
    }

    /// How long it has run, unless it was told to end.
    pub fn age(&self, now: u64) -> Option<Duration> {
        let running = self.running.as_ref().filter(|running| running.stop.is_none())?;
        Some(since(running.started, now))
    }

    /// What it writes to.
    pub fn output(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref()?.output.fd()
    }

    /// Tells what it has written.
    pub fn receive(&mut self, name: &str) {
        if let Some(running) = &mut self.running {
            running.output.log_lines(name, running.child.id());
        }
    }

    /// Tells it to end, unless that has been done.
    pub fn quit(&mut self, spawn: &Spawn, now: u64) {
        if let Some(running) = &mut self.running
            && running.stop.is_none()
        {
            running.child.signal(asking(spawn.stop_signal));
            running.stop = Some(Stop { step: Step::Signalled, since: now });
        }
    }

    /// Sends it the next signal, if it takes too long.
    pub fn tick(&mut self, spawn: &Spawn, now: u64) {
        let Some(Running { child, stop: Some(stop), .. }) = &mut self.running else { return };
        let waited = since(stop.since, now);
        let Some(step) = next(stop.step, waited, spawn.stop_signal, spawn.stop_timeout) else {
            return;
        };
        match step {
            Step::Killed => child.kill_group(),
            Step::Signalled | Step::Terminated => child.signal(Asking::Terminate),
        }
        *stop = Stop { step, since: now };
    }

    /// Ends it at once, with what it has started.
    pub fn kill(&mut self) {
        if let Some(running) = &self.running {
            running.child.kill_group();
        }
    }

    /// It has been reaped.
    pub fn exited(&mut self, name: &str) {
        if let Some(Running { child, output, .. }) = self.running.take() {
            output.finish(name, child.id());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ignores_its_signal_is_killed() {
        let (soon, late) = (Duration::from_millis(900), Duration::from_secs(6));
        let limit = Duration::from_secs(5);
        let (term, usr1) = (StopSignal::Terminate, StopSignal::User1);
        for (step, waited, signal, expected) in [
            (Step::Signalled, soon, term, None),
            (Step::Signalled, soon, usr1, None),
            (Step::Signalled, late, term, Some(Step::Killed)),
            (Step::Signalled, late, usr1, Some(Step::Terminated)),
            (Step::Terminated, soon, usr1, None),
            (Step::Terminated, late, usr1, Some(Step::Killed)),
            (Step::Killed, late, usr1, None),
        ] {
            assert_eq!(
                next(step, waited, signal, limit),
                expected,
                "{step:?} {waited:?} {signal:?}"
            );
        }
    }
}
