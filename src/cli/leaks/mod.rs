//! `tokamak leaks`: which page makes a long-lived worker grow, and what holds the memory; or which
//! page makes a running server grow.

mod running;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokamak_report::memory::{Course, LeakTest, json, run, table};
use tokamak_supervisor::settings;

use super::seal_report::{site_of_script, target};
use super::trusted::TrustArguments;
use super::{At, print, report};
use crate::program;

/// Exit status when a page grows.
const LEAKS: u8 = 1;
/// Exit status when there is no report.
const FAILED: u8 = 2;

/// Requests of a page of a script. Its heap is known to the byte, so these are enough.
const OF_A_SCRIPT: u32 = 200;

/// `tokamak leaks`.
#[derive(Args, Debug)]
pub struct Leaks {
    /// The worker script, which boots the application and calls tokamak_handle_request() in a loop;
    /// or a URL of a running server of any make.
    #[arg(value_name = "SCRIPT|URL")]
    what: String,
    /// What to request, as /login or /search?q=a, by default /; or more URLs.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// A file with more of them, one a line.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Requests of each page; by default 200 of a script and 1000 of a running server.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..))]
    requests: Option<u32>,
    /// Directory of the application, as for serve; by default the script's own.
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// Configuration file with php_value, env and the like; by default tokamak.toml in the
    /// directory, if it is there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Of a running server: a process that belongs to it too, with its children, such as php-fpm
    /// behind nginx. What listens at the URL is found without it.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Of a running server: a header that is sent with each request, such as a cookie.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    #[command(flatten)]
    trust: TrustArguments,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: At,
}

impl Leaks {
    /// Runs the application and prints which pages grow.
    pub fn run(self) -> ExitCode {
        let found = if running::is_url(&self.what) { self.look_at_server() } else { self.look() };
        match found {
            Ok(status) => status,
            Err(reason) => {
                report(Err(reason));
                FAILED.into()
            }
        }
    }

    fn look(self) -> Result<ExitCode, String> {
        if !self.pid.is_empty() || !self.header.is_empty() {
            return Err(format!("{}: --pid and --header are for URLs", self.what));
        }
        let server = match site_of_script(Path::new(&self.what), false, &self.root, &self.config) {
            Ok(server) => server,
            Err(wrong) => {
                wrong.report();
                return Ok(FAILED.into());
            }
        };
        let targets = self.targets(target)?;
        let targets = if targets.is_empty() { vec!["/".to_owned()] } else { targets };
        let server = settings::resolve(&server).map_err(|error| error.to_string())?;
        let site = server.sites.first().ok_or("the configuration has no site")?;
        let php = program::tokamak_php(site.php.as_deref()).map_err(|error| error.to_string())?;
        let requests = self.requests.unwrap_or(OF_A_SCRIPT) as usize;
        let test = LeakTest { php: &php, site, targets: &targets, requests };
        let pages = run(&test).map_err(|error| error.to_string())?;
        let text = if self.json { json(&pages, requests) } else { table(&pages, requests) };
        print(text.as_bytes()).map_err(|error| error.to_string())?;
        let grows = pages.iter().any(|page| matches!(page.course, Course::Grows(_)));
        Ok(if grows { LEAKS.into() } else { ExitCode::SUCCESS })
    }

    /// What is named beside the first argument, by the command line and the file.
    fn targets(&self, parse: fn(&str) -> Result<String, String>) -> Result<Vec<String>, String> {
        let typed = self.targets.iter();
        let mut targets = typed.map(|typed| parse(typed)).collect::<Result<Vec<_>, _>>()?;
        if let Some(path) = &self.from {
            let wrong = |reason: String| format!("{}: {reason}", path.display());
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            for (nth, line) in text.lines().enumerate() {
                let line = line.trim();
                if !line.is_empty() {
                    let at = |reason| wrong(format!("line {}: {line}: {reason}", nth + 1));
                    targets.push(parse(line).map_err(at)?);
                }
            }
        }
        Ok(targets)
    }
}
