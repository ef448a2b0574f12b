//! The seal report: what an application leaves behind between two requests. Without it a leak of a
//! long-lived worker is found by its visitors.
//!
//! It runs the same requests in worker mode, where everything stays, and in sealed mode, where
//! nothing may. [`compare`] decides, from listings alone; the rest drives a real worker and prints.

pub mod boot_reads;
pub mod compare;
mod drive;
pub mod listing;
pub mod memory;
mod print;
mod process;
pub mod stale;

use std::fmt;
use std::path::Path;

use tokamak_config::{Mode, Reset, Site};

use boot_reads::{BootRead, boot_reads, held_connections};
use compare::{Finding, Plain, Verdict};
use drive::Application;
use listing::Listing;
use stale::Stale;

pub use print::{json, table};

/// Rounds before the look begins, in which caches fill. Fewer would report caches that fill on the
/// second request; each further one costs a request, so ten times more would make the report slow.
const WARM_UP: usize = 3;

/// What to run.
#[derive(Debug)]
pub struct SealTest<'a> {
    /// The worker program.
    pub php: &'a Path,
    /// The application: its worker script is what is run, or its boot script and then what the
    /// targets lead to.
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
    /// Who of the boot holds a persistent connection, which requests in sealed mode find closed.
    pub held_connections: Vec<String>,
    /// Worker mode, with every reset off; [`None`]: a boot script runs in sealed mode only.
    pub worker: Option<Run>,
    /// Sealed mode; or why it cannot be used.
    pub sealed: Result<Run, String>,
    /// Targets that in sealed mode are answered as a warm-up request was.
    pub stale: Vec<Stale>,
    /// What is in the image, the same for every visitor, and another one at each boot.
    pub frozen: Vec<Finding>,
}

impl Report {
    /// Whether anything is wrong: foreign, or growing, or left behind in sealed mode, or drawn or
    /// answered by a warm-up request for all visitors.
    pub fn has_leaks(&self) -> bool {
        let leaks = |finding: &Finding| {
            matches!(finding.verdict, Verdict::Foreign | Verdict::Grows | Verdict::FrozenByWarmUp)
        };
        self.worker.iter().flat_map(|worker| &worker.findings).any(leaks)
            || self.frozen.iter().any(leaks)
            || !self.stale.is_empty()
            || !self.held_connections.is_empty()
            || self.sealed.as_ref().is_ok_and(|sealed| !sealed.findings.is_empty())
    }
}

/// Runs the application in both modes; with a boot script in sealed mode.
///
/// # Errors
/// Fails if it does not boot, or ends in the middle.
pub fn run(test: &SealTest<'_>) -> Result<Report, Failure> {
    if test.site.boot.is_some() { run_boot(test) } else { run_worker(test) }
}

fn run_worker(test: &SealTest<'_>) -> Result<Report, Failure> {
    let looked = look(test, Mode::Worker)?;
    let plain = looked.before.clone();
    let findings = compare::leaks(&looked.before, &looked.rounds, test.targets.len());
    let mut report = Report {
        rounds: test.rounds,
        targets: test.targets.to_vec(),
        read_before_image: boot_reads(&plain),
        held_connections: Vec::new(),
        worker: Some(looked.into_run(findings)),
        sealed: Err(String::new()),
        stale: Vec::new(),
        frozen: Vec::new(),
    };
    match look(test, Mode::Sealed) {
        Ok(looked) => {
            report.held_connections = held_connections(&looked.before);
            let (plain_again, played) = play_warm_up(test)?;
            let mut warmed = boot(test, Mode::Sealed)?;
            let warmed_again = warmed.state()?;
            let (site, warm) = (site(test, Mode::Sealed), warm(test));
            let mut unwarmed = Application::start(test.php, &Site { warm: Vec::new(), ..site })?;
            report.stale = stale::stale(test.targets, warm, &mut warmed, &mut unwarmed)?;
            let plain = Plain { boots: [&plain, &plain_again], played: &played };
            report.frozen = compare::frozen(&plain, [&looked.before, &warmed_again]);
            let findings = compare::differences(&looked.rounds);
            report.sealed = Ok(looked.into_run(findings));
        }
        Err(why) => report.sealed = Err(why.to_string()),
    }
    Ok(report)
}

/// Warm-up requests of a boot script run in copies of the process, so that nothing but the boot is
/// in the image.
fn run_boot(test: &SealTest<'_>) -> Result<Report, Failure> {
    let looked = look(test, Mode::Sealed)?;
    let again = boot(test, Mode::Sealed)?.state()?;
    let boots = [&looked.before, &again];
    let plain = Plain { boots, played: &again };
    Ok(Report {
        rounds: test.rounds,
        targets: test.targets.to_vec(),
        read_before_image: boot_reads(&looked.before),
        held_connections: held_connections(&looked.before),
        worker: None,
        stale: Vec::new(),
        frozen: compare::frozen(&plain, boots),
        sealed: {
            let findings = compare::differences(&looked.rounds);
            Ok(looked.into_run(findings))
        },
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

/// What the image is warmed up with: the targets, if the site names no others.
fn warm<'a>(test: &'a SealTest<'_>) -> &'a [String] {
    if test.site.warm.is_empty() { test.targets } else { &test.site.warm }
}

/// The site as it is run: in sealed mode warmed up.
fn site(test: &SealTest<'_>, mode: Mode) -> Site {
    let mut site = test.site.clone();
    site.mode = mode;
    site.pool.max_requests = 0;
    // What Tokamak would put back, other servers' worker modes leave.
    site.keep = Reset::ALL.to_vec();
    site.warm = match mode {
        Mode::Sealed => warm(test).to_vec(),
        Mode::Classic | Mode::Worker | Mode::Async | Mode::Fastcgi => Vec::new(),
    };
    site
}

fn boot(test: &SealTest<'_>, mode: Mode) -> Result<Application, Failure> {
    Application::start(test.php, &site(test, mode))
}

/// A boot without warm-up: what is there before any request, and after those of the warm-up.
fn play_warm_up(test: &SealTest<'_>) -> Result<(Listing, Listing), Failure> {
    let mut application = boot(test, Mode::Worker)?;
    let before = application.state()?;
    for target in warm(test) {
        // The host of a whole address is not played: the report asks for `localhost` alone.
        let path = target
            .split_once("://")
            .map_or(&target[..], |(_, address)| address.find('/').map_or("/", |at| &address[at..]));
        application.answer(path)?;
    }
    Ok((before, application.state()?))
}

fn look(test: &SealTest<'_>, mode: Mode) -> Result<Looked, Failure> {
    let mut application = boot(test, mode)?;
    let before = application.state()?;
    let mut rounds = Vec::new();
    let mut errors = Vec::new();
    for nth in 0..WARM_UP + test.rounds {
        for target in test.targets {
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
    for _ in 0..test.rounds {
        for target in test.targets {
            application.get(target)?;
        }
    }
    let requests = (test.rounds * test.targets.len()).max(1) as u64;
    let cpu = application.cpu().saturating_sub(begun) / requests;
    Ok(Looked { before, rounds, cpu, private: process::private(application.pid()), errors })
}
