//! The life of one worker: one state, one event, one answer. No clock, no system call.
//!
//! ```text
//!             Spawn              Booted             Retire
//!   Absent ─────────► Starting ─────────► Serving ─────────► Leaving
//!     ▲                  │  Retire           │                  │
//!     │                  ├──────► Leaving    │                  │
//!     │                  │        Kill(…)    │                  │
//!     │                  ├───────────────────┼──────────────────┤
//!     │                  ▼                   ▼                  ▼
//!     │               Killed              Killed             Killed
//!     │ Exited           │                   │                  │     ZygoteGone: all ──► Orphan
//!     └──────────────────┴───────────────────┴──────────────────┘
//! ```

use tokamak_sys::control::{
    EXIT_BOOT_FAILED, EXIT_OUTDATED, EXIT_RETIRED, EXIT_STALE, EXIT_TAINTED, Status, Why,
};

/// What the supervisor knows of one place on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// No process.
    Absent,
    /// The zygote was told to fork it; it has not been ready for a request yet.
    Starting,
    /// It takes requests.
    Serving,
    /// It was told to leave after its request.
    Leaving,
    /// The zygote was told to kill it.
    Killed(KillReason),
    /// Its zygote is dead, so its `SIGKILL` is under way.
    Orphan,
}

/// Why the supervisor has a worker killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// Its request took longer than `request_timeout`.
    Request,
    /// It did not become ready.
    Boot,
}

/// What happens to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pool wants one more.
    Spawn,
    /// The board shows it ready.
    Booted,
    /// The pool wants it gone, when it suits.
    Retire,
    /// It has to go now.
    Kill(KillReason),
    /// The zygote has reaped it (or we have, an orphan).
    Exited(Status),
    /// Its zygote is dead.
    ZygoteGone,
}

/// What the supervisor does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// Tell the zygote to fork.
    Fork,
    /// The application boots: whatever was wrong before is over.
    Welcome,
    /// Set the command on the board and wake the worker.
    AskToLeave,
    /// Tell the zygote to kill it.
    Kill,
    /// Tell the front, free the place.
    Reap(Why, Fate),
}

/// What a death means for the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// As wanted: retired, served its number of requests, or noticed itself that it should be
    /// replaced.
    Expected,
    /// It never became ready: the next one will probably not either.
    BootFailed,
    /// It ended while it took requests.
    Lost,
    /// Killed because of `request_timeout`.
    TimedOut,
    /// Died with its zygote.
    Orphaned,
}

/// The answer to an event.
pub fn step(worker: Worker, event: Event) -> (Worker, Act) {
    use Worker::{Absent, Killed, Leaving, Orphan, Serving, Starting};
    match (worker, event) {
        (Absent, Event::Spawn) => (Starting, Act::Fork),
        (Starting, Event::Booted) => (Serving, Act::Welcome),
        (Starting | Serving, Event::Retire) => (Leaving, Act::AskToLeave),
        (Starting | Serving | Leaving, Event::Kill(verdict)) => (Killed(verdict), Act::Kill),
        (Starting | Serving | Leaving | Killed(_), Event::ZygoteGone) => (Orphan, Act::Nothing),
        (Absent, Event::Exited(_)) => (Absent, Act::Nothing),
        (Killed(KillReason::Request), Event::Exited(_)) => {
            (Absent, Act::Reap(Why::TimedOut, Fate::TimedOut))
        }
        (Killed(KillReason::Boot), Event::Exited(status)) => {
            (Absent, Act::Reap(why(status), Fate::BootFailed))
        }
        (Orphan, Event::Exited(status)) => (Absent, Act::Reap(why(status), Fate::Orphaned)),
        (Starting | Serving | Leaving, Event::Exited(status)) => {
            (Absent, Act::Reap(why(status), fate(worker, status)))
        }
        (same, _) => (same, Act::Nothing),
    }
}

fn why(status: Status) -> Why {
    match status {
        Status::Code(EXIT_STALE) => Why::Stale,
        Status::Code(code) => Why::Exit(code),
        Status::Signal(number) => Why::Crash(number),
    }
}

fn fate(worker: Worker, status: Status) -> Fate {
    match (worker, status) {
        (_, Status::Code(EXIT_RETIRED | EXIT_STALE | EXIT_OUTDATED | EXIT_TAINTED)) => {
            Fate::Expected
        }
        (_, Status::Code(EXIT_BOOT_FAILED)) => Fate::BootFailed,
        // Died before serving: broken code, not bad luck.
        (Worker::Starting, _) => Fate::BootFailed,
        _ => Fate::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Status = Status::Code(7);
    const SEGV: Status = Status::Signal(11);
    const RETIRED: Status = Status::Code(EXIT_RETIRED);
    const STALE: Status = Status::Code(EXIT_STALE);
    const NO_BOOT: Status = Status::Code(EXIT_BOOT_FAILED);

    /// Every state with every event.
    #[test]
    fn table() {
        use Worker::*;
        let slow = Killed(KillReason::Request);
        let stuck = Killed(KillReason::Boot);
        let none = Act::Nothing;
        let reap = Act::Reap;
        let states = [Absent, Starting, Serving, Leaving, slow, stuck, Orphan];
        // One row an event; one column a state, in the order of `states`.
        #[rustfmt::skip]
        let rows = [
            (Event::Spawn, [(Starting, Act::Fork), (Starting, none), (Serving, none), (Leaving, none), (slow, none), (stuck, none), (Orphan, none)]),
            (Event::Booted, [(Absent, none), (Serving, Act::Welcome), (Serving, none), (Leaving, none), (slow, none), (stuck, none), (Orphan, none)]),
            (Event::Retire, [(Absent, none), (Leaving, Act::AskToLeave), (Leaving, Act::AskToLeave), (Leaving, none), (slow, none), (stuck, none), (Orphan, none)]),
            (Event::Kill(KillReason::Request), [(Absent, none), (slow, Act::Kill), (slow, Act::Kill), (slow, Act::Kill), (slow, none), (stuck, none), (Orphan, none)]),
            (Event::Kill(KillReason::Boot), [(Absent, none), (stuck, Act::Kill), (stuck, Act::Kill), (stuck, Act::Kill), (slow, none), (stuck, none), (Orphan, none)]),
            (Event::ZygoteGone, [(Absent, none), (Orphan, none), (Orphan, none), (Orphan, none), (Orphan, none), (Orphan, none), (Orphan, none)]),
        ];
        for (event, answers) in rows {
            for (state, answer) in states.into_iter().zip(answers) {
                assert_eq!(step(state, event), answer, "{state:?} {event:?}");
            }
        }
        #[rustfmt::skip]
        let exits = [
            (Starting, BAD, Why::Exit(7), Fate::BootFailed),
            (Starting, SEGV, Why::Crash(11), Fate::BootFailed),
            (Starting, NO_BOOT, Why::Exit(EXIT_BOOT_FAILED), Fate::BootFailed),
            (Starting, RETIRED, Why::Exit(0), Fate::Expected),
            (Starting, STALE, Why::Stale, Fate::Expected),
            (Serving, BAD, Why::Exit(7), Fate::Lost),
            (Serving, SEGV, Why::Crash(11), Fate::Lost),
            (Serving, NO_BOOT, Why::Exit(EXIT_BOOT_FAILED), Fate::BootFailed),
            (Serving, RETIRED, Why::Exit(0), Fate::Expected),
            (Serving, STALE, Why::Stale, Fate::Expected),
            (Serving, Status::Code(EXIT_OUTDATED), Why::Exit(EXIT_OUTDATED), Fate::Expected),
            (Serving, Status::Code(EXIT_TAINTED), Why::Exit(EXIT_TAINTED), Fate::Expected),
            (Leaving, BAD, Why::Exit(7), Fate::Lost),
            (Leaving, SEGV, Why::Crash(11), Fate::Lost),
            (Leaving, RETIRED, Why::Exit(0), Fate::Expected),
            (slow, Status::Signal(9), Why::TimedOut, Fate::TimedOut),
            (slow, RETIRED, Why::TimedOut, Fate::TimedOut),
            (stuck, Status::Signal(9), Why::Crash(9), Fate::BootFailed),
            (Orphan, Status::Signal(9), Why::Crash(9), Fate::Orphaned),
            (Orphan, RETIRED, Why::Exit(0), Fate::Orphaned),
        ];
        for (state, status, why, fate) in exits {
            assert_eq!(
                step(state, Event::Exited(status)),
                (Absent, reap(why, fate)),
                "{state:?} {status}"
            );
        }
        assert_eq!(step(Absent, Event::Exited(BAD)), (Absent, none));
    }
}
