//! Why a request was not queued, or has no whole response.

use std::fmt;

use tokamak_cost::Phase;

/// Why a worker died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// It crashed or was killed.
    Crashed,
    /// It was ended because its request took too long.
    TimedOut,
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
    /// The phase that the time until then belongs to. Of a worker that gave no end, nobody knows
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
            WorkerError::Died { death: Death::TimedOut, .. } => {
                "the request took too long and its worker was ended"
            }
            WorkerError::Malformed => "the worker's response is damaged",
            WorkerError::Spool => "a spooled body could not be read back",
        })
    }
}

impl std::error::Error for WorkerError {}

impl WorkerError {
    /// Whether another worker may be given the request, if it does no harm to run twice: its own
    /// died by itself and had not begun to answer. Not if it was ended because the request took too
    /// long: the next one would take as long.
    pub fn allows_another(&self) -> bool {
        matches!(self, WorkerError::Died { death: Death::Crashed, answered: false })
    }
}
