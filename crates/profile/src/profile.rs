//! What a profile holds.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// Which time is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// All time in which a request was under way.
    Wall,
    /// Time in which its worker ran or waited for a processor.
    Cpu,
}

impl Clock {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Wall => "wall time",
            Clock::Cpu => "CPU time",
        }
    }
}

/// What stands below the outermost call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The site.
    Site,
    /// The path of the request.
    Url,
    /// The process id of the worker.
    Worker,
}

impl By {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            By::Site => "sites",
            By::Url => "URLs",
            By::Worker => "workers",
        }
    }
}

/// A function, method or script.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// As PHP names it; empty: the code of a file outside all functions.
    pub name: String,
    /// Where it is defined; empty: in PHP itself.
    pub file: String,
    /// Its first line; 0: in PHP itself.
    pub line: u32,
}

impl Call {
    /// The name to show: closures all have the same, so it contains their file and line.
    pub fn label(&self) -> Cow<'_, str> {
        match self.name.strip_suffix("{closure}") {
            _ if self.name.is_empty() => Cow::Borrowed(&self.file),
            Some(before) => {
                let file = self.file.rsplit('/').next().unwrap_or_default();
                format!("{before}{{closure:{file}:{}}}", self.line).into()
            }
            None => Cow::Borrowed(&self.name),
        }
    }
}

/// How often a worker was seen with these calls under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The site's name.
    pub site: String,
    /// Process id of the worker.
    pub pid: u32,
    /// Path of the request.
    pub url: String,
    /// The outermost first; as numbers in [`Profile::calls`].
    pub calls: Vec<usize>,
    /// Samples.
    pub wall: u64,
    /// Those of them in which the worker ran.
    pub cpu: u64,
}

impl Sample {
    /// How many by this clock.
    pub fn count(&self, clock: Clock) -> u64 {
        match clock {
            Clock::Wall => self.wall,
            Clock::Cpu => self.cpu,
        }
    }

    /// What stands below the outermost call.
    pub fn root(&self, by: By) -> String {
        match by {
            By::Site => self.site.clone(),
            By::Url => self.url.clone(),
            By::Worker => format!("worker {}", self.pid),
        }
    }
}

/// Samples of one site or more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Time between two samples of a worker.
    pub period: Duration,
    /// All functions and scripts.
    pub calls: Vec<Call>,
    /// Each stack of each worker and URL.
    pub samples: Vec<Sample>,
    /// How often all workers were looked at.
    pub ticks: u64,
    /// Looks that were left out because the one before took too long, or the machine was busy.
    pub late: u64,
    /// Stacks that changed while they were read.
    pub torn: u64,
    /// Samples beyond what a profile holds.
    pub lost: u64,
    /// How long it was taken for, in times between two samples.
    pub periods: u64,
}

impl Profile {
    /// Adds the samples of another site.
    pub fn join(&mut self, other: Profile) {
        let before = self.calls.len();
        self.calls.extend(other.calls);
        self.samples.extend(other.samples.into_iter().map(|mut sample| {
            sample.calls.iter_mut().for_each(|call| *call += before);
            sample
        }));
        self.period = other.period;
        self.ticks += other.ticks;
        self.late += other.late;
        self.torn += other.torn;
        self.lost += other.lost;
        // The sites are sampled at the same time.
        self.periods = self.periods.max(other.periods);
    }

    /// All samples by this clock.
    pub fn total(&self, clock: Clock) -> u64 {
        self.samples.iter().map(|sample| sample.count(clock)).sum()
    }

    /// How long so many samples are, in nanoseconds.
    pub fn nanoseconds(&self, samples: u64) -> i64 {
        let nanoseconds = self.period.as_nanos().saturating_mul(samples.into());
        i64::try_from(nanoseconds).unwrap_or(i64::MAX)
    }

    /// The names of a sample's calls, the outermost first, below what they are sorted by.
    pub fn labels<'a>(&'a self, sample: &'a Sample, by: &[By]) -> Vec<Cow<'a, str>> {
        let roots = by.iter().map(|by| Cow::Owned(sample.root(*by)));
        let calls = sample.calls.iter().map(|call| self.calls[*call].label());
        let outside = sample.calls.is_empty().then_some(Cow::Borrowed(OUTSIDE));
        roots.chain(calls).chain(outside).collect()
    }
}

/// A request without a call: it begins or ends, or its first script is compiled.
pub const OUTSIDE: &str = "(no PHP call)";

/// The path of requests beyond the number of paths that a sampler keeps.
const OTHER_PATHS: &str = "(other paths)";

/// How good it is, in a line.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wall, cpu) = (self.total(Clock::Wall), self.total(Clock::Cpu));
        write!(f, "{wall} samples in {} looks, {cpu} of them on a processor", self.ticks)?;
        let is_other = |sample: &&Sample| sample.url == OTHER_PATHS;
        let other = self.samples.iter().filter(is_other).map(|sample| sample.wall).sum();
        let losses = [
            (self.late, "late"),
            (self.torn, "torn"),
            (self.lost, "lost"),
            (other, "of more paths than are told apart"),
        ];
        for (count, what) in losses.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        Ok(())
    }
}
