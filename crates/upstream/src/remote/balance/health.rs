//! Whether an address is to be asked: what requests to it and checks of it have shown. A state and
//! events, without clock and sockets.
//!
//! ```text
//!           failures in the window, or no connection          the pause is over, and a request comes
//!   Up ────────────────────────────────────────────────► Out ───────────────────────────────────────► Trial
//!    ▲                                                    ▲                                            │ │
//!    │                                                    └──────────── it fails: a longer pause ──────┘ │
//!    └────────────────────────────────────── any answer ────────────────────────────────────────────────┘
//! ```
//!
//! Beside that stands what the checks say: an address that they find down is out until they find it
//! up.

use std::time::Duration;

/// Longest pause. An address that has come back is used after a minute at most; ten times more
/// would leave it idle for ten minutes. A tenth would cost a request to a dead address every six
/// seconds, for each address.
const LONGEST: Duration = Duration::from_secs(60);

/// When an address is left out, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// So many failures within the window; 0: never.
    pub failures: u32,
    /// The window.
    pub window: Duration,
    /// The first pause; each further one is twice as long.
    pub pause: Duration,
    /// Good checks in a row that bring it back.
    pub rise: u32,
    /// Bad checks in a row that take it out.
    pub fall: u32,
}

/// Where an address stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// It is asked.
    Up,
    /// It is left out until then.
    Out {
        /// Nanoseconds.
        until: u64,
    },
    /// One request tries whether it answers again.
    Trial,
    /// The checks found it down.
    Down,
}

/// How bad a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// No process listens there: the next request would fail too.
    Unreachable,
    /// A request got no answer; the next one might.
    Unanswered,
}

/// What is known about one address. Times in nanoseconds.
#[derive(Debug)]
pub struct Health {
    rules: Rules,
    state: HealthState,
    /// Since when the state is what it is.
    since: u64,
    /// The window's start, and failures in it.
    window: (u64, u32),
    /// Pauses without an answer between them.
    pauses: u32,
    /// What the checks say, and how many in a row said otherwise.
    checked: (bool, u32),
}

impl Health {
    /// Of an address of which nothing is known: it is asked.
    pub fn new(rules: Rules, now: u64) -> Health {
        Health {
            rules,
            state: HealthState::Up,
            since: now,
            window: (now, 0),
            pauses: 0,
            checked: (true, 0),
        }
    }

    /// Where it stands, and since when.
    pub fn state(&self) -> (HealthState, u64) {
        if self.checked.0 { (self.state, self.since) } else { (HealthState::Down, self.since) }
    }

    /// From when on it may be asked: 0 for now, `u64::MAX` for when something else has happened.
    pub fn due(&self) -> u64 {
        match self.state().0 {
            HealthState::Up => 0,
            HealthState::Out { until } => until,
            HealthState::Trial | HealthState::Down => u64::MAX,
        }
    }

    /// Whether a request may go there, which is then on its way.
    pub fn admit(&mut self, now: u64) -> bool {
        let is_due = self.due() <= now;
        if is_due && self.state != HealthState::Up {
            self.enter(HealthState::Trial, now);
        }
        is_due
    }

    /// A request was answered; `true` if that is news.
    pub fn succeeded(&mut self, now: u64) -> bool {
        let was_out = self.state != HealthState::Up;
        if was_out {
            self.pauses = 0;
            self.window = (now, 0);
            self.enter(HealthState::Up, now);
        }
        was_out
    }

    /// A request failed. Gives the pause if the address is left out from now on.
    pub fn failed(&mut self, severity: Severity, now: u64) -> Option<Duration> {
        if self.rules.failures == 0 {
            return None;
        }
        if now.saturating_sub(self.window.0) > nanos(self.rules.window) {
            self.window = (now, 0);
        }
        self.window.1 += 1;
        let is_enough = severity == Severity::Unreachable || self.window.1 >= self.rules.failures;
        match self.state {
            HealthState::Trial => Some(self.pause(now)),
            HealthState::Up if is_enough => Some(self.pause(now)),
            _ => None,
        }
    }

    /// The request that was to try it has ended without showing anything: the next one tries.
    pub fn trial_abandoned(&mut self, now: u64) {
        if self.state == HealthState::Trial {
            self.enter(HealthState::Out { until: now }, now);
        }
    }

    /// A check has been made; `Some` if the address comes back or is left out for it. A good one
    /// ends a pause, too.
    pub fn checked(&mut self, is_good: bool, now: u64) -> Option<bool> {
        let (is_up, others) = &mut self.checked;
        if is_good == *is_up {
            *others = 0;
            return (is_good && self.succeeded(now)).then_some(true);
        }
        *others += 1;
        if *others < if is_good { self.rules.rise } else { self.rules.fall } {
            return None;
        }
        self.checked = (is_good, 0);
        self.since = now;
        if is_good {
            self.succeeded(now);
        }
        Some(is_good)
    }

    fn pause(&mut self, now: u64) -> Duration {
        let pause = self.rules.pause.saturating_mul(1 << self.pauses.min(16)).min(LONGEST);
        self.pauses += 1;
        self.window = (now, 0);
        self.enter(HealthState::Out { until: now + nanos(pause) }, now);
        pause
    }

    fn enter(&mut self, state: HealthState, now: u64) {
        // A trial counts as a part of the time out.
        if (self.state == HealthState::Up) != (state == HealthState::Up) {
            self.since = now;
        }
        self.state = state;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
