//! `tokamak upstream`: addresses of FastCGI applications come and go while the server runs.

use clap::{Args, Subcommand};

use super::At;

/// `tokamak upstream`.
#[derive(Args, Debug)]
pub struct Upstream {
    #[command(subcommand)]
    action: Action,
    /// Which server is meant.
    #[command(flatten)]
    pub at: At,
    /// Print one JSON object instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

/// What is to be done. A change holds until `tokamak reload`, after which the configuration counts
/// again.
#[derive(Debug, Subcommand)]
enum Action {
    /// Show how the addresses stand.
    List {
        /// Name of the upstream; all of them without it.
        name: Option<String>,
    },
    /// Put an address into service, also one that was drained; one that is there gets the weight.
    Add {
        #[command(flatten)]
        of: Of,
        /// Its share, beside the weights of the others.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        weight: u32,
    },
    /// Give an address no more requests; those that it has are answered.
    Drain(Of),
    /// The same, and forget the address.
    Remove(Of),
}

/// Which address of which upstream.
#[derive(Args, Debug)]
struct Of {
    /// Name of the upstream.
    name: String,
    /// The address: `unix:/run/app.sock` or `IP:PORT`.
    address: String,
}

impl Upstream {
    /// The line for the control socket.
    pub fn command(&self) -> String {
        let form = if self.json { "json" } else { "text" };
        let words = match &self.action {
            Action::List { name: None } => vec!["list".to_owned()],
            Action::List { name: Some(name) } => vec!["list".into(), name.clone()],
            Action::Add { of, weight } => {
                vec!["add".into(), of.name.clone(), of.address.clone(), weight.to_string()]
            }
            Action::Drain(of) => vec!["drain".into(), of.name.clone(), of.address.clone()],
            Action::Remove(of) => vec!["remove".into(), of.name.clone(), of.address.clone()],
        };
        format!("upstream\t{form}\t{}", words.join("\t"))
    }
}
