//! `tokamak seal-report`: the same requests in worker and in sealed mode, and what they left
//! behind; and what a boot script has read.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokamak_config::{FILE_NAME, Server, Site};
use tokamak_report::{Report, SealTest, json, table};
use tokamak_supervisor::settings;

use super::site::{Wrong, request};
use super::{print, report};
use crate::program;

/// Exit status when something is foreign or grows.
const LEAKS: u8 = 1;
/// Exit status when there is no report.
const FAILED: u8 = 2;

/// `tokamak seal-report`.
#[derive(Args, Debug)]
pub struct SealReport {
    /// The worker script: it boots the application, then calls tokamak_handle_request() in a loop.
    script: PathBuf,
    /// SCRIPT is a boot script of sealed mode, which prepares requests and serves none itself.
    #[arg(long)]
    boot: bool,
    /// What to request in each round, as /login or /search?q=a; by default /.
    #[arg(value_name = "TARGET", value_parser = target)]
    targets: Vec<String>,
    /// Rounds to look at, after three in which caches fill.
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(2..))]
    rounds: u16,
    /// Directory of the application, as for serve; by default the script's own.
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// Configuration file with php_value, env and the like; by default tokamak.toml in the
    /// directory, if it is there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show caches too: what was filled once and then stayed as it was.
    #[arg(long)]
    all: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// A target as typed.
pub(super) fn target(typed: &str) -> Result<String, String> {
    if typed.starts_with('/') {
        Ok(typed.to_owned())
    } else {
        Err("a target begins with /".to_owned())
    }
}

impl SealReport {
    /// Runs the application and prints what was found.
    pub fn run(self) -> ExitCode {
        let (all, as_json) = (self.all, self.json);
        let site = match site_of_script(&self.script, self.boot, &self.root, &self.config) {
            Ok(site) => site,
            Err(wrong) => {
                wrong.report();
                return FAILED.into();
            }
        };
        let found = self.look(&site);
        let found = match found {
            Ok(found) => found,
            Err(reason) => {
                report(Err(reason));
                return FAILED.into();
            }
        };
        let text = if as_json { json(&found) } else { table(&found, all) };
        match print(text.as_bytes()) {
            Err(error) => {
                report(Err(error));
                FAILED.into()
            }
            Ok(()) if found.has_leaks() => LEAKS.into(),
            Ok(()) => ExitCode::SUCCESS,
        }
    }

    fn look(self, server: &Server) -> Result<Report, String> {
        let server = settings::resolve(server).map_err(|error| error.to_string())?;
        let site: &Site = server.sites.first().ok_or("the configuration has no site")?;
        let targets = if self.targets.is_empty() { vec!["/".to_owned()] } else { self.targets };
        let php = program::tokamak_php(site.php.as_deref()).map_err(|error| error.to_string())?;
        let test = SealTest { php: &php, site, targets: &targets, rounds: self.rounds.into() };
        tokamak_report::run(&test).map_err(|error| error.to_string())
    }
}

/// The site that a server would make of a worker or boot script and its directory.
pub(super) fn site_of_script(
    script: &Path,
    is_boot: bool,
    root: &Option<PathBuf>,
    config: &Option<PathBuf>,
) -> Result<Server, Wrong> {
    let beside =
        script.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let is_application =
        [FILE_NAME, "public/index.php", "index.php"].iter().any(|name| beside.join(name).is_file());
    let path = match root {
        Some(root) => root.clone(),
        None if is_application || is_boot => beside.to_owned(),
        None => script.to_owned(),
    };
    let (flag, mode) = if is_boot { ("--boot", "sealed") } else { ("--worker", "worker") };
    let flags = vec![(flag, script.to_string_lossy().into_owned()), ("--mode", mode.to_owned())];
    let path = Some(path).filter(|_| config.is_none());
    Ok(request(path, config.clone(), flags)?.load()?)
}
