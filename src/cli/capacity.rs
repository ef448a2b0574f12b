//! `tokamak capacity`: the most requests a second at which a bound on response times holds.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokamak_config::time;
use tokamak_load::arrivals::Spacing;
use tokamak_load::capacity::{CapacityTest, run};
use tokamak_load::judge::Bound;
use tokamak_load::target::Template;
use tokamak_load::trial::Trial;
use tokamak_load::watch::Watch;
use tokamak_load::{page, print as show, target};

use super::trusted::TrustArguments;
use super::{At, print, report};
use crate::wiring::control;

/// Exit status when the bound holds at no rate.
const AT_NO_RATE: u8 = 1;
/// Exit status when there is no result.
const FAILED: u8 = 2;

/// The shortest time whose result is more than chance.
const SHORTEST_STEP: Duration = Duration::from_secs(1);

/// `tokamak capacity`.
#[derive(Args, Debug)]
pub struct Capacity {
    /// What is requested, as http://127.0.0.1:8080/page or with https://. A server of any make.
    url: String,
    /// Half of all requests must be answered within this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    p50: Option<Duration>,
    /// 90 % of all requests must; without any bound within 1s.
    #[arg(long, value_name = "TIME", value_parser = time)]
    p90: Option<Duration>,
    /// 99 % of all requests must.
    #[arg(long, value_name = "TIME", value_parser = time)]
    p99: Option<Duration>,
    /// Requests a second that are tried at most.
    #[arg(long, value_name = "RATE", default_value = "100000", value_parser = rate)]
    max_rate: f64,
    /// Time for the whole search.
    #[arg(long = "for", value_name = "TIME", default_value = "90s", value_parser = time)]
    whole: Duration,
    /// Time for which a rate is held; by default a thirtieth of the whole.
    #[arg(long, value_name = "TIME", value_parser = time)]
    step: Option<Duration>,
    /// Time after which a request counts as not answered; by default the longest bound twice, and
    /// never less than it.
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,
    /// Connections at a time, at most.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// How arrivals are spread.
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: ArrivalsArgument,
    /// The method of each request, by default GET, or POST with --data.
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// A file with the body of each request; a form, unless --header has another Content-Type.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// A header that is sent with each request.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    #[command(flatten)]
    trust: TrustArguments,
    /// A process that belongs to the server too, with its children: php-fpm behind nginx, a
    /// database. What listens at the URL is found without it.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Write the report as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Which server is asked what it does; without it, the Tokamak that listens at the URL, if it
    /// is one.
    #[command(flatten)]
    at: At,
}

/// How arrivals are spread, as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ArrivalsArgument {
    /// Independent of each other, as visitors are.
    Poisson,
    /// The same pause between all.
    Even,
}

fn rate(typed: &str) -> Result<f64, String> {
    let number = typed.parse::<f64>().ok().filter(|rate| (0.5..=1e6).contains(rate));
    number.ok_or_else(|| "a number of requests a second, from 0.5 to 1000000".to_owned())
}

fn named(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl Capacity {
    /// Searches, and prints what was found.
    pub fn run(self) -> ExitCode {
        match self.search() {
            Ok(status) => status,
            Err(reason) => {
                report(Err(reason));
                FAILED.into()
            }
        }
    }

    fn search(self) -> Result<ExitCode, String> {
        let body = match &self.data {
            Some(path) => Some(fs::read(path).map_err(|error| named(path, &error))?),
            None => None,
        };
        let template = Template {
            method: self.method.clone(),
            headers: self.header.clone(),
            body,
            trust: self.trust.trust(),
        };
        let target = target::Target::new(&self.url, &template)?;
        let address = target.address;
        let bounds = self.bounds();
        let server = self.at.target_at(address);
        let ask = || control::status_of(server.clone());
        let longest = bounds.iter().map(|bound| bound.limit).max().unwrap_or_default();
        if bounds.iter().any(|bound| bound.limit.is_zero()) {
            return Err("a bound of 0 holds for no answer".into());
        }
        let test = CapacityTest {
            target,
            bounds,
            most: self.max_rate,
            whole: self.whole,
            step: self.step.unwrap_or(self.whole / 30).max(SHORTEST_STEP),
            timeout: self.timeout.unwrap_or(longest * 2).max(longest),
            connections: self.connections as usize,
            spacing: match self.arrivals {
                ArrivalsArgument::Poisson => Spacing::Poisson,
                ArrivalsArgument::Even => Spacing::Even,
            },
            watch: Watch { address, pids: self.pid.clone(), ask: &ask },
        };
        // A path that is wrong is noticed before the search.
        let html = match &self.html {
            Some(path) => Some((path, File::create(path).map_err(|error| named(path, &error))?)),
            None => None,
        };
        let as_json = self.json;
        let mut heading = format!("{}\n", show::heading());
        let mut said = |trial: &Trial| {
            // A reader that is gone is noticed at the end.
            let _ = match as_json {
                false => print(format!("{heading}{}\n", show::row(trial)).as_bytes()),
                true => Ok(()),
            };
            heading.clear();
        };
        let found = run(&test, &mut said)?;
        if let Some((path, mut file)) = html {
            file.write_all(page(&found).as_bytes()).map_err(|error| named(path, &error))?;
        }
        let text = if as_json { show::json(&found) } else { show::text(&found) };
        print(text.as_bytes()).map_err(|error| error.to_string())?;
        Ok(match (found.peak, found.is_at_no_rate) {
            (Some(_), _) => ExitCode::SUCCESS,
            (None, true) => AT_NO_RATE.into(),
            (None, false) => FAILED.into(),
        })
    }

    fn bounds(&self) -> Vec<Bound> {
        let typed = [(0.9, self.p90), (0.99, self.p99), (0.5, self.p50)];
        let mut bounds: Vec<Bound> = typed
            .into_iter()
            .filter_map(|(part, limit)| Some(Bound { part, limit: limit? }))
            .collect();
        if bounds.is_empty() {
            bounds.push(Bound { part: 0.9, limit: Duration::from_secs(1) });
        }
        bounds
    }
}
