//! A pool's zygote as the supervisor sees it: a child that forks the workers, started again when it
//! dies.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokamak_sys::control::{FromZygote, Heard, ToZygote};
use tokamak_sys::process::Identity;

use crate::endpoint::Endpoint;
use crate::liveness::{ASK_EVERY, ASK_IDLE_EVERY, Liveness};
use crate::means::{Means, Process, ZygoteStart};
use crate::storm::Storm;
use crate::watch::since;

/// Time that a zygote has for module start-up, and for ending.
pub const LIMIT: Duration = Duration::from_secs(30);
/// A start that takes longer is logged, because the site may not be served meanwhile.
pub const SLOW: Duration = Duration::from_secs(10);
/// A zygote that has lived so long after module start-up ends a storm of dying ones.
const PROOF: Duration = Duration::from_secs(10);

/// How a zygote is started.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// What starts it.
    pub means: &'a dyn Means,
    /// The user it runs as.
    pub identity: Option<&'a Identity>,
}

/// What has to be done with a zygote after a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// Start one.
    Start,
    /// Its start takes long; said once.
    Slow,
    /// It was killed: its start took too long.
    Late,
}

/// A pool's zygote, or the place for one.
#[derive(Debug, Default)]
pub struct Zygote {
    life: Life,
    storm: Storm,
    is_slow: bool,
    has_failed: bool,
    is_unsealable: bool,
    liveness: Liveness,
    asked: u64,
    /// Whether it has said nothing since it was asked.
    owes_answer: bool,
}

#[derive(Debug, Default)]
enum Life {
    /// None; another is started when the storm allows.
    #[default]
    Down,
    /// Module start-up is under way, and in sealed mode the application's boot.
    Starting(Box<dyn Process>, Endpoint, u64),
    /// It forks workers, since then.
    Ready(Box<dyn Process>, Endpoint, u64),
    /// It was told to end, or killed.
    Ending(Box<dyn Process>, u64),
}

impl Zygote {
    /// Starts one, which must not be there.
    ///
    /// # Errors
    /// Fails if it cannot be started. Another attempt is due when [`Zygote::tick`] says so.
    pub fn start(&mut self, means: &dyn Means, start: ZygoteStart<'_>, now: u64) -> io::Result<()> {
        match means.zygote(start) {
            Ok((child, wire)) => {
                self.life = Life::Starting(child, Endpoint::over(wire), now);
                (self.is_slow, self.has_failed, self.liveness) =
                    (false, false, Liveness::default());
                (self.is_unsealable, self.owes_answer) = (false, false);
                Ok(())
            }
            Err(error) => {
                self.storm.failed(now);
                Err(error)
            }
        }
    }

    /// The line, if there is somebody to listen to.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match &self.life {
            Life::Starting(_, endpoint, _) | Life::Ready(_, endpoint, _) => Some(endpoint),
            Life::Down | Life::Ending(..) => None,
        }
    }

    fn endpoint_mut(&mut self) -> Option<&mut Endpoint> {
        match &mut self.life {
            Life::Starting(_, endpoint, _) | Life::Ready(_, endpoint, _) => Some(endpoint),
            Life::Down | Life::Ending(..) => None,
        }
    }

    /// Whether it can fork workers.
    pub fn is_ready(&self) -> bool {
        matches!(self.life, Life::Ready(..))
    }

    /// Failures in a row; none while it can fork workers.
    pub fn failures(&self) -> u32 {
        if self.is_ready() { 0 } else { self.storm.failures() }
    }

    /// Whether no process is there.
    pub fn is_down(&self) -> bool {
        matches!(self.life, Life::Down)
    }

    /// Whether it has said why it ends.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether it has said that no image can be taken.
    pub fn is_unsealable(&self) -> bool {
        self.is_unsealable
    }

    /// Whether this process is it.
    pub fn is(&self, pid: u32) -> bool {
        self.pid() == Some(pid)
    }

    /// Its process id, if it is there.
    pub fn pid(&self) -> Option<u32> {
        match &self.life {
            Life::Down => None,
            Life::Starting(child, ..) | Life::Ready(child, ..) | Life::Ending(child, _) => {
                Some(child.id())
            }
        }
    }

    /// Its next word, if it has said one.
    ///
    /// # Errors
    /// Fails if its message is invalid; it is killed then.
    pub fn receive(&mut self, now: u64) -> io::Result<Option<(FromZygote, Vec<OwnedFd>)>> {
        let Some(endpoint) = self.endpoint() else { return Ok(None) };
        match endpoint.receive() {
            Ok(Heard::Message(message, fds)) => {
                self.liveness.sign_of_life();
                self.owes_answer = false;
                self.life = match (std::mem::take(&mut self.life), &message) {
                    (Life::Starting(child, endpoint, _), FromZygote::Ready { .. }) => {
                        Life::Ready(child, endpoint, now)
                    }
                    (
                        Life::Starting(child, ..) | Life::Ready(child, ..),
                        FromZygote::Failed { .. },
                    ) => {
                        self.has_failed = true;
                        Life::Ending(child, now)
                    }
                    (Life::Starting(child, ..), FromZygote::Unsealable { .. }) => {
                        // Its end is no failure: the next one starts at once.
                        self.is_unsealable = true;
                        Life::Ending(child, now)
                    }
                    (other, _) => other,
                };
                Ok(Some((message, fds)))
            }
            Ok(Heard::Nothing) => Ok(None),
            // Its exit status comes when it is reaped; until then there is nothing to read.
            Ok(Heard::Closed) => {
                self.kill(now);
                Ok(None)
            }
            Err(error) => {
                self.kill(now);
                Err(error)
            }
        }
    }

    /// Whether a ready zygote has given no sign of life for longer than `limit`, if there is
    /// one. Asks it for one now and then; seldom while its pool `is_idle`.
    pub fn is_still(&mut self, limit: Duration, is_idle: bool, now: u64) -> bool {
        if limit.is_zero() || !self.is_ready() {
            return false;
        }
        if !self.owes_answer {
            self.liveness.sign_of_life();
        }
        let pause = if is_idle { ASK_IDLE_EVERY } else { ASK_EVERY };
        if since(self.asked, now) > pause {
            (self.asked, self.owes_answer) = (now, true);
            // A zygote that does not read is killed.
            let _ = self.send(Some(&ToZygote::Ask), Vec::new(), now);
        }
        self.liveness.is_still(limit, now)
    }

    /// Sends it a message with these descriptors, or what waits. A zygote that is gone or does not
    /// read is killed.
    ///
    /// # Errors
    /// Fails if it does not read.
    pub fn send(
        &mut self,
        message: Option<&ToZygote>,
        fds: Vec<OwnedFd>,
        now: u64,
    ) -> io::Result<()> {
        let Some(endpoint) = self.endpoint_mut() else { return Ok(()) };
        let sent = match message {
            Some(message) => endpoint.send(message, fds),
            None => endpoint.flush(),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(error) => {
                self.kill(now);
                // A broken channel needs no message: the supervisor reaps the zygote.
                if error.kind() == io::ErrorKind::TimedOut { Err(error) } else { Ok(()) }
            }
        }
    }

    /// Kills it, if it is there.
    pub fn kill(&mut self, now: u64) {
        self.life = match std::mem::take(&mut self.life) {
            Life::Starting(child, ..) | Life::Ready(child, ..) => {
                child.kill();
                Life::Ending(child, now)
            }
            Life::Ending(child, asked) => {
                child.kill();
                Life::Ending(child, asked)
            }
            Life::Down => Life::Down,
        };
    }

    /// Lets it end its workers and itself.
    pub fn quit(&mut self, now: u64) {
        // It has no workers yet, and would not listen before it has booted the application.
        if matches!(self.life, Life::Starting(..)) {
            return self.kill(now);
        }
        // A line that cannot take it closes below, which says the same.
        let _ = self.send(Some(&ToZygote::Quit), Vec::new(), now);
        self.life = match std::mem::take(&mut self.life) {
            Life::Ready(child, ..) => Life::Ending(child, now),
            other => other,
        };
    }

    /// It has been reaped, unwanted or not; answers the time until the next attempt.
    pub fn exited(&mut self, now: u64) -> Duration {
        self.life = Life::Down;
        if self.is_unsealable {
            return Duration::ZERO;
        }
        self.storm.failed(now).unwrap_or_default()
    }

    /// Whether its start takes long.
    pub fn starts_slowly(&self, now: u64) -> bool {
        matches!(&self.life, Life::Starting(_, _, begun) if since(*begun, now) > SLOW)
    }

    /// Looks whether something is due. A start may take up to `limit`.
    pub fn tick(&mut self, limit: Duration, now: u64) -> Need {
        match &self.life {
            Life::Down if self.storm.allowed(1, 0, now) > 0 => return Need::Start,
            Life::Starting(_, _, begun) if since(*begun, now) > limit => {
                self.kill(now);
                return Need::Late;
            }
            Life::Starting(..) if self.starts_slowly(now) && !self.is_slow => {
                self.is_slow = true;
                return Need::Slow;
            }
            Life::Ready(_, _, begun) if since(*begun, now) > PROOF => self.storm.over(),
            Life::Ending(child, asked) if since(*asked, now) > LIMIT => child.kill(),
            _ => {}
        }
        Need::Nothing
    }
}
