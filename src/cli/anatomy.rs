//! `tokamak anatomy`: where the time of a request goes in a running server of any make.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokamak_anatomy::{Error, Load, Measurement, Report, Url, html, json, measure, text};

use super::{print, report};

/// `tokamak anatomy`.
#[derive(Args, Debug)]
pub struct Anatomy {
    /// What to ask for: http://HOST:PORT/PATH of a server on this machine.
    url: String,
    /// Watch this process and its children too, such as php-fpm's; those that listen on the URL's
    /// port are found.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Watch the processes of this systemd unit too.
    #[arg(long, value_name = "NAME")]
    unit: Vec<String>,
    /// Requests to look at; as many again are made without the tracer.
    #[arg(short = 'n', long = "requests", value_name = "N", default_value = "1000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// Clients that ask at the same time.
    #[arg(short = 'c', long = "clients", value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Keep the clients' connections; by default each request has its own.
    #[arg(long)]
    keep_alive: bool,
    /// Measure another server in the same way, and put both side by side.
    #[arg(long, value_name = "URL")]
    compare: Vec<String>,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Write a page of HTML with a picture into this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Anatomy {
    /// Measures, and prints what was found.
    pub fn run(self) -> ExitCode {
        report(self.look().and_then(|found| self.show(&found)))
    }

    fn look(&self) -> Result<Vec<Report>, Error> {
        let load = Load {
            requests: self.requests as usize,
            clients: self.clients.into(),
            keep_alive: self.keep_alive,
        };
        let urls = std::iter::once(&self.url).chain(&self.compare);
        let urls: Vec<Url> = urls.map(|url| Url::parse(url)).collect::<Result<_, _>>()?;
        let measurement =
            |url| Measurement { url, pids: self.pid.clone(), units: self.unit.clone(), load };
        urls.into_iter().map(|url| measure(&measurement(url))).collect()
    }

    fn show(&self, found: &[Report]) -> Result<(), Error> {
        if let Some(path) = &self.html {
            return std::fs::write(path, html(found))
                .map_err(|error| Error(format!("{}: {error}", path.display())));
        }
        let out = if self.json { json(found) } else { text(found) };
        print(out.as_bytes()).map_err(|error| Error(error.to_string()))
    }
}
