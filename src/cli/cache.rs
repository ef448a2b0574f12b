//! `tokamak cache`: responses go from the content cache while the server runs.

use clap::{Args, Subcommand};

use super::At;

/// `tokamak cache`.
#[derive(Args, Debug)]
pub struct Cache {
    #[command(subcommand)]
    action: Action,
    /// Which server is meant.
    #[command(flatten)]
    pub at: At,
    /// Print a JSON object instead of a sentence.
    #[arg(long, global = true)]
    json: bool,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
enum Action {
    /// Remove responses, so that the next request for each reaches the application.
    Purge(What),
}

/// Which responses.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct What {
    /// The page with this address: host, path and query, as in `example.org/page?n=1`.
    #[arg(long)]
    url: Option<String>,
    /// All pages whose address begins like this.
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// All responses with this tag, as named by `Cache-Tag`, `Surrogate-Key` or `xkey`.
    #[arg(long)]
    tag: Option<String>,
    /// Everything.
    #[arg(long)]
    all: bool,
}

impl Cache {
    /// The line for the control socket.
    pub fn command(&self) -> String {
        let form = if self.json { "json" } else { "text" };
        let Action::Purge(What { url, prefix, tag, .. }) = &self.action;
        let named = [("url", url), ("prefix", prefix), ("tag", tag)];
        let mut named =
            named.iter().filter_map(|(kind, value)| Some(format!("{kind}\t{}", value.as_ref()?)));
        let what = named.next().unwrap_or_else(|| "all".into());
        format!("cache\t{form}\tpurge\t{what}")
    }
}
