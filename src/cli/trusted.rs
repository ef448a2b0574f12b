//! Flags of those commands that ask servers: whose certificates are trusted.

use std::path::PathBuf;

use clap::Args;
use tokamak_load::tls::Trust;

/// Whose certificates are trusted, as curl has it.
#[derive(Args, Debug)]
pub struct TrustArguments {
    /// Trust certificates that an authority in this file (PEM) has signed, and no others.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Trust any certificate.
    #[arg(long)]
    insecure: bool,
}

impl TrustArguments {
    /// What they mean.
    pub fn trust(&self) -> Trust {
        match &self.cacert {
            _ if self.insecure => Trust::Anybody,
            Some(path) => Trust::File(path.clone()),
            None => Trust::System,
        }
    }
}
