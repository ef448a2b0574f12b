//! Why a request was not queued, or has no whole response.

use std::fmt;

use tokamak_cost::Phase;

/// Why a worker died, as one of its requests sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// It crashed or was killed.
    Crashed,
    /// The same, and of the requests that it may have at once this one ran.
    CrashedByIt,
    /// Another of its requests ran: that one crashed it, or took too long.
    EndedByAnother,
    /// It was ended because its request took too long.
    TimedOut,
}

impl Death {
    /// What the death is to one of the requests that the worker had. `is_running`: whether it was
    /// this one that ran, if the worker may have several.
    pub(super) fn as_seen_by(self, is_running: Option<bool>, is_overdue: bool) -> Death {
        match (self, is_running) {
            (Death::Crashed, Some(true)) => Death::CrashedByIt,
            (Death::Crashed, Some(false)) => Death::EndedByAnother,
            (Death::TimedOut, Some(false)) if !is_overdue => Death::EndedByAnother,
            _ => self,
        }
    }
}

/// Why a request has no response, or only a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerError {
    /// No worker was free in time; nothing has run.
    Waited,
    /// No worker lives, and none boots; nothing has run.
    Barren,
    /// The worker died.
    Died {
        /// How.
        death: Death,
        /// Whether it had published a part of the response.
        answered: bool,
    },
    /// What the worker wrote is no response.
    Malformed,
    /// A body could not be read back from its spool file.
    Spool,
}

/// Why a request was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full.
    Full,
    /// The request's head does not fit a slot.
    TooLarge,
    /// No worker lives, and none boots.
    Barren,
}

impl WorkerError {
    /// The phase that the time until then belongs to. Of a worker that gave no end, it is not known
    /// when it took the request, so its wait is in its phase.
    pub fn phase(&self) -> Phase {
        match self {
            WorkerError::Waited | WorkerError::Barren => Phase::Queue,
            WorkerError::Died { .. } | WorkerError::Malformed | WorkerError::Spool => Phase::Php,
        }
    }
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorkerError::Waited => "no worker was free in time",
            WorkerError::Barren => "no worker is left, and none boots; the reason stands above",
            WorkerError::Died { death: Death::Crashed, .. } => "the worker died",
            WorkerError::Died { death: Death::CrashedByIt, .. } => {
                "the worker died while it ran the request"
            }
            WorkerError::Died { death: Death::EndedByAnother, .. } => {
                "the worker died of another request, beside which it had this one"
            }
            WorkerError::Died { death: Death::TimedOut, .. } => {
                "the request took too long and its worker was ended"
            }
            WorkerError::Malformed => "the worker's response is damaged",
            WorkerError::Spool => "a spooled body could not be read back",
        })
    }
}

impl std::error::Error for WorkerError {}

/// How often a request is given to another worker if its own die of others. With one, two requests
/// that crash would be enough to fail it; with ten times more, a worker that is wrong about which
/// request it runs would be followed by dozens.
const BYSTANDER: u32 = 3;

impl WorkerError {
    /// How often the request may be given to another worker, if it does no harm to run twice: its
    /// own died by itself and had not begun to answer. Not if it was ended because the request took
    /// too long: the next one would take as long. Nor if it died of this request, which would take
    /// those with it that the next worker has.
    pub fn repeats(&self) -> u32 {
        match self {
            WorkerError::Died { death: Death::Crashed, answered: false } => 1,
            WorkerError::Died { death: Death::EndedByAnother, answered: false } => BYSTANDER,
            _ => 0,
        }
    }
}
