//! The seal report: what an application leaves behind between two requests. Without it a leak of a
//! long-lived worker is found by its visitors.
//!
//! It runs the same requests in worker mode, where everything stays, and in sealed mode, where
//! nothing may. [`compare`] decides, from listings alone; the rest drives a real worker and prints.

pub mod boot_reads;
pub mod compare;
mod drive;
pub mod listing;
mod print;
mod process;

use std::fmt;
use std::path::Path;

use tokamak_config::{Mode, Reset, Site};

use boot_reads::{BootRead, boot_reads};
use compare::{Finding, Verdict};
use drive::Application;
use listing::Listing;

pub use print::{json, table};

/// Rounds before the look begins, in which caches fill. Fewer would report caches that fill on the
/// second request; each further one costs a request, so ten times more would make the report slow.
const WARM_UP: usize = 3;

/// What to run.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The worker program.
    pub php: &'a Path,
    /// The application; its worker script is what is run.
    pub site: &'a Site,
    /// Targets that are requested in each round.
    pub targets: &'a [String],
    /// Rounds that are looked at.
    pub rounds: usize,
}

/// Why there is no report.
#[derive(Debug)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// What one mode showed.
#[derive(Debug)]
pub struct Run {
    /// What was found.
    pub findings: Vec<Finding>,
    /// Values and other things that the last listing names.
    pub nodes: usize,
    /// Nanoseconds of CPU time a request.
    pub cpu: u64,
    /// Bytes of memory that a second worker would have too.
    pub private: u64,
    /// Bytes of PHP's heap after the first and after the last look.
    pub heap: (u64, u64),
    /// Targets that were answered with an error, and the status.
    pub errors: Vec<(String, u16)>,
}

/// The comparison of both modes.
#[derive(Debug)]
pub struct Report {
    /// Rounds that were looked at.
    pub rounds: usize,
    /// Targets of a round.
    pub targets: Vec<String>,
    /// Where the boot read what another visitor would find otherwise.
    pub read_before_image: Vec<BootRead>,
    /// Worker mode, with every reset off.
    pub worker: Run,
    /// Sealed mode; or why it cannot be used.
    pub sealed: Result<Run, String>,
    /// What is in the image, the same for every visitor, and another one at each boot.
    pub frozen: Vec<Finding>,
}

impl Report {
    /// Whether anything is wrong: foreign, or growing, or left behind in sealed mode, or drawn by a
    /// warm-up request for all visitors.
    pub fn has_leaks(&self) -> bool {
        let leaks = |finding: &Finding| {
            matches!(finding.verdict, Verdict::Foreign | Verdict::Grows | Verdict::FrozenByWarmUp)
        };
        self.worker.findings.iter().any(leaks)
            || self.frozen.iter().any(leaks)
            || self.sealed.as_ref().is_ok_and(|sealed| !sealed.findings.is_empty())
    }
}

/// Runs the application in both modes.
///
/// # Errors
/// Fails if it does not boot in worker mode, or ends in the middle.
pub fn run(plan: &Plan<'_>) -> Result<Report, Failure> {
    let looked = look(plan, Mode::Worker)?;
    let plain = looked.before.clone();
    let read_before_image = boot_reads(&plain);
    let findings = compare::leaks(&looked.before, &looked.rounds, plan.targets.len());
    let worker = looked.into_run(findings);
    let mut frozen = Vec::new();
    let sealed = match look(plan, Mode::Sealed) {
        Ok(looked) if !looked.rounds.iter().all(Listing::is_sealed) => {
            Err("no image can be taken; the reason is in the log above".to_owned())
        }
        Ok(looked) => {
            let plain_again = boot(plan, Mode::Worker)?.state()?;
            let warmed_again = boot(plan, Mode::Sealed)?.state()?;
            frozen = compare::frozen([&plain, &plain_again], [&looked.before, &warmed_again]);
            let findings = compare::differences(&looked.rounds);
            Ok(looked.into_run(findings))
        }
        Err(why) => Err(why.to_string()),
    };
    Ok(Report {
        rounds: plan.rounds,
        targets: plan.targets.to_vec(),
        read_before_image,
        worker,
        sealed,
        frozen,
    })
}

/// What was seen of one mode, before it is judged.
struct Looked {
    before: Listing,
    rounds: Vec<Listing>,
    cpu: u64,
    private: u64,
    errors: Vec<(String, u16)>,
}

impl Looked {
    fn into_run(self, findings: Vec<Finding>) -> Run {
        let heap = |listing: Option<&Listing>| listing.map_or(0, Listing::heap);
        Run {
            findings,
            nodes: self.rounds.last().map_or(0, Listing::len),
            cpu: self.cpu,
            private: self.private,
            heap: (heap(self.rounds.first()), heap(self.rounds.last())),
            errors: self.errors,
        }
    }
}

/// Boots the application; in sealed mode warmed up, with the targets if the site names no others.
fn boot(plan: &Plan<'_>, mode: Mode) -> Result<Application, Failure> {
    let mut site = plan.site.clone();
    site.mode = mode;
    site.pool.max_requests = 0;
    // What Tokamak would put back, other servers' worker modes leave.
    site.keep = Reset::ALL.to_vec();
    match mode {
        Mode::Sealed if site.warm.is_empty() => site.warm = plan.targets.to_vec(),
        Mode::Sealed => {}
        Mode::Classic | Mode::Worker | Mode::Fastcgi => site.warm.clear(),
    }
    Application::start(plan.php, &site)
}

fn look(plan: &Plan<'_>, mode: Mode) -> Result<Looked, Failure> {
    let mut application = boot(plan, mode)?;
    let before = application.state()?;
    let mut rounds = Vec::new();
    let mut errors = Vec::new();
    for nth in 0..WARM_UP + plan.rounds {
        for target in plan.targets {
            let status = application.get(target)?;
            if status >= 400 && !errors.iter().any(|(known, _)| known == target) {
                errors.push((target.clone(), status));
            }
        }
        if nth >= WARM_UP {
            rounds.push(application.state()?);
        }
    }
    let begun = application.cpu();
    for _ in 0..plan.rounds {
        for target in plan.targets {
            application.get(target)?;
        }
    }
    let requests = (plan.rounds * plan.targets.len()).max(1) as u64;
    let cpu = application.cpu().saturating_sub(begun) / requests;
    Ok(Looked { before, rounds, cpu, private: process::private(application.pid()), errors })
}
