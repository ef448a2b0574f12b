//! `tokamak leaks`: which page makes a long-lived worker grow, and what holds the memory.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokamak_report::memory::{Course, Plan, json, run, table};
use tokamak_supervisor::settings;

use super::seal_report::{site_of_script, target};
use super::{print, report};
use crate::program;

/// Exit status when a page grows.
const LEAKS: u8 = 1;
/// Exit status when there is no report.
const FAILED: u8 = 2;

/// `tokamak leaks`.
#[derive(Args, Debug)]
pub struct Leaks {
    /// The worker script: it boots the application, then calls tokamak_handle_request() in a loop.
    script: PathBuf,
    /// What to request, as /login or /search?q=a; by default /.
    #[arg(value_name = "TARGET", value_parser = target)]
    targets: Vec<String>,
    /// A file with more of them, one a line.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Requests of each page.
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(20..))]
    requests: u32,
    /// Directory of the application, as for serve; by default the script's own.
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// Configuration file with php_value, env and the like; by default tokamak.toml in the
    /// directory, if it is there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Leaks {
    /// Runs the application and prints which pages grow.
    pub fn run(self) -> ExitCode {
        match self.look() {
            Ok(status) => status,
            Err(reason) => {
                report(Err(reason));
                FAILED.into()
            }
        }
    }

    fn look(self) -> Result<ExitCode, String> {
        let server = match site_of_script(&self.script, false, &self.root, &self.config) {
            Ok(server) => server,
            Err(wrong) => {
                wrong.report();
                return Ok(FAILED.into());
            }
        };
        let targets = self.targets()?;
        let php = program::tokamak_php().map_err(|error| error.to_string())?;
        let server = settings::resolve(&server).map_err(|error| error.to_string())?;
        let site = server.sites.first().ok_or("the configuration has no site")?;
        let requests = self.requests as usize;
        let plan = Plan { php: &php, site, targets: &targets, requests };
        let pages = run(&plan).map_err(|error| error.to_string())?;
        let text = if self.json { json(&pages, requests) } else { table(&pages, requests) };
        print(text.as_bytes()).map_err(|error| error.to_string())?;
        let grows = pages.iter().any(|page| matches!(page.course, Course::Grows(_)));
        Ok(if grows { LEAKS.into() } else { ExitCode::SUCCESS })
    }

    fn targets(&self) -> Result<Vec<String>, String> {
        let mut targets = self.targets.clone();
        if let Some(path) = &self.from {
            let wrong = |reason: String| format!("{}: {reason}", path.display());
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            for (nth, line) in text.lines().enumerate() {
                let line = line.trim();
                if !line.is_empty() {
                    let at = |reason| wrong(format!("line {}: {line}: {reason}", nth + 1));
                    targets.push(target(line).map_err(at)?);
                }
            }
        }
        if targets.is_empty() {
            targets.push("/".to_owned());
        }
        Ok(targets)
    }
}
