//! How a site gets other processes while its generation goes on: a second pool starts beside the
//! one that serves, takes over the traffic, and the first one ends when it has answered what it
//! has.
//!
//! ```text
//!   Next ──up──► Serving ──the next one is up──► Leaving ──left, or late──► Ending ──► gone
//!    │ fails, or late                                                          ▲
//!    └─────────────────────────────────────────────────────────────────────────┘
//! ```

use std::time::Duration;

use crate::watch::since;

/// Time that processes have for ending after their deadline.
pub const END_LIMIT: Duration = Duration::from_secs(3);

/// What a pool is for its site; with the time since when, where a limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It starts beside the serving pool.
    Next(u64),
    /// New requests go to it.
    Serving,
    /// It answers what it has.
    Leaving(u64),
    /// Its processes are told to end, until then at most.
    Ending(u64),
}

/// What is seen of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolState<'a> {
    /// All the workers of its start are there.
    pub is_up: bool,
    /// Why a process could not start.
    pub failure: Option<&'a str>,
    /// The front has no request in it any more.
    pub has_left: bool,
    /// No process is left.
    pub is_gone: bool,
}

/// The time that a pool has.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For starting.
    pub start: Duration,
    /// For answering what it has.
    pub drain: Duration,
}

/// What is to be done with a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing now.
    Nothing,
    /// It replaces the serving pool.
    TakeOver,
    /// It will not come up: why.
    GiveUp(String),
    /// Its processes are told to end.
    End,
    /// They are ended.
    Kill,
    /// It is forgotten.
    Forget,
}

/// The next action.
pub fn decide(role: Role, seen: PoolState<'_>, limits: Limits, now: u64) -> Action {
    match role {
        Role::Next(_) if seen.is_up => Action::TakeOver,
        Role::Next(begun) => match seen.failure {
            Some(why) => Action::GiveUp(why.to_owned()),
            None if since(begun, now) > limits.start => {
                Action::GiveUp(format!("not ready within {} s", limits.start.as_secs()))
            }
            None => Action::Nothing,
        },
        Role::Serving => Action::Nothing,
        Role::Leaving(from) if seen.has_left || since(from, now) > limits.drain => Action::End,
        Role::Leaving(_) => Action::Nothing,
        Role::Ending(_) if seen.is_gone => Action::Forget,
        Role::Ending(deadline) if since(deadline, now) > END_LIMIT => Action::Kill,
        Role::Ending(_) => Action::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn table() {
        let limits = Limits { start: Duration::from_secs(60), drain: Duration::from_secs(30) };
        let none = PoolState::default();
        let up = PoolState { is_up: true, ..none };
        let failed = PoolState { failure: Some("no boot"), ..none };
        let left = PoolState { has_left: true, ..none };
        let gone = PoolState { is_gone: true, ..none };
        let give_up = |why: &str| Action::GiveUp(why.to_owned());
        for (role, seen, seconds, action) in [
            (Role::Next(0), none, 1, Action::Nothing),
            (Role::Next(0), up, 1, Action::TakeOver),
            (Role::Next(0), PoolState { failure: Some("one of many"), ..up }, 1, Action::TakeOver),
            (Role::Next(0), failed, 1, give_up("no boot")),
            (Role::Next(0), none, 61, give_up("not ready within 60 s")),
            // A failure of the serving pool is handled by that pool itself.
            (Role::Serving, failed, 1000, Action::Nothing),
            (Role::Serving, gone, 1000, Action::Nothing),
            (Role::Leaving(0), none, 30, Action::Nothing),
            (Role::Leaving(0), gone, 1, Action::Nothing), // it starts processes again for what waits
            (Role::Leaving(0), left, 1, Action::End),
            (Role::Leaving(0), none, 31, Action::End),
            (Role::Ending(5 * SECOND), none, 8, Action::Nothing),
            (Role::Ending(5 * SECOND), none, 9, Action::Kill),
            (Role::Ending(5 * SECOND), gone, 1, Action::Forget),
        ] {
            assert_eq!(
                decide(role, seen, limits, seconds * SECOND),
                action,
                "{role:?} {seen:?} {seconds}"
            );
        }
    }
}
