//! `tokamak leaks URL`: which page makes a running server grow.

use std::process::ExitCode;

use tokamak_load::leaks::{Course, heading, json, look, row};
use tokamak_load::target::{self, Template};
use tokamak_load::watch::Watch;

use super::super::print;
use super::{LEAKS, Leaks};
use crate::wiring::control;

/// Requests of a page of a running server. Processes grow by pages of 4 KiB, so with a tenth only
/// leaks of some kilobytes a request would be seen.
const OF_A_SERVER: u32 = 1000;

/// What to do about a page that grows.
const OF_TOKAMAK: &str = "what holds it is seen in a worker of one's own only: tokamak leaks \
    worker.php /page, with the worker script of the site, names the class or array";
const OF_OTHERS: &str = "what holds it cannot be seen from outside; of PHP with a worker script, \
    tokamak leaks worker.php /page names the class or array";

/// Whether the first argument names a running server.
pub(super) fn is_url(what: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| what.starts_with(scheme))
}

/// A URL as typed.
fn url(typed: &str) -> Result<String, String> {
    match is_url(typed) {
        true => Ok(typed.to_owned()),
        false => Err(format!("{typed}: after a URL come URLs, as http://127.0.0.1:8080/login")),
    }
}

impl Leaks {
    /// Requests the pages, and prints which of them grow.
    pub(super) fn look_at_server(self) -> Result<ExitCode, String> {
        if self.root.is_some() || self.config.is_some() {
            return Err(format!("{}: --root and --config are for a worker script", self.what));
        }
        let mut urls = vec![self.what.clone()];
        urls.extend(self.targets(url)?);
        let template = Template {
            headers: self.header.clone(),
            trust: self.trust.trust(),
            ..Template::default()
        };
        let targets = urls.iter().map(|url| target::Target::new(url, &template));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        let server = self.at.target_at(targets[0].address);
        let ask = || control::status_of(server.clone());
        let requests = self.requests.unwrap_or(OF_A_SERVER) as usize;
        let wide = urls.iter().map(|url| url.chars().count()).max().unwrap_or(0);
        let say = |text: String| print(text.as_bytes()).map_err(|error| error.to_string());
        let mut pages = Vec::new();
        for target in &targets {
            let watch = Watch { address: target.address, pids: self.pid.clone(), ask: &ask };
            let page = look(target, &watch, requests)?;
            if !self.json {
                let heading = if pages.is_empty() { heading(&page) } else { String::new() };
                say(heading + &row(&page, wide))?;
            }
            pages.push(page);
        }
        let grows = pages.iter().any(|page| matches!(page.course, Course::Grows(_)));
        if self.json {
            say(json(&pages))?;
        } else if grows {
            say(format!("\n{}\n", if ask().is_some() { OF_TOKAMAK } else { OF_OTHERS }))?;
        }
        Ok(if grows { LEAKS.into() } else { ExitCode::SUCCESS })
    }
}
