//! What goes wrong in a schedule, and when: drawn from the seed before it begins, so that a failure
//! can be reported with fewer faults.

use crate::random::Random;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;

/// Longer than any schedule.
pub const FOR_EVER: u64 = 1_000_000 * SECOND;

/// Something that goes wrong. Times are nanoseconds for which it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A worker is killed.
    KillWorker,
    /// A zygote is killed.
    KillZygote,
    /// A front is killed.
    KillFront,
    /// A worker is stopped.
    StopWorker(u64),
    /// A zygote is stopped.
    StopZygote(u64),
    /// A front is stopped.
    StopFront(u64),
    /// The supervisor is stopped.
    StopSupervisor(u64),
    /// An event loop does not turn, its front does.
    SpinLoop(u64),
    /// The machine is suspended: all clocks go on by so much, and no process runs meanwhile.
    Jump(u64),
    /// Another configuration is to be served.
    Reload,
    /// A worker writes anywhere into its queue.
    Garbage,
    /// The application does not boot.
    Broken(u64),
    /// What the application does in this time: workers crash in the middle of requests.
    Crashes(u64),
    /// Requests that never end.
    Hangs(u64),
    /// The image is outdated.
    Outdated,
    /// Words of the front are lost, as on a full line.
    Deaf(u64),
    /// No process can be started.
    Barren(u64),
    /// Many requests at once.
    Burst,
}

impl Fault {
    /// Whether what it breaks shows by itself. A process that is stopped, a loop that spins, and
    /// what is wrong in a queue have to be noticed.
    pub fn shows(self) -> bool {
        use Fault::{Garbage, Outdated, SpinLoop, StopFront, StopWorker, StopZygote};
        let hides = matches!(self, StopWorker(_) | StopZygote(_) | StopFront(_) | SpinLoop(_));
        !hides && !matches!(self, Garbage | Outdated)
    }
}

/// Faults by time.
pub type FaultSchedule = Vec<(u64, Fault)>;

fn lasting(random: &mut Random) -> u64 {
    match random.below(10) {
        0..=5 => random.between(MILLI, 300 * MILLI),
        6..=8 => random.between(300 * MILLI, 8 * SECOND),
        _ => FOR_EVER,
    }
}

fn passing(random: &mut Random) -> u64 {
    match random.below(3) {
        0 | 1 => random.between(MILLI, 300 * MILLI),
        _ => random.between(300 * MILLI, 4 * SECOND),
    }
}

fn fault(kind: u64, random: &mut Random) -> Fault {
    match kind {
        0 => Fault::KillWorker,
        1 => Fault::KillZygote,
        2 => Fault::KillFront,
        3 => Fault::StopWorker(lasting(random)),
        4 => Fault::StopZygote(lasting(random)),
        5 => Fault::StopFront(lasting(random)),
        6 => Fault::StopSupervisor(passing(random)),
        7 => Fault::SpinLoop(lasting(random)),
        8 => Fault::Jump(random.between(MILLI, 30 * SECOND)),
        9 => Fault::Reload,
        10 => Fault::Garbage,
        11 => Fault::Broken(passing(random)),
        12 => Fault::Crashes(passing(random)),
        13 => Fault::Hangs(passing(random)),
        14 => Fault::Outdated,
        15 => Fault::Deaf(passing(random)),
        16 => Fault::Barren(passing(random)),
        _ => Fault::Burst,
    }
}

/// Kinds of faults.
const KINDS: u64 = 18;

/// The faults of a seed, between `begin` and `end`. Each schedule has a few kinds of them only, so
/// that some see one kind undisturbed.
pub fn draw(random: &mut Random, begin: u64, end: u64) -> FaultSchedule {
    let kinds: Vec<u64> = (0..random.between(1, 4)).map(|_| random.below(KINDS)).collect();
    let count = random.between(1, 10);
    let mut faults: FaultSchedule = (0..count)
        .map(|_| {
            let kind = random.pick(&kinds);
            (random.between(begin, end), fault(kind, random))
        })
        .collect();
    faults.sort_by_key(|(at, _)| *at);
    faults
}
